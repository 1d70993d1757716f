//! What a client tells its person.

use super::MessageId;
use crate::conversation::ConversationId;
use crate::{Error, Round};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Both have each other's keys; texts can go out.
    Established {
        /// With whom.
        conversation: ConversationId,
    },
    /// A text came. Every text comes once, and those of one sender in order.
    Text {
        /// Where.
        conversation: ConversationId,
        /// The contact's name, or the member's.
        from: String,
        /// The text.
        text: String,
        /// The sender's number for it.
        sequence: u32,
    },
    /// A text has arrived: with the contact, or with all members present.
    Acknowledged {
        /// Where.
        conversation: ConversationId,
        /// Which.
        message: MessageId,
    },
    /// A member has left a group or was removed.
    Left {
        /// Which group.
        conversation: ConversationId,
        /// The member's name.
        from: String,
    },
    /// Something is wrong.
    Warning(Warning),
}

/// Something is wrong, perhaps by somebody's intention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A contact's newest manifest is not the one this client knows.
    #[error("the server may be showing different worlds: a contact has seen another manifest for a round")]
    SplitView {
        /// Whose message tells so.
        conversation: ConversationId,
    },
    /// A manifest was refused, and its round was retrieved with random queries only.
    #[error("a manifest of the server was refused: {0}")]
    BadManifest(Error),
    /// A mapping was refused, and its round was retrieved with random queries only.
    #[error("the mapping of round {round} was refused")]
    BadMapping {
        /// Which round.
        round: Round,
    },
    /// A box under an expected label did not open, or held what no honest sender writes. The sender repeats what was
    /// lost. Now and then the filters' false positives look the same: an estimate, not a bound, is 1e-6 per wanted
    /// label and round for n = 2^18 and k = 16, and more with k = 1 (docs/PARAMETERS.md has the command).
    #[error("a message could not be opened: it was damaged or forged")]
    Corrupted {
        /// Where.
        conversation: ConversationId,
    },
    /// A second person answers to the invitation of a contact whose keys are known; only the first is heard.
    #[error("somebody else holds the invitation of this contact, too")]
    OtherKeys {
        /// Which contact.
        conversation: ConversationId,
    },
    /// Somebody left a group, and this client, whose task it is, is not everybody's contact and cannot make new keys.
    #[error(
        "the one who left can still read this group: new keys need a member who has all others as contacts"
    )]
    RekeyNeeded {
        /// Which group.
        conversation: ConversationId,
    },
}
