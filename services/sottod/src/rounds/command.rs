//! What calls ask of the task that owns the rounds.

use std::sync::Arc;

use sotto_log::{Tenure, TokenId};
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::{Account, Refusal};
use sotto_protocol::{Deposit, Round};
use sotto_wire::{Announced, Refused};
use tokio::sync::oneshot;

use super::Place;
use super::overview::RoundStatus;
use super::watchers::Joined;
use crate::round_database::RoundDatabase;

pub(super) type Reply<T> = oneshot::Sender<T>;

pub(super) enum Command {
    Deposit {
        account: Account,
        round: Round,
        deposit: Box<Deposit>,
        digest: [u8; 32],
        /// Of the slot, on a server with slots.
        tenure: Option<Tenure>,
        /// Answered once the deposit is in the log.
        reply: Reply<Result<(), Refused>>,
    },
    /// An account has proved to hold its key.
    Register {
        account: Account,
        /// Of a token that this server made.
        token: Option<TokenId>,
        /// The slot that it has shown to be its own.
        shown: Option<Tenure>,
        /// Answered with its slot, if the server has slots, once all of it is in the log.
        reply: Reply<Result<Option<Tenure>, Refused>>,
    },
    /// Whoever holds an account's key wants no account any more.
    Close {
        account: Account,
        /// Its slot, on a server with slots.
        tenure: Option<Tenure>,
        /// Answered once it is in the log.
        reply: Reply<Result<(), Refused>>,
    },
    Watch {
        account: Account,
        has_keys: bool,
        reply: Reply<Joined>,
    },
    Left {
        account: Account,
        generation: u64,
    },
    HasKeys {
        account: Account,
    },
    /// A node has said where people find it.
    Place(Place),
    /// Another manifest key is to be announced; answered with the first round that it signs, once that is in the log.
    Announce {
        announced: Box<Announced>,
        reply: Reply<Result<Round, String>>,
    },
    /// What the operator sees.
    Overview {
        reply: Reply<Vec<RoundStatus>>,
    },
    Current {
        reply: Reply<Round>,
    },
    /// The database of a round that can be retrieved, at no quota.
    Served {
        round: Round,
        reply: Reply<Result<Arc<RoundDatabase>, Refusal>>,
    },
    Mapping {
        account: Account,
        round: Round,
        reply: Reply<Result<Arc<RoundDatabase>, Refusal>>,
    },
    /// The same for its hint.
    Hint {
        account: Account,
        round: Round,
        reply: Reply<Result<Arc<RoundDatabase>, Refusal>>,
    },
    /// The same for the buckets of one of its units.
    Unit {
        account: Account,
        round: Round,
        unit: u16,
        reply: Reply<Result<Arc<RoundDatabase>, Refusal>>,
    },
    Retrieve {
        account: Account,
        round: Round,
        digest: [u8; 32],
        reply: Reply<Result<(), Refusal>>,
    },
    Answered {
        account: Account,
        round: Round,
        complete: bool,
    },
    Manifests {
        first: Round,
        last: Round,
        reply: Reply<Vec<SignedManifest>>,
    },
}
