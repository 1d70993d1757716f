//! Which texts programs are about to show that nobody has told as shown. A text that was to be shown once may have been seen, unless
//! all who were to show it are still there: then it is shown in several places, and not twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sotto_protocol::ConversationId;

/// A text: its conversation and its number.
pub(super) type Key = (ConversationId, u64);

/// What all programs are about to show.
#[derive(Default)]
pub(super) struct Held(Mutex<Hands>);

#[derive(Default)]
struct Hands {
    next: u64,
    /// Who is about to show a text, of all that somebody was in this process; None if one of these is gone.
    texts: BTreeMap<Key, Option<BTreeSet<u64>>>,
}

/// How texts stand in the state.
#[derive(Clone, Default)]
pub(super) struct Standing {
    /// Numbers of those of which it is noted that they are shown.
    pub(super) offered: BTreeSet<u64>,
    /// Of all that nobody has told as shown.
    pub(super) there: BTreeSet<u64>,
}

/// What one program is about to show, until it leaves.
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
    /// The numbers of texts that may have been seen.
    pub(super) fn look(&self, texts: &[Key], standing: &Standing) -> BTreeSet<u64> {
        let hands = self.held.hands();
        let seen = texts.iter().filter(|key| match hands.texts.get(key) {
            Some(programs) => programs.is_none(),
            None => standing.offered.contains(&key.1),
        });
        seen.map(|key| key.1).collect()
    }

    /// The same; and the program is about to show them.
    pub(super) fn show(&self, texts: &[Key], standing: &Standing) -> BTreeSet<u64> {
        let again = self.look(texts, standing);
        let mut hands = self.held.hands();
        // What is forgotten was not shown; what is newer has come since.
        let newest = standing.there.last().copied().unwrap_or_default();
        hands.texts.retain(|(_, number), _| *number > newest || standing.there.contains(number));
        for key in texts.iter().filter(|key| !again.contains(&key.1)) {
            let programs = hands.texts.entry(*key).or_insert_with(|| Some(BTreeSet::new()));
            programs.iter_mut().for_each(|programs| {
                programs.insert(self.program);
            });
        }
        again
    }

    /// It does not get them after all.
    pub(super) fn put_back(&self, texts: &[Key]) {
        let mut hands = self.held.hands();
        for key in texts {
            if let Some(Some(programs)) = hands.texts.get_mut(key)
                && programs.remove(&self.program)
                && programs.is_empty()
            {
                hands.texts.remove(key);
            }
        }
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        for programs in self.held.hands().texts.values_mut() {
            if programs.as_ref().is_some_and(|programs| programs.contains(&self.program)) {
                *programs = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sotto_protocol::ConversationId;

    use super::{Held, Key, Standing};

    const TEXTS: [Key; 3] = [(ConversationId(1), 3), (ConversationId(1), 4), (ConversationId(2), 5)];

    fn standing(offered: &[u64]) -> Standing {
        Standing { offered: offered.iter().copied().collect(), there: [3, 4, 5].into() }
    }

    #[test]
    fn a_text_may_have_been_seen_when_one_who_was_to_show_it_is_gone() {
        let held = Held::default();
        let (one, other) = (held.hand(), held.hand());
        let none = BTreeSet::new();
        assert_eq!(one.show(&TEXTS, &standing(&[])), none);
        assert_eq!(one.show(&TEXTS, &standing(&[3, 4, 5])), none, "it is the same program");
        // One who only has it shows nothing, whether it stays or goes.
        let has = held.hand();
        assert_eq!(has.look(&TEXTS, &standing(&[3, 4, 5])), none);
        drop(has);
        assert_eq!(other.show(&TEXTS[1..], &standing(&[3, 4, 5])), none);
        drop(one);
        assert_eq!(other.look(&TEXTS, &standing(&[3, 4, 5])), [3, 4, 5].into());
        assert_eq!(held.hand().show(&TEXTS, &standing(&[3, 4, 5])), [3, 4, 5].into());
        held.shown(ConversationId(1), 3);
        // What was to be shown before this process began.
        assert_eq!(held.hand().show(&TEXTS, &standing(&[3])), [3, 4, 5].into());
        held.shown(ConversationId(1), 4);
        held.shown(ConversationId(2), 5);
        drop(other);
        assert!(held.hands().texts.is_empty());
    }

    #[test]
    fn what_a_program_did_not_get_it_did_not_show_and_what_is_forgotten_takes_no_room() {
        let held = Held::default();
        let (one, other) = (held.hand(), held.hand());
        one.show(&TEXTS, &standing(&[]));
        one.put_back(&TEXTS);
        drop(one);
        assert_eq!(other.show(&TEXTS, &standing(&[])), BTreeSet::new());
        // Only one is there any more, and one has come since.
        let newer = (ConversationId(1), 9);
        let third = held.hand();
        third.show(&[newer], &standing(&[]));
        third.show(&TEXTS[..1], &Standing { there: [3, 6].into(), ..Standing::default() });
        assert_eq!(held.hands().texts.keys().copied().collect::<Vec<_>>(), [TEXTS[0], newer]);
    }
}
