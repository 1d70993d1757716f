//! Times in which nothing ran here: the lid was closed, or the process stopped.
//!
//! Rounds of such a time fail in many ways at once, none of which is anybody's fault. So a person hears of the pause, and
//! not of each of them.

use core::time::Duration;

use sotto_protocol::{Round, UnixMillis};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::message::{Note, Severity};
use super::severity::of_trouble;
use crate::cli::print::span;
use sotto_participant::{Event, Step};

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

/// What a person hears of one.
pub(super) fn told(still: Duration) -> Note {
    let line = format!(
        "nothing ran here for {} (the machine slept, the program was stopped, or the clock was put forward): rounds of \
         that time are missed, texts are not",
        span(still.as_secs())
    );
    Note::new(Severity::Notice, line)
}

/// What is known of pauses.
#[derive(Default)]
pub(super) struct Pauses {
    beat: Option<UnixMillis>,
    /// When the newest one ended.
    woke: Option<UnixMillis>,
    /// The newest round that it may have spoiled.
    spoiled: Round,
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

    /// Whether an event that is heard now is trouble of which a pause is the reason.
    pub(super) fn explain(&mut self, now: UnixMillis, event: &Event) -> bool {
        match event {
            Event::Step { round, step: Step::Opened(_) } => {
                self.open(now, *round);
                false
            }
            Event::Trouble { round: Some(round), trouble } if of_trouble(trouble) == Severity::Warning => {
                self.open(now, *round);
                *round <= self.spoiled
            }
            _ => false,
        }
    }

    fn open(&mut self, now: UnixMillis, round: Round) {
        if self.woke.is_some_and(|woke| now.since(woke) < ECHO_MS) {
            self.spoiled = self.spoiled.max(round);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use sotto_protocol::{Round, UnixMillis};

    use super::Pauses;
    use sotto_participant::{Event, Step, Trouble};

    fn opened(round: u64) -> Event {
        Event::Step { round: Round(round), step: Step::Opened(Duration::ZERO) }
    }

    fn late(round: u64) -> Event {
        Event::Trouble { round: Some(Round(round)), trouble: Trouble::LookupLate }
    }

    #[test]
    fn rounds_of_a_pause_are_told_from_others() {
        let mut pauses = Pauses::default();
        let at = |seconds: u64| UnixMillis(1_790_000_000_000 + 1000 * seconds);
        assert_eq!(pauses.beat(at(0)), None);
        assert_eq!(pauses.beat(at(7)), None, "a busy machine");
        assert!(!pauses.explain(at(7), &opened(100)));
        assert!(!pauses.explain(at(7), &late(100)));
        assert_eq!(pauses.beat(at(67)), Some(Duration::from_secs(60)));
        assert_eq!(pauses.beat(at(68)), None);
        assert!(pauses.explain(at(68), &late(100)), "it was open when the lid was closed");
        assert!(!pauses.explain(at(69), &opened(160)), "that is no trouble");
        assert!(pauses.explain(at(90), &late(130)), "it ended in the pause, and that is heard late");
        assert!(pauses.explain(at(90), &late(160)));
        let alarm = Event::Trouble { round: Some(Round(160)), trouble: Trouble::Doubled };
        assert!(!pauses.explain(at(90), &alarm), "no pause makes an alarm");
        assert!(!pauses.explain(at(90), &opened(170)));
        assert!(!pauses.explain(at(91), &late(170)), "nothing stood still then");
        assert_eq!(pauses.beat(at(75)), None, "the clock was put back");
        assert_eq!(pauses.beat(at(76)), None);
    }
}
