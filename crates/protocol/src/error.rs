//! The one error type of the crate.

use crate::Round;

/// Why an operation was refused. No variant carries secret or identifying material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room for another contact or group in the fixed cycles.
    #[error("no room: this client was set up for {capacity} conversations")]
    Capacity {
        /// Conversations the client was set up for.
        capacity: u32,
    },
    /// A name, text or other local input breaks a limit.
    #[error("{0}")]
    Input(&'static str),
    /// Received bytes are not an encoding of what they should be.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The server offers parameters that this client does not accept.
    #[error("unacceptable server: {0}")]
    Negotiation(&'static str),
    /// A round number that was already used.
    #[error("round {0} was already used; the server may be replaying rounds")]
    RoundReplayed(Round),
    /// A round number that the time passed cannot explain.
    #[error("round {0} is further ahead than time can explain")]
    RoundTooFar(Round),
    /// A manifest that is not the server's, or not the successor of the last one.
    #[error("untrustworthy manifest: {0}")]
    Manifest(&'static str),
    /// A receipt that the server did not give for these queries and answers.
    #[error("the receipt is not the server's for these queries and answers")]
    Receipt,
    /// No contact, group or round of that name or number.
    #[error("unknown {0}")]
    Unknown(&'static str),
}
