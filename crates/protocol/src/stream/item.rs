//! Numbered messages, and the check of all of them up to one.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::message::{FIRST, Kind, MORE, REST};
use crate::{Round, domain};

/// A numbered message.
#[derive(Clone, Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) sequence: u32,
    #[zeroize(skip)]
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) content: Vec<u8>,
    #[zeroize(skip)]
    pub(super) sent: Option<Sent>,
    /// Of this message and those before it; on its way, of those before it.
    pub(super) check: u32,
}

impl Item {
    /// What has come from one who says that it follows messages with this check.
    pub(crate) fn received(before: u32, sequence: u32, kind: Kind, flags: u8, content: &[u8]) -> Self {
        Self {
            sequence,
            kind,
            flags: flags & (MORE | REST | FIRST),
            content: content.to_vec(),
            sent: None,
            check: before,
        }
    }

    /// The check of the messages before one that was given out to be sent, or that was received.
    pub(crate) fn before(&self) -> u32 {
        self.check
    }

    /// Whether its number stands for a whole text.
    pub(super) fn ends_text(&self) -> bool {
        self.kind == Kind::Text && self.flags & MORE == 0
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) turn: u64,
    pub(super) round: Round,
}

/// The check of all messages up to one, from that of those before it: the first four bytes of SHA-256 over a domain, that
/// check, the message's number, its kind and its content. Before the first message it is 0.
pub(crate) fn check(before: u32, item: &Item) -> u32 {
    let digest: [u8; 32] = Sha256::new_with_prefix(domain::MESSAGE_CHECK)
        .chain_update([0])
        .chain_update(before.to_le_bytes())
        .chain_update(item.sequence.to_le_bytes())
        .chain_update([item.kind.code()])
        .chain_update(&item.content)
        .finalize()
        .into();
    u32::from_le_bytes(core::array::from_fn(|i| digest[i]))
}
