//! [`sotto_log::fuzzing::log_segment`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto_log::fuzzing::log_segment(bytes));
