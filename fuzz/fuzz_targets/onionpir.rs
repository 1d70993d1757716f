//! [`pir_baselines::onionpir::fuzzing::fuzz_onionpir`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_baselines::onionpir::fuzzing::fuzz_onionpir(bytes));
