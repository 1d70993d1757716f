//! The batch code from reverse cuckoo hashing (paper section 4.5).

use core::fmt;

use rayon::prelude::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator, ParallelSliceMut};

use crate::hash::{KeyedHash, domain, reduce};
use crate::{BatchCode, BucketIndex, Codeword, Encoding, Error, Schedule, matching, recommended_buckets};

/// The paper's number of candidate buckets.
pub const DEFAULT_CHOICES: usize = 3;

/// The largest number of candidate buckets.
pub const MAX_CHOICES: usize = 8;

const CANDIDATES: [u8; 32] = domain("sotto/pbc/v1/cuckoo/candidates");
const ORDER: [u8; 32] = domain("sotto/pbc/v1/cuckoo/order");

/// w-way reverse cuckoo hashing: every element is copied to `w` distinct buckets that its key and a seed determine,
/// `m = w n` codewords in all.
///
/// The paper places the wanted keys by a random walk with a limited number of displacements; here the schedule is a
/// matching by augmenting paths, which fails only where no schedule exists. The probability of that, for `k` keys
/// chosen independently of the seed, falls with `b`: see [`recommended_buckets`]. Keys chosen in knowledge of the seed
/// can be made to collide, so a seed is to be published only when the keys are fixed.
///
/// Both hash functions are SHA-256 over domain, seed, counter and length-delimited key; words are reduced to bucket
/// numbers without any bias.
#[derive(Clone)]
pub struct CuckooCode {
    batch_size: usize,
    buckets: u32,
    choices: usize,
    candidates: KeyedHash,
    order: KeyedHash,
}

impl CuckooCode {
    /// The code for batches of `k` keys with `b` buckets, `w` of them candidates for a key.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `1 <= w <= 8`, `w <= b < 2^32` and `1 <= k <= b`.
    pub fn new(k: usize, b: usize, w: usize, seed: [u8; 32]) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::Parameters("a batch has at least one key"));
        }
        if !(1..=MAX_CHOICES).contains(&w) {
            return Err(Error::Parameters("a key has between 1 and 8 candidate buckets"));
        }
        if b < w || b < k {
            return Err(Error::Parameters("fewer buckets than candidates or keys"));
        }
        let buckets = u32::try_from(b).map_err(|_| Error::Parameters("too many buckets"))?;
        Ok(Self::of_checked(k, buckets, w, &seed))
    }

    /// The code with the recommended number of buckets; for `k = 1` that is [`CuckooCode::unencoded`].
    ///
    /// # Errors
    /// [`Error::Parameters`] if there is no recommendation for these numbers.
    pub fn recommended(k: usize, w: usize, seed: [u8; 32]) -> Result<Self, Error> {
        let b = recommended_buckets(k, w).ok_or(Error::Parameters("no recommended number of buckets"))?;
        if b == 1 { Ok(Self::unencoded(seed)) } else { Self::new(k, b, w, seed) }
    }

    /// The code of a single bucket that holds every element once, for batches of one.
    pub fn unencoded(seed: [u8; 32]) -> Self {
        Self::of_checked(1, 1, 1, &seed)
    }

    /// The `w` distinct buckets that hold the element of a key, in the order they are drawn.
    ///
    /// Every ordered choice of `w` distinct buckets is equally likely: a word that names a bucket drawn before is
    /// passed over, with those that would bias the reduction.
    pub fn candidates(&self, key: &[u8]) -> Candidates {
        let mut candidates = Candidates::default();
        for bucket in self.candidates.words(key).filter_map(|word| reduce(word, self.buckets)) {
            candidates.add(BucketIndex(bucket));
            if candidates.len() == self.choices {
                break;
            }
        }
        candidates
    }

    /// Where a key stands within its buckets: codewords are sorted by this number, then by key, then by element.
    ///
    /// It is uniform over all 64 bits, so that the key's position in a bucket of `l` codewords is close to
    /// `order * l / 2^64`, with a standard deviation of at most `sqrt(l) / 2`.
    pub fn order(&self, key: &[u8]) -> u64 {
        self.order.word(key)
    }

    /// The number `w` of candidate buckets of a key.
    pub const fn choices(&self) -> usize {
        self.choices
    }

    fn of_checked(batch_size: usize, buckets: u32, choices: usize, seed: &[u8; 32]) -> Self {
        Self {
            batch_size,
            buckets,
            choices,
            candidates: KeyedHash::new(&CANDIDATES, seed),
            order: KeyedHash::new(&ORDER, seed),
        }
    }
}

