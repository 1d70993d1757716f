//! The fuzzed function, driven with arbitrary bytes and with valid encodings that were damaged.

use proptest::prelude::{ProptestConfig, proptest};

use super::{BOTH, ONION, PACKED, PLAIN, PUBLISHED, STREAMED};
use crate::fuzzing::mutations;

/// Valid encodings, residues that are too large, and sizes of databases.
fn valid() -> Vec<Vec<u8>> {
    let mut valid = vec![[[36, 0, 0, 0, 0xff], [41, 0, 0, 0, 0xff], [42, 0, 0, 0, 0xff]].concat()];
    valid.extend([vec![100, 0, 0, 0, 32, 1, 0], vec![0, 0, 16, 0, 32, 1, 5], vec![1, 0, 0, 0, 1, 0, 3]]);
    if let (Some(plain), Some(packed), Some(streamed), Some(both), Some(paper), Some(onion)) =
        (&*PLAIN, &*PACKED, &*STREAMED, &*BOTH, &*PUBLISHED, &*ONION)
    {
        let encodings = [&plain.query, &plain.answer, &packed.query, &packed.answer, &streamed.query];
        valid.extend(encodings.map(Vec::clone));
        valid.extend(
            [&both.answer, &both.encoded_keys, &paper.query, &paper.answer, &onion.query].map(Vec::clone),
        );
    }
    assert_eq!(valid.len(), 14, "examples of all variants");
    valid
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn fuzz_spiral(bytes in mutations::damaged(valid())) {
        super::fuzz_spiral(&bytes);
    }
}
