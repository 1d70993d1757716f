//! [`sotto_wire::fuzzing::fuzz_token`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sotto_wire::fuzzing::fuzz_token(bytes));
