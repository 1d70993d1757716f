//! Reliable delivery over rounds that lose, repeat and reorder: sequence numbers, a window, repeats until acknowledged.
//!
//! One [`Outbox`] per conversation and one [`Inbox`] per peer in it. Sequence numbers count from 1 and go on when keys
//! change.
//!
//! A message carries a check of all before it, and is taken behind exactly these: parts of two texts are never put
//! together, and what a reader has after a message follows from that message alone.
//!
//! Two signs tell that one end has gone back to an older state of its own, from a backup or a copy. An acknowledgement
//! carries a check of all messages up to the one it names: if they are not those that were sent under these numbers, the
//! sender numbers what it has to say anew, behind what the other has. And the oldest message that a sender keeps is marked
//! ([`FIRST`]): whoever misses one before that has gone back, and passes over what will never come. In the first case a
//! message can come twice, and in neither is one taken for arrived that was not. That is so between two; [`shared`] says
//! how groups differ.
//!
//! What is said follows from what was read before the present block of rounds ([`crate::reaction`]): acknowledgements that
//! are sent, and the choice of what is sent or repeated, change with the blocks only.

#[cfg(test)]
mod attack;
mod shared;
mod version2;

use core::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::error::InputError;
use crate::message::{FIRST, Kind, MORE, REST};
use crate::reaction::block;
use crate::{Error, Round, domain};

pub(crate) use version2::{Inbox2, Outbox2};

/// Most messages that are sent and not acknowledged.
pub(crate) const WINDOW: u32 = 16;
/// Most bytes of one text.
pub const TEXT_MAX: usize = 16 * 1024;
/// Most texts that wait in one conversation.
pub const TEXTS_MAX: usize = 64;

/// A message is overdue after this many turns of its conversation.
const OVERDUE_TURNS: u64 = 3;
/// And when it was sent so many blocks before: it was acknowledged in the block after its own, and is forgotten when
/// that has ended.
const OVERDUE_BLOCKS: u64 = 2;

/// A numbered message.
#[derive(Clone, Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) sequence: u32,
    #[zeroize(skip)]
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) content: Vec<u8>,
    #[zeroize(skip)]
    sent: Option<Sent>,
    /// Of this message and those before it; on its way, of those before it.
    check: u32,
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
    fn ends_text(&self) -> bool {
        self.kind == Kind::Text && self.flags & MORE == 0
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Sent {
    turn: u64,
    round: Round,
}

/// What one side of a conversation has to say, until it is acknowledged.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Outbox {
    /// The number of the newest message; 0 before the first.
    newest: u32,
    turn: u64,
    items: VecDeque<Item>,
    block: u64,
    /// Up to here all is acknowledged. When the next block begins it is forgotten or, of a text that has not arrived as a
    /// whole, marked with [`KEPT`].
    acknowledged: u32,
    /// The number of the newest message forgotten, and its check.
    forgotten: (u32, u32),
    /// An acknowledgement, number and check, of something else than was sent, or of less than was acknowledged. It is heeded
    /// when the next block begins; until then nothing is taken for arrived.
    stray: Option<(u32, u32)>,
    /// Of two: it comes from a time without checks, and the peer may have none. In a group:
    /// the person is not told of a check of something else, before anything more has arrived.
    unchecked: bool,
}

/// A flag of items that stay here: acknowledged when the block began.
const KEPT: u8 = 128;
/// How far the other end's numbers may be ahead of a sender that has gone back.
const AHEAD_MAX: u32 = 1 << 24;
/// More numbers than the keys of a group with all its farewells take.
const NUMBERS_KEPT: u32 = 64;

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

/// The two ends do not have the same messages under the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WentBack;

