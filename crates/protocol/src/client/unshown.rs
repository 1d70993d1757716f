//! Texts that were read out of a round and that the person has not seen.
//!
//! A text is acknowledged to its sender once it is read, and its keys are erased. So it stays in the state until the
//! program that shows it says that it did: no crash between the two loses a text that its sender believes arrived. What a
//! program has said that it is about to show, and not that it did, may have been seen: whoever shows it again can say so.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{Client, State};
use crate::conversation::ConversationId;

/// Bytes of unseen texts in one conversation beyond which further messages of it are not taken: their senders repeat
/// them. Other conversations do not notice.
const UNSHOWN_MAX: usize = 256 * 1024;

/// Numbers of texts that somebody was about to show.
pub(super) type Offered = BTreeSet<u64>;

/// A text that nobody has seen.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
pub struct Unshown {
    /// Numbers rise with time, over all conversations.
    pub number: u64,
    /// Where.
    #[zeroize(skip)]
    pub conversation: ConversationId,
    /// The contact's name, or the member's.
    pub from: String,
    /// The text.
    pub text: String,
    /// The sender's number for it.
    pub sequence: u32,
}

impl core::fmt::Debug for Unshown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Unshown").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Client {
    /// Texts that have come and were not confirmed as shown, in the order in which they came.
    pub fn unshown(&self) -> impl Iterator<Item = &Unshown> {
        self.state.unshown.iter()
    }

    /// Takes note that somebody is about to see these texts. Stored before they are shown, it outlives whoever shows them.
    pub fn offer(&mut self, numbers: &BTreeSet<u64>) {
        let unshown = self.state.unshown.iter().map(|text| text.number);
        self.state.offered.extend(unshown.filter(|number| numbers.contains(number)));
    }

    /// Whether a text that was not confirmed as shown may have been seen all the same.
    #[must_use]
    pub fn was_offered(&self, number: u64) -> bool {
        self.state.offered.contains(&number)
    }

    /// Forgets the texts of a conversation up to this number: somebody has seen them.
    pub fn shown(&mut self, conversation: ConversationId, number: u64) {
        self.state.keep_unshown_if(|text| text.conversation != conversation || text.number > number);
    }

    /// Forgets one text, which nobody is to see.
    pub fn drop_unshown(&mut self, number: u64) {
        self.state.keep_unshown_if(|text| text.number != number);
    }
}

impl State {
    /// Keeps a text until it is shown; its number.
    pub(super) fn keep_unshown(
        &mut self,
        conversation: ConversationId,
        from: &str,
        text: &str,
        sequence: u32,
    ) -> u64 {
        let number = self.next_text;
        // A round brings a few hundred at most.
        self.next_text = self.next_text.saturating_add(1);
        let (from, text) = (from.to_owned(), text.to_owned());
        self.unshown.push(Unshown { number, conversation, from, text, sequence });
        number
    }

    /// Forgets all other texts.
    pub(super) fn keep_unshown_if(&mut self, stays: impl Fn(&Unshown) -> bool) {
        self.unshown.retain(stays);
        let there: BTreeSet<u64> = self.unshown.iter().map(|text| text.number).collect();
        self.offered.retain(|number| there.contains(number));
    }

    /// Whether a conversation has room for another text.
    pub(super) fn has_room(&self, conversation: ConversationId) -> bool {
        let of = |text: &&Unshown| text.conversation == conversation;
        let bytes: usize = self.unshown.iter().filter(of).map(|text| text.text.len()).sum();
        bytes < UNSHOWN_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::UNSHOWN_MAX;
    use crate::ConversationId;
    use crate::client::Client;
    use crate::client::world::World;

    fn client() -> Client {
        World::new(1, &["alice"], 1, 1).clients.remove(0)
    }

    fn numbers(client: &Client) -> Vec<u64> {
        client.unshown().map(|text| text.number).collect()
    }

    /// What nobody has seen would be lost, since its sender takes it for arrived.
    #[test]
    fn what_is_shown_of_a_conversation_is_forgotten_and_nothing_else() {
        let (mut alice, [one, other]) = (client(), [1, 2].map(ConversationId));
        for conversation in [one, other, one, other, one] {
            alice.state.keep_unshown(conversation, "bob", "hello", 1);
        }
        assert_eq!(numbers(&alice), [1, 2, 3, 4, 5]);
        alice.offer(&BTreeSet::from([3, 4, 9]));
        let offered =
            |alice: &Client| (1..10).filter(|number| alice.was_offered(*number)).collect::<Vec<_>>();
        assert_eq!(offered(&alice), [3, 4]);
        alice.shown(one, 3);
        assert_eq!((numbers(&alice), offered(&alice)), (vec![2, 4, 5], vec![4]));
        alice.drop_unshown(4);
        assert_eq!((numbers(&alice), offered(&alice)), (vec![2, 5], vec![]));
        alice.shown(other, 1);
        assert_eq!(numbers(&alice), [2, 5]);
    }

    /// Whoever writes without end to one who reads nothing fills no disk, and keeps nobody else from writing.
    #[test]
    fn a_conversation_that_nobody_reads_is_full_by_itself() {
        let (mut alice, [one, other]) = (client(), [1, 2].map(ConversationId));
        let half = "x".repeat(UNSHOWN_MAX / 2);
        for (text, room) in [(half.as_str(), true), (&half[1..], true), ("x", false)] {
            assert!(alice.state.has_room(one));
            alice.state.keep_unshown(one, "bob", text, 1);
            assert_eq!([one, other].map(|id| alice.state.has_room(id)), [room, true]);
        }
    }
}
