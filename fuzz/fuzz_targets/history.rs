//! [`sotto::fuzzing::fuzz_history`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto::fuzzing::fuzz_history(bytes));
