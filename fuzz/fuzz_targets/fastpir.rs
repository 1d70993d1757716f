//! [`pir_baselines::fastpir::fuzzing::fuzz_fastpir`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_baselines::fastpir::fuzzing::fuzz_fastpir(bytes));
