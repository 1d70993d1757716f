//! Going on from a state that was kept aside.
//!
//! Whoever brings such a state back does not know what became of the account since: the program that wrote it may have gone on
//! with it, up to now. But a client opens no round that time does not explain ([`crate::clock`]), and keys, labels and numbers
//! of rounds serve one round each. So a new epoch begins, with all contacts and groups at once, behind the last round that time
//! explains: nothing that was used before is used again, whoever used it and whatever a server repeats.
//!
//! What serves once and belongs to no round is given up: an invitation whose answer may have come meanwhile, and a contact of whom
//! it is open whether it has gone on to keys that this state never has ([`crate::pair::renewal`]).

use rand_core::CryptoRng;

use super::Client;
use crate::conversation::{Conversation, Talk};
use crate::secret::Secret;
use crate::{Round, UnixMillis, domain};

/// What becomes of a state that was kept aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anew {
    /// The first round of the new epoch: in those before, nothing is said or heard.
    pub first: Round,
    /// When that is opened if rounds went on at the server's pace since the state was written; later if some took longer.
    pub at: UnixMillis,
    /// Contacts that were not met yet, or so recently that their keys may have been renewed since. They are forgotten: they have to
    /// be invited again.
    pub ended: Vec<String>,
}

impl Client {
    /// Is about to be kept aside, and may go on: from here on it opens no round that the time since does not explain, whatever was late
    /// before. So a copy that is made now is not silent for long when it [begins anew](Client::begin_anew).
    pub fn set_aside(&mut self) {
        self.state.clock.begin_at_newest();
    }

    /// Goes on from a state that was kept aside, and that somebody else may have gone on from until `now`, but does no more. Whatever of
    /// it has served, or may have, serves no more: keys and numbers of rounds, the deposit that was composed, what was to be looked
    /// for, and open invitations. Secrets that are made from now on are others than those that would have been made. Texts that
    /// nobody had seen may have been [offered](Client::offer) since.
    ///
    /// It holds as far as the clocks of both agree. What protects two that go on at the same time stands at
    /// [`Client::pass_round`].
    pub fn begin_anew(&mut self, now: UnixMillis, rng: &mut impl CryptoRng) -> Anew {
        let state = &mut self.state;
        let (first, at) = state.clock.use_up(now);
        state.store = Secret::extract(domain::FRESH, [&state.store, &Secret::random(rng)]);
        state.deposit = None;
        state.wants.clear();
        state.ready.clear();
        state.offered.extend(state.unshown.iter().map(|text| text.number));
        let is_open = |conversation: &&Conversation| match &conversation.talk {
            Talk::Pair(pair) => pair.serves_once(),
            Talk::Group(_) => false,
        };
        let open = state.conversations.iter().filter(is_open);
        let open: Vec<_> = open.map(|conversation| (conversation.id, conversation.name.clone())).collect();
        let mut ended = Vec::new();
        for (id, name) in open {
            state.remove(id);
            ended.push(name);
        }
        Anew { first, at, ended }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use crate::client::Client;
    use crate::client::world::World;
    use crate::{ConversationId, Round, UnixMillis};

    /// Somebody whose server was down for a day: that day of rounds is late.
    fn late() -> (Client, ChaCha20Rng, UnixMillis) {
        let (mut alice, mut rng) =
            (World::new(1, &["alice"], 1, 1).clients.remove(0), ChaCha20Rng::seed_from_u64(1));
        let now = UnixMillis(24 * 3_600_000);
        alice.open_round(Round(2), now, &mut rng).unwrap();
        (alice, rng, now)
    }

    /// Otherwise who brings a copy back would be silent for as long as the server once was down.
    #[test]
    fn a_copy_that_was_set_aside_is_silent_for_some_rounds_only() {
        let first = |sets_aside: bool| {
            let (mut alice, mut rng, now) = late();
            if sets_aside {
                alice.set_aside();
            }
            Client::restore(&alice.snapshot()).unwrap().begin_anew(now, &mut rng).first
        };
        // Those by which a server may be ahead.
        assert_eq!(first(true), Round(2 + 8 + 1));
        assert!(first(false) > Round(24 * 3600));
    }

    /// Nothing that may have served serves again: not the deposit, nor a manifest, nor what was looked for; and what nobody had seen
    /// may have been.
    #[test]
    fn a_copy_goes_on_with_nothing_that_was_under_way() {
        let (mut alice, mut rng, now) = late();
        alice.state.ready.insert(Round(2), vec![7]);
        let number = alice.state.keep_unshown(ConversationId(1), "bob", "hello", 1);
        let store = *alice.state.store.bytes();
        assert!(alice.deposit().is_some() && !alice.state.wants.is_empty() && !alice.was_offered(number));
        alice.begin_anew(now, &mut rng);
        assert!(alice.deposit().is_none() && alice.state.wants.is_empty() && alice.state.ready.is_empty());
        assert!(alice.was_offered(number) && alice.unshown().count() == 1);
        assert_ne!(*alice.state.store.bytes(), store);
        assert!(alice.open_round(Round(2), now, &mut rng).is_err());
    }
}