impl Outbox {
    /// Appends a message, in fragments of at most `fragment` bytes, and returns the number of the last of them, which
    /// stands for the whole.
    ///
    /// # Errors
    /// [`Error::Input`] if it is too long, or too many wait, or all sequence numbers are used.
    pub(crate) fn push(&mut self, kind: Kind, content: &[u8], fragment: usize) -> Result<u32, Error> {
        if content.len() > TEXT_MAX {
            return Err(Error::Input(InputError::TextTooLong));
        }
        if kind == Kind::Text && self.texts() >= TEXTS_MAX {
            return Err(Error::Input(InputError::TooManyTexts));
        }
        let fragments = content.len().div_ceil(fragment).max(1);
        let last = u32::try_from(fragments).ok().and_then(|fragments| self.newest.checked_add(fragments));
        let last = last.ok_or(Error::Input(InputError::SequenceUsedUp))?;
        let (mut rest, mut begun) = (content, 0);
        while self.newest < last {
            let (content, later) = rest.split_at(rest.len().min(fragment));
            rest = later;
            self.newest += 1;
            let flags = begun | if self.newest < last { MORE } else { 0 };
            begun = REST;
            let content = content.to_vec();
            let mut item = Item { sequence: self.newest, kind, flags, content, sent: None, check: 0 };
            let before = self.items.back().map_or(self.forgotten.1, |before| before.check);
            item.check = check(before, &item);
            self.items.push_back(item);
        }
        Ok(last)
    }

    /// Opens a round.
    pub(crate) fn begin(&mut self, round: Round) {
        if block(round) > self.block {
            self.block = block(round);
            // A text stays until the whole of it has arrived: a reader that goes back may need its beginning again.
            let ended = |item: &Item| item.sequence <= self.acknowledged && item.flags & MORE == 0;
            let whole = self.items.iter().rposition(ended).map_or(0, |last| last + 1);
            self.forget(whole);
            match self.stray.take() {
                Some((sequence, check)) if self.has_said(sequence, check) => {
                    self.acknowledged = self.acknowledged.min(sequence.max(self.forgotten.0));
                }
                Some((sequence, _)) => self.number_anew(sequence),
                None => {}
            }
            for item in &mut self.items {
                item.flags &= !KEPT;
                item.flags |= if item.sequence <= self.acknowledged { KEPT } else { 0 };
            }
        }
    }

    fn forget(&mut self, oldest: usize) {
        if let Some(item) = self.items.drain(..oldest).next_back() {
            self.forgotten = (item.sequence, item.check);
        }
    }

    /// Whether these are messages that this client has said, or has forgotten since they had arrived.
    fn has_said(&self, sequence: u32, check: u32) -> bool {
        if let Some(item) = self.items.iter().find(|item| item.sequence == sequence) {
            return item.sent.is_some() && item.check == check;
        }
        let (forgotten, forgotten_check) = self.forgotten;
        match sequence.cmp(&forgotten) {
            // An acknowledgement that others have overtaken.
            Ordering::Less => true,
            Ordering::Equal => check == forgotten_check,
            Ordering::Greater => false,
        }
    }

    /// What to say in this turn: the oldest message if it is overdue, else what is new, else, since the turn is there
    /// anyway, whatever was last sent longest ago.
    ///
    /// `owed` is whether the peers wait for an acknowledgement. It is carried by every message; if there is none to be
    /// sent for the first time or overdue, an acknowledgement alone is as good as an early repeat.
    pub(crate) fn next(&mut self, round: Round, owed: bool) -> Option<Item> {
        self.turn += 1;
        let turn = self.turn;
        let overdue = |sent: &Sent| {
            turn.saturating_sub(sent.turn) >= OVERDUE_TURNS
                && block(round).saturating_sub(block(sent.round)) >= OVERDUE_BLOCKS
        };
        let first = self.items.iter().position(|item| item.flags & KEPT == 0)?;
        let window = || first..self.items.len().min(first + WINDOW as usize);
        let sent = |number: &usize| self.items.get(*number).and_then(|item| item.sent.as_ref());
        let chosen = Some(first)
            .filter(|oldest| sent(oldest).is_some_and(overdue))
            .or_else(|| window().find(|number| sent(number).is_none()))
            .or_else(|| {
                let longest_ago = window().min_by_key(|number| sent(number).map(|sent| sent.turn));
                longest_ago.filter(|_| !owed)
            })?;
        self.send(chosen, round)
    }

    fn send(&mut self, number: usize, round: Round) -> Option<Item> {
        let item = self.items.get_mut(number)?;
        item.sent = Some(Sent { turn: self.turn, round });
        let mut item = item.clone();
        item.flags &= !KEPT;
        item.flags |= if number == 0 { FIRST } else { 0 };
        let before = number.checked_sub(1).and_then(|before| self.items.get(before));
        item.check = before.map_or(self.forgotten.1, |before| before.check);
        Some(item)
    }

