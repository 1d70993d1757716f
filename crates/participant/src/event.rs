//! What a participant tells its person.

use core::fmt;
use core::time::Duration;

use sotto_protocol::client::Notice;
use sotto_protocol::{Error, Round};
use sotto_wire::Failure;
use tokio::sync::mpsc;

use super::RoundReport;
use crate::host::StorageError;
use sotto_session::ConnectError;

/// What a participant tells its person. Nothing is held up by events that nobody takes; when there are too many of them,
/// further ones are lost, and [`Event::Missed`] says how many.
pub type Events = mpsc::Receiver<Event>;

/// Something that happened. Written for debugging, it does not show what was said, or by whom.
#[derive(Clone, PartialEq, Eq)]
pub enum Event {
    /// The protocol has something to say: a text, an acknowledgement, a warning.
    Notice(Notice),
    /// A round's calls are made; what they cost.
    RoundReport(RoundReport),
    /// A round has come so far.
    Step {
        /// Which round.
        round: Round,
        /// How far.
        step: Step,
    },
    /// Something went wrong in a round. Its calls were made all the same.
    Trouble {
        /// In which round, if in one.
        round: Option<Round>,
        /// What.
        trouble: Trouble,
    },
    /// An answer of the server's was checked, or could not be.
    Audited {
        /// Of which round.
        round: Round,
        /// Of which unit.
        unit: u16,
        /// What was found.
        finding: Finding,
    },
    /// The server is gone, or refuses; the participant goes on trying.
    ConnectionLost(ConnectError),
    /// The server is back.
    ConnectionRestored,
    /// So many events before this one were not taken in time, and are lost.
    Missed(u64),
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notice(Notice::Warning(_)) => f.write_str("Notice(Warning(..))"),
            Self::Notice(_) => f.write_str("Notice(..)"),
            Self::RoundReport(report) => report.fmt(f),
            Self::Step { round, step } => {
                f.debug_struct("Step").field("round", round).field("step", step).finish()
            }
            Self::Trouble { round, trouble } => {
                f.debug_struct("Trouble").field("round", round).field("trouble", trouble).finish()
            }
            Self::Audited { round, unit, finding } => {
                let mut audited = f.debug_struct("Audited");
                audited.field("round", round).field("unit", unit).field("finding", finding).finish()
            }
            Self::ConnectionLost(error) => f.debug_tuple("ConnectionLost").field(error).finish(),
            Self::ConnectionRestored => f.write_str("ConnectionRestored"),
            Self::Missed(count) => f.debug_tuple("Missed").field(count).finish(),
        }
    }
}

/// How far a round is. Everybody who takes part comes so far at moments that everybody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The server has opened it, so long before this was heard.
    Opened(Duration),
    /// The server has taken the deposit.
    Deposited,
    /// Its boxes can be retrieved.
    Ready,
}

/// What a check of an answer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The answer is right.
    Honest,
    /// The server has signed a wrong answer. The proof is in this file, or could not be kept for a reason.
    Cheated(Result<String, String>),
    /// Nothing could be shown, and why.
    Open(String),
}

/// What can go wrong in a round. Texts are not lost by it: they are sent until they are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The client does not go along with a round's number: nothing of the person's is in its deposit, if it has one.
    #[error("{0}")]
    RoundRefused(Error),
    /// The state could not be stored, so that random bytes were deposited.
    #[error("{0}; nothing of yours is sent until that works again")]
    Store(StorageError),
    /// Composing the deposit took too long, so that random bytes were deposited.
    #[error("composing the deposit took too long for this server's timing; it is repeated")]
    DepositLate,
    /// The deposit was not taken.
    #[error("the deposit was not taken: {0}")]
    Deposit(Failure),
    /// Something else was deposited for this account.
    #[error(
        "something else was deposited for this account in this round: a copy of it is online, or its state was brought back \
         from a backup; two copies take each other's messages, so stop one of them (this one says nothing until it is alone)"
    )]
    Doubled,
    /// There is no mapping, so that random elements were retrieved.
    #[error("no mapping came: {0}")]
    Mapping(Failure),
    /// What is needed to read answers did not come.
    #[error("what is needed to read the answers did not come: {0}")]
    Hint(Failure),
    /// What is needed to read answers is not what was announced.
    #[error("what is needed to read the answers is not what the server has announced")]
    HintForged,
    /// The look-up took too long, so that random elements were retrieved.
    #[error("the look-up took too long for this server's timing")]
    LookupLate,
    /// Building the queries took too long, so that random elements were retrieved.
    #[error("building the queries took too long for this server's timing")]
    QueryLate,
    /// The manifest announces sizes that nobody can serve.
    #[error("the server announces impossible sizes")]
    Sizes,
    /// Too many rounds are announced at once, so that this one was not retrieved.
    #[error("the server announces too many rounds at once; this one was not retrieved")]
    TooMany,
    /// This program failed.
    #[error("this program failed; that is a mistake in it")]
    Failed,
    /// No answer came.
    #[error("no answer came: {0}")]
    Answer(Failure),
    /// New retrieval keys were not taken; the old ones serve until the next round's attempt.
    #[error("new retrieval keys were not taken: {0}")]
    Keys(Failure),
    /// Some answers are not answers.
    #[error("{0} buckets were answered with something that is no answer")]
    Corrupted(usize),
    /// There is no receipt under the answers, so that nobody could hold the server to them.
    #[error("the server does not vouch for its answers: there is no receipt under them, or a wrong one")]
    Receipt,
    /// What the server says of itself while rounds go on is not to be believed; what is known of it stays.
    #[error("{0}; what it said before is gone by")]
    Announced(Error),
    /// Missed manifests could not be fetched.
    #[error("missed manifests could not be fetched: {0}")]
    Manifests(Failure),
}
