//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use crate::fuzzing::mutations;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn fuzz_psir(bytes in mutations::damaged(valid())) {
        super::fuzz_psir(&bytes);
    }
}
