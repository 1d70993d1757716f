//! Sharding with replicated shards (paper appendix B).

use crate::Error;
use crate::hash::domain;
use crate::reverse_hash::{Dimensions, ReverseHash, reverse_hash_code};

const DOMAINS: [&[u8; 32]; 2] =
    [&domain("sotto/pbc/v1/sharding/candidates"), &domain("sotto/pbc/v1/sharding/order")];

/// Every element belongs to one of `s` shards, and every shard is the content of `r` buckets: a (n, r n, k, r s, p)
/// batch code, where `p` is the probability that more than `r` of `k` keys belong to one shard.
///
/// `p` is known exactly: [`sharding_failure`]. The paper has `s = k` and, as its code says, `r = 3 ceil(ln k / ln ln
/// k)`, which [`ShardingCode::of_paper`] takes: `r = 9` for k = 16 and 64, 12 for 256.
///
/// The public implementation of the paper tests for an overfull shard with an index that it never reaches, so that
/// keys are missing from its schedules without a word; here they are deferred.
#[derive(Clone)]
pub struct ShardingCode {
    hash: ReverseHash,
}

impl ShardingCode {
    /// The code for batches of `k` keys with `shards` shards, each in `copies` buckets.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `k`, `shards` and `copies` are positive and `k <= shards * copies < 2^32`.
    pub fn new(k: usize, shards: usize, copies: usize, seed: [u8; 32]) -> Result<Self, Error> {
        let dimensions = Dimensions { batch_size: k, contents: shards, copies, choices: 1 };
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
        let ln = (k as f64).ln();
        Self::new(k, k, 3 * (ln / ln.ln()).ceil() as usize, seed)
    }

    /// The number `r` of buckets that hold the same shard.
    pub fn copies(&self) -> usize {
        self.hash.copies() as usize
    }
}

reverse_hash_code!(ShardingCode);

/// The probability that more than `copies` of `k` keys belong to one of `shards` shards, to about ten digits.
///
/// `k!/s^k [x^k] (1 + x + x^2/2! + ... + x^r/r!)^s` is the probability that none has more than `r`. What is summed
/// here is its complement, shard by shard, so that nothing is lost to cancellation: if the first shard that overflows
/// is the `i`-th, the `j` keys of those before it are spread without an overflow.
pub fn sharding_failure(k: usize, shards: usize, copies: usize) -> f64 {
    // After i shards: the probability that they hold exactly j keys and none of them has overflown.
    let mut held = vec![0.0; k + 1];
    held[0] = 1.0;
    let mut failure = 0.0;
    for shard in 0..shards {
        // Given what the shards before hold, each remaining key is in this one with probability 1 / (shards left).
        let share = 1.0 / (shards - shard) as f64;
        let mut next = vec![0.0; k + 1];
        for (j, probability) in held.iter().enumerate() {
            let left = k - j;
            if share >= 1.0 {
                if left > copies {
                    failure += probability;
                }
                continue;
            }
            // Binomial probabilities, from no key on.
            let mut load = (1.0 - share).powi(left as i32);
            for keys in 0..=left {
                if keys <= copies {
                    next[j + keys] += probability * load;
                } else {
                    failure += probability * load;
                }
                load *= (left - keys) as f64 / (keys + 1) as f64 * share / (1.0 - share);
            }
        }
        held = next;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::sharding_failure;

    /// Small cases that can be counted by hand.
    #[test]
    fn the_exact_failure_is_that_of_small_cases() {
        assert!((sharding_failure(2, 2, 1) - 0.5).abs() < 1e-12);
        assert!((sharding_failure(3, 3, 1) - (1.0 - 6.0 / 27.0)).abs() < 1e-12);
        assert!((sharding_failure(3, 3, 2) - 3.0 / 27.0).abs() < 1e-12);
        assert!((sharding_failure(4, 1, 3) - 1.0).abs() < 1e-12);
        assert!(sharding_failure(4, 1, 4).abs() < 1e-12);
        assert!((sharding_failure(5, 4, 4) / (4.0 / 4_f64.powi(5)) - 1.0).abs() < 1e-9);
    }
}
