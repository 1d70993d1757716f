//! The fuzzed function, driven with arbitrary bytes and with a valid encoding that was damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fuzz_round_event(bytes in damaged(vec![[&[1, 220][..], &[3; 220 + 64]].concat()])) {
        super::fuzz_round_event(&bytes);
    }
}
