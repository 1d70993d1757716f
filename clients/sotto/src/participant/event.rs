//! What a participant tells its person.

use sotto_protocol::client::Notice;
use sotto_protocol::{Error, Round};
use sotto_wire::Failure;

use super::RoundReport;
use crate::ConnectError;

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The protocol has something to say: a text, an acknowledgement, a warning.
    Notice(Notice),
    /// A round's calls are made; what they cost.
    RoundReport(RoundReport),
    /// Something went wrong in a round. Its calls were made all the same.
    Trouble {
        /// In which round, if in one.
        round: Option<Round>,
        /// What.
        trouble: Trouble,
    },
    /// The server is gone, or refuses; the participant goes on trying.
    ConnectionLost(ConnectError),
    /// The server is back.
    ConnectionRestored,
}

/// What can go wrong in a round. Texts are not lost by it: they are sent until they are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The client does not go along with a round's number, and makes no deposit in it.
    #[error("{0}")]
    RoundRefused(Error),
    /// The state could not be stored, so that random bytes were deposited.
    #[error("{0}; nothing of yours is sent until that works again")]
    Store(String),
    /// The deposit was not taken.
    #[error("the deposit was not taken: {0}")]
    Deposit(Failure),
    /// There is no mapping, so that random elements were retrieved.
    #[error("no mapping came: {0}")]
    Mapping(Failure),
    /// The look-up took too long, so that random elements were retrieved.
    #[error("the look-up took too long for this server's timing")]
    LookupLate,
    /// The manifest announces sizes that nobody can serve.
    #[error("the server announces impossible sizes")]
    Sizes,
    /// No answer came.
    #[error("no answer came: {0}")]
    Answer(Failure),
    /// Some answers are not answers.
    #[error("{0} buckets were answered with something that is no answer")]
    Corrupted(usize),
    /// Missed manifests could not be fetched.
    #[error("missed manifests could not be fetched: {0}")]
    Manifests(Failure),
}
