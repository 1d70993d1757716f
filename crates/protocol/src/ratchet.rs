//! Chains: one key per round in one direction, none of which tells an earlier one.
//!
//! ```text
//! chain key (r + 1)   = HKDF-Expand(chain key r, "sotto v1 chain step" | 0)
//! round key r         = HKDF-Expand(chain key r, "sotto v1 round key" | 0)
//! label (r, j)        = HKDF-Expand(round key r, "sotto v1 message label" | 0 | j, u32 LE)   16 bytes
//! message key (r, j)  = HKDF-Expand(round key r, "sotto v1 message key" | 0 | j, u32 LE)     32 bytes
//! ```
//!
//! The message number j is 0 in this version: a client deposits once a round.

use serde::{Deserialize, Serialize};

use crate::deposit::SELECTOR_BYTES;
use crate::seal::{OpeningKey, SealingKey};
use crate::secret::Secret;
use crate::{Error, Label, Round, STANDING_ROUNDS, domain};

/// The most steps by which a chain may be behind when it begins: 485 days of ten-second rounds.
pub(crate) const STEPS_MAX: u64 = 1 << 22;
/// Steps made at once when a chain begins. Where it begins is another's choice, and must cost no time that shows.
const STEPS_BEGINNING: u64 = 64;
/// Steps made in a round. A chain that is further behind, after an absence of its owner, however long, is silent until
/// it has caught up: for a year of two-second rounds, in about an hour.
const STEPS_ROUND: u64 = 1 << 13;

/// The chain key of one direction, at the first round that is not used up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Chain {
    round: Round,
    key: Secret,
}

/// The key of one round in one direction.
#[derive(Debug)]
pub(crate) struct RoundKey {
    round: Round,
    key: Secret,
}

impl Chain {
    pub(crate) fn new(round: Round, key: Secret) -> Self {
        Self { round, key }
    }

    /// Steps a chain that begins towards `round`, by 64 steps at most; the rest follows with the rounds.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if it is more than 2^22 steps behind; the chain then stands where it was.
    pub(crate) fn advance(&mut self, round: Round) -> Result<(), Error> {
        if round.0.saturating_sub(self.round.0) > STEPS_MAX {
            return Err(Error::RoundTooFar(round));
        }
        self.step_towards(round, STEPS_BEGINNING);
        Ok(())
    }

    fn step_towards(&mut self, round: Round, steps: u64) {
        for _ in 0..round.0.saturating_sub(self.round.0).min(steps) {
            self.step();
        }
    }

    /// The key of `round`, with the chain stepped past it and the keys of all rounds before erased; `None` if the chain
    /// is past it already, begins later, or is so far behind that it takes more rounds to catch up.
    pub(crate) fn take(&mut self, round: Round) -> Option<RoundKey> {
        self.step_towards(round, STEPS_ROUND);
        if self.round != round {
            return None;
        }
        let key = self.key.expand(domain::ROUND_KEY, &[]);
        self.step();
        Some(RoundKey { round, key })
    }

    /// The first bytes of the label of `last`, for who asks before it takes the key of `round`, which is not after it. It tells
    /// nothing of the labels in between. `None` as for [`Chain::take`].
    pub(crate) fn foretell(&mut self, round: Round, last: Round) -> Option<[u8; SELECTOR_BYTES]> {
        self.step_towards(round, STEPS_ROUND);
        if self.round != round || last < round || last.0 - round.0 >= STANDING_ROUNDS {
            return None;
        }
        let label = self.clone().take(last)?.label(0);
        Some(label.selector())
    }

    fn step(&mut self) {
        self.key = self.key.expand(domain::CHAIN_STEP, &[]);
        self.round = self.round.next();
    }
}

impl RoundKey {
    /// A key that nobody else has, for cover.
    pub(crate) fn of_nobody(round: Round, key: Secret) -> Self {
        Self { round, key }
    }

    /// For the one message numbered `number`.
    pub(crate) fn sealing(self, number: u32) -> SealingKey {
        SealingKey::new(self.round, self.label(number), self.message_key(number))
    }

    /// For reading that message.
    pub(crate) fn opening(self, number: u32) -> OpeningKey {
        OpeningKey::new(self.round, self.label(number), self.message_key(number))
    }

