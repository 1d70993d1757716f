//! How often wanted labels stand at several positions, against how often honest filters make it seem so.

use serde::{Deserialize, Serialize};

use crate::mapping::{FALSE_POSITIVES, Reading, window_length};

/// Buckets, among those that hold a wanted label's box, that show the label at more than one position.
///
/// An ambiguous label is read at one of its positions, so whoever writes a mapping can make a reader miss boxes. Honest
/// filters do it with a known rate, hence a surplus shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Crowding {
    seen: u32,
    /// Millionths.
    expected: u64,
}

/// Beyond so many expected ones the past is halved.
const MEMORY: u64 = 64_000_000;

impl Crowding {
    /// Of the labels looked up in a round with buckets of this size.
    pub(crate) fn of(readings: &[Reading], bucket_size: u32) -> Self {
        let rate = window_length(bucket_size as usize) as u64 * u64::from(FALSE_POSITIVES);
        // At most 8 buckets for each of a few hundred labels.
        let seen = readings.iter().map(|reading| reading.crowded().0).sum();
        let buckets = readings.iter().map(|reading| u64::from(reading.crowded().1)).sum::<u64>();
        Self { seen, expected: buckets * rate.min(1_000_000) }
    }

    /// Adds a round; whether there are now more than chance explains: `e` expected ones and more than `6 sqrt(e) + 6`
    /// beyond them, which chance does less than once in 10^7 times (Chernoff's bound for a Poisson number). What was
    /// told is not counted again.
    pub(crate) fn add(&mut self, round: Self) -> bool {
        self.seen = self.seen.saturating_add(round.seen);
        self.expected = self.expected.saturating_add(round.expected);
        let expected = self.expected as f64 / 1e6;
        let implausible = f64::from(self.seen) > expected + 6.0 * expected.sqrt() + 6.0;
        if implausible {
            *self = Self::default();
        } else if self.expected > MEMORY {
            self.seen /= 2;
            self.expected /= 2;
        }
        implausible
    }
}

#[cfg(test)]
mod tests {
    use super::{Crowding, FALSE_POSITIVES, MEMORY, window_length};

    /// Three buckets of so many elements that hold a label, of which some are crowded.
    fn round(crowded: u32) -> Crowding {
        let rate = window_length(1 << 15) as u64 * u64::from(FALSE_POSITIVES);
        Crowding { seen: crowded, expected: 3 * rate }
    }

    #[test]
    fn honest_filters_raise_no_alarm_and_crowded_ones_do_within_a_few_rounds() {
        let mut honest = Crowding::default();
        // Three buckets a round at 1.1 %: one crowded bucket in thirty rounds.
        assert!((0..1_000_000).all(|number| !honest.add(round(u32::from(number % 30 == 0)))));
        let mut forged = honest;
        assert!((0..80).any(|_| forged.add(round(1))));
        let mut fresh = Crowding::default();
        assert_eq!((0..10).position(|_| fresh.add(round(3))), Some(2));
    }

    /// An alarm that comes too easily is not believed, and one that comes too late lets a server lose messages at will.
    #[test]
    fn so_many_beyond_what_is_expected_are_an_alarm_and_one_less_are_none() {
        for (expected, most) in [(0, 6), (1_000_000, 13), (4_000_000, 22), (64_000_000, 118)] {
            let mut crowding = Crowding::default();
            assert!(!crowding.add(Crowding { seen: most, expected }));
            let kept = crowding;
            assert!(crowding.add(Crowding { seen: 1, expected: 0 }), "{expected}");
            assert_eq!(crowding, Crowding::default(), "what was told is not counted again");
            assert_eq!(kept, Crowding { seen: most, expected });
        }
    }

    /// Otherwise a server that was honest for a year could lie for a year.
    #[test]
    fn what_is_long_past_counts_half() {
        let mut crowding = Crowding::default();
        crowding.add(Crowding { seen: 9, expected: MEMORY });
        assert_eq!(crowding, Crowding { seen: 9, expected: MEMORY });
        crowding.add(Crowding { seen: 1, expected: 2 });
        assert_eq!(crowding, Crowding { seen: 5, expected: MEMORY / 2 + 1 });
    }
}
