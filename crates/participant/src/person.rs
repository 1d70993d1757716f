//! The way to the person, which holds up nothing and grows without end by nothing.

use core::mem::{Discriminant, discriminant};

use sotto_protocol::Error;
use sotto_protocol::client::{Notice, Warning};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::event::{Event, Events, Trouble};

/// Events that nobody has taken yet.
const UNTAKEN_MAX: usize = 4096;
/// Of these, places that only what was said may take.
const FOR_TEXTS: usize = 3072;
/// Of the same complaint again and again, one in so many is told.
const TOLD_ONE_IN: u32 = 30;

/// Tells the person. Who does not listen misses what does not fit, first of all what is no text, and learns how much.
pub(crate) struct Person {
    events: mpsc::Sender<Event>,
    missed: u64,
    refused: Repeated,
    bad: Repeated,
    announced: Repeated,
}

/// A complaint that may come in every round.
#[derive(Default)]
struct Repeated {
    /// What it was last, and how often in a row.
    last: Option<(Discriminant<Error>, u32)>,
    /// Whether it came since the last round's end.
    recent: bool,
}

impl Repeated {
    /// Counts the complaint; whether it is worth telling.
    fn is_news(&mut self, error: &Error) -> bool {
        let kind = discriminant(error);
        let count =
            self.last.filter(|(last, _)| *last == kind).map_or(0, |(_, count)| (count + 1) % TOLD_ONE_IN);
        *self = Self { last: Some((kind, count)), recent: true };
        count == 0
    }

    /// A round without the complaint makes it news again.
    fn end_round(&mut self) {
        if !core::mem::take(&mut self.recent) {
            self.last = None;
        }
    }
}

impl Person {
    pub(crate) fn new() -> (Self, Events) {
        let (events, told) = mpsc::channel(UNTAKEN_MAX);
        (
            Self {
                events,
                missed: 0,
                refused: Repeated::default(),
                bad: Repeated::default(),
                announced: Repeated::default(),
            },
            told,
        )
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let is_news = match &event {
            Event::Trouble { trouble: Trouble::RoundRefused(error), .. } => self.refused.is_news(error),
            Event::Notice(Notice::Warning(Warning::BadManifest(error) | Warning::BadDirectory(error))) => {
                self.bad.is_news(error)
            }
            Event::Trouble { trouble: Trouble::Announced(error), .. } => self.announced.is_news(error),
            Event::RoundReport(_) => {
                self.refused.end_round();
                self.bad.end_round();
                self.announced.end_round();
                true
            }
            _ => true,
        };
        if !is_news {
            return;
        }
        if self.missed > 0 && self.events.capacity() > FOR_TEXTS {
            // Never closed and full at once: somebody has made room.
            let _ = self.events.try_send(Event::Missed(self.missed));
            self.missed = 0;
        }
        let room = is_said(&event) || self.events.capacity() > FOR_TEXTS;
        if !room || matches!(self.events.try_send(event), Err(TrySendError::Full(_))) {
            self.missed += 1;
        }
    }
}

/// Whether an event is what somebody said, or the fate of it.
pub(crate) fn is_said(event: &Event) -> bool {
    matches!(event, Event::Notice(notice) if !matches!(notice, Notice::Warning(_)))
}

#[cfg(test)]
mod tests {
    use sotto_protocol::Round;
    use sotto_protocol::client::Notice;

    use super::{FOR_TEXTS, Person, UNTAKEN_MAX};
    use crate::Event;

    #[test]
    fn one_who_does_not_listen_misses_warnings_before_texts_and_learns_how_many() {
        let (mut person, mut told) = Person::new();
        let (mut texts, mut lost) = (0, None);
        for _ in 0..2 * UNTAKEN_MAX {
            person.tell(Event::ConnectionRestored);
        }
        let conversation = sotto_protocol::ConversationId(1);
        let text = Event::Notice(Notice::Left { conversation, from: String::new() });
        for _ in 0..FOR_TEXTS {
            person.tell(text.clone());
        }
        while let Ok(event) = told.try_recv() {
            texts += usize::from(event == text);
        }
        person.tell(Event::Trouble { round: Some(Round(1)), trouble: crate::Trouble::Sizes });
        while let Ok(event) = told.try_recv() {
            if let Event::Missed(count) = event {
                lost = Some(count);
            }
        }
        assert_eq!(texts, FOR_TEXTS);
        assert_eq!(lost, Some((UNTAKEN_MAX + FOR_TEXTS) as u64));
    }

    #[test]
    fn a_complaint_of_every_round_is_told_once_in_a_while_and_when_it_changes() {
        use sotto_protocol::Error;

        let (mut person, mut told) = Person::new();
        let refused = |error: fn(Round) -> Error, round| Event::Trouble {
            round: Some(Round(round)),
            trouble: crate::Trouble::RoundRefused(error(Round(round))),
        };
        for round in 0..60 {
            person.tell(refused(Error::RoundTooFar, round));
        }
        person.tell(refused(Error::RoundReplayed, 60));
        person.tell(refused(Error::RoundReplayed, 61));
        let expected = [
            refused(Error::RoundTooFar, 0),
            refused(Error::RoundTooFar, 30),
            refused(Error::RoundReplayed, 60),
        ];
        for event in expected {
            assert_eq!(told.try_recv(), Ok(event));
        }
        assert!(told.try_recv().is_err());
    }

    /// A server can say as often as it likes that it is what it is not.
    #[test]
    fn of_announcements_that_are_refused_again_and_again_one_in_thirty_is_told() {
        use sotto_protocol::Error;
        use sotto_protocol::error::NegotiationError;

        let (mut person, mut told) = Person::new();
        let refused = crate::Trouble::Announced(Error::Negotiation(NegotiationError::Downgrade));
        for _ in 0..60 {
            person.tell(Event::Trouble { round: None, trouble: refused.clone() });
        }
        let count = core::iter::from_fn(|| told.try_recv().ok()).count();
        assert_eq!(count, 2);
    }
}
