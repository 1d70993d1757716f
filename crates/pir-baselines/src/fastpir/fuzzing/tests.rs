//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

use proptest::prelude::{ProptestConfig, proptest};

use super::{OWN, PAPER};
use crate::fuzzing::mutations;

/// Valid encodings, residues that are too large, and sizes of databases.
fn valid() -> Vec<Vec<u8>> {
    let mut valid = vec![[[36, 0, 0, 0, 0xff], [41, 0, 0, 0, 0xff], [42, 0, 0, 0, 0xff]].concat()];
    valid.extend([vec![100, 0, 0, 0, 32, 1], vec![0, 0, 16, 0, 32, 1], vec![1, 0, 0, 0, 1, 0]]);
    if let (Some(own), Some(paper)) = (&*OWN, &*PAPER) {
        let encodings = [&own.query, &own.answer, &own.encoded_keys, &paper.query, &paper.answer];
        valid.extend(encodings.map(Vec::clone));
    }
    assert_eq!(valid.len(), 9, "examples of both presets");
    valid
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fuzz_fastpir(bytes in mutations::damaged(valid())) {
        super::fuzz_fastpir(&bytes);
    }
}
