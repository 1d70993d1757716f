//! Which key signs the manifest of which round.

use serde::{Deserialize, Serialize};

use crate::Round;
use crate::error::NegotiationError;

/// Bytes of an epoch in an announcement.
pub(crate) const KEY_EPOCH_BYTES: usize = 52;
const ENDLESS: Round = Round(u64::MAX);

/// The time of a manifest key, in rounds: announced with the key, and signed by the root.
///
/// In an announcement, integers little-endian:
///
/// | bytes | field |
/// |---|---|
/// | 4 | `number` |
/// | 8 | `first` |
/// | 8 | `end` |
/// | 32 | `former` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEpoch {
    /// Counts the manifest keys of a cluster, from 1.
    pub number: u32,
    /// The first round that the key signs.
    pub first: Round,
    /// The first round that it does not sign any more; `u64::MAX` if it does not end.
    pub end: Round,
    /// The key that signs rounds below `first`; zeros in the first epoch, which signs from round 0 on.
    pub former: [u8; 32],
}

impl KeyEpoch {
    /// The only epoch of servers that do not live long enough for another.
    pub const ENDLESS: Self = Self::first(ENDLESS);

    /// The first epoch.
    #[must_use]
    pub const fn first(end: Round) -> Self {
        Self { number: 1, first: Round(0), end, former: [0; 32] }
    }

    /// The epoch after this one, which is that of `key`.
    #[must_use]
    pub const fn next(&self, key: [u8; 32], first: Round, end: Round) -> Self {
        Self { number: self.number.saturating_add(1), first, end, former: key }
    }

    /// The round at which the key ends, if it does.
    #[must_use]
    pub fn ends(&self) -> Option<Round> {
        Some(self.end).filter(|end| *end != ENDLESS)
    }

    /// The key that signs a round while `key` is announced with this epoch.
    #[must_use]
    pub fn key_of(&self, key: [u8; 32], round: Round) -> Option<[u8; 32]> {
        if round < self.first { self.former_key() } else { Some(key).filter(|_| round < self.end) }
    }

    /// The key of the epoch before, if there was one.
    #[must_use]
    pub fn former_key(&self) -> Option<[u8; 32]> {
        (self.number > 1).then_some(self.former)
    }

