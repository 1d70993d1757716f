//! What a server tells the process that runs it.

use sotto_protocol::Round;

/// Something happened to a round. Nothing in it says anything about anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// It takes deposits.
    RoundOpened {
        /// Which.
        round: Round,
    },
    /// It takes no more.
    RoundSealed {
        /// Which.
        round: Round,
        /// Deposits in it.
        entries: usize,
    },
    /// The deposits of simulated users are in it, and its database is about to be built.
    RoundPopulated {
        /// Which.
        round: Round,
        /// Simulated users.
        users: u32,
    },
    /// It can be retrieved.
    RoundBuilt {
        /// Which.
        round: Round,
        /// Elements in every bucket.
        bucket_size: u32,
        /// Size of its mapping, bytes.
        mapping_bytes: usize,
        /// How long building took, ms.
        setup_ms: u64,
    },
    /// It was sealed, and this server will never serve it.
    RoundAbandoned {
        /// Which.
        round: Round,
    },
}
