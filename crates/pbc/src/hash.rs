//! SHA-256 with varying counters: unlimited pseudorandom words from a seed and a key.

use rayon::prelude::{IndexedParallelIterator, ParallelIterator, ParallelSlice, ParallelSliceMut};
use sha2::{Digest, Sha256};

use crate::sha256_lanes::{LANES, digests, state_after};

/// Keys hashed as one piece of parallel work.
const CHUNK: usize = 64 * LANES;

/// The longest key that fills its counter's and length's block without starting another.
const ONE_BLOCK: usize = 64 - 8 - 8 - 9;

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
    /// The same, for hashing many keys at once.
    state: [u32; 8],
}

impl KeyedHash {
    /// The function of this domain and seed; `domain` has no zeros.
    pub(crate) fn new(domain: &[u8; 32], seed: &[u8; 32]) -> Self {
        let mut first = [0; 64];
        first[..32].copy_from_slice(domain);
        first[32..].copy_from_slice(seed);
        Self { prefix: Sha256::new().chain_update(first), state: state_after(&first) }
    }

    /// The words of a key.
    pub(crate) fn words<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        (0..).flat_map(move |counter| self.block(counter, key))
    }

    /// The words of a key whose first four are known.
    pub(crate) fn words_from<'a>(&'a self, first: [u64; 4], key: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        first.into_iter().chain((1..).flat_map(move |counter| self.block(counter, key)))
    }

    /// The first word of a key.
    pub(crate) fn word(&self, key: &[u8]) -> u64 {
        self.block(0, key)[0]
    }

    /// For every key `N` values made of its number and its first four words, one key's after the other; in parallel,
    /// many keys at a time.
    pub(crate) fn map_first_words<T: Copy + Default + Send, const N: usize>(
        &self,
        keys: &[&[u8]],
        each: impl Fn(usize, [u64; 4]) -> [T; N] + Sync,
    ) -> Vec<[T; N]> {
        let mut values = vec![[T::default(); N]; keys.len()];
        let chunks = values.par_chunks_mut(CHUNK).zip(keys.par_chunks(CHUNK));
        chunks.enumerate().for_each(|(chunk, (values, keys))| {
            let lanes = values.chunks_mut(LANES).zip(keys.chunks(LANES));
            for (start, (values, keys)) in (chunk * CHUNK..).step_by(LANES).zip(lanes) {
                let words = self.first_words_of_lanes(keys);
                for (i, (value, words)) in values.iter_mut().zip(words).enumerate() {
                    *value = each(start + i, words);
                }
            }
        });
        values
    }

    /// The first four words of every key.
    pub(crate) fn first_words(&self, keys: &[&[u8]]) -> Vec<[u64; 4]> {
        self.map_first_words(keys, |_, words| words)
    }

    /// Of at most [`LANES`] keys; a key that is too long for one block goes its own way.
    fn first_words_of_lanes(&self, keys: &[&[u8]]) -> [[u64; 4]; LANES] {
        let mut blocks = [[0; 64]; LANES];
        for (block, key) in blocks.iter_mut().zip(keys).filter(|(_, key)| key.len() <= ONE_BLOCK) {
            let length = key.len() as u64;
            block[8..16].copy_from_slice(&length.to_le_bytes());
            block[16..16 + key.len()].copy_from_slice(key);
            block[16 + key.len()] = 0x80;
            block[56..].copy_from_slice(&((64 + 16 + length) * 8).to_be_bytes());
        }
        let mut words = digests(&self.state, &blocks).map(to_words);
        for (words, key) in words.iter_mut().zip(keys).filter(|(_, key)| key.len() > ONE_BLOCK) {
            *words = self.block(0, key);
        }
        words
    }

    fn block(&self, counter: u64, key: &[u8]) -> [u64; 4] {
        let prefix = self.prefix.clone();
        let length = (key.len() as u64).to_le_bytes();
        to_words(
            prefix
                .chain_update(counter.to_le_bytes())
                .chain_update(length)
                .chain_update(key)
                .finalize()
                .into(),
        )
    }
}

fn to_words(digest: [u8; 32]) -> [u64; 4] {
    let (words, _) = digest.as_chunks::<8>();
    core::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// Maps a uniform word to a uniform number below `bound`, exactly: the few words that would bias it give `None`.
///
/// Of the product `word * bound` the upper half is the number. A number would be hit once more than another by the
/// words whose lower half is below `2^64 mod bound`; these are refused, with probability below `bound / 2^64`.
pub(crate) fn reduce(word: u64, bound: u32) -> Option<u32> {
    let bound = u64::from(bound);
    let product = u128::from(word) * u128::from(bound);
    let (number, rest) = ((product >> 64) as u32, product as u64);
    // The upper half is below `bound`, so 32 bits hold it. What is refused is below `bound` too, so that the division
    // is hardly ever needed.
    if rest >= bound && bound > 0 {
        return Some(number);
    }
    let excess = bound.wrapping_neg().checked_rem(bound)?;
    (rest >= excess).then_some(number)
}

/// The same without a branch, and a mask that says whether the word is not refused. The bound is not 0.
#[inline(always)]
pub(crate) fn reduce_masked(word: u64, bound: u32) -> (u32, u32) {
    let bound = u64::from(bound);
    let product = u128::from(word) * u128::from(bound);
    let excess = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
    let (_, is_refused) = (product as u64).overflowing_sub(excess);
    // So that no compiler makes a branch of it.
    ((product >> 64) as u32, core::hint::black_box(u32::from(is_refused)).wrapping_sub(1))
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
    use super::{KeyedHash, domain, reduce, reduce_masked};

    /// A server hashes many keys at once, a client one: they must find the same buckets, whatever the length.
    #[test]
    fn many_keys_hash_as_one_key_does() {
        let hash = KeyedHash::new(&domain("test"), &[7; 32]);
        let keys: Vec<Vec<u8>> = (0..150_u8).map(|length| (0..length).collect()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for count in [0, 1, 15, 16, 17, 39, 40, 41, 150] {
            let words = hash.first_words(&keys[..count]);
            let expected: Vec<[u64; 4]> = keys[..count].iter().map(|key| hash.block(0, key)).collect();
            assert_eq!(words, expected);
        }
        let all: Vec<u64> = hash.words(keys[5]).take(9).collect();
        assert_eq!(hash.words_from(hash.first_words(&keys)[5], keys[5]).take(9).collect::<Vec<_>>(), all);
    }

    /// One biased word in 2^64 is nothing, but the rule is part of the format: the exact boundary.
    #[test]
    fn biased_words_are_refused() {
        assert_eq!(reduce(0, 3), None); // 2^64 mod 3 = 1: exactly one word too many.
        assert_eq!(reduce(1, 3), Some(0));
        assert_eq!(reduce(u64::MAX, 3), Some(2));
        assert_eq!(reduce(0, 4), Some(0)); // A power of two has no bias.
        assert_eq!(reduce(u64::MAX, u32::MAX), Some(u32::MAX - 1));
        assert_eq!(reduce(7, 0), None);
        for (word, bound) in
            [(0, 3), (1, 3), (u64::MAX, 3), (0, 4), (5, 1), (u64::MAX, u32::MAX), (1 << 63, 1000)]
        {
            let (number, is_taken) = reduce_masked(word, bound);
            assert_eq!((is_taken != 0).then_some(number), reduce(word, bound));
        }
    }
}
