//! What happened, for programs that are attached and for those that come later. It holds up nobody and grows without end
//! by nothing: who does not listen misses what weighs least, and of that what is old. So nobody who causes many lines takes
//! an alarm away by them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sotto_protocol::ConversationId;
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
    /// Texts of a conversation up to this number were seen.
    Seen(ConversationId, u64),
}

impl Entry {
    /// What is worth telling also to one who comes later; most things come again, or can be asked for.
    fn lasting(&self) -> Option<(Severity, &str)> {
        match self {
            Self::Lasting(note) => Some((note.severity, &note.line)),
            Self::Audited(Audited { found: Found::Cheated, line, .. }) => Some((Severity::Alarm, line)),
            _ => None,
        }
    }

    /// How much is lost with it.
    fn weight(&self) -> Option<Severity> {
        self.lasting().map(|(severity, _)| severity)
    }
}

#[derive(Default)]
struct Entries {
    /// With their numbers, which ascend. What was left out for want of room leaves a gap.
    entries: VecDeque<(u64, Entry)>,
    /// The number of what comes next.
    end: u64,
    /// Up to here somebody has taken them.
    taken: u64,
    /// Up to where every listener has, by the listener's number.
    places: BTreeMap<u64, u64>,
    listeners: u64,
}

impl Entries {
    fn push(&mut self, entry: Entry) {
        self.entries.push_back((self.end, entry));
        self.end += 1;
        if self.entries.len() > KEPT_MAX {
            self.leave_one_out();
        }
    }

    /// Of what weighs least, what is said again by the newest, or else the oldest.
    fn leave_one_out(&mut self) {
        let Some(least) = self.entries.iter().map(|(_, entry)| entry.weight()).min() else { return };
        let newest = self.entries.len() - 1;
        let said_again = self.entries.range(..newest).position(|(_, entry)| {
            least.is_some() && entry.weight() == least && *entry == self.entries[newest].1
        });
        let oldest = || self.entries.iter().position(|(_, entry)| entry.weight() == least);
        if let Some(place) = said_again.or_else(oldest) {
            self.entries.remove(place);
        }
    }

    /// Those with this number and later.
    fn since(&self, number: u64) -> impl Iterator<Item = &(u64, Entry)> {
        self.entries.range(self.entries.partition_point(|(of_it, _)| *of_it < number)..)
    }

    /// Forgets what nobody will take any more.
    fn forget(&mut self) {
        let needed = self.places.values().copied().min().unwrap_or(self.taken);
        while self.entries.front().is_some_and(|(number, _)| *number < needed) {
            self.entries.pop_front();
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
        let mut kept = Entries::default();
        untold.into_iter().map(Entry::Lasting).for_each(|entry| kept.push(entry));
        Self { end: watch::Sender::new(kept.end), kept: Mutex::new(kept), untold: watch::Sender::new(()) }
    }

    /// What lasts and nobody has taken yet.
    pub(super) fn untold(&self) -> Vec<Note> {
        let kept = self.kept();
        let lasting = kept.since(kept.taken).filter_map(|(_, entry)| entry.lasting());
        lasting.map(|(severity, line)| Note::new(severity, line)).collect()
    }

    /// Tells when [`Journal::untold`] may have changed.
    pub(super) fn untold_changes(&self) -> watch::Receiver<()> {
        self.untold.subscribe()
    }

    pub(super) fn write(&self, entry: Entry) {
        let mut kept = self.kept();
        let lasts = entry.weight().is_some();
        // To who comes later a line is worth telling once.
        let waits = |kept: &Entries| kept.since(kept.taken).any(|(_, untold)| *untold == entry);
        if kept.places.is_empty() && (!lasts || waits(&kept)) {
            return;
        }
        kept.push(entry);
        self.end.send_replace(kept.end);
        if lasts {
            self.untold.send_replace(());
        }
    }

    /// Listens from where nobody has listened yet.
    pub(super) fn listen(&self) -> Listener<'_> {
        let mut kept = self.kept();
        kept.listeners += 1;
        let (number, place) = (kept.listeners, kept.taken);
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

    /// The next entry, and for how many before it there was no room.
    pub(super) fn next(&mut self) -> Option<(u64, Entry)> {
        let mut kept = self.journal.kept();
        let place = *kept.places.get(&self.number)?;
        let (number, entry) = kept.since(place).next()?.clone();
        kept.places.insert(self.number, number + 1);
        if entry.weight().is_some() && kept.taken <= number {
            self.journal.untold.send_replace(());
        }
        kept.taken = kept.taken.max(number + 1);
        kept.forget();
        Some((number - place, entry))
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

    fn lasting(severity: Severity, line: &str) -> Entry {
        Entry::Lasting(Note::new(severity, line))
    }

    /// Neither with nobody there nor beside one who has stalled.
    #[test]
    fn no_flood_takes_an_alarm_away() {
        let alarm = lasting(Severity::Alarm, "THE SERVER CHEATS");
        for stalls in [false, true] {
            let journal = Journal::new(Vec::new());
            let stalled = stalls.then(|| journal.listen());
            journal.write(alarm.clone());
            for number in 0..2 * KEPT_MAX {
                journal.write(lasting(Severity::Warning, &format!("warning {number}")));
                journal.write(passing(number));
                journal.write(lasting(Severity::Alarm, "the same again and again"));
            }
            assert!(journal.kept().entries.len() <= KEPT_MAX);
            assert_eq!(journal.untold()[0].line, "THE SERVER CHEATS");
            let again = Journal::new(journal.untold());
            assert_eq!(again.listen().next(), Some((0, alarm.clone())));
            let mut listener = stalled.unwrap_or_else(|| journal.listen());
            assert_eq!(listener.next(), Some((0, alarm.clone())));
            assert!(listener.next().unwrap().0 > 0, "what was left out is counted");
        }
    }

    #[test]
    fn what_is_left_out_among_alarms_is_what_was_said_again_and_nothing_for_what_passes() {
        let journal = Journal::new(Vec::new());
        let mut stalled = journal.listen();
        for number in 0..KEPT_MAX {
            journal.write(lasting(Severity::Alarm, &number.to_string()));
        }
        journal.write(passing(0));
        journal.write(lasting(Severity::Alarm, "7"));
        let lines: Vec<_> = core::iter::from_fn(|| stalled.next()).collect();
        assert_eq!(lines.len(), KEPT_MAX);
        let left_out: Vec<_> = lines.iter().filter(|(missed, _)| *missed > 0).collect();
        let (again, after) = (lasting(Severity::Alarm, "7"), lasting(Severity::Alarm, "8"));
        assert_eq!(left_out, [&(1, after), &(1, again)]);
    }

    #[test]
    fn to_who_comes_later_a_line_is_told_once_and_again_when_it_comes_again() {
        let journal = Journal::new(Vec::new());
        let alarm = lasting(Severity::Alarm, "a copy is online");
        for _ in 0..3 {
            journal.write(alarm.clone());
        }
        let mut listener = journal.listen();
        assert_eq!((listener.next(), listener.next()), (Some((0, alarm.clone())), None));
        drop(listener);
        journal.write(alarm.clone());
        assert_eq!(journal.listen().next(), Some((0, alarm)));
    }
}
