//! Where this person's boxes lie, and those of others, on a server with slots.

use core::ops::Range;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::{Client, State, Want};
use crate::conversation::{ConversationId, Talk};
use crate::pair::Pair;
use crate::table::Table;

/// Bytes by which a server knows again whose slot it is.
const CREDENTIAL_BYTES: usize = 16;

/// The slot of an account, and what shows to its server that it is. Nothing is stored there of who has which.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnSlot {
    /// Its number.
    pub number: u32,
    /// What the server gave with it.
    pub credential: [u8; CREDENTIAL_BYTES],
}

impl Drop for OwnSlot {
    fn drop(&mut self) {
        self.credential.zeroize();
    }
}

impl core::fmt::Debug for OwnSlot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OwnSlot(..)")
    }
}

/// Slots that are known.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Addresses {
    own: Option<OwnSlot>,
    /// Of those with whom one talks, or is about to.
    peers: BTreeMap<ConversationId, u32>,
    /// Of the members of each group, by their identity keys, as the group's card told. Nothing else decides where a member is
    /// heard: who writes a card with a false slot must not see, by whether the member is heard all the same, who knows whom.
    members: BTreeMap<(ConversationId, [u8; 32]), u32>,
}

/// Where something wanted is in a round's table.
pub(super) struct Whereabouts {
    /// The place to read.
    pub(super) place: u32,
    /// Where in it, if it is a knock.
    pub(super) cell: Option<Range<usize>>,
}

impl Addresses {
    pub(super) fn number(&self) -> Option<u32> {
        self.own.as_ref().map(|slot| slot.number)
    }

    pub(super) fn of(&self, peer: ConversationId) -> Option<u32> {
        self.peers.get(&peer).copied()
    }

    pub(super) fn of_member(&self, group: ConversationId, identity: [u8; 32]) -> Option<u32> {
        self.members.get(&(group, identity)).copied()
    }

    /// A knock has told where somebody is found.
    pub(super) fn heard(&mut self, peer: ConversationId, slot: u32) {
        self.peers.insert(peer, slot);
    }

    /// A card has told where a member is found.
    pub(super) fn hear_of(&mut self, group: ConversationId, identity: [u8; 32], slot: u32) {
        self.members.insert((group, identity), slot);
    }
}

impl Client {
    /// The slot of this account, if the server has given it one.
    #[must_use]
    pub fn slot(&self) -> Option<&OwnSlot> {
        self.state.addresses.own.as_ref()
    }

    /// Keeps the slot that the server has given to this account. The caller stores [`Client::snapshot`] before it uses it.
    pub fn keep_slot(&mut self, slot: OwnSlot) {
        self.state.addresses.own = Some(slot);
    }
}

impl State {
    /// Where something wanted would lie in a table; nowhere as long as its author's slot is not known.
    pub(super) fn whereabouts(&self, want: &Want, table: Table) -> Option<Whereabouts> {
        let slot = match &self.conversation(want.conversation).ok()?.talk {
            Talk::Pair(_) if Pair::is_knock(want.epoch) => {
                let (place, cell) = table.cell(&want.key.label());
                return Some(Whereabouts { place, cell: Some(cell) });
            }
            Talk::Pair(_) => self.addresses.of(want.conversation),
            Talk::Group(group) => {
                self.addresses.of_member(want.conversation, group.identity_of(want.member)?)
            }
        };
        table.place(slot?).map(|place| Whereabouts { place, cell: None })
    }

    /// The slot of a contact, as it told itself.
    pub(super) fn slot_of(&self, identity: &[u8; 32]) -> Option<u32> {
        self.contact(identity).and_then(|contact| self.addresses.of(contact.id))
    }

    /// Forgets the slots of those with whom this person shares no conversation any more.
    pub(super) fn forget_strangers(&mut self) {
        let conversations = &self.conversations;
        self.addresses.peers.retain(|peer, _| conversations.iter().any(|talk| talk.id == *peer));
        self.addresses.members.retain(|(group, _), _| conversations.iter().any(|talk| talk.id == *group));
    }
}
