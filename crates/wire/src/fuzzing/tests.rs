//! The fuzzed functions, driven with arbitrary bytes and with valid encodings that were damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fuzz_messages(bytes in damaged(valid())) {
        super::fuzz_messages(&bytes);
    }

    #[test]
    fn fuzz_token(bytes in damaged(vec![crate::Token::new([7; 32]).to_string().into_bytes()])) {
        super::fuzz_token(&bytes);
    }

    #[test]
    fn fuzz_chunks(bytes in damaged(valid())) {
        super::fuzz_chunks(&bytes);
    }

    #[test]
    fn fuzz_status(bytes in damaged(valid())) {
        super::fuzz_status(&bytes);
    }
}
