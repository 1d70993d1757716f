//! Outboxes and inboxes as states of version 2 hold them, without checks and blocks.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use super::{Inbox, Item, Outbox, Partial, Sent, Sign, Told};
use crate::message::Kind;

#[derive(Deserialize)]
pub(crate) struct Outbox2 {
    newest: u32,
    turn: u64,
    items: VecDeque<Item2>,
}

#[derive(Deserialize)]
pub(crate) struct Inbox2 {
    complete: u32,
    early: BTreeMap<u32, Item2>,
    partial: Partial,
    owed: bool,
}

#[derive(Deserialize)]
struct Item2 {
    sequence: u32,
    kind: Kind,
    flags: u8,
    content: Vec<u8>,
    sent: Option<Sent>,
}

impl Outbox2 {
    /// Texts that wait or are under way.
    pub(crate) fn texts(&self) -> u32 {
        self.items.iter().filter(|item| item.kind == Kind::Text && item.flags == 0).count() as u32
    }
}

impl From<Outbox2> for Outbox {
    /// What has no meaning any more, keys for groups of before, keeps its number and says nothing.
    fn from(old: Outbox2) -> Self {
        let Outbox2 { newest, turn, items } = old;
        let acknowledged = items.front().map_or(newest, |first| first.sequence.saturating_sub(1));
        let mut outbox = Self {
            newest,
            turn,
            items: items.into_iter().map(Item::from).collect(),
            block: 0,
            acknowledged,
            forgotten: (acknowledged, 0),
            stray: None,
            unchecked: true,
        };
        outbox.check_anew();
        outbox
    }
}

impl From<Inbox2> for Inbox {
    fn from(old: Inbox2) -> Self {
        let Inbox2 { complete, early, partial, owed } = old;
        let near = early.into_iter().map(|(sequence, item)| (sequence, item.into())).collect();
        let sign = if owed { Sign::Owed } else { Sign::None };
        let told = Told { complete, check: 0, sign };
        Self { complete, check: 0, near, partial, owed: false, block: 0, told, full: false }
    }
}

impl From<Item2> for Item {
    fn from(old: Item2) -> Self {
        let Item2 { sequence, kind, flags, content, sent } = old;
        let (kind, content) = if kind == Kind::Text { (kind, content) } else { (Kind::Text, Vec::new()) };
        Self { sequence, kind, flags, content, sent, check: 0 }
    }
}
