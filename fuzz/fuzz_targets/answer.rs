//! [`pir_core::fuzzing::fuzz_answer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_core::fuzzing::fuzz_answer(bytes));
