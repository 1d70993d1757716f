//! [`pir_baselines::spiral::fuzzing::fuzz_spiral`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_baselines::spiral::fuzzing::fuzz_spiral(bytes));
