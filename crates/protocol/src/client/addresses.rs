//! Where this person's boxes lie, and those of others, on a server with slots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::{Client, State, Want};
use crate::conversation::Talk;
use crate::table::Address;

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
    /// Of contacts and members of groups, by their identity keys.
    known: BTreeMap<[u8; 32], u32>,
}

impl Addresses {
    pub(super) fn number(&self) -> Option<u32> {
        self.own.as_ref().map(|slot| slot.number)
    }

    pub(super) fn of(&self, identity: &[u8; 32]) -> Option<u32> {
        self.known.get(identity).copied()
    }

    /// Somebody has said itself where it is heard.
    pub(super) fn meet(&mut self, identity: [u8; 32], slot: u32) {
        self.known.insert(identity, slot);
    }

    /// Somebody else has said so, of one who has not.
    pub(super) fn hear_of(&mut self, identity: [u8; 32], slot: u32) {
        self.known.entry(identity).or_insert(slot);
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
    /// Where a wanted box would lie: in its author's slot, or, as long as that is not known, in the drop of its label.
    pub(super) fn address_of(&self, want: &Want) -> Address {
        let conversation = self.conversation(want.conversation).ok();
        let author = conversation.and_then(|conversation| conversation.author(want.epoch, want.member));
        let slot = author.and_then(|identity| self.addresses.of(&identity));
        slot.map_or_else(|| Address::drop_of(&want.key.label()), Address::Slot)
    }

    /// Forgets the slots of those with whom this person shares no conversation any more.
    pub(super) fn forget_strangers(&mut self) {
        let conversations = &self.conversations;
        self.addresses.known.retain(|identity, _| {
            conversations.iter().any(|conversation| match &conversation.talk {
                Talk::Pair(pair) => pair.peer_identity().as_ref() == Some(identity),
                Talk::Group(group) => group.members().any(|member| member.identity == *identity),
            })
        });
    }
}
