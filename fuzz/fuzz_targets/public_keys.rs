//! [`pir_core::fuzzing::fuzz_public_keys`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_core::fuzzing::fuzz_public_keys(bytes));
