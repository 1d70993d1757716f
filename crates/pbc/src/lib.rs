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
#![forbid(unsafe_code)]

mod bucket;
mod code;
mod cuckoo;
mod encoding;
mod error;
mod hash;
mod matching;
mod oracle;
mod plan;
mod schedule;
mod table;

pub use bucket::BucketIndex;
pub use code::BatchCode;
pub use cuckoo::{Candidates, CuckooCode, DEFAULT_CHOICES, MAX_CHOICES};
pub use encoding::{Codeword, Encoding};
pub use error::Error;
pub use oracle::{EncodingOracle, Oracle};
pub use plan::Plan;
pub use schedule::Schedule;
pub use table::recommended_buckets;
