//! The batch code from reverse cuckoo hashing (paper section 4.5).

use crate::hash::domain;
use crate::reverse_hash::{Dimensions, ReverseHash, reverse_hash_code};
use crate::{Candidates, Error, Search, recommended_buckets};

/// The paper's number of candidate buckets.
pub const DEFAULT_CHOICES: usize = 3;

const DOMAINS: [&[u8; 32]; 2] =
    [&domain("sotto/pbc/v1/cuckoo/candidates"), &domain("sotto/pbc/v1/cuckoo/order")];

/// w-way reverse cuckoo hashing: every element is copied to `w` distinct buckets that its key and a seed determine,
/// `m = w n` codewords in all.
///
/// The paper places the wanted keys by a random walk with a limited number of displacements, which
/// [`CuckooCode::with_search`] offers; by default the schedule is a matching by augmenting paths, which fails only
/// where no schedule exists. The probability of that, for `k` keys chosen independently of the seed, falls with `b`:
/// see [`recommended_buckets`]. Keys chosen in knowledge of the seed can be made to collide, so a seed is to be
/// published only when the keys are fixed.
///
/// Both hash functions are SHA-256 over domain, seed, counter and length-delimited key; words are reduced to bucket
/// numbers without any bias.
#[derive(Clone)]
pub struct CuckooCode {
    hash: ReverseHash,
}

impl CuckooCode {
    /// The code for batches of `k` keys with `b` buckets, `w` of them candidates for a key.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `1 <= w <= 8`, `w <= b < 2^32` and `1 <= k <= b`.
    pub fn new(k: usize, b: usize, w: usize, seed: [u8; 32]) -> Result<Self, Error> {
        let dimensions = Dimensions { batch_size: k, contents: b, copies: 1, choices: w };
        Ok(Self { hash: ReverseHash::new(dimensions, DOMAINS, &seed)? })
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
        Self { hash: ReverseHash::single(DOMAINS, &seed) }
    }

    /// The same code with another way to place the wanted keys.
    #[must_use]
    pub fn with_search(self, search: Search) -> Self {
        Self { hash: self.hash.with_search(search) }
    }

    /// The `w` distinct buckets that hold the element of a key, in the order they are drawn.
    ///
    /// Every ordered choice of `w` distinct buckets is equally likely: a word that names a bucket drawn before is
    /// passed over, with those that would bias the reduction.
    pub fn candidates(&self, key: &[u8]) -> Candidates {
        self.hash.candidates(key)
    }

    /// Where a key stands within its buckets: codewords are sorted by this number, then by key, then by element.
    ///
    /// It is uniform over all 64 bits, so that the key's position in a bucket of `l` codewords is close to
    /// `order * l / 2^64`, with a standard deviation of at most `sqrt(l) / 2`.
    pub fn order(&self, key: &[u8]) -> u64 {
        self.hash.order(key)
    }

    /// The number `w` of candidate buckets of a key.
    pub const fn choices(&self) -> usize {
        self.hash.choices()
    }
}

reverse_hash_code!(CuckooCode);
