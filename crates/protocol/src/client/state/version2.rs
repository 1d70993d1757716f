//! States of version 2, which the program of protocol version 1 wrote.
//!
//! What was under way in rounds of that version is given up: the server retires them. Conversations whose keys both ends
//! had go on with them; invitations that nobody had answered end, and the person is told.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::State;
use crate::clock::Clock;
use crate::conversation::{Conversation, ConversationId, Talk};
use crate::cycle::Cycle2;
use crate::group::version2::Group2;
use crate::negotiation::RoundMode;
use crate::pair::{Pair, Pair2};
use crate::seal::OpeningKey;
use crate::secret::Secret;
use crate::{CodeKind, Deposit, Error, ManifestChain, Round, SeedCommitment, ServerParameters};

use crate::client::addresses::Addresses;
use crate::client::crowding::Crowding;
use crate::client::invitations::Untold;
use crate::client::left::LeftGroups;
use crate::client::unshown::Offered;

#[derive(Deserialize)]
pub(super) struct State2 {
    name: String,
    server: ServerParameters2,
    account: Secret,
    _pir: Secret,
    identity: Secret,
    store: Secret,
    cycle: Cycle2,
    clock: Clock,
    #[serde(with = "super::deposit")]
    _deposit: Option<(Round, Deposit)>,
    chain: ManifestChain,
    _ready: BTreeMap<Round, Vec<u8>>,
    _wants: BTreeMap<Round, Vec<Want2>>,
    conversations: Vec<Conversation2>,
    next_id: u32,
}

#[derive(Deserialize)]
struct ServerParameters2 {
    protocol_version: u16,
    manifest_key: [u8; 32],
    engine: String,
    security_bits: u32,
    code: CodeKind,
    retrieve: u16,
    buckets: u16,
    choices: u8,
    retained: u8,
    mode: RoundMode,
    round_ms: u32,
    deposit_ms: u32,
    lookup_ms: u32,
    query_ms: u32,
}

#[derive(Deserialize)]
struct Want2 {
    _conversation: ConversationId,
    _epoch: u32,
    _member: u8,
    _key: OpeningKey,
}

#[derive(Deserialize)]
struct Conversation2 {
    id: ConversationId,
    name: String,
    place: u8,
    units: Vec<u16>,
    talk: Talk2,
}

// There are at most 255, and most are pairs.
#[expect(clippy::large_enum_variant)]
#[derive(Deserialize)]
enum Talk2 {
    Pair(Pair2),
    Group(Group2),
}

impl TryFrom<State2> for State {
    type Error = Error;

    fn try_from(old: State2) -> Result<Self, Error> {
        let (newest, _) = old.clock.newest();
        let mut untold = Vec::new();
        let mut conversations = Vec::new();
        for Conversation2 { id, name, place, units, talk } in old.conversations {
            let talk = match talk {
                Talk2::Pair(pair) => match Pair::try_from(pair) {
                    Ok(pair) => Some(Talk::Pair(pair)),
                    Err(unfinished) => {
                        let (accepted, texts) = (unfinished.accepted, unfinished.texts);
                        let contact = name.clone();
                        untold.push(Untold::Expired { conversation: id, contact, accepted, texts });
                        None
                    }
                },
                Talk2::Group(group) => group.resume(newest).map(Talk::Group),
            };
            conversations.extend(talk.map(|talk| Conversation { id, name, place, units, talk }));
        }
        Ok(Self {
            name: old.name,
            server: old.server.into(),
            account: old.account,
            identity: old.identity.into(),
            store: old.store,
            cycle: old.cycle.try_into()?,
            clock: old.clock,
            deposit: None,
            chain: old.chain,
            ready: BTreeMap::new(),
            wants: BTreeMap::new(),
            conversations,
            next_id: old.next_id,
            crowding: Crowding::default(),
            unshown: Vec::new(),
            next_text: 1,
            used: Vec::new(),
            untold,
            addresses: Addresses::default(),
            root: None,
            left: LeftGroups::default(),
            offered: Offered::new(),
        })
    }
}

impl From<ServerParameters2> for ServerParameters {
    /// Without a number, which every announcement of today has and exceeds: the next one is taken over.
    fn from(old: ServerParameters2) -> Self {
        Self {
            serial: 0,
            seeds: SeedCommitment::default(),
            protocol_version: old.protocol_version,
            manifest_key: old.manifest_key,
            engine: old.engine,
            security_bits: old.security_bits,
            code: old.code,
            retrieve: old.retrieve,
            buckets: old.buckets,
            choices: old.choices,
            retained: old.retained,
            mode: old.mode,
            round_ms: old.round_ms,
            deposit_ms: old.deposit_ms,
            lookup_ms: old.lookup_ms,
            query_ms: old.query_ms,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: crate::KeyEpoch::ENDLESS,
        }
    }
}
