//! What comes, put in order and together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{AHEAD_MAX, Item, TEXT_MAX, WINDOW, WentBack, check};
use crate::Round;
use crate::message::{FIRST, Kind, MORE, REST};
use crate::reaction::block;

/// What has come from one peer.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Inbox {
    /// All up to this number have come, and have been delivered.
    pub(super) complete: u32,
    /// Of all these messages.
    pub(super) check: u32,
    /// What came before its turn; in a group also the last that were taken, without their content, for their checks.
    pub(super) near: BTreeMap<u32, Item>,
    pub(super) partial: Partial,
    /// Something has come in this block.
    pub(super) owed: bool,
    pub(super) block: u64,
    /// As the present block began: what to acknowledge, and whether that is waited for.
    pub(super) told: Told,
    /// Nothing numbered is taken.
    pub(super) full: bool,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) complete: u32,
    pub(super) check: u32,
    pub(super) sign: Sign,
}

/// The acknowledgement that a peer waits for in a block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sign {
    /// It waits for none.
    #[default]
    None,
    /// It has not been given.
    Owed,
    /// It has been given in this block. The peer may have missed it, so turns that are left over give it again.
    Given,
}

/// The beginning of a text whose end has not come.
#[derive(Default, Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
pub(super) struct Partial {
    pub(super) text: Vec<u8>,
    pub(super) too_long: bool,
}

/// A whole message.
pub(crate) struct Delivered {
    pub(crate) sequence: u32,
    pub(crate) kind: Kind,
    /// `None` for a text beyond all limits, or without its beginning.
    pub(crate) content: Option<Zeroizing<Vec<u8>>>,
}

impl Inbox {
    /// Opens a round.
    pub(crate) fn begin(&mut self, round: Round) {
        if block(round) > self.block {
            self.block = block(round);
            let owed = self.told.sign == Sign::Owed || self.owed;
            let sign = if owed { Sign::Owed } else { Sign::None };
            self.told = Told { complete: self.complete, check: self.check, sign };
            self.owed = false;
        }
    }

    /// Whether numbered messages are taken. The others are not acknowledged.
    pub(crate) fn make_room(&mut self, room: bool) {
        self.full = !room;
    }

    /// Takes a numbered message and returns those that are now complete, in order, each exactly once; and whether numbers
    /// before them are passed over because this client has had them and has gone back.
    pub(crate) fn accept(&mut self, item: Item) -> (Vec<Delivered>, Result<(), WentBack>) {
        if self.full {
            return (Vec::new(), Ok(()));
        }
        self.owed = true;
        let before = item.sequence.saturating_sub(1);
        if before == self.complete && before > 0 && self.check == 0 {
            // From a time without checks: the peer's are taken for right.
            self.check = item.check;
        }
        let went_back =
            item.flags & FIRST != 0 && before > self.complete && before - self.complete <= AHEAD_MAX;
        if went_back {
            self.near.retain(|sequence, _| *sequence > before);
            (self.complete, self.check, self.partial) = (before, item.check, Partial::default());
        }
        (self.take(item), if went_back { Err(WentBack) } else { Ok(()) })
    }

    fn take(&mut self, item: Item) -> Vec<Delivered> {
        let ahead = item.sequence.saturating_sub(self.complete);
        if ahead == 0 || ahead > WINDOW {
            return Vec::new();
        }
        self.near.insert(item.sequence, item);
        let mut delivered = Vec::new();
        // One that follows something else is not taken: the acknowledgement will show its sender what there is, and a text
        // is never put together of parts of two.
        while let Some(item) = self.near.remove(&self.complete.saturating_add(1))
            && item.check == self.check
        {
            self.complete = item.sequence;
            self.check = check(self.check, &item);
            delivered.extend(self.assemble(&item));
        }
        delivered
    }

    pub(super) fn assemble(&mut self, item: &Item) -> Option<Delivered> {
        if item.kind != Kind::Text && item.flags & REST == 0 {
            // Of a text before it the rest was taken back, by one who leaves.
            self.partial = Partial::default();
        }
        // Whoever has gone back may not have the beginning any more: what is left of a text is not one.
        self.partial.too_long |= item.flags & REST != 0 && self.partial.text.is_empty();
        if self.partial.text.len() + item.content.len() > TEXT_MAX {
            self.partial.too_long = true;
            self.partial.text.zeroize();
        }
        if !self.partial.too_long {
            self.partial.text.extend_from_slice(&item.content);
        }
        if item.flags & MORE != 0 {
            return None;
        }
        let mut whole = core::mem::take(&mut self.partial);
        let text = Zeroizing::new(core::mem::take(&mut whole.text));
        let content = (!whole.too_long).then_some(text);
        Some(Delivered { sequence: item.sequence, kind: item.kind, content })
    }

    /// What to acknowledge in this block, and the check of the messages up to there.
    pub(crate) fn acknowledgement(&self) -> (u32, u32) {
        (self.told.complete, self.told.check)
    }

    /// Whether something had come before this block that no acknowledgement has followed.
    pub(crate) fn owed(&self) -> bool {
        self.told.sign == Sign::Owed
    }

    /// Whether an acknowledgement is better than nothing: one is owed, or has been in this block. A peer that misses the
    /// same round of every block would miss the only one, and say again for ever what has arrived.
    pub(crate) fn acknowledges(&self) -> bool {
        self.told.sign != Sign::None
    }

    /// The peer asks for a sign.
    pub(crate) fn owe(&mut self) {
        self.owed = true;
    }

    /// An acknowledgement was sent.
    pub(crate) fn settle(&mut self) {
        if self.told.sign == Sign::Owed {
            self.told.sign = Sign::Given;
        }
    }
}
