//! States of version 7, and what those of versions 3 to 6 have in common with them.
//!
//! They differ in the handshakes: keys followed from X25519 alone. Conversations go on with the keys that they have;
//! invitations that nobody had answered end, and the person is told.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{State, Want};
use crate::clock::Clock;
use crate::conversation::{Conversation, ConversationId, Talk};
use crate::cycle::Cycle;
use crate::group::Group;
use crate::pair::{Pair, Pair7};
use crate::secret::Secret;
use crate::{Deposit, ManifestChain, Round, ServerParameters};

use crate::client::addresses::Addresses;
use crate::client::crowding::Crowding;
use crate::client::invitations::{Untold, Used};
use crate::client::left::LeftGroups;
use crate::client::unshown::Unshown;

#[derive(Deserialize)]
pub(super) struct State7 {
    pub(super) name: String,
    pub(super) server: ServerParameters,
    pub(super) account: Secret,
    pub(super) identity: Secret,
    pub(super) store: Secret,
    pub(super) cycle: Cycle,
    pub(super) clock: Clock,
    #[serde(with = "super::deposit")]
    pub(super) deposit: Option<(Round, Deposit)>,
    pub(super) chain: ManifestChain,
    pub(super) ready: BTreeMap<Round, Vec<u8>>,
    pub(super) wants: BTreeMap<Round, Vec<Want>>,
    pub(super) conversations: Vec<Conversation7>,
    pub(super) next_id: u32,
    pub(super) crowding: Crowding,
    pub(super) unshown: Vec<Unshown>,
    pub(super) next_text: u64,
    pub(super) used: Vec<Used>,
    pub(super) untold: Vec<Untold>,
    pub(super) addresses: Addresses,
    pub(super) root: Option<[u8; 32]>,
    pub(super) left: LeftGroups,
}

#[derive(Deserialize)]
pub(super) struct Conversation7 {
    id: ConversationId,
    name: String,
    place: u8,
    units: Vec<u16>,
    talk: Talk7,
}

// There are at most 255, and most are pairs.
#[expect(clippy::large_enum_variant)]
#[derive(Deserialize)]
enum Talk7 {
    Pair(Pair7),
    Group(Group),
}

impl From<State7> for State {
    fn from(old: State7) -> Self {
        let (mut conversations, mut untold, mut wants) = (Vec::new(), old.untold, old.wants);
        for Conversation7 { id, name, place, units, talk } in old.conversations {
            let talk = match talk {
                Talk7::Pair(pair) => {
                    if pair.meets() {
                        // Requests, answers and knocks are others now.
                        for wants in wants.values_mut() {
                            wants.retain(|want| want.conversation != id || Pair::is_talk(want.epoch));
                        }
                    }
                    match Pair::try_from(pair) {
                        Ok(pair) => Talk::Pair(pair),
                        Err(unfinished) => {
                            untold.push(Untold::expired(id, name, &unfinished));
                            continue;
                        }
                    }
                }
                Talk7::Group(group) => Talk::Group(group),
            };
            conversations.push(Conversation { id, name, place, units, talk });
        }
        Self {
            name: old.name,
            server: old.server,
            account: old.account,
            identity: old.identity.into(),
            store: old.store,
            cycle: old.cycle,
            clock: old.clock,
            deposit: old.deposit,
            chain: old.chain,
            ready: old.ready,
            wants,
            conversations,
            next_id: old.next_id,
            crowding: old.crowding,
            unshown: old.unshown,
            next_text: old.next_text,
            used: old.used,
            untold,
            addresses: old.addresses,
            root: old.root,
            left: old.left,
        }
    }
}
