//! What programs want.

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;

use super::Private;

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
        /// In base64, with its padding or without.
        content: Private,
    },
    /// Keep so many texts from now on; [`Reply::Keeps`].
    Keep { texts: u32 },
    /// How many texts are kept; [`Reply::Keeps`].
    Keeps,
}
