//! Probabilistic batch codes by reverse hashing (SealPIR paper, section 4): how a collection is spread over buckets so
//! that any `k` of its elements can be read, with high probability, by reading every bucket at most once.
//!
//! Elements are found by *keys*, which are byte strings; what they mean and what the elements contain is nobody's
//! business here, and neither is how a bucket is read.
//!
//! | paper, Definition 1 | here |
//! |---|---|
//! | Encode | [`BatchCode::encode`], then [`Encoding::materialise`] |
//! | GenSchedule | [`BatchCode::schedule`] |
//! | Decode | [`BatchCode::decode`] |
//! | oracle O (section 5) | [`Oracle`] |
//! | lines 8 to 17 of Figure 8: which index to ask of which bucket | [`Plan`] |
//!
//! | code of the paper's appendix B | | codewords m | buckets b |
//! |---|---|---|---|
//! | k-way replication | [`ReplicationCode`] | k n | k |
//! | sharding | [`ShardingCode`] | r n | r s |
//! | 2-choice hashing | [`TwoChoiceCode`] | 2 r n | r s |
//! | Pung's hybrid | [`HybridCode`] | 4.5 n | 9 s |
//! | cuckoo hashing | [`CuckooCode`] | w n | b |
//! | cuckoo over indices, with equal buckets | [`PartitionedCode`] | w n | b |
//!
//! | way to the oracle, section 5 | |
//! |---|---|
//! | the mapping is downloaded | [`DownloadedOracle`] |
//! | Encode is simulated from the seed | [`SimulatedOracle`] |
//! | the position is computed | [`PartitionedCode`] itself |
//!
//! ```
//! use pbc::{BatchCode, CuckooCode, EncodingOracle, Plan};
//!
//! // Batches of two keys, three candidate buckets for each element, under a public seed.
//! let code = CuckooCode::recommended(2, 3, [1; 32])?;
//! let keys: [&[u8]; 4] = [b"amber", b"birch", b"cedar", b"delta"];
//! let encoding = code.encode(&keys);
//! let buckets = encoding.materialise(2, b"aabbccdd", encoding.largest())?;
//!
//! // Each of the wanted keys is read in a bucket of its own.
//! let plan = Plan::new(&code, &[b"delta", b"amber"], &EncodingOracle::new(&encoding, &keys));
//! let bucket = plan.assignment(0)[0].to_usize();
//! let position = plan.targets[bucket].expect("a bucket that serves a key is read");
//! assert_eq!(buckets[bucket][2 * position..][..2], *b"dd");
//! # Ok::<(), pbc::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod bucket;
mod candidates;
mod code;
mod cube_search;
mod cuckoo;
mod downloaded;
mod drawn;
mod encoding;
mod error;
mod fair;
mod hash;
mod hybrid;
mod matching;
pub mod oblivious;
mod oblivious_lanes;
mod oracle;
mod partitioned;
mod permutation;
mod plan;
mod random_walk;
mod replication;
mod reverse_hash;
mod schedule;
mod sha256_lanes;
mod sharding;
mod simulated;
mod subcube;
mod table;
mod two_choice;

pub use bound::{cuckoo_bound_log2, partitioned_bound_log2};
pub use bucket::BucketIndex;
pub use candidates::{Candidates, MAX_CHOICES};
pub use code::{BatchCode, HashedCode, RandomBatch};
pub use cuckoo::{CuckooCode, DEFAULT_CHOICES};
pub use downloaded::DownloadedOracle;
pub use drawn::Drawn;
pub use encoding::{Buckets, Codeword, Encoding};
pub use error::Error;
pub use hybrid::HybridCode;
pub use oracle::{EncodingOracle, Oracle};
pub use partitioned::{PartitionedCode, Places};
pub use plan::Plan;
pub use random_walk::Search;
pub use replication::ReplicationCode;
pub use schedule::Schedule;
pub use sharding::{ShardingCode, sharding_failure};
pub use simulated::SimulatedOracle;
pub use table::{Choice, Family, Provenance, choose_buckets, recommended_buckets};
pub use two_choice::TwoChoiceCode;