    /// Compares an acknowledgement with what was sent. If the peer has something else under these numbers, an older state
    /// has been brought back at one end: all that waits is numbered anew, behind what the peer has, when the next block
    /// begins. A peer who lies about it sees then, like anything else that was read, that it was.
    ///
    /// Returns the number up to which [`Outbox::acknowledge`] may take everything for arrived: 0 if the peer has named
    /// something else than was sent.
    pub(crate) fn compare(&mut self, sequence: u32, check: u32) -> Result<u32, WentBack> {
        // From a time without checks, the peer has none either before it reads the first. Whoever has one has it from here.
        self.unchecked &= sequence > 0 && check == 0;
        let newest_sent = || self.items.iter().rev().find(|item| item.sent.is_some());
        if self.unchecked && sequence <= newest_sent().map_or(self.forgotten.0, |item| item.sequence) {
            return Ok(sequence);
        }
        if self.has_said(sequence, check) {
            // The peer has gone back, or others have overtaken this.
            if sequence < self.acknowledged && self.forgotten.0 < self.acknowledged {
                self.stray.get_or_insert((sequence, check));
            }
            return Ok(sequence);
        }
        if sequence.saturating_sub(self.newest) > AHEAD_MAX {
            return Ok(0);
        }
        let stray = self.stray.replace((sequence, check));
        let told = stray.is_some_and(|(sequence, check)| !self.has_said(sequence, check));
        if told { Ok(0) } else { Err(WentBack) }
    }

    /// Leaves out a number behind all that the peer can have: it has gone on to take what was still under way. By the gap it
    /// sees that checks begin again. If too few numbers are left, all keep theirs: they may not arrive, but none is lost.
    fn number_anew(&mut self, sequence: u32) {
        let left_out = self.newest.max(sequence).saturating_add(1);
        if (u32::MAX - left_out) as usize <= self.items.len() {
            return;
        }
        (self.forgotten, self.acknowledged, self.newest) = ((left_out, 0), left_out, left_out);
        for item in &mut self.items {
            self.newest = self.newest.saturating_add(1);
            (item.sequence, item.sent) = (self.newest, None);
        }
        self.check_anew();
    }

    fn check_anew(&mut self) {
        let mut before = self.forgotten.1;
        for item in &mut self.items {
            item.check = check(before, item);
            before = item.check;
        }
    }

    /// Takes note that all messages up to `sequence` that were sent have arrived; returns the numbers of those that stand
    /// for whole texts of which this is news.
    pub(crate) fn acknowledge(&mut self, sequence: u32) -> Vec<u32> {
        let mut complete = Vec::new();
        if self.stray.is_some() {
            return complete;
        }
        let arrived = |item: &&Item| item.sequence <= sequence && item.sent.is_some();
        for item in self.items.iter().take_while(arrived) {
            if item.sequence > self.acknowledged {
                self.acknowledged = item.sequence;
                complete.extend(item.ends_text().then_some(item.sequence));
            }
        }
        complete
    }

    /// Texts that have not been acknowledged as a whole.
    pub(crate) fn texts(&self) -> usize {
        self.pending().filter(|item| item.ends_text()).count()
    }

    /// The same, whole, by the numbers that stand for them.
    pub(crate) fn waiting_texts(&self) -> impl Iterator<Item = (u32, String)> {
        // Of a text that has not arrived as a whole, no part is forgotten.
        let mut begun = Vec::new();
        self.items.iter().filter(|item| item.kind == Kind::Text).filter_map(move |item| {
            begun.extend_from_slice(&item.content);
            if item.flags & MORE != 0 {
                return None;
            }
            let whole = core::mem::take(&mut begun);
            let text = String::from_utf8(whole).ok().filter(|_| item.sequence > self.acknowledged)?;
            Some((item.sequence, text))
        })
    }

