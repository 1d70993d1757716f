//! What an attached program is told of what happens.

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;

use super::{Moving, Said, Standing, Text};

/// What an attached program is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// A text of the conversation attached to, or of any for one who listens, which nobody has seen. It comes again until it is told as shown.
    Text(Text),
    /// To one who listens: something was said from here, by whichever program.
    Said(Said),
    /// To one who listens: texts of a conversation up to this number were seen, by whichever program.
    Seen { id: ConversationId, number: u64 },
    /// What has changed of the files on their way in the conversation attached to.
    Files(Vec<Moving>),
    /// Texts of another conversation that nobody has seen.
    Unread { conversation: String, texts: usize },
    /// A text of the conversation attached to, or of any for one who listens, has arrived.
    Arrived { id: ConversationId, sequence: u32 },
    /// Something else.
    Note(Note),
    /// What a round cost.
    Round(RoundCost),
    /// An answer was checked.
    Audited(Audited),
    /// To one who listens: a round has come so far.
    Step { round: u64, step: Step },
    /// To one who listens: whether there is a session, and with which node.
    Connection { connected: bool, node: String },
    /// To one who listens: a conversation that is new, or has changed.
    Standing(Standing),
    /// To one who listens: a conversation that is there no more.
    Forgotten { id: ConversationId },
}

/// A line for the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) line: String,
    pub(crate) severity: Severity,
}

impl Note {
    pub(crate) fn new(severity: Severity, line: impl Into<String>) -> Self {
        Self { line: line.into(), severity }
    }
}

/// How much a line is to be heeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// As it should be.
    Notice,
    /// Something does not work, or not as well.
    Warning,
    /// Somebody may be doing harm, or a person has to decide: whoever misses it may lose what they rely on.
    Alarm,
}

/// How far a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// It has been open for so long.
    Opened { elapsed_ms: u64 },
    /// The deposit was taken.
    Deposited,
    /// Its boxes are being retrieved.
    Ready,
}

/// What a round cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoundCost {
    pub(crate) round: u64,
    /// Deposits in it.
    pub(crate) deposits: u64,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    /// What rounds took in the last 24 hours, both ways, since the participant began.
    #[serde(default)]
    pub(crate) bytes_day: u64,
    /// The same in words, and more.
    pub(crate) line: String,
}

/// An answer that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Audited {
    pub(crate) round: u64,
    pub(crate) unit: u16,
    pub(crate) found: Found,
    /// The same in words.
    pub(crate) line: String,
    /// Where the proof is, if the answer was wrong and it could be kept.
    pub(crate) proof: Option<String>,
}

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    /// The answer is right.
    Honest,
    /// The server has signed a wrong answer.
    Cheated,
    /// Nothing could be shown.
    Open,
}
