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
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.held.hands().texts.retain(|_, programs| {
            programs.remove(&self.program);
            !programs.is_empty()
        });
    }
}
