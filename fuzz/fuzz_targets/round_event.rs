//! [`sotto_session::fuzzing::fuzz_round_event`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto_session::fuzzing::fuzz_round_event(bytes));
