//! What goes into a conversation in a round, and what comes out of it.

use crate::Round;
use crate::message::Head;
use crate::seal::OpeningKey;
use crate::stream::Delivered;

/// A round as a conversation sees it.
pub(crate) struct Turn<'a> {
    pub(crate) round: Round,
    /// Whether the conversation may send.
    pub(crate) mine: bool,
    /// The slot of this person, which the knocks of hellos tell, on a server that has slots.
    pub(crate) slot: Option<u32>,
    /// The last round of the epoch, where queries stand: in all of its rounds a knock is looked for in one cell, that of the label
    /// of the last.
    pub(crate) last: Option<Round>,
    /// Whether the conversation's knock may be in that cell: in the first of its turns in the epoch, so that nobody sees it twice.
    pub(crate) knocks: bool,
    /// The newest verified manifest.
    pub(crate) head: Option<Head>,
    pub(crate) identity: &'a ed25519_dalek::SigningKey,
}

/// A box to look for.
pub(crate) struct Listening {
    pub(crate) epoch: u32,
    pub(crate) member: u8,
    pub(crate) key: OpeningKey,
    /// Whether it gives way where it would have another box looked for more seldom.
    pub(crate) spare: bool,
}

impl Listening {
    pub(crate) fn to(epoch: u32, member: u8, key: OpeningKey) -> Self {
        Self { epoch, member, key, spare: false }
    }
}

/// What came of a message.
pub(crate) enum Event {
    Established,
    Acknowledged(u32),
    Delivered {
        member: u8,
        whole: Delivered,
    },
    /// This client, or a copy of it, has said or read more than it knows of.
    WentBack,
    OtherKeys,
    /// The identity is this person's own or that of another contact.
    IdentityHeld,
}
