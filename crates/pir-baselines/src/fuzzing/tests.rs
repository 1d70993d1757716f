//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

use proptest::prelude::{ProptestConfig, proptest};

use super::mutations::damaged;
use super::valid;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fuzz_hinted(bytes in damaged(valid())) {
        super::fuzz_hinted(&bytes);
    }
}
