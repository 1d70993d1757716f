//! What one side says, and repeats until it is acknowledged.

use core::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::item::Sent;
use super::{AHEAD_MAX, Item, TEXT_MAX, TEXTS_MAX, WINDOW, WentBack, check};
use crate::error::InputError;
use crate::message::{FIRST, Kind, MORE, REST};
use crate::reaction::block;
use crate::{Error, Round};

/// A message is overdue after this many turns of its conversation.
const OVERDUE_TURNS: u64 = 3;
/// And when it was sent so many blocks before: it was acknowledged in the block after its own, and is forgotten when
/// that has ended.
const OVERDUE_BLOCKS: u64 = 2;
/// A flag of items that stay here: acknowledged when the block began.
const KEPT: u8 = 128;
/// More numbers than the keys of a group with all its farewells take.
pub(super) const NUMBERS_KEPT: u32 = 64;

/// What one side of a conversation has to say, until it is acknowledged.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Outbox {
    /// The number of the newest message; 0 before the first.
    pub(super) newest: u32,
    pub(super) turn: u64,
    pub(super) items: VecDeque<Item>,
    pub(super) block: u64,
    /// Up to here all is acknowledged. When the next block begins it is forgotten or, of a text that has not arrived as a
    /// whole, marked with [`KEPT`].
    pub(super) acknowledged: u32,
    /// The number of the newest message forgotten, and its check.
    pub(super) forgotten: (u32, u32),
    /// An acknowledgement, number and check, of something else than was sent, or of less than was acknowledged. It is heeded
    /// when the next block begins; until then nothing is taken for arrived.
    pub(super) stray: Option<(u32, u32)>,
    /// Of two: it comes from a time without checks, and the peer may have none. In a group:
    /// the person is not told of a check of something else, before anything more has arrived.
    pub(super) unchecked: bool,
}

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

    pub(super) fn forget(&mut self, oldest: usize) {
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

    pub(super) fn send(&mut self, number: usize, round: Round) -> Option<Item> {
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

    pub(super) fn check_anew(&mut self) {
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

    pub(super) fn pending(&self) -> impl Iterator<Item = &Item> {
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
