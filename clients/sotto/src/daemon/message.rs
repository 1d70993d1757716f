//! What programs and the running participant say to each other over the local socket. Both begin with a [`Greeting`];
//! then every [`Request`] has one [`Reply`], in order, and to an attached program [`Told`] comes in between.

use core::fmt;

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;
use zeroize::Zeroizing;

use super::reply::{Reference, Whose};
use crate::cli::failure::Failure;

/// Version of the local protocol: programs and the participant must be of the same.
pub(crate) const VERSION: u16 = 6;

/// The first frame of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The side's [`VERSION`].
    pub(crate) sotto: u16,
    /// Number of the side's process, for the person who has to end it.
    pub(crate) process: u32,
}

impl Greeting {
    pub(crate) fn ours() -> Self {
        Self { sotto: VERSION, process: std::process::id() }
    }
}

/// A text, an invitation, or a card: wiped when it is gone, and not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Private(pub(crate) Zeroizing<String>);

impl Private {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Private(..)")
    }
}

impl Serialize for Private {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Private {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

/// What a program wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How things stand; answered with [`Reply::Status`].
    Status,
    /// Leave the server when the rounds in progress are done; answered with [`Reply::Leaving`], and the connection ends
    /// when it is done.
    Stop,
    /// All that needs nothing but the account's state.
    Account(Account),
    /// What concerns screens on other machines. Nothing of it is for these themselves.
    Device(Device),
    /// Check so many answers of the server, and hear what is found; answered with [`Reply::Auditing`].
    Audit { answers: u32 },
    /// Hear what happens from now on, and the texts of one conversation; answered with [`Reply::Attached`].
    Attach {
        /// Contact or group.
        conversation: String,
        /// Also what every round costs.
        verbose: bool,
    },
    /// Hear everything that happens from now on, in all conversations; answered with [`Reply::Listening`], after which
    /// come [`Told::Standing`] of every conversation and all texts that nobody has seen.
    Listen,
    /// The same for one who shows texts later than they come, if at all: before, it says [`Account::Offer`]. To all others it
    /// is as if they showed a text at once, and that is noted before they get it.
    Watch,
}

/// What concerns screens on other machines.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Device {
    /// Wait for one; [`Reply::Code`].
    Pair {
        /// Host and port by which it reaches this machine; otherwise those at which the participant listens.
        at: Option<String>,
    },
    /// [`Reply::Devices`].
    All,
    /// Forget one, and end what it has open; [`Reply::Done`].
    Revoke { name: String },
}

/// What needs nothing but the account's state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Account {
    /// [`Reply::Conversations`].
    Contacts,
    /// [`Reply::Invitations`].
    Invitations,
    /// [`Reply::Identity`].
    Identity,
    /// How long a text takes to a contact of this name, whether there is one or not; [`Reply::Pace`].
    Pace { contact: String },
    /// What to compare with a contact; [`Reply::Words`].
    Words { contact: String },
    /// Make a contact; [`Reply::Invitation`].
    Invite { contact: String },
    /// Make a contact of who invited, by the invitation as it was copied; [`Reply::Accepted`].
    Accept { contact: String, invitation: Private },
    /// A copy of the state is about to be kept aside; [`Reply::Done`].
    SetAside,
    /// Take an invitation back that nobody has answered; [`Reply::Done`].
    Withdraw { contact: String },
    /// Forget a contact or a group; [`Reply::Done`].
    Forget { name: String },
    /// Give a contact or a group another name; [`Reply::Done`].
    Rename { name: String, to: String },
    /// Make a group of contacts and of people given as NAME=IDENTITY; [`Reply::Card`].
    CreateGroup { name: String, members: Vec<String> },
    /// Join the group of a card; [`Reply::Joined`].
    JoinGroup { card: Private },
    /// Leave a group; [`Reply::Done`].
    LeaveGroup { name: String },
    /// Remove a member; [`Reply::Done`].
    RemoveMember { group: String, member: String },
    /// Take a removal back that has not been done; [`Reply::Kept`].
    KeepMember { group: String, member: String },
    /// Hand in a text, for the conversation of that number, whatever it is called now; [`Reply::Queued`].
    SayTo { id: ConversationId, text: Private },
    /// Hand in a text; [`Reply::Queued`].
    Say { conversation: String, text: Private },
    /// The first texts that nobody has seen; [`Reply::Texts`].
    Unshown {
        /// Only those of this contact or group.
        conversation: Option<String>,
    },
    /// A person is about to see the texts of a conversation up to this number, which is noted when this is answered;
    /// [`Reply::Offered`].
    Offer { id: ConversationId, number: u64 },
    /// A person has seen the texts of a conversation up to this number; [`Reply::Done`].
    Shown { id: ConversationId, number: u64 },
    /// What was said before, in the conversation of that number; [`Reply::Past`].
    PastOf {
        id: ConversationId,
        /// Only what stands before this place.
        before: Option<u64>,
        /// At most so many texts.
        most: u32,
    },
    /// The same, in the conversation of that name.
    Past { conversation: String, before: Option<u64>, most: u32 },
    /// Show nothing of a contact or a group any more, and tell nobody, or show it again; [`Reply::Done`].
    Block { name: String, blocked: bool },
    /// Send a file of at most 64 KiB; [`Reply::Sending`].
    SendFile {
        conversation: String,
        name: String,
        /// In base64 without padding.
        content: Private,
    },
    /// Keep so many texts from now on; [`Reply::Keeps`].
    Keep { texts: u32 },
    /// How many texts are kept; [`Reply::Keeps`].
    Keeps,
}

/// What becomes of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Done,
    Leaving,
    Status(Status),
    Conversations(Vec<Conversation>),
    Invitations(Vec<Invitation>),
    Identity(String),
    /// In words.
    Pace(String),
    /// In the order in which both sides see them.
    Words(Vec<String>),
    /// With the server's address.
    Invitation(Private),
    Card(Private),
    Accepted {
        /// To whom the invitation leads, if that is somebody known already.
        held: Option<String>,
    },
    Joined {
        /// Name of the group.
        group: String,
    },
    /// A member stays.
    Kept {
        /// Texts of the group that were not sent, and will not be.
        texts: usize,
    },
    Queued {
        /// The text's number in its conversation.
        sequence: u32,
        /// Texts of the conversation that have not arrived, this one among them.
        waiting: usize,
    },
    Texts(Vec<Text>),
    Offered {
        /// Numbers of texts that may have been seen already.
        again: Vec<u64>,
    },
    Past {
        /// In order.
        texts: Vec<Past>,
        /// Whether there are older ones.
        more: bool,
    },
    Sending {
        /// Messages that it takes.
        messages: u64,
        /// How long that is at least, in rounds and by their length.
        rounds: u64,
        seconds: u64,
    },
    Keeps {
        /// The most that are kept.
        most: u32,
        /// Those that there are.
        texts: usize,
    },
    Attached(Attached),
    Listening(Listening),
    /// For one device, and for so many minutes.
    Code {
        code: Private,
        minutes: u64,
    },
    Devices(Vec<super::devices::Device>),
    Auditing {
        /// What to expect.
        pace: String,
    },
    /// It could not be done.
    Failed(Failure),
}

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

/// How a conversation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) id: ConversationId,
    /// Up to this number, everything was sent at least once.
    pub(crate) sent: u32,
    pub(crate) conversation: Conversation,
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

/// What the participant sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Reply(Reply),
    Told(Told),
}

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
