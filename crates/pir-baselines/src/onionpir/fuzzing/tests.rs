//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

use proptest::prelude::{ProptestConfig, proptest};

use super::EXAMPLE;
use crate::fuzzing::mutations;

/// Valid encodings, residues that are too large, and sizes of databases.
fn valid() -> Vec<Vec<u8>> {
    let mut valid = vec![[[36, 0, 0, 0, 0xff], [41, 0, 0, 0, 0xff], [42, 0, 0, 0, 0xff]].concat()];
    valid.extend([vec![100, 0, 0, 0, 32, 1], vec![0, 0, 16, 0, 32, 1], vec![1, 0, 0, 0, 1, 0]]);
    if let Some(example) = &*EXAMPLE {
        valid.extend([&example.query, &example.answer, &example.encoded_keys].map(Vec::clone));
    }
    assert_eq!(valid.len(), 7, "an example");
    valid
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn fuzz_onionpir(bytes in mutations::damaged(valid())) {
        super::fuzz_onionpir(&bytes);
    }
}