    /// All up to this number has arrived.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Messages sent and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.pending().filter(|item| item.sent.is_some()).count()
    }

    /// The number up to which everything was sent at least once.
    pub(crate) fn sent(&self) -> u32 {
        let unsent = self.items.iter().find(|item| item.sent.is_none());
        unsent.map_or(self.newest, |item| item.sequence.saturating_sub(1))
    }

    fn pending(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.sequence > self.acknowledged)
    }

    /// Takes back what was never sent, and gives its numbers to what comes next.
    pub(crate) fn retract_unsent(&mut self) {
        while self.items.back().is_some_and(|item| item.sent.is_none()) {
            self.items.pop_back();
            self.newest = self.newest.saturating_sub(1);
        }
    }

    /// Takes back the texts of which nothing was sent, and gives their numbers to what comes next; those that stood for
    /// whole texts.
    pub(crate) fn retract_texts(&mut self) -> Vec<u32> {
        let begun = self.items.iter().rposition(|item| item.sent.is_some()).map_or(0, |last| last + 1);
        // The rest of a text that was begun is still said.
        let rest = self.items.iter().skip(begun).take_while(|item| item.flags & REST != 0).count();
        let retracted = self.items.split_off(begun + rest);
        self.newest = retracted.iter().fold(self.newest, |newest, _| newest.saturating_sub(1));
        retracted.iter().filter(|item| item.ends_text()).map(|item| item.sequence).collect()
    }

    /// Texts that have not arrived as a whole with one who has everything up to `sequence`.
    pub(crate) fn texts_after(&self, sequence: u32) -> usize {
        self.pending().filter(|item| item.ends_text() && item.sequence > sequence).count()
    }

    /// Whether a message of this kind waits or is under way.
    pub(crate) fn awaits(&self, kind: Kind) -> bool {
        self.pending().any(|item| item.kind == kind)
    }

    /// Whether this very message waits or is under way.
    pub(crate) fn holds(&self, kind: Kind, content: &[u8]) -> bool {
        self.pending().any(|item| item.kind == kind && item.content == content)
    }

    /// Says something else instead of the newest message of a kind that begins like this, if that was never sent.
    pub(crate) fn replace_unsent(&mut self, kind: Kind, beginning: &[u8], content: &[u8]) -> bool {
        let replaced =
            |item: &Item| item.kind == kind && item.sent.is_none() && item.content.starts_with(beginning);
        let Some(item) = self.items.iter_mut().rev().find(|item| replaced(item)) else { return false };
        item.content.zeroize();
        item.content.extend_from_slice(content);
        // Whatever is behind it was not sent, either.
        let mut before = self.forgotten.1;
        for item in &mut self.items {
            if item.sent.is_none() {
                item.check = check(before, item);
            }
            before = item.check;
        }
        true
    }

    /// Whether there are numbers for a few more messages. A peer who acknowledges what was never sent can use them up.
    pub(crate) fn has_numbers(&self) -> bool {
        self.newest <= u32::MAX - NUMBERS_KEPT
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// As a peer does in 256 blocks who acknowledges what was never sent.
    #[cfg(test)]
    pub(crate) fn use_up_numbers(&mut self) {
        self.newest = u32::MAX;
    }

    /// Whether everything was acknowledged before this block.
    pub(crate) fn is_settled(&self) -> bool {
        self.items.is_empty()
    }

    /// Gives up everything; returns the numbers that stand for whole texts and were not acknowledged.
    pub(crate) fn give_back(&mut self) -> Vec<u32> {
        let texts = self.pending().filter(|item| item.ends_text()).map(|item| item.sequence).collect();
        self.items.clear();
        texts
    }

    /// The newest message, whatever is overdue and whatever the window.
    pub(crate) fn newest(&mut self, round: Round) -> Option<Item> {
        self.turn += 1;
        self.send(self.items.len().checked_sub(1)?, round)
    }
}

/// What has come from one peer.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Inbox {
    /// All up to this number have come, and have been delivered.
    complete: u32,
    /// Of all these messages.
    check: u32,
    /// What came before its turn; in a group also the last that were taken, without their content, for their checks.
    near: BTreeMap<u32, Item>,
    partial: Partial,
    /// Something has come in this block.
    owed: bool,
    block: u64,
    /// As the present block began: what to acknowledge, and whether that is waited for.
    told: Told,
    /// Nothing numbered is taken.
    full: bool,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Told {
    complete: u32,
    check: u32,
    sign: Sign,
}

