//! [`pir_core::fuzzing::fuzz_voce`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_core::fuzzing::fuzz_voce(bytes));
