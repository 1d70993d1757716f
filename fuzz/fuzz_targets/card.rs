//! [`sotto_protocol::fuzzing::fuzz_card`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto_protocol::fuzzing::fuzz_card(bytes));