    fn label(&self, number: u32) -> Label {
        let mut label = Label([0; 16]);
        self.key.expand_into(domain::MESSAGE_LABEL, &[&number.to_le_bytes()], &mut label.0);
        label
    }

    fn message_key(&self, number: u32) -> Secret {
        self.key.expand(domain::MESSAGE_KEY, &[&number.to_le_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::{Chain, STEPS_BEGINNING, STEPS_MAX, STEPS_ROUND};
    use crate::secret::Secret;
    use crate::{Error, Round};

    fn chain() -> Chain {
        Chain::new(Round(5), Secret::new([7; 32]))
    }

    #[test]
    fn both_ends_meet_whatever_rounds_they_pass_over() {
        let (mut steady, mut absent) = (chain(), chain());
        for round in 5..40 {
            let key = steady.take(Round(round)).unwrap();
            if round == 39 {
                let other = absent.take(Round(39)).unwrap();
                assert_eq!(key.sealing(0).label(), other.sealing(0).label());
            }
        }
    }

    #[test]
    fn a_key_is_handed_out_once_and_never_for_the_past() {
        let mut chain = chain();
        assert!(chain.take(Round(4)).is_none());
        assert!(chain.take(Round(9)).is_some());
        assert!(chain.take(Round(9)).is_none());
        assert!(chain.take(Round(8)).is_none());
    }

    /// Where a chain begins is another's choice: all at once, four million steps would hold up a client's next calls.
    #[test]
    fn a_chain_that_begins_long_ago_takes_few_steps_at_a_time() {
        let mut old = chain();
        old.advance(Round(5 + STEPS_MAX)).unwrap();
        assert_eq!(old.round, Round(5 + STEPS_BEGINNING));
        assert!(old.take(Round(5 + STEPS_MAX)).is_none());
        assert_eq!(old.round, Round(5 + STEPS_BEGINNING + STEPS_ROUND));
        let (mut late, mut steady, mut round) = (chain(), chain(), 5 + 3 * STEPS_ROUND);
        let key = loop {
            if let Some(key) = late.take(Round(round)) {
                break key;
            }
            round += 1;
        };
        assert_eq!(round, 5 + 3 * STEPS_ROUND + 3);
        let mut label = None;
        for round in 5..=round {
            label = steady.take(Round(round)).map(|key| key.sealing(0).label());
        }
        assert_eq!(label, Some(key.sealing(0).label()));
    }

    #[test]
    fn an_absurd_round_costs_nothing() {
        let mut chain = chain();
        let far = Round(6 + STEPS_MAX);
        assert_eq!(chain.advance(far).unwrap_err(), Error::RoundTooFar(far));
        assert!(chain.take(Round(5)).is_some());
        assert!(chain.take(Round(u64::MAX)).is_none());
        assert_eq!(chain.round, Round(6 + STEPS_ROUND));
    }

    /// Both ends foretell the same in every round of an epoch, and what they take in its last round begins so.
    #[test]
    fn what_is_foretold_is_how_the_last_label_begins_and_costs_no_key() {
        let (mut steady, mut absent) = (chain(), chain());
        let last = Round(15);
        for round in 8..=15 {
            let foretold = steady.foretell(Round(round), last).unwrap();
            let label = steady.take(Round(round)).unwrap().label(0);
            assert_eq!(foretold == label.selector(), round == 15, "round {round}");
            let mut late = absent.clone();
            assert_eq!(late.foretell(Round(round), last), Some(foretold), "round {round}");
        }
        assert_eq!(steady.foretell(Round(15), last), None, "that is past");
        assert_eq!(absent.foretell(Round(8), Round(16)), None, "that is another epoch's");
        assert_eq!(absent.foretell(Round(9), Round(8)), None);
    }

    /// The layout of the derivation, for other implementations.
    #[test]
    fn labels_do_not_change_unnoticed() {
        let key = chain().take(Round(6)).unwrap().sealing(0);
        assert_eq!(data_encoding::HEXLOWER.encode(&key.label().0), "42f8beae7ca37b574b5ce54fbe8b716a");
    }
}
