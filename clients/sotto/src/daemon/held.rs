//! Which texts programs have that nobody has told as shown. A text that goes out a second time may have been seen, unless the one
//! who got it first is still there: then it is shown in two places, and not twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sotto_protocol::ConversationId;

use super::message::Text;

/// What all programs have.
#[derive(Default)]
pub(super) struct Held(Mutex<Hands>);

#[derive(Default)]
struct Hands {
    next: u64,
    /// Who has a text, by conversation and number.
    texts: BTreeMap<(ConversationId, u64), BTreeSet<u64>>,
}

/// What one of them has, until it leaves.
pub(super) struct Hand<'a> {
    held: &'a Held,
    program: u64,
}

impl Held {
    /// For another program.
    pub(super) fn hand(&self) -> Hand<'_> {
        let mut hands = self.hands();
        hands.next += 1;
        Hand { held: self, program: hands.next }
    }

    /// Texts of a conversation up to this number were seen.
    pub(super) fn shown(&self, id: ConversationId, number: u64) {
        self.hands().texts.retain(|(of, text), _| *of != id || *text > number);
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        // Nothing that holds it can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hand<'_> {
    /// Takes texts; the numbers of those that another program has that is there.
    pub(super) fn take(&self, texts: &[Text]) -> BTreeSet<u64> {
        let mut hands = self.held.hands();
        let elsewhere = texts.iter().filter(|text| {
            let programs = hands.texts.entry((text.id, text.number)).or_default();
            programs.insert(self.program);
            programs.len() > 1
        });
        elsewhere.map(|text| text.number).collect()
    }

    /// It does not get them after all.
    pub(super) fn put_back(&self, texts: &[Text]) {
        let mut hands = self.held.hands();
        for text in texts {
            if let Some(programs) = hands.texts.get_mut(&(text.id, text.number)) {
                programs.remove(&self.program);
            }
        }
        hands.texts.retain(|_, programs| !programs.is_empty());
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.held.hands().texts.retain(|_, programs| {
            programs.remove(&self.program);
            !programs.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sotto_protocol::ConversationId;

    use super::Held;
    use crate::daemon::message::{Private, Text};

    fn text(id: u32, number: u64) -> Text {
        Text {
            number,
            id: ConversationId(id),
            conversation: "bob".to_owned(),
            group: false,
            from: "bob".to_owned(),
            text: Private::new("hello"),
            sequence: 1,
            at_ms: None,
            quote: None,
            file: None,
            again: false,
        }
    }

    #[test]
    fn a_text_is_elsewhere_as_long_as_another_program_has_it_and_nobody_has_seen_it() {
        let held = Held::default();
        let (one, other) = (held.hand(), held.hand());
        let texts = [text(1, 3), text(1, 4), text(2, 5)];
        let nowhere = BTreeSet::new();
        assert_eq!(one.take(&texts), nowhere);
        assert_eq!(one.take(&texts), nowhere, "it is the same program");
        assert_eq!(other.take(&texts[1..]), [4, 5].into());
        drop(one);
        let third = held.hand();
        assert_eq!(third.take(&texts), [4, 5].into());
        other.put_back(&texts);
        assert_eq!(held.hand().take(&texts), [3, 4, 5].into(), "the third has them");
        held.shown(ConversationId(1), 3);
        assert_eq!(held.hand().take(&texts), [4, 5].into());
        drop((other, third));
        assert_eq!(held.hand().take(&texts), nowhere);
        assert!(held.hands().texts.is_empty());
    }
}
