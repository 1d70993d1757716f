//! The fuzzed functions, driven with arbitrary bytes and with valid encodings that were damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fuzz_public_keys(bytes in damaged(valid())) {
        super::fuzz_public_keys(&bytes);
    }

    #[test]
    fn fuzz_query(bytes in damaged(valid())) {
        super::fuzz_query(&bytes);
    }

    #[test]
    fn fuzz_voce(bytes in damaged(valid())) {
        super::fuzz_voce(&bytes);
    }

    #[test]
    fn fuzz_answer(bytes in damaged(valid())) {
        super::fuzz_answer(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn fuzz_parameters(bytes in damaged(valid())) {
        super::fuzz_parameters(&bytes);
    }
}
