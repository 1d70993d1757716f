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
    /// A member has left a group. Until [`Notice::NewKeys`] it can still read it.
    Left {
        /// Which group.
        conversation: ConversationId,
        /// The member's name.
        from: String,
    },
    /// Nobody has answered to an invitation in its time. Its conversation is gone.
    Expired {
        /// The number that it had.
        conversation: ConversationId,
        /// The name that the contact had.
        contact: String,
        /// Whether it came from the contact; otherwise it was made here.
        accepted: bool,
        /// Texts that waited for the contact, and are gone, too.
        texts: u32,
    },
    /// A member was removed from a group. What is said from now on it cannot read.
    Removed {
        /// Which group.
        conversation: ConversationId,
        /// The name of the one who did it.
        by: String,
        /// The removed member's name.
        member: String,
        /// Whether that is this person, for whom the group has ended.
        yourself: bool,
    },
    /// A group has new keys, which no card gives, nor anybody's who has gone.
    NewKeys {
        /// Which group.
        conversation: ConversationId,
    },
    /// A text will not be sent, or sent no more: the conversation has ended for this person, or it was said while a member
    /// was to be removed who stays.
    NotSent {
        /// Where.
        conversation: ConversationId,
        /// Which.
        message: MessageId,
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
            Self::Expired { .. } => f.write_str("Expired(..)"),
            Self::Removed { .. } => f.write_str("Removed(..)"),
            Self::NewKeys { .. } => f.write_str("NewKeys(..)"),
            Self::NotSent { .. } => f.write_str("NotSent(..)"),
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
    /// A directory of the server's nodes was refused, and the one before holds.
    #[error("what the server says of where its nodes are was refused: {0}")]
    BadDirectory(Error),
    /// A mapping was refused, and its round was retrieved with random queries only.
    #[error("the mapping of round {round} was refused")]
    BadMapping {
        /// Which round.
        round: Round,
    },
    /// Some answers of a round were none. An honest server gives all of them or nothing, and none of them was read.
    #[error("the server spoiled some of its answers of round {round}: nothing of it was read")]
    BadAnswers {
        /// Which round.
        round: Round,
    },
    /// A box was read under a label that the mapping does not show in all buckets where it stands. Honest filters forget
    /// nothing (less than once in 2^29): the server hides copies of boxes, so that a contact sees which bucket was read.
    #[error("the mapping of round {round} is false: the server hides where a message stands")]
    FalseMapping {
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
    /// The one whose invitation it is, or who answers to it, is another contact or this person. The other side cannot see
    /// that this was noticed, as long as the conversation is kept.
    #[error(
        "this invitation leads to yourself or to a contact you have already: somebody passed it on, or you met before; \
         nothing can be said here, and what waited was not sent"
    )]
    IdentityHeld {
        /// Which contact.
        conversation: ConversationId,
        /// As whom the person is known; `None` if it is this client's own.
        held: Option<ConversationId>,
    },
    /// More rounds were missed than the server keeps manifests for. That its history before them and since is one can no
    /// longer be checked.
    #[error("too many rounds were missed to check that the server still tells the same history")]
    HistoryLost,
    /// Somebody left a group, and this client, whose task it is, is not everybody's contact and cannot make new keys.
    #[error(
        "who has left, or is to be removed, can still read this group, and what you say to it waits while you remove \
         somebody: for new keys you need all other members as contacts"
    )]
    RekeyNeeded {
        /// Which group.
        conversation: ConversationId,
    },
    /// This client, which made a group, is not everybody's contact and cannot make other keys than those of the card.
    #[error(
        "whoever finds the card can read this group: for other keys you need all other members as contacts"
    )]
    CardKeys {
        /// Which group.
        conversation: ConversationId,
    },
    /// New keys were handed out of which members who are there have others, or none. Nobody changes to them.
    #[error(
        "members of this group were not all given the same new keys; what changes with them waits, see who has not got them"
    )]
    KeysDiffer {
        /// Which group.
        conversation: ConversationId,
    },
    /// A member whose right it is not tried to change a group's keys, and with them its members.
    #[error("a member tried to change this group's keys or members without the right to, and was not heeded")]
    RekeyRefused {
        /// Which group.
        conversation: ConversationId,
    },
    /// A member of a group bears the name of one of this person's contacts and is somebody else.
    #[error("a member of this group has the name of a contact of yours, and is somebody else")]
    NameBorrowed {
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
