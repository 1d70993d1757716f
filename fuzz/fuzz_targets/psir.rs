//! [`pir_baselines::psir::fuzzing::fuzz_psir`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pir_baselines::psir::fuzzing::fuzz_psir(bytes));