    /// Whether there can be such an epoch of `key`.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self, key: &[u8; 32]) -> Result<(), NegotiationError> {
        let is_first = self.number == 1;
        let begins = is_first == (self.first == Round(0)) && is_first == (self.former == [0; 32]);
        if self.number == 0 || !begins || self.end <= self.first || self.former == *key {
            return Err(NegotiationError::KeyEpoch);
        }
        Ok(())
    }

    /// Whether this epoch of `key` can follow on the one that is known, or be the same.
    ///
    /// # Errors
    /// With the reason: a key that was given up does not come back, and none takes over rounds that another one signs.
    pub fn check_succession(
        &self,
        key: &[u8; 32],
        (known, known_key): (&Self, &[u8; 32]),
    ) -> Result<(), NegotiationError> {
        use core::cmp::Ordering::{Equal, Greater, Less};

        let fine = match self.number.cmp(&known.number) {
            Less => false,
            Equal => key == known_key && (self.first, self.former) == (known.first, known.former),
            Greater if self.number - known.number == 1 => {
                self.former == *known_key && key != known_key && self.first > known.first
            }
            // Of keys between the two nothing is known here.
            Greater => key != known_key && self.first > known.first,
        };
        if fine { Ok(()) } else { Err(NegotiationError::KeySuccession) }
    }

    pub(crate) fn encode(&self) -> [u8; KEY_EPOCH_BYTES] {
        let fields: [&[u8]; 4] = [
            &self.number.to_le_bytes(),
            &self.first.0.to_le_bytes(),
            &self.end.0.to_le_bytes(),
            &self.former,
        ];
        let mut bytes = [0; KEY_EPOCH_BYTES];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::KeyEpoch;
    use crate::Round;

    const KEYS: [[u8; 32]; 3] = [[1; 32], [2; 32], [3; 32]];

    fn epochs() -> [KeyEpoch; 3] {
        let first = KeyEpoch::first(Round(100));
        let second = first.next(KEYS[0], Round(50), Round(150));
        [first, second, second.next(KEYS[1], Round(120), Round(300))]
    }

    /// A thief of a key that was given up signs nothing that anybody believes.
    #[test]
    fn every_round_has_one_key_and_those_behind_the_end_none() {
        let [first, second, third] = epochs();
        let keys = |epoch: KeyEpoch, key, rounds: &[u64]| -> Vec<Option<[u8; 32]>> {
            rounds.iter().map(|round| epoch.key_of(key, Round(*round))).collect()
        };
        assert_eq!(keys(first, KEYS[0], &[0, 99, 100]), [Some(KEYS[0]), Some(KEYS[0]), None]);
        assert_eq!(
            keys(second, KEYS[1], &[49, 50, 149, 150]),
            [Some(KEYS[0]), Some(KEYS[1]), Some(KEYS[1]), None]
        );
        assert_eq!(keys(third, KEYS[2], &[119, 120]), [Some(KEYS[1]), Some(KEYS[2])]);
        assert_eq!(KeyEpoch::ENDLESS.key_of(KEYS[0], Round(u64::MAX - 1)), Some(KEYS[0]));
        assert_eq!((KeyEpoch::ENDLESS.ends(), first.ends()), (None, Some(Round(100))));
        assert_eq!(
            [first, second, third].map(|epoch| epoch.former_key()),
            [None, Some(KEYS[0]), Some(KEYS[1])]
        );
    }

    #[test]
    fn an_epoch_that_contradicts_itself_is_refused() {
        for (epoch, key) in epochs().iter().zip(&KEYS) {
            assert_eq!(epoch.check(key), Ok(()));
        }
        let [first, second, _] = epochs();
        let bad = [
            KeyEpoch { number: 0, ..first },
            KeyEpoch { first: Round(1), ..first },
            KeyEpoch { former: KEYS[2], ..first },
            KeyEpoch { end: Round(0), ..first },
            KeyEpoch { number: 1, ..second },
            KeyEpoch { first: Round(0), ..second },
            KeyEpoch { former: [0; 32], ..second },
            KeyEpoch { former: KEYS[1], ..second },
            KeyEpoch { end: second.first, ..second },
        ];
        for (number, epoch) in bad.iter().enumerate() {
            assert!(
                epoch.check(if epoch.former == KEYS[2] { &KEYS[0] } else { &KEYS[1] }).is_err(),
                "{number}"
            );
        }
    }

    #[test]
    fn a_key_follows_on_the_one_before_and_never_comes_back() {
        let [first, second, third] = epochs();
        let follows = |(epoch, key): (KeyEpoch, usize), (known, of): (KeyEpoch, usize)| {
            epoch.check_succession(&KEYS[key], (&known, &KEYS[of])).is_ok()
        };
        for (epoch, key) in [(first, 0), (second, 1), (third, 2)] {
            assert!(follows((epoch, key), (epoch, key)));
            // The root can let a key live longer.
            assert!(follows((KeyEpoch { end: Round(999), ..epoch }, key), (epoch, key)));
            assert!(!follows((epoch, (key + 1) % 3), (epoch, key)), "another key in one epoch");
        }
        assert!(follows((second, 1), (first, 0)) && follows((third, 2), (second, 1)));
        // Who was away while there was another one.
        assert!(follows((third, 2), (first, 0)));
        assert!(!follows((first, 0), (second, 1)) && !follows((second, 1), (third, 2)), "back");
        assert!(!follows((third, 0), (first, 0)), "the same key");
        assert!(
            !follows((KeyEpoch { first: first.first, ..third }, 2), (first, 0)),
            "from the same round on"
        );
        assert!(!follows((KeyEpoch { former: KEYS[2], ..second }, 1), (first, 0)), "another former key");
        assert!(!follows((KeyEpoch { first: Round(50), ..third }, 2), (second, 1)), "from the same round on");
        assert!(!follows((KeyEpoch { first: Round(51), ..second }, 1), (second, 1)), "moved");
    }
}
