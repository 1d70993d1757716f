//! What every batch code offers: Encode, GenSchedule, Decode (paper Definition 1), on keys.

use crate::{BucketIndex, Drawn, Encoding, Error, Schedule};

/// A (n, m, k, b, p) probabilistic batch code.
///
/// The three operations are pure functions of the code and their arguments: whoever holds the same code computes the
/// same buckets, so that reader and writer need to share nothing but its parameters and seed.
pub trait BatchCode: Send + Sync {
    /// The number `k` of elements for which the probability of a complete schedule is stated.
    fn batch_size(&self) -> usize;

    /// The number `b` of buckets.
    fn bucket_count(&self) -> usize;

    /// Encode: which codeword goes into which bucket, for the elements that stand under `keys`; element numbers are
    /// positions in `keys`.
    ///
    /// Equal keys are allowed and all stored, ordered by element number. Element numbers have 32 bits; the memory of
    /// no machine holds enough keys to exceed them, and elements beyond are not stored.
    fn encode(&self, keys: &[&[u8]]) -> Encoding;

    /// GenSchedule: the buckets to read for every key, never one bucket twice.
    ///
    /// `keys` stand in order of priority, the most important first. `usable(i, bucket)` says whether that bucket may
    /// serve `keys[i]`; it is asked once at most for a pair, and only about buckets from which the code can serve
    /// the key.
    ///
    /// Instead of failing as a whole the schedule defers single keys. Unless the code says otherwise, a key is deferred
    /// only if it cannot be served together with the keys of higher priority that are kept. More than [`BatchCode::batch_size`] keys may be
    /// given; the stated probability of a complete schedule does not cover them.
    fn schedule(&self, keys: &[&[u8]], usable: &dyn Fn(usize, BucketIndex) -> bool) -> Schedule;

    /// GenSchedule with every bucket usable, drawn by `words`, which gives random ones: in the hashed codes each of its
    /// candidates serves a key equally often, whatever the other keys are, as long as no bucket is a candidate of more
    /// keys than a key has candidates. So whoever sees from which bucket a key was read learns nothing about the others.
    ///
    /// A key takes part if `wanted` says so, else it has no bucket, as if it had not been given: for filling a batch up. There
    /// is one flag for each key; keys without one are not wanted.
    ///
    /// In these codes, neither branches nor addresses depend on keys, on what is wanted, or on words. The other codes give
    /// what [`BatchCode::schedule`] does, in time that depends on all of it.
    fn schedule_wanted(&self, keys: &[&[u8]], wanted: &[bool], words: &mut dyn FnMut() -> u64) -> Drawn;
    /// The same for keys all of which are wanted.
    fn schedule_drawn(&self, keys: &[&[u8]], words: &mut dyn FnMut() -> u64) -> Drawn {
        self.schedule_wanted(keys, &vec![true; keys.len()], words)
    }
    /// The bucket that tells at which position `bucket` is to be read for a key: one that holds a copy of the key's own
    /// element there. It is `bucket` itself unless a code reads sums, or elements that are to be taken off a sum.
    fn holder(&self, key: &[u8], bucket: BucketIndex) -> BucketIndex {
        let _ = key;
        bucket
    }

    /// Decode: the element, from the codewords read for it in the order of its [`Schedule::assignment`].
    ///
    /// # Errors
    /// [`Error::Codewords`] if their number or sizes are not those of one element.
    fn decode(&self, codewords: &[&[u8]]) -> Result<Vec<u8>, Error>;
}

/// A code that puts copies of an element, sorted by a hash of its key, where hashes of the key say.
///
/// Whoever knows seed and keys knows every position, and a further key moves only those behind it: see
/// [`crate::SimulatedOracle`].
pub trait HashedCode: BatchCode {
    /// Where a key stands within its buckets: copies are sorted by this number, then by key, then by element.
    fn order(&self, key: &[u8]) -> u64;

    /// The number of different contents among the buckets.
    fn contents(&self) -> usize;

    /// Which content a bucket has, in constant time; of what is no bucket anything.
    fn content_of(&self, bucket: BucketIndex) -> usize;

    /// The contents that hold copies of elements, ascending; any others hold sums of several of them.
    fn copying(&self) -> Vec<usize> {
        (0..self.contents()).collect()
    }

    /// The contents that hold a copy of a key's element, all different; in constant time, but for the hybrid code. With a
    /// probability below 2^-64 there are fewer, and numbers of no content behind them.
    fn holders(&self, key: &[u8]) -> Vec<usize>;
}

/// A code whose failures can be counted without hashing any keys, for simulations of many batches.
pub trait RandomBatch: BatchCode {
    /// Whether a whole batch of [`BatchCode::batch_size`] keys can be served, if the hashes of its keys, one after the
    /// other, are these uniform words.
    fn serves_batch(&self, words: &mut dyn FnMut() -> u64) -> bool;
}