impl BatchCode for CuckooCode {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn bucket_count(&self) -> usize {
        self.buckets as usize
    }

    /// Sorted once, the elements reach every bucket in order. Hashing and sorting are parallel; the result does not
    /// depend on how many threads there are, since the sorted entries are all different.
    fn encode(&self, keys: &[&[u8]]) -> Encoding {
        let mut sorted: Vec<(u64, &[u8], u32)> = keys
            .par_iter()
            .enumerate()
            .filter_map(|(element, &key)| Some((self.order(key), key, u32::try_from(element).ok()?)))
            .collect();
        sorted.par_sort_unstable();
        let candidates: Vec<Candidates> = sorted.par_iter().map(|(_, key, _)| self.candidates(key)).collect();

        let expected = keys.len().saturating_mul(self.choices) / self.bucket_count();
        let mut buckets: Vec<Vec<Codeword>> =
            (0..self.buckets).map(|_| Vec::with_capacity(expected + expected / 8)).collect();
        for ((_, _, element), candidates) in sorted.iter().zip(&candidates) {
            for bucket in candidates {
                buckets[bucket.to_usize()].push(Codeword::copy(*element));
            }
        }
        Encoding::of_existing(keys.len(), buckets)
    }

    fn schedule(&self, keys: &[&[u8]], usable: &dyn Fn(usize, BucketIndex) -> bool) -> Schedule {
        let usable_candidates: Vec<Vec<usize>> = keys
            .iter()
            .enumerate()
            .map(|(key_number, key)| {
                let candidates = self.candidates(key);
                let usable = candidates.as_slice().iter().filter(|bucket| usable(key_number, **bucket));
                usable.map(|bucket| bucket.to_usize()).collect()
            })
            .collect();
        let assigned = matching::by_priority(&usable_candidates, self.bucket_count());
        let buckets = |bucket: Option<usize>| bucket.and_then(BucketIndex::from_usize).into_iter().collect();
        Schedule::new(assigned.into_iter().map(buckets).collect())
    }

    /// A codeword is a copy of its element.
    fn decode(&self, codewords: &[&[u8]]) -> Result<Vec<u8>, Error> {
        match codewords {
            [element] => Ok(element.to_vec()),
            _ => Err(Error::Codewords),
        }
    }
}

impl fmt::Debug for CuckooCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuckooCode")
            .field("batch_size", &self.batch_size)
            .field("buckets", &self.buckets)
            .field("choices", &self.choices)
            .finish_non_exhaustive()
    }
}

/// The distinct buckets that hold one key's element, in the order they are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    buckets: [BucketIndex; MAX_CHOICES],
    count: usize,
}

impl Candidates {
    /// The buckets.
    pub fn as_slice(&self) -> &[BucketIndex] {
        &self.buckets[..self.count]
    }

    fn add(&mut self, bucket: BucketIndex) {
        if self.count < MAX_CHOICES && !self.contains(&bucket) {
            self.buckets[self.count] = bucket;
            self.count += 1;
        }
    }
}

impl Default for Candidates {
    fn default() -> Self {
        Self { buckets: [BucketIndex(0); MAX_CHOICES], count: 0 }
    }
}

impl core::ops::Deref for Candidates {
    type Target = [BucketIndex];

    fn deref(&self) -> &[BucketIndex] {
        self.as_slice()
    }
}

impl<'a> IntoIterator for &'a Candidates {
    type Item = &'a BucketIndex;
    type IntoIter = core::slice::Iter<'a, BucketIndex>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}
