//! How things stand: the participant, conversations and what belongs to them.

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;

use crate::daemon::reply::Whose;

/// How a running participant stands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) name: String,
    /// Host and port.
    pub(crate) server: String,
    pub(crate) process: u32,
    /// Whether there is a session now.
    pub(crate) connected: bool,
    /// The newest round.
    pub(crate) round: u64,
    /// Time since it came online.
    pub(crate) online_seconds: u64,
    /// Time until it leaves by itself.
    pub(crate) leaves_in_seconds: Option<u64>,
    /// Programs attached.
    pub(crate) attached: usize,
}

/// What a program finds that attaches itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) established: bool,
    /// Texts that have not arrived.
    pub(crate) waiting: usize,
    /// Texts that nobody has seen, which come next.
    pub(crate) unshown: usize,
    /// What to expect of the rounds.
    pub(crate) pace: String,
}

/// What a program finds that listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// The person's own name.
    pub(crate) name: String,
    pub(crate) connected: bool,
    /// Host and port of the node of the session, or of the one that was asked last.
    pub(crate) node: String,
    /// Length of a round, if it has one.
    pub(crate) round_ms: Option<u32>,
    /// How long a text takes to a contact, about, and at most if everybody is online, s.
    pub(crate) delay_seconds: (u64, u64),
    /// The newest round, and for how many milliseconds it has been open.
    pub(crate) opened: Option<(u64, u64)>,
    /// All conversations there are.
    pub(crate) conversations: Vec<ConversationId>,
    /// Texts that nobody has seen, which come next.
    pub(crate) unshown: usize,
}

/// How a conversation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) id: ConversationId,
    /// Up to this number, everything was sent at least once.
    pub(crate) sent: u32,
    pub(crate) conversation: Conversation,
}

/// A contact or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) established: bool,
    /// Texts that have not arrived.
    pub(crate) queued: usize,
    /// Messages sent and not acknowledged.
    pub(crate) unacknowledged: usize,
    /// Texts that nobody has seen.
    pub(crate) unread: usize,
    /// A contact's, once it has come.
    pub(crate) identity: Option<String>,
    /// A contact's.
    #[serde(default)]
    pub(crate) keys: Option<Keys>,
    /// A group's.
    pub(crate) members: Vec<Member>,
    /// Whether nothing of it is shown.
    pub(crate) blocked: bool,
    /// Files on their way.
    pub(crate) files: Vec<Moving>,
}

impl Conversation {
    /// How a reply here names whose text it is, by who has written that: None for this person. None if nobody is called so, or two are.
    pub(crate) fn whose(&self, from: Option<&str>) -> Option<Whose> {
        match (from, self.kind) {
            (None, _) => Some(Whose::Mine),
            (Some(_), Kind::Contact) => Some(Whose::Yours),
            (Some(name), Kind::Group) => {
                let mut called = (0..).zip(&self.members).filter(|(_, member)| member.name == name);
                let first = called.next().map(|(number, _)| Whose::Member(number));
                first.filter(|_| called.next().is_none())
            }
        }
    }
}

/// Of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Contact,
    Group,
}

/// From what the keys of a contact follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Keys {
    /// From X25519 alone, as in older versions.
    Classical,
    /// So far from that; those that follow are on their way.
    Renewing,
    /// From X25519 and ML-KEM-768.
    Hybrid,
}

impl Keys {
    /// What a person is told of it; nothing where all is as it should be.
    pub(crate) fn remark(self) -> Option<&'static str> {
        match self {
            Self::Classical => {
                Some("keys of an older version, not post-quantum: forget and meet anew for others")
            }
            Self::Renewing => Some("post-quantum keys follow with the first messages"),
            Self::Hybrid => None,
        }
    }
}

/// A file on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moving {
    /// Of one that is sent; what comes has its name at its end.
    pub(crate) name: Option<String>,
    /// Who sends it; None of one that is sent from here.
    pub(crate) from: Option<String>,
    /// Parts that are at the other end, or here.
    pub(crate) there: u16,
    /// All of its parts.
    pub(crate) parts: u16,
    /// How long it takes yet if nothing is lost and both are online, of one that is sent.
    pub(crate) seconds: Option<u64>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) present: bool,
    /// Whether this person removes it, which has not been done yet.
    pub(crate) removing: bool,
}

/// An invitation that nobody has answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Invitation {
    pub(crate) contact: String,
    /// Whether it came from the contact and was accepted here; otherwise it was made here.
    pub(crate) accepted: bool,
    /// When it was made or accepted, in milliseconds since 1970.
    pub(crate) made_ms: u64,
    /// When it ends if nobody answers.
    pub(crate) expires_ms: u64,
}
