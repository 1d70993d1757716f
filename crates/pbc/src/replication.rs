//! k-way replication (paper appendix B).

use crate::Error;
use crate::hash::domain;
use crate::reverse_hash::{Dimensions, ReverseHash, reverse_hash_code};

const DOMAINS: [&[u8; 32]; 2] =
    [&domain("sotto/pbc/v1/replication/content"), &domain("sotto/pbc/v1/replication/order")];

/// Every bucket holds every element: a (n, k n, k, k, 0) batch code.
///
/// It is what a client without a batch code does, `k` queries of the whole database, in the shape of one: it never
/// fails, and saves nothing. The server holds the one content of all buckets only once.
#[derive(Clone)]
pub struct ReplicationCode {
    hash: ReverseHash,
}

impl ReplicationCode {
    /// The code for batches of `k` keys; elements are sorted by a hash under `seed`, as in the other codes.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `1 <= k < 2^32`.
    pub fn new(k: usize, seed: [u8; 32]) -> Result<Self, Error> {
        let dimensions = Dimensions { batch_size: k, contents: 1, copies: k, choices: 1 };
        Ok(Self { hash: ReverseHash::new(dimensions, DOMAINS, &seed)? })
    }
}

reverse_hash_code!(ReplicationCode);
