//! What a client tells its person.

use core::fmt;

use super::MessageId;
use crate::conversation::ConversationId;
use crate::{Error, Round};

/// Something that happened. What was said, and by whom, does not print itself.
#[derive(Clone, PartialEq, Eq)]
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
        /// By which the client is told that it was shown: [`super::Client::shown`].
        number: u64,
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

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Established { .. } => f.write_str("Established(..)"),
            Self::Text { .. } => f.write_str("Text(..)"),
            Self::Acknowledged { .. } => f.write_str("Acknowledged(..)"),
            Self::Left { .. } => f.write_str("Left(..)"),
            Self::Warning(warning) => f.debug_tuple("Warning").field(warning).finish(),
        }
    }
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
    /// The labels of boxes that are waited for stand at several positions more often than honest filters make them: the
    /// server writes false mappings, or somebody deposits under the labels of a contact. Either loses messages, which
    /// are repeated.
    #[error("messages are being crowded out: the server or a contact makes their places ambiguous")]
    Crowded,
    /// What a contact has, or keeps, shows that this client's state, or that of the contact, is older than one that was in
    /// use: it was restored from a backup, or two copies of it are in use. Messages that came to the other copy are lost to
    /// this one; what waits to be sent is sent again.
    #[error(
        "your state or this contact's is older than one that was in use (a restored backup, or a copy): some messages may \
         be missing, and some may come twice"
    )]
    WentBack {
        /// Where it was noticed.
        conversation: ConversationId,
    },
    /// A second person answers to the invitation of a contact whose keys are known; only the first is heard.
    #[error("somebody else holds the invitation of this contact, too")]
    OtherKeys {
        /// Which contact.
        conversation: ConversationId,
    },
    /// The one who answers to an invitation has the identity of another contact, or this client's own, and is not heard.
    #[error("whoever answers to this invitation is yourself or a contact you have already, and is not heard")]
    IdentityHeld {
        /// Which contact.
        conversation: ConversationId,
    },
    /// More rounds were missed than the server keeps manifests for. That its history before them and since is one can no
    /// longer be checked.
    #[error("too many rounds were missed to check that the server still tells the same history")]
    HistoryLost,
    /// Somebody left a group, and this client, whose task it is, is not everybody's contact and cannot make new keys.
    #[error(
        "the one who left can still read this group: new keys need a member who has all others as contacts"
    )]
    RekeyNeeded {
        /// Which group.
        conversation: ConversationId,
    },
}

#[cfg(test)]
mod tests {
    use super::Notice;
    use crate::ConversationId;

    #[test]
    fn a_text_and_its_sender_do_not_print_themselves() {
        let (from, text) = ("alice".to_owned(), "a secret".to_owned());
        let conversation = ConversationId(1);
        let left = Notice::Left { conversation, from: from.clone() };
        let notices = [Notice::Text { conversation, from, text, sequence: 77, number: 1 }, left];
        assert_eq!(format!("{notices:?}"), "[Text(..), Left(..)]");
    }
}
