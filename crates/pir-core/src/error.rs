//! The one error type of the crate.

/// Why an operation was refused. No variant carries secret material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index is not below the number of elements.
    #[error("index out of range")]
    Index,
    /// The system has no memory left for a database.
    #[error("no memory for a database of {bytes} bytes")]
    Memory {
        /// What was asked for.
        bytes: usize,
    },
    /// Received bytes are not an encoding of what they should be.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A secret that has made a request under this seed would make another one.
    #[error("a second request under one secret and seed")]
    Repeated,
    /// Parameters give less than 128 bits of security.
    #[error("parameters offer {bits} bits of security, at least 128 are required")]
    Security {
        /// Estimated bits.
        bits: u32,
    },
    /// No admissible parameters for such a database, or data that does not fit the parameters.
    #[error("no admissible shape: {0}")]
    Shape(&'static str),
}
