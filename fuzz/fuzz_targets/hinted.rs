//! [`pir_baselines::fuzzing::fuzz_hinted`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_baselines::fuzzing::fuzz_hinted(bytes));
