//! Texts: of others, said here, and of the history.

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;

use super::Private;
use crate::daemon::reply::Reference;

/// A text that nobody has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text {
    /// Its number among all texts of the account.
    pub(crate) number: u64,
    pub(crate) id: ConversationId,
    /// Name of the contact or group.
    pub(crate) conversation: String,
    /// Whether that is a group.
    pub(crate) group: bool,
    pub(crate) from: String,
    pub(crate) text: Private,
    /// The sender's number for it.
    pub(crate) sequence: u32,
    /// When it came, in milliseconds since 1970, if somebody took note.
    pub(crate) at_ms: Option<u64>,
    /// What it replies to.
    pub(crate) quote: Option<Quote>,
    /// The file that it tells of.
    pub(crate) file: Option<File>,
    /// Whether it may have been seen: a program had it that is gone, and did not say whether it showed it.
    pub(crate) again: bool,
}

/// A text that was said from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) id: ConversationId,
    /// Its number in the conversation.
    pub(crate) sequence: u32,
    pub(crate) text: Private,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// What it replies to.
    pub(crate) quote: Option<Quote>,
    /// The file that it tells of.
    pub(crate) file: Option<File>,
}

/// A file that was sent, or came. The text is its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct File {
    /// Bytes.
    pub(crate) size: u32,
    /// Where it is, of one that came; None of one that is not whole, or could not be put anywhere.
    pub(crate) path: Option<String>,
}

/// What a text replies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quote {
    /// Who wrote that; None of one that was said here.
    pub(crate) from: Option<String>,
    /// How it begins; None if it is not kept.
    pub(crate) text: Option<Private>,
    /// Which text that is, until it is looked for.
    #[serde(skip)]
    pub(crate) sought: Option<Reference>,
}

/// A text of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Past {
    /// Rises from text to text, over all conversations.
    pub(crate) place: u64,
    /// Of one that came, its number among all texts of the account.
    pub(crate) number: Option<u64>,
    /// The sender's number for it.
    pub(crate) sequence: u32,
    /// None of one that was said here.
    pub(crate) from: Option<String>,
    pub(crate) text: Private,
    /// When it was said or came, in milliseconds since 1970, if somebody took note.
    pub(crate) at_ms: Option<u64>,
    pub(crate) mark: PastMark,
    /// When it arrived or was given up, of one that was said here, if somebody took note.
    pub(crate) settled_ms: Option<u64>,
    /// What it replies to.
    pub(crate) quote: Option<Quote>,
    /// The file that it tells of.
    pub(crate) file: Option<File>,
}

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PastMark {
    /// It waits for its turn.
    Queued,
    /// All of it was sent.
    Sent,
    Arrived,
    /// It was given up before that.
    NotSent,
    /// It came, and nobody has seen it.
    Unread,
    /// It was seen on this machine.
    Read,
}
