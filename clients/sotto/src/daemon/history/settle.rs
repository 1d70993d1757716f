//! Comparing the history with the state that it follows.

use std::collections::BTreeSet;
use std::io;

use sotto_protocol::client::{Client, Outgoing, Unshown, Waiting};
use sotto_protocol::{ConversationId, UnixMillis};

use super::record::{By, Fate, Past, Record};
use super::{Blocked, History, Kept};
use crate::daemon::message::Private;
use crate::daemon::parcel::is_content;
use crate::daemon::reply::Roster;

/// How a conversation stands in the state.
pub(crate) struct Stand {
    pub(super) id: ConversationId,
    pub(super) outgoing: Outgoing,
    /// Texts that came, and that somebody is yet to see.
    pub(super) unshown: Vec<Unshown>,
    /// Who is in it.
    pub(super) roster: Roster,
    /// Others, which nobody is to see.
    pub(crate) hidden: Vec<Unshown>,
}

impl Stand {
    /// None if there is no such conversation.
    pub(crate) fn of(client: &Client, id: ConversationId, blocked: &Blocked) -> Option<Self> {
        let outgoing = client.outgoing_texts(id).ok()?;
        let unshown = client.unshown().filter(|text| text.conversation == id);
        let (hidden, unshown) = unshown.cloned().partition(|text| blocked.hides_text(client, text));
        let roster = Roster::of(client, id);
        Some(Self { id, outgoing, unshown, roster, hidden })
    }

    /// Of all conversations.
    pub(crate) fn all(client: &Client, blocked: &Blocked) -> Vec<Self> {
        client.conversations().into_iter().filter_map(|it| Self::of(client, it.id, blocked)).collect()
    }

    /// Of one where nothing waits any more, and these came.
    pub(crate) fn with(id: ConversationId, unshown: Vec<Unshown>) -> Self {
        let outgoing = Outgoing { arrived: 0, waiting: Vec::new() };
        Self { id, outgoing, unshown, roster: Roster::default(), hidden: Vec::new() }
    }

    pub(super) fn id(&self) -> ConversationId {
        self.id
    }

    /// Whether all of a text that waits under this number was sent.
    pub(super) fn is_sent(&self, sequence: u32) -> bool {
        self.outgoing.waiting.iter().any(|waiting| waiting.sequence == sequence && waiting.sent)
    }
}

impl History {
    /// Takes over what the state has and the history has not, and what the state has no more: when this returns, it is on
    /// the disk. Gives the numbers of texts that the state needs no more: parts of files. `now` is when that was said, came or became so, if it is known. What a conversation stood like must not be older than what was compared last.
    ///
    /// # Errors
    /// If it could not be written; it is known all the same, and is written with what comes next.
    pub(crate) fn settle(&self, stand: &Stand, now: Option<UnixMillis>) -> io::Result<Vec<u64>> {
        let mut kept = self.kept();
        // Neither what cannot be forgotten on the disk nor a file that cannot be put anywhere keeps a text out of the history.
        let forgotten = self.forget_hidden(&mut kept, stand);
        let taken = self.take_files(&mut kept, stand);
        let taken = forgotten.and(taken);
        if kept.keep == 0 {
            return taken;
        }
        let at_ms = now.map_or(0, |now| now.0);
        let mut records = kept.fates(stand, at_ms);
        records.extend(kept.came(stand, at_ms));
        self.commit(&mut kept, records)?;
        taken
    }

    /// What somebody wrote who was blocked before anybody saw it is not to be seen here, either.
    fn forget_hidden(&self, kept: &mut Kept, stand: &Stand) -> io::Result<()> {
        let hidden: BTreeSet<u64> = stand.hidden.iter().filter_map(|text| kept.place_of(text)).collect();
        if hidden.is_empty() {
            return Ok(());
        }
        kept.retain(|past| !hidden.contains(&past.place));
        self.write_anew(kept)
    }

