//! Outboxes and inboxes as states of version 2 hold them, without checks and blocks.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use super::inbox::{Partial, Sign, Told};
use super::item::Sent;
use super::{Inbox, Item, Outbox};
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

#[cfg(test)]
mod tests {
    use super::{Item2, Outbox2};
    use crate::message::{Kind, MORE};
    use crate::stream::Outbox;

    /// With a text in two parts, keys for a group, and a text.
    fn outbox() -> Outbox2 {
        let item = |(sequence, (kind, flags))| {
            let content = vec![sequence as u8];
            Item2 { sequence, kind, flags, content, sent: None }
        };
        let said = [(Kind::Text, MORE), (Kind::Text, 0), (Kind::Rekey, 0), (Kind::Text, 0)];
        Outbox2 { newest: 7, turn: 0, items: (4..).zip(said).map(item).collect() }
    }

    /// The person is told how many texts are gone with an invitation that nobody had answered.
    #[test]
    fn texts_are_counted_as_wholes() {
        assert_eq!(outbox().texts(), 2);
    }

    /// What waited is still said, under its number, and nothing else is.
    #[test]
    fn what_waited_keeps_its_numbers() {
        let outbox = Outbox::from(outbox());
        assert_eq!((outbox.acknowledged(), outbox.forgotten(), outbox.sent()), (3, 3, 3));
        let said: Vec<_> =
            outbox.items.iter().map(|item| (item.sequence, item.kind, &*item.content)).collect();
        let text = |sequence, content| (sequence, Kind::Text, content);
        assert_eq!(said, [text(4, &[4][..]), text(5, &[5]), text(6, &[]), text(7, &[7])]);
        let none = Outbox::from(Outbox2 { newest: 7, turn: 0, items: Default::default() });
        assert_eq!((none.acknowledged(), none.forgotten(), none.sent()), (7, 7, 7));
    }
}
