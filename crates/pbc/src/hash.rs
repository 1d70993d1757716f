//! SHA-256 with varying counters: unlimited pseudorandom words from a seed and a key.

use sha2::{Digest, Sha256};

/// One independent random function from keys to streams of 64-bit words.
///
/// Word `4 c + i` of a key's stream is the `i`-th little-endian word of
///
/// ```text
/// SHA-256( domain, padded with zeros to 32 bytes | seed, 32 bytes | c, u64 | length of the key, u64 | key )
/// ```
///
/// Every field before the key has a fixed size, so no two inputs of two functions coincide. Domain and seed fill the
/// first block, which is hashed once; a key of up to 39 bytes then costs a single compression for four words.
#[derive(Clone)]
pub(crate) struct KeyedHash {
    prefix: Sha256,
}

impl KeyedHash {
    /// The function of this domain and seed; `domain` has no zeros.
    pub(crate) fn new(domain: &[u8; 32], seed: &[u8; 32]) -> Self {
        Self { prefix: Sha256::new().chain_update(domain).chain_update(seed) }
    }

    /// The words of a key.
    pub(crate) fn words<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        (0..).flat_map(move |counter| self.block(counter, key))
    }

    /// The first word of a key.
    pub(crate) fn word(&self, key: &[u8]) -> u64 {
        self.block(0, key)[0]
    }

    fn block(&self, counter: u64, key: &[u8]) -> [u64; 4] {
        let digest: [u8; 32] = self
            .prefix
            .clone()
            .chain_update(counter.to_le_bytes())
            .chain_update((key.len() as u64).to_le_bytes())
            .chain_update(key)
            .finalize()
            .into();
        let (words, _) = digest.as_chunks::<8>();
        core::array::from_fn(|i| u64::from_le_bytes(words[i]))
    }
}

/// Maps a uniform word to a uniform number below `bound`, exactly: the few words that would bias it give `None`.
///
/// Of the product `word * bound` the upper half is the number. A number would be hit once more than another by the
/// words whose lower half is below `2^64 mod bound`; these are refused, with probability below `bound / 2^64`.
pub(crate) fn reduce(word: u64, bound: u32) -> Option<u32> {
    let bound = u64::from(bound);
    let product = u128::from(word) * u128::from(bound);
    let excess = bound.wrapping_neg().checked_rem(bound)?;
    // The upper half is below `bound`, so 32 bits hold it.
    (product as u64 >= excess).then_some((product >> 64) as u32)
}

/// A domain's name padded with zeros to its field; a name that is too long does not compile when used in a constant.
pub(crate) const fn domain(name: &str) -> [u8; 32] {
    let mut field = [0; 32];
    let name = name.as_bytes();
    let mut i = 0;
    while i < name.len() {
        field[i] = name[i];
        i += 1;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::reduce;

    /// One biased word in 2^64 is nothing, but the rule is part of the format: the exact boundary.
    #[test]
    fn biased_words_are_refused() {
        assert_eq!(reduce(0, 3), None); // 2^64 mod 3 = 1: exactly one word too many.
        assert_eq!(reduce(1, 3), Some(0));
        assert_eq!(reduce(u64::MAX, 3), Some(2));
        assert_eq!(reduce(0, 4), Some(0)); // A power of two has no bias.
        assert_eq!(reduce(u64::MAX, u32::MAX), Some(u32::MAX - 1));
        assert_eq!(reduce(7, 0), None);
    }
}
