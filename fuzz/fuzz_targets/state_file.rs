//! [`sotto::fuzzing::fuzz_state_file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto::fuzzing::fuzz_state_file(bytes));
