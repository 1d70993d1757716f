//! A conversation of two as states of version 2 hold it.

use serde::Deserialize;

use super::{Chains, Pair, Stage};
use crate::Round;
use crate::pair::handshake::Keys;
use crate::secret::Secret;
use crate::stream::{Inbox2, Outbox2};

#[derive(Deserialize)]
pub(crate) struct Pair2 {
    inviter: bool,
    _mark: [u8; 8],
    _start: Round,
    _keys: Keys,
    _handshake: Option<Handshake2>,
    peer: Option<Keys>,
    peer_has_mine: bool,
    epoch_1: Option<Chains>,
    outbox: Outbox2,
    inbox: Inbox2,
}

#[derive(Deserialize)]
struct Handshake2 {
    _invitation: Secret,
    _exchange: Secret,
    _epoch_0: Chains,
}

/// One that had not begun: its invitation is none any more.
pub(crate) struct Unfinished {
    pub(crate) accepted: bool,
    pub(crate) texts: u32,
}

impl TryFrom<Pair2> for Pair {
    type Error = Unfinished;

    /// The keys go on as they are, if both had them.
    fn try_from(old: Pair2) -> Result<Self, Unfinished> {
        let Pair2 { inviter, peer, peer_has_mine, epoch_1, outbox, inbox, .. } = old;
        match (peer, epoch_1) {
            (Some(peer), Some(chains)) if peer_has_mine => Ok(Self {
                inviter,
                peer: Some(peer.identity),
                chains: Some(chains),
                outbox: outbox.into(),
                inbox: inbox.into(),
                stage: Stage::Classical,
                double: false,
            }),
            _ => Err(Unfinished { accepted: !inviter, texts: outbox.texts() }),
        }
    }
}
