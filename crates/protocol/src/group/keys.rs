//! What a group's change of keys consists of, and what comes of it.

use serde::{Deserialize, Serialize};

use crate::Round;
use crate::ratchet::Chain;

/// A member in a set of bits.
pub(super) fn bit(member: u8) -> u8 {
    1_u8.checked_shl(member.into()).unwrap_or(0)
}

/// Members as such a set; each comes once.
pub(super) fn bits(members: impl Iterator<Item = u8>) -> u8 {
    members.map(bit).sum()
}

/// Keys that a group is changing to.
#[derive(Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) epoch: u32,
    pub(super) excluded: u8,
    pub(super) start: Round,
    pub(super) mark: [u8; 32],
    pub(super) since: Round,
    pub(super) send: Chain,
    /// By member; of those who have the keys.
    pub(super) chains: Vec<Option<Chain>>,
    /// Members, as bits, who have shown the mark.
    pub(super) confirmed: u8,
    /// Members, as bits, heard under these keys.
    pub(super) heard: u8,
    /// The person was told that members were given different keys.
    pub(super) told: bool,
}

impl Change {
    /// Whether to listen to a member under these keys in this round, and not under the present ones: it may have changed
    /// over already, and there is but one box for each member to look for.
    pub(super) fn listens(&self, member: u8, round: Round) -> bool {
        self.excluded & bit(member) == 0 && (self.has_confirmed(member) || round.0 % 2 == 1)
    }

    pub(super) fn has_confirmed(&self, member: u8) -> bool {
        self.confirmed & bit(member) != 0
    }
}

/// What falls to a member when a block of rounds begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Nothing,
    /// To make new keys.
    NewKeys,
    /// To make new keys if one of these members, by identity, has taken all that it was handed.
    NewKeysFor(Vec<[u8; 32]>),
    /// To ask these members for new keys.
    Ask(Vec<[u8; 32]>),
}

/// What a group has to tell its person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum News {
    /// A member has left.
    Left(u8),
    /// One member removed another.
    Removed { by: u8, member: u8 },
    /// What was said under this number has arrived with all who are present.
    Acknowledged(u32),
    /// What was said under this number will not be sent.
    NotSent(u32),
    /// All present members but those named by [`super::Member::confirmed`] have new keys.
    NewKeys,
    /// The group stays under the keys of its card.
    CardKeys,
    /// One who has gone still has the group's keys.
    RekeyNeeded,
    /// The keeper gave members different keys, or some of them none.
    KeysDiffer,
    /// A member who is not the keeper made new keys.
    RekeyRefused,
    /// A member bears the name of a contact and is somebody else.
    NameBorrowed,
}
