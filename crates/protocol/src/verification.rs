//! What two people compare to know that each has the other's identity, and not that of somebody in between.

use sha2::{Digest, Sha256};

use crate::domain;

/// Words that two people compare.
const WORDS: usize = 16;
/// Bits of a word: it is one of 2,048.
const WORD_BITS: usize = 11;

/// The numbers of 16 words, each below 2,048, that stand for two identities together, whichever of them is one's own: the first
/// 176 bits of a SHA-256 over both, most significant bit first. Who stands between two people, with an identity of its own for
/// either, would have to find two identities for which both people's words are the same, which takes about 2^88 hashes.
#[must_use]
pub fn verification(own: &[u8; 32], other: &[u8; 32]) -> [u16; WORDS] {
    let digest: [u8; 32] = Sha256::new_with_prefix(domain::VERIFICATION)
        .chain_update([0])
        .chain_update(own.min(other))
        .chain_update(own.max(other))
        .finalize()
        .into();
    let bit = |at: usize| u16::from(digest[at / 8] >> (7 - at % 8) & 1);
    core::array::from_fn(|word| {
        (word * WORD_BITS..(word + 1) * WORD_BITS).fold(0, |number, at| number << 1 | bit(at))
    })
}

#[cfg(test)]
mod tests {
    use super::verification;

    /// Of SHA-256("sotto v1 verification" | 0 | 32 times 1 | 32 times 2), computed apart from this code.
    #[test]
    fn both_have_the_same_words_and_nobody_else_has_them() {
        let [one, two] = [[1; 32], [2; 32]];
        assert_eq!(verification(&one, &two), GOLDEN);
        assert_eq!(verification(&two, &one), GOLDEN);
        for (own, other) in [(one, one), (one, [3; 32]), (two, [3; 32])] {
            let words = verification(&own, &other);
            assert!(words.iter().zip(GOLDEN).filter(|(word, golden)| **word == *golden).count() <= 2);
            assert!(words.iter().all(|word| *word < 2048));
        }
    }

    const GOLDEN: [u16; 16] =
        [1982, 1196, 1307, 314, 527, 1258, 1050, 34, 1619, 1479, 181, 1849, 212, 467, 1246, 1668];
}
