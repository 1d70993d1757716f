//! The one error type of the crate.

/// Why an operation was refused. No variant carries secret material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This client has asked for the round before.
    #[error("the round has been asked for before")]
    Asked,
    /// There is no such bucket.
    #[error("no such bucket")]
    Bucket,
    /// The batch code cannot make an element of the codewords.
    #[error(transparent)]
    Code(#[from] pbc::Error),
    /// Not exactly as many of these as there should be.
    #[error("{actual} {what} in place of {expected}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The number that there should be.
        expected: usize,
        /// The number given.
        actual: usize,
    },
    /// More bytes than there can be.
    #[error("larger than anything can be")]
    Size,
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] pir_core::Error),
}
