//! Reverse two-choice hashing (paper section 4.4 and appendix B).

use crate::Error;
use crate::hash::domain;
use crate::reverse_hash::{Dimensions, ReverseHash, reverse_hash_code};

const DOMAINS: [&[u8; 32]; 2] =
    [&domain("sotto/pbc/v1/two-choice/shards"), &domain("sotto/pbc/v1/two-choice/order")];

/// Every element is in two of `s` shards, and every shard is the content of `r` buckets: a (n, 2 r n, k, r s, p) batch
/// code.
///
/// The paper's code has `s = k` and `r = 2 + ceil(ln ln k / ln 2)`, which [`TwoChoiceCode::of_paper`] takes: 4 for k =
/// 16, and 5 for 64 and 256. It takes the first copy of the first shard that is free, and the second shard only then; here
/// the wanted keys are matched with the buckets, which needs fewer copies for the same failure probability. The two
/// shards of a key are always different.
#[derive(Clone)]
pub struct TwoChoiceCode {
    hash: ReverseHash,
}

impl TwoChoiceCode {
    /// The code for batches of `k` keys with `shards` shards, each in `copies` buckets.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `k >= 1`, `copies >= 1`, `shards >= 2` and `k <= shards * copies < 2^32`.
    pub fn new(k: usize, shards: usize, copies: usize, seed: [u8; 32]) -> Result<Self, Error> {
        let dimensions = Dimensions { batch_size: k, contents: shards, copies, choices: 2 };
        Ok(Self { hash: ReverseHash::new(dimensions, DOMAINS, &seed)? })
    }

    /// The paper's numbers of shards and copies.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `k >= 3`: for fewer the formula has no meaning.
    pub fn of_paper(k: usize, seed: [u8; 32]) -> Result<Self, Error> {
        if k < 3 {
            return Err(Error::Parameters("the formula for the number of copies needs three keys"));
        }
        let copies = 2.0 + ((k as f64).ln().ln() / 2_f64.ln()).ceil();
        Self::new(k, k, copies as usize, seed)
    }

    /// The number `r` of buckets that hold the same shard.
    pub fn copies(&self) -> usize {
        self.hash.copies() as usize
    }
}

reverse_hash_code!(TwoChoiceCode);
