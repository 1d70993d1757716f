//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fuzz_hinted(bytes in damaged(valid())) {
        super::fuzz_hinted(&bytes);
    }
}
