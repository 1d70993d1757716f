//! The one error type of the crate.

/// Why an operation was refused. No variant carries secret material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such bucket.
    #[error("no such bucket")]
    Bucket,
    /// The batch code cannot make an element of the codewords.
    #[error(transparent)]
    Code(#[from] pbc::Error),
    /// Not exactly one of these for every bucket.
    #[error("{actual} {what} for {expected} buckets")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The number of buckets.
        expected: usize,
        /// The number given.
        actual: usize,
    },
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] pir_core::Error),
}
