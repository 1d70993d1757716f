//! Times in which nothing ran here: the lid was closed, or the process stopped.
//!
//! Rounds of such a time fail in many ways at once, none of which is anybody's fault. So a person hears of the pause, and
//! not of each of them.

use core::time::Duration;

use sotto_protocol::UnixMillis;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often [`Pauses::beat`] is called by one that runs.
const BEAT: Duration = Duration::from_secs(1);
/// Longer than a busy machine keeps anybody waiting, ms.
const PAUSE_MS: u64 = 8_000;
/// How long after a pause rounds become known that opened in it, ms.
const ECHO_MS: u64 = 10_000;

/// The times for [`Pauses::beat`].
pub(super) fn beats() -> Interval {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats
}

/// What is known of pauses.
#[derive(Default)]
pub(super) struct Pauses {
    beat: Option<UnixMillis>,
    /// When the newest one ended.
    woke: Option<UnixMillis>,
    /// The newest round that it may have spoiled.
    spoiled: u64,
}

impl Pauses {
    /// Something runs; if nothing had run for long, for how long. A clock that is put forward looks the same, one that is
    /// put back does not.
    pub(super) fn beat(&mut self, now: UnixMillis) -> Option<Duration> {
        let still = self.beat.replace(now).map_or(0, |before| now.since(before));
        (still >= PAUSE_MS).then(|| {
            self.woke = Some(now);
            Duration::from_millis(still)
        })
    }

    /// A round that was open at this time.
    pub(super) fn open(&mut self, now: UnixMillis, round: u64) {
        if self.woke.is_some_and(|woke| now.since(woke) < ECHO_MS) {
            self.spoiled = self.spoiled.max(round);
        }
    }

    /// Whether what failed in a round is no wonder.
    pub(super) fn explain(&mut self, now: UnixMillis, round: u64) -> bool {
        self.open(now, round);
        round <= self.spoiled
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use sotto_protocol::UnixMillis;

    use super::Pauses;

    #[test]
    fn rounds_of_a_pause_are_told_from_others() {
        let mut pauses = Pauses::default();
        let at = |seconds: u64| UnixMillis(1_790_000_000_000 + 1000 * seconds);
        assert_eq!(pauses.beat(at(0)), None);
        assert_eq!(pauses.beat(at(7)), None, "a busy machine");
        pauses.open(at(7), 100);
        assert!(!pauses.explain(at(7), 100));
        assert_eq!(pauses.beat(at(67)), Some(Duration::from_secs(60)));
        assert_eq!(pauses.beat(at(68)), None);
        assert!(pauses.explain(at(68), 100), "it was open when the lid was closed");
        pauses.open(at(69), 160);
        assert!(pauses.explain(at(90), 130), "it ended in the pause, and that is heard late");
        assert!(pauses.explain(at(90), 160));
        pauses.open(at(90), 170);
        assert!(!pauses.explain(at(91), 170), "nothing stood still then");
        assert_eq!(pauses.beat(at(75)), None, "the clock was put back");
        assert_eq!(pauses.beat(at(76)), None);
    }
}