    /// The same of all conversations there are, and forgets the others.
    ///
    /// # Errors
    /// As for [`History::settle`].
    pub(crate) fn settle_all(&self, stands: &[Stand], now: Option<UnixMillis>) -> io::Result<Vec<u64>> {
        let there: BTreeSet<ConversationId> = stands.iter().map(|stand| stand.id).collect();
        let mut settled = self.retain(&there).map(|()| Vec::new());
        for stand in stands {
            let taken = self.settle(stand, now);
            settled = settled.and_then(|mut all| taken.map(|taken| all.extend(taken)).map(|()| all));
        }
        // What was read from the disk may be more than is to be kept.
        self.kept().make_room();
        settled
    }
}

impl Kept {
    /// What became of the texts that were said, and those that are new.
    fn fates(&self, stand: &Stand, at_ms: u64) -> Vec<Record> {
        let own = |place: &u64| match self.at(*place)? {
            Past { id, by: By::Me { sequence, .. }, text, .. } if *id == stand.id => {
                Some((*place, *sequence, &text.0))
            }
            _ => None,
        };
        let mut open: Vec<_> = self.open.iter().filter_map(own).collect();
        // Of a file, its end stands for the whole.
        let whole = |text: &&Waiting| !is_content(&text.text);
        let mut waiting: Vec<&Waiting> = stand.outgoing.waiting.iter().filter(whole).collect();
        // What is known under its number.
        waiting.retain(|text| {
            let known = open
                .iter()
                .position(|(_, sequence, said)| *sequence == text.sequence && ***said == text.text);
            known.map(|known| open.remove(known)).is_none()
        });
        let mut records = Vec::new();
        // What has another number now.
        waiting.retain(|text| {
            let Some(known) = open.iter().position(|(_, _, said)| ***said == text.text) else { return true };
            let (place, ..) = open.remove(known);
            records.push(Record::Fate { place, sequence: text.sequence, fate: Fate::Waits, at_ms: 0 });
            false
        });
        for (place, sequence, _) in open {
            let fate = if sequence <= stand.outgoing.arrived { Fate::Arrived } else { Fate::NotSent };
            records.push(Record::Fate { place, sequence, fate, at_ms });
        }
        for (place, text) in (self.next..).zip(waiting) {
            let by = By::Me { sequence: text.sequence, fate: Fate::Waits, at_ms: 0 };
            let text = Private::new(text.text.clone());
            records.push(Record::Text(Past { place, id: stand.id, at_ms, by, text }));
        }
        records
    }

    /// What has come, and takes note of what nobody has seen.
    fn came(&mut self, stand: &Stand, at_ms: u64) -> Vec<Record> {
        let mut records = Vec::new();
        let said = stand.outgoing.waiting.len() as u64;
        let unshown: Vec<&Unshown> = stand.unshown.iter().filter(|text| !is_content(&text.text)).collect();
        let known: Vec<Option<u64>> = unshown.iter().map(|text| self.place_of(text)).collect();
        let texts = &self.texts;
        let of_it = |place: u64| {
            let found =
                texts.binary_search_by_key(&place, |past| past.place).ok().and_then(|at| texts.get(at));
            found.is_some_and(|past| past.id == stand.id)
        };
        self.unread.retain(|_, place| !of_it(*place));
        // Behind whatever was said meanwhile.
        let mut place = self.next + said;
        for (text, known) in unshown.into_iter().zip(known) {
            let known = known.unwrap_or_else(|| {
                let by = By::Other { from: text.from.clone(), number: text.number, sequence: text.sequence };
                let past = Past { place, id: stand.id, at_ms, by, text: Private::new(text.text.clone()) };
                records.push(Record::Text(past));
                place += 1;
                place - 1
            });
            self.unread.insert(text.number, known);
        }
        records
    }

    /// Where a text stands that came. One of the same number from before a state was brought back is another one.
    fn place_of(&self, text: &Unshown) -> Option<u64> {
        let past = self.numbers.get(&text.number).and_then(|place| self.at(*place))?;
        let By::Other { from, sequence, .. } = &past.by else { return None };
        let is_it = past.id == text.conversation
            && *sequence == text.sequence
            && *from == text.from
            && *past.text.0 == text.text;
        is_it.then_some(past.place)
    }
}
