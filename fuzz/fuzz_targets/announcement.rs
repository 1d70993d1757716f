//! [`sotto_protocol::fuzzing::fuzz_announcement`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto_protocol::fuzzing::fuzz_announcement(bytes));
