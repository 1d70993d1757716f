//! The way to the person, which holds up nothing and grows without end by nothing.

use sotto_protocol::client::Notice;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Event, Events};

/// Events that nobody has taken yet.
const UNTAKEN_MAX: usize = 4096;
/// Of these, places that only what was said may take.
const FOR_TEXTS: usize = 3072;

/// Tells the person. Who does not listen misses what does not fit, first of all what is no text, and learns how much.
pub(super) struct Person {
    events: mpsc::Sender<Event>,
    missed: u64,
}

impl Person {
    pub(super) fn new() -> (Self, Events) {
        let (events, told) = mpsc::channel(UNTAKEN_MAX);
        (Self { events, missed: 0 }, told)
    }

    pub(super) fn tell(&mut self, event: Event) {
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
pub(super) fn is_said(event: &Event) -> bool {
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
}
