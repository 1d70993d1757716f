//! States of version 5, which the program of protocol version 3 wrote.
//!
//! The server had announced no epoch of its manifest key, and the root key was not kept.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{State, Want};
use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::cycle::Cycle;
use crate::negotiation::RoundMode;
use crate::secret::Secret;
use crate::{CodeKind, Deposit, KeyEpoch, ManifestChain, Round, SeedCommitment, ServerParameters};

use crate::client::addresses::Addresses;
use crate::client::crowding::Crowding;
use crate::client::invitations::{Untold, Used};
use crate::client::left::LeftGroups;
use crate::client::unshown::{Offered, Unshown};

#[derive(Deserialize)]
pub(super) struct State5 {
    name: String,
    server: ServerParameters5,
    account: Secret,
    identity: Secret,
    store: Secret,
    cycle: Cycle,
    clock: Clock,
    #[serde(with = "super::deposit")]
    deposit: Option<(Round, Deposit)>,
    chain: ManifestChain,
    ready: BTreeMap<Round, Vec<u8>>,
    wants: BTreeMap<Round, Vec<Want>>,
    conversations: Vec<Conversation>,
    next_id: u32,
    crowding: Crowding,
    unshown: Vec<Unshown>,
    next_text: u64,
    used: Vec<Used>,
    untold: Vec<Untold>,
    addresses: Addresses,
}

#[derive(Deserialize)]
struct ServerParameters5 {
    protocol_version: u16,
    serial: u64,
    manifest_key: [u8; 32],
    seeds: SeedCommitment,
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
    deposit_spread_ms: u32,
    query_spread_ms: u32,
}

impl From<State5> for State {
    fn from(old: State5) -> Self {
        Self {
            name: old.name,
            server: old.server.into(),
            account: old.account,
            identity: old.identity.into(),
            store: old.store,
            cycle: old.cycle,
            clock: old.clock,
            deposit: old.deposit,
            chain: old.chain,
            ready: old.ready,
            wants: old.wants,
            conversations: old.conversations,
            next_id: old.next_id,
            crowding: old.crowding,
            unshown: old.unshown,
            next_text: old.next_text,
            used: old.used,
            untold: old.untold,
            addresses: old.addresses,
            root: None,
            left: LeftGroups::default(),
            offered: Offered::new(),
        }
    }
}

impl From<ServerParameters5> for ServerParameters {
    /// The first epoch; when it ends, the next announcement says, which has a higher number and is taken over.
    fn from(old: ServerParameters5) -> Self {
        Self {
            protocol_version: old.protocol_version,
            serial: old.serial,
            manifest_key: old.manifest_key,
            seeds: old.seeds,
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
            deposit_spread_ms: old.deposit_spread_ms,
            query_spread_ms: old.query_spread_ms,
            key_epoch: KeyEpoch::ENDLESS,
        }
    }
}
