//! What happened, for programs that are attached and for those that come later. It holds up nobody and grows without end
//! by nothing: who does not listen misses what is old.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sotto_protocol::client::MessageId;
use tokio::sync::watch;

use super::message::{Audited, Found, Note, RoundCost, Said, Severity, Step, Text};

/// Entries that are kept.
pub(super) const KEPT_MAX: usize = 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Worth telling also to one who comes later.
    Lasting(Note),
    /// Of interest only to those who are there.
    Passing(Note),
    /// A text has arrived.
    Arrived(MessageId),
    /// A round has come so far.
    Step(u64, Step),
    /// What a round cost.
    Round(RoundCost),
    /// A program has changed something of the account.
    Changed,
    /// An answer was checked; a wrong one is worth telling also to one who comes later.
    Audited(Audited),
    /// A text came. Who comes later finds it among those that nobody has seen.
    Text(Text),
    /// Something was said from here.
    Said(Said),
}

impl Entry {
    /// What is worth telling also to one who comes later.
    fn lasting(&self) -> Option<Note> {
        match self {
            Self::Lasting(note) => Some(note.clone()),
            Self::Audited(Audited { found: Found::Cheated, line, .. }) => {
                Some(Note::new(Severity::Alarm, line.clone()))
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct Entries {
    entries: VecDeque<Entry>,
    /// Number of the first of them.
    first: u64,
    /// Up to here somebody has taken them.
    taken: u64,
    /// Up to where every listener has, by the listener's number.
    places: BTreeMap<u64, u64>,
    listeners: u64,
}

impl Entries {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Forgets what nobody will take any more.
    fn forget(&mut self) {
        let needed = self.places.values().copied().min().unwrap_or(self.taken);
        while self.first < needed && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// Entries in order.
pub(super) struct Journal {
    kept: Mutex<Entries>,
    end: watch::Sender<u64>,
    untold: watch::Sender<()>,
}

/// One who listens.
pub(super) struct Listener<'a> {
    journal: &'a Journal,
    number: u64,
    news: watch::Receiver<u64>,
}

impl Journal {
    /// With what waits to be told from before.
    pub(super) fn new(untold: Vec<Note>) -> Self {
        let entries = untold.into_iter().map(Entry::Lasting).collect();
        let kept = Entries { entries, ..Entries::default() };
        Self { end: watch::Sender::new(kept.end()), kept: Mutex::new(kept), untold: watch::Sender::new(()) }
    }

    /// What lasts and nobody has taken yet.
    pub(super) fn untold(&self) -> Vec<Note> {
        let kept = self.kept();
        let taken = usize::try_from(kept.taken.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        kept.entries.iter().skip(taken).filter_map(Entry::lasting).collect()
    }

    /// Tells when [`Journal::untold`] may have changed.
    pub(super) fn untold_changes(&self) -> watch::Receiver<()> {
        self.untold.subscribe()
    }

    pub(super) fn write(&self, entry: Entry) {
        let mut kept = self.kept();
        let lasts = entry.lasting().is_some();
        if kept.places.is_empty() && !lasts {
            return;
        }
        if kept.entries.len() == KEPT_MAX {
            kept.entries.pop_front();
            kept.first += 1;
        }
        kept.entries.push_back(entry);
        self.end.send_replace(kept.end());
        if lasts {
            self.untold.send_replace(());
        }
    }

    /// Listens from where nobody has listened yet.
    pub(super) fn listen(&self) -> Listener<'_> {
        let mut kept = self.kept();
        kept.listeners += 1;
        let (number, place) = (kept.listeners, kept.taken.max(kept.first));
        kept.places.insert(number, place);
        let mut news = self.end.subscribe();
        news.mark_changed();
        Listener { journal: self, number, news }
    }

    pub(super) fn listeners(&self) -> usize {
        self.kept().places.len()
    }

    fn kept(&self) -> MutexGuard<'_, Entries> {
        // Nothing that holds it can leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener<'_> {
    /// Waits until there may be entries. Nothing is lost when this is cancelled.
    pub(super) async fn changed(&mut self) {
        // The sender lives as long as the journal.
        let _ = self.news.changed().await;
    }

    /// The next entry, and how many before it came too fast.
    pub(super) fn next(&mut self) -> Option<(u64, Entry)> {
        let mut kept = self.journal.kept();
        let place = *kept.places.get(&self.number)?;
        let missed = kept.first.saturating_sub(place);
        let place = place + missed;
        let entry = kept.entries.get(usize::try_from(place - kept.first).ok()?)?.clone();
        kept.places.insert(self.number, place + 1);
        if entry.lasting().is_some() && kept.taken <= place {
            self.journal.untold.send_replace(());
        }
        kept.taken = kept.taken.max(place + 1);
        kept.forget();
        Some((missed, entry))
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut kept = self.journal.kept();
        kept.places.remove(&self.number);
        kept.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Journal, KEPT_MAX};
    use crate::daemon::message::{Note, Severity};

    fn passing(number: usize) -> Entry {
        Entry::Passing(Note::new(Severity::Notice, number.to_string()))
    }

    #[test]
    fn what_lasts_waits_for_the_first_who_listens_and_is_told_once() {
        let journal = Journal::new(Vec::new());
        let warning = Entry::Lasting(Note::new(Severity::Warning, "warning"));
        journal.write(warning.clone());
        journal.write(passing(1));
        let mut first = journal.listen();
        assert_eq!(first.next(), Some((0, warning)));
        assert_eq!(first.next(), None);
        let mut second = journal.listen();
        assert_eq!(second.next(), None);
        journal.write(passing(2));
        assert_eq!((first.next(), second.next()), (Some((0, passing(2))), Some((0, passing(2)))));
        assert_eq!(journal.listeners(), 2);
        assert!(journal.kept().entries.is_empty(), "what all have taken is forgotten");
        journal.write(passing(3));
        drop(first);
        assert_eq!(second.next(), Some((0, passing(3))));
        drop(second);
        assert!(journal.kept().entries.is_empty());
    }

    #[tokio::test]
    async fn one_who_is_slow_learns_how_much_was_missed_and_holds_up_nothing() {
        let journal = Journal::new(Vec::new());
        let mut slow = journal.listen();
        slow.changed().await;
        for number in 0..KEPT_MAX + 3 {
            journal.write(passing(number));
        }
        slow.changed().await;
        assert_eq!(slow.next(), Some((3, passing(3))));
        assert_eq!(slow.next(), Some((0, passing(4))));
    }
}