/// The acknowledgement that a peer waits for in a block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Sign {
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
struct Partial {
    text: Vec<u8>,
    too_long: bool,
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

    fn assemble(&mut self, item: &Item) -> Option<Delivered> {
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

#[cfg(test)]
mod tests {
    mod acknowledgements;
    mod bounds;

    use proptest::prelude::{any, proptest};
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{AHEAD_MAX, Inbox, Item, Outbox, TEXT_MAX, TEXTS_MAX, WINDOW, check};
    use crate::Round;
    use crate::message::{FIRST, Kind, MORE};
    use crate::reaction::REACTION_ROUNDS;

    /// What an honest sender says behind all that was taken.
    fn following(inbox: &Inbox, sequence: u32, kind: Kind, flags: u8, content: &[u8]) -> Item {
        Item::received(inbox.check, sequence, kind, flags, content)
    }

    fn next(outbox: &mut Outbox, round: u64, owed: bool) -> Option<u32> {
        outbox.next(Round(round), owed).map(|item| item.sequence)
    }

    #[test]
    fn the_window_bounds_what_a_silent_peer_costs() {
        let mut outbox = Outbox::default();
        for _ in 0..TEXTS_MAX {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        assert!(outbox.push(Kind::Text, b"x", 8).is_err());
        assert!(outbox.push(Kind::Text, &[0; TEXT_MAX + 1], 8).is_err());
        let sent: Vec<u32> = (0..40).filter_map(|round| next(&mut outbox, round, false)).collect();
        assert_eq!(sent.iter().max(), Some(&WINDOW));
        assert_eq!(sent.len(), 40);
    }

    #[test]
    fn an_overdue_message_goes_before_new_ones_and_an_owed_sign_before_early_repeats() {
        let mut outbox = Outbox::default();
        outbox.push(Kind::Text, b"a", 8).unwrap();
        assert_eq!(next(&mut outbox, 1, false), Some(1));
        assert_eq!(next(&mut outbox, 2, true), None);
        assert_eq!(next(&mut outbox, 3, false), Some(1));
        for _ in 0..2 * REACTION_ROUNDS {
            outbox.push(Kind::Text, b"b", 8).unwrap();
        }
        let rest: Vec<_> = (4..=2 * REACTION_ROUNDS).map(|round| next(&mut outbox, round, true)).collect();
        // Sent again in round 3, so overdue when the block after the next begins.
        assert!(rest[..rest.len() - 1].iter().all(|item| item.is_some_and(|number| number > 1)));
        assert_eq!(rest.last(), Some(&Some(1)));
    }

    /// Parts of a text that was begun are of no use without the rest.
    #[test]
    fn of_texts_that_are_taken_back_none_was_begun() {
        let mut outbox = Outbox::default();
        assert!(outbox.retract_texts().is_empty());
        for text in [b"abc".as_slice(), b"defg", b"h"] {
            outbox.push(Kind::Text, text, 2).unwrap();
        }
        assert_eq!([1, 2, 3].map(|round| next(&mut outbox, round, true)), [Some(1), Some(2), Some(3)]);
        assert_eq!(outbox.retract_texts(), [5]);
        assert_eq!(outbox.push(Kind::Text, b"i", 2), Ok(5));
        assert_eq!([4, 5].map(|round| next(&mut outbox, round, true)), [Some(4), Some(5)]);
        assert!(outbox.retract_texts().is_empty());
        assert_eq!(outbox.acknowledge(5), [2, 4, 5]);
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_loses_nothing() {
        let mut outbox = Outbox::default();
        outbox.push(Kind::Text, b"a", 8).unwrap();
        assert!(outbox.acknowledge(u32::MAX).is_empty());
        next(&mut outbox, 1, false);
        assert_eq!(outbox.acknowledge(u32::MAX), [1]);
        assert!(outbox.pending().next().is_none());
    }

    /// A contact must not see in the next box whether one round was read.
    #[test]
    fn what_is_said_in_a_block_does_not_depend_on_what_is_read_in_it() {
        let (mut outbox, inbox) = (Outbox::default(), Inbox::default());
        for _ in 0..4 {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        let said = |outbox: &mut Outbox, inbox: &mut Inbox, round: u64| {
            outbox.begin(Round(round));
            inbox.begin(Round(round));
            (next(outbox, round, inbox.owed()), inbox.acknowledgement().0, inbox.owed())
        };
        let mut quiet = Vec::new();
        let mut reads = Vec::new();
        let stored = postcard::to_allocvec(&(&outbox, &inbox)).unwrap();
        for (reading, said_in) in [(false, &mut quiet), (true, &mut reads)] {
            let (mut outbox, mut inbox): (Outbox, Inbox) = postcard::from_bytes(&stored).unwrap();
            for round in 8..17 {
                said_in.push(said(&mut outbox, &mut inbox, round));
                if reading && round < 16 {
                    let item = following(&inbox, round as u32 - 7, Kind::Text, 0, b"y");
                    assert!(inbox.accept(item).1.is_ok());
                    outbox.acknowledge(4);
                }
            }
        }
        assert_eq!(quiet[..8], reads[..8]);
        assert_eq!((reads[8].0, reads[8].1, reads[8].2), (None, 8, true));
        assert!(quiet[8].0.is_some() && quiet[8].1 == 0);
    }

    /// A peer that is away in the same round of every block would otherwise miss each time the only acknowledgement.
    #[test]
    fn an_acknowledgement_is_given_again_where_there_is_nothing_else_to_say() {
        let mut inbox = Inbox::default();
        inbox.begin(Round(8));
        assert!(inbox.accept(following(&Inbox::default(), 1, Kind::Text, 0, b"y")).1.is_ok());
        assert!(!inbox.owed() && !inbox.acknowledges());
        inbox.begin(Round(16));
        assert!(inbox.owed() && inbox.acknowledges());
        inbox.settle();
        assert!(!inbox.owed() && inbox.acknowledges());
        inbox.settle();
        inbox.begin(Round(23));
        assert!(inbox.acknowledges());
        inbox.begin(Round(24));
        assert!(!inbox.owed() && !inbox.acknowledges());
        inbox.settle();
        assert!(!inbox.acknowledges());
    }

    /// A false acknowledgement made what follows be numbered anew in the same block: it showed at once that it was read.
    #[test]
    fn a_false_acknowledgement_shows_with_the_next_block_and_nothing_counts_as_arrived_until_then() {
        let mut outbox = Outbox::default();
        for _ in 0..40 {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        let stored = postcard::to_allocvec(&outbox).unwrap();
        let mut said = [Vec::new(), Vec::new()];
        for (lies, said) in [false, true].into_iter().zip(&mut said) {
            let mut outbox: Outbox = postcard::from_bytes(&stored).unwrap();
            for round in 8..17 {
                outbox.begin(Round(round));
                said.push(next(&mut outbox, round, false));
                if lies && round < 16 {
                    let lie = outbox.compare(500 + round as u32, 7);
                    assert_eq!(lie.is_err(), round == 8);
                    assert!(outbox.acknowledge(500).is_empty());
                }
            }
        }
        let [honest, forged] = said;
        assert_eq!(honest[..8], forged[..8]);
        assert_eq!((honest[8], forged[8]), (Some(9), Some(517)));
    }

    /// It was passed over as an acknowledgement of something else, and then taken for one of everything.
    #[test]
    fn an_acknowledgement_from_far_ahead_is_passed_over() {
        let mut outbox = Outbox::default();
        outbox.push(Kind::Text, b"x", 8).unwrap();
        outbox.begin(Round(8));
        next(&mut outbox, 8, false);
        for far in [2 + AHEAD_MAX, u32::MAX] {
            assert_eq!(outbox.compare(far, 7), Ok(0));
            assert!(outbox.acknowledge(0).is_empty());
        }
        assert_eq!(outbox.texts(), 1);
        let check = outbox.items[0].check;
        assert_eq!(outbox.compare(1, check), Ok(1));
    }

    /// A peer who used them up made texts that it did not have disappear as if they had arrived.
    #[test]
    fn texts_for_which_no_numbers_are_left_are_not_lost() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        for block in 1..400 {
            outbox.begin(Round(REACTION_ROUNDS * block));
            next(&mut outbox, REACTION_ROUNDS * block, false);
            let lie = outbox.newest.saturating_add(AHEAD_MAX);
            let _ = outbox.compare(lie, 7);
            assert_eq!(outbox.texts(), 3, "block {block}");
            let numbers: Vec<u32> = outbox.items.iter().map(|item| item.sequence).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        }
        assert!(!outbox.has_numbers() || outbox.newest > u32::MAX - AHEAD_MAX);
    }

    /// What a sender who numbers eight messages as it likes, behind anything, sees in a block's acknowledgement of which of
    /// them were read: which was the last that was taken, one of nine things, since each follows one other.
    #[test]
    fn an_acknowledgement_tells_one_message_of_its_block() {
        let answers = |messages: &[Item]| {
            let mut answers = std::collections::BTreeSet::new();
            for read in 0_u32..1 << messages.len() {
                let mut inbox = Inbox::default();
                inbox.begin(Round(REACTION_ROUNDS));
                for (number, item) in messages.iter().enumerate() {
                    if read >> number & 1 == 1 {
                        let _ = inbox.accept(item.clone());
                    }
                }
                inbox.begin(Round(2 * REACTION_ROUNDS));
                answers.insert(inbox.acknowledgement());
            }
            answers.len()
        };
        let mut most = 0;
        for seed in 0..300 {
            let mut coins = ChaCha20Rng::seed_from_u64(seed);
            let mut coin = |below: usize| usize::try_from(coins.next_u64()).unwrap() % below;
            let (mut messages, mut checks) = (Vec::new(), vec![(0, 0)]);
            for _ in 0..REACTION_ROUNDS {
                let (place, before) = checks[coin(checks.len())];
                let sequence = place + 1 + u32::try_from(coin(4) / 3 * coin(9)).unwrap();
                let flags = [0, FIRST, MORE, FIRST | MORE][coin(4)];
                let item = Item::received(before, sequence, Kind::Text, flags, &[coin(3) as u8]);
                checks.push((sequence, check(before, &item)));
                messages.push(item);
            }
            let counted = answers(&messages);
            assert!(counted <= messages.len() + 1, "{counted} answers, seed {seed}");
            most = most.max(counted);
        }
        assert_eq!(most, 9);
        // As an honest sender numbers them.
        let mut outbox = Outbox::default();
        for _ in 0..REACTION_ROUNDS {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        let honest: Vec<Item> =
            (0..REACTION_ROUNDS).filter_map(|round| outbox.next(Round(round), false)).collect();
        assert_eq!(answers(&honest), 9);
    }

    /// Who had acknowledged a part, and has gone back, took the others for a whole text.
    #[test]
    fn a_text_without_its_beginning_is_none() {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        outbox.push(Kind::Text, b"in three parts, you see", 8).unwrap();
        let mut parts = (0..3).filter_map(|round| outbox.next(Round(round), false));
        let older = postcard::to_allocvec(&inbox).unwrap();
        assert!(inbox.accept(parts.next().unwrap()).0.is_empty());
        drop(parts);
        inbox.begin(Round(8));
        let (sequence, check) = inbox.acknowledgement();
        assert!(outbox.compare(sequence, check).is_ok() && outbox.acknowledge(sequence).is_empty());
        outbox.begin(Round(16));
        // As a sender that keeps nothing of what was acknowledged.
        outbox.forget(1);
        for groups in [false, true] {
            let mut inbox: Inbox = postcard::from_bytes(&older).unwrap();
            let mut read = |item| if groups { inbox.follow(item) } else { inbox.accept(item) };
            let mut outbox: Outbox = postcard::from_bytes(&postcard::to_allocvec(&outbox).unwrap()).unwrap();
            let mut delivered = Vec::new();
            for round in 40..44 {
                delivered.extend(outbox.next(Round(round), false).map(&mut read).unwrap().0);
            }
            assert!(delivered.len() == 1 && delivered[0].content.is_none());
        }
    }

    /// What a restored sender says behind its older state must not be joined to what was said before.
    #[test]
    fn parts_of_two_texts_are_never_joined() {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let older = postcard::to_allocvec(&outbox).unwrap();
        outbox.push(Kind::Text, b"before, and more of it", 8).unwrap();
        let first: Vec<Item> = (0..3).filter_map(|round| outbox.next(Round(round), false)).collect();
        for part in [0, 2] {
            assert!(inbox.accept(first[part].clone()).0.is_empty());
        }
        let mut outbox: Outbox = postcard::from_bytes(&older).unwrap();
        outbox.push(Kind::Text, b"behind, in other words", 8).unwrap();
        let mut said = Vec::new();
        for round in 8..800 {
            outbox.begin(Round(round));
            inbox.begin(Round(round));
            let Some(item) = outbox.next(Round(round), false) else { break };
            said.extend(inbox.accept(item).0);
            let (sequence, check) = inbox.acknowledgement();
            if let Ok(arrived) = outbox.compare(sequence, check) {
                outbox.acknowledge(arrived);
            }
        }
        let said: Vec<_> = said.iter().filter_map(|whole| whole.content.as_deref()).collect();
        assert_eq!(said, [b"behind, in other words"]);
        assert!(outbox.items.is_empty());
    }

    /// Who has not read what came is not told of more than there is room for, and misses nothing.
    #[test]
    fn without_room_nothing_is_taken_or_acknowledged() {
        let mut inbox = Inbox::default();
        inbox.make_room(false);
        assert!(inbox.accept(Item::received(0, 1, Kind::Text, 0, b"x")).0.is_empty());
        inbox.begin(Round(8));
        assert!(inbox.acknowledgement().0 == 0 && !inbox.owed());
        inbox.make_room(true);
        assert_eq!(inbox.accept(Item::received(0, 1, Kind::Text, 0, b"x")).0.len(), 1);
    }

    #[test]
    fn repeats_and_numbers_beyond_the_window_take_no_memory() {
        let mut inbox = Inbox::default();
        for sequence in [1, 1, 0, 2, 1, 3 + WINDOW, u32::MAX] {
            let item = following(&inbox, sequence, Kind::Text, 0, b"x");
            assert!(inbox.accept(item).1.is_ok());
        }
        assert!(inbox.complete == 2 && inbox.near.is_empty());
    }

    #[test]
    fn an_endless_text_is_dropped_whole() {
        let mut inbox = Inbox::default();
        for sequence in 1..=100 {
            let item = following(&inbox, sequence, Kind::Text, MORE, &[1; 200]);
            assert!(inbox.accept(item).0.is_empty());
        }
        let item = following(&inbox, 101, Kind::Text, 0, b"end");
        let end = inbox.accept(item).0;
        assert!(end.len() == 1 && end[0].content.is_none());
        let item = following(&inbox, 102, Kind::Text, 0, b"next");
        let after = inbox.accept(item).0;
        assert_eq!(after[0].content.as_deref().map(Vec::as_slice), Some(b"next".as_slice()));
    }

    proptest! {
        #[test]
        fn losses_repeats_and_reordering_do_not_show(
            lost in proptest::collection::vec(any::<bool>(), 200), sizes in proptest::collection::vec(0_usize..40, 1..20),
        ) {
            let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
            let texts: Vec<Vec<u8>> = sizes.iter().zip(0_u8..).map(|(size, fill)| vec![fill; *size]).collect();
            for text in &texts {
                outbox.push(Kind::Text, text, 8).unwrap();
            }
            let (mut received, mut held) = (Vec::new(), None);
            for (round, lost) in (0..20_000).zip(lost.into_iter().chain(std::iter::repeat(false))) {
                outbox.begin(Round(round));
                inbox.begin(Round(round));
                let Some(item) = outbox.next(Round(round), false) else { break };
                let item =
                    Item::received(item.before(), item.sequence, item.kind, item.flags, &item.content);
                // Every other lost message comes late instead.
                for item in [(!lost).then_some(item.clone()), (round % 4 == 0).then(|| held.take()).flatten()] {
                    received.extend(item.into_iter().flat_map(|item| inbox.accept(item).0));
                }
                if lost && round % 2 == 0 {
                    held = Some(item);
                } else if !lost {
                    let (sequence, check) = inbox.acknowledgement();
                    assert!(outbox.compare(sequence, check).is_ok());
                    outbox.acknowledge(sequence);
                }
            }
            let received: Vec<Vec<u8>> = received.into_iter().map(|whole| whole.content.unwrap().to_vec()).collect();
            assert_eq!(received, texts);
            assert!(outbox.pending().next().is_none());
        }
    }
}
