//! Which round numbers time can explain.

use serde::{Deserialize, Serialize};

use crate::{Error, Round, ServerParameters, UnixMillis};

/// Rounds by which a server may be ahead of the calculation.
const SLACK_ROUNDS: u64 = 8;
/// Of a thousand milliseconds, how many the clocks of client and server may differ.
const DRIFT_PER_MILLE: u64 = 2;
/// How far the clocks of two people may be apart when one invites the other, ms.
const SKEW_MS: u64 = 10 * 60 * 1000;

/// The newest round a client has used, and how far ahead it may go.
///
/// Rounds ahead of the calculation use up the slack; only rounds behind it, or time, give it back. A server can thus
/// run ahead by 8 rounds in all, not by 8 each time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Clock {
    round_ms: u32,
    /// From which the calculation starts.
    anchor: (Round, UnixMillis),
    /// The newest round known, and when it was.
    newest: (Round, UnixMillis),
    used: bool,
}

impl Clock {
    pub(crate) fn new(server: &ServerParameters, joined: (Round, UnixMillis)) -> Self {
        Self { round_ms: server.round_ms.max(1), anchor: joined, newest: joined, used: false }
    }

    /// The newest round known, and when it was.
    pub(crate) fn newest(&self) -> (Round, UnixMillis) {
        self.newest
    }

    /// The first round that can still be used.
    pub(crate) fn next(&self) -> Round {
        if self.used { self.newest.0.next() } else { self.newest.0 }
    }

    /// Takes `round` as the newest.
    ///
    /// # Errors
    /// [`Error::RoundReplayed`] if it is not newer than the last one used; [`Error::RoundTooFar`].
    pub(crate) fn advance(&mut self, round: Round, now: UnixMillis) -> Result<(), Error> {
        if round < self.next() {
            return Err(Error::RoundReplayed(round));
        }
        let (start, time) = self.anchor;
        let ahead = round.0.saturating_sub(start.0);
        let expected = self.rounds_in(now.since(time));
        if ahead > expected.saturating_add(SLACK_ROUNDS) {
            return Err(Error::RoundTooFar(round));
        }
        // A server that is late keeps no credit; nor does a clock that was put back stop everything for that long.
        if ahead <= expected || now < time {
            self.anchor = (round, now);
        }
        self.newest = (round, now);
        self.used = true;
        Ok(())
    }

    /// Checks a pair of round and time that somebody else gives, when the newest round is this clock's.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if no time between the two explains the rounds between them.
    pub(crate) fn explains(&self, round: Round, time: UnixMillis, now: UnixMillis) -> Result<(), Error> {
        let slack = SLACK_ROUNDS + SKEW_MS / u64::from(self.round_ms);
        let (newest, newest_time) = self.newest;
        let (rounds, elapsed) = if round > newest {
            (round.0 - newest.0, now.max(time).since(newest_time))
        } else {
            (newest.0 - round.0, now.since(time))
        };
        if rounds > self.rounds_in(elapsed).saturating_add(slack) {
            return Err(Error::RoundTooFar(round));
        }
        Ok(())
    }

    fn rounds_in(&self, elapsed: u64) -> u64 {
        elapsed.saturating_add(elapsed / 1000 * DRIFT_PER_MILLE) / u64::from(self.round_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::{Error, Round, UnixMillis};

    fn clock() -> Clock {
        let joined = (Round(100), UnixMillis(1_000_000));
        Clock { round_ms: 1000, anchor: joined, newest: joined, used: false }
    }

    #[test]
    fn a_replayed_round_is_refused_and_the_joining_round_is_not() {
        let mut clock = clock();
        let now = UnixMillis(1_000_000);
        assert_eq!(clock.advance(Round(99), now), Err(Error::RoundReplayed(Round(99))));
        assert_eq!(clock.advance(Round(100), now), Ok(()));
        assert_eq!(clock.advance(Round(100), now), Err(Error::RoundReplayed(Round(100))));
    }

    #[test]
    fn the_slack_is_given_once_and_not_every_round() {
        let mut clock = clock();
        let now = UnixMillis(1_000_000);
        for round in 100..=108 {
            assert_eq!(clock.advance(Round(round), now), Ok(()));
        }
        assert_eq!(clock.advance(Round(109), now), Err(Error::RoundTooFar(Round(109))));
        assert_eq!(clock.advance(Round(109), UnixMillis(1_000_999)), Err(Error::RoundTooFar(Round(109))));
        assert_eq!(clock.advance(Round(109), UnixMillis(1_001_000)), Ok(()));
    }

    #[test]
    fn a_stopped_server_gathers_no_credit() {
        let mut clock = clock();
        clock.advance(Round(101), UnixMillis(90_000_000)).unwrap();
        assert!(clock.advance(Round(110), UnixMillis(90_000_000)).is_err());
        assert!(clock.advance(Round(109), UnixMillis(90_000_000)).is_ok());
    }

    #[test]
    fn a_clock_put_back_or_running_slow_does_not_lock_a_client_out() {
        let mut clock = clock();
        clock.advance(Round(100), UnixMillis(1_000_000)).unwrap();
        for round in 101..300 {
            clock.advance(Round(round), UnixMillis((round - 100) * 1000)).unwrap();
        }
        let mut clock = self::clock();
        for round in 101..100_000 {
            clock.advance(Round(round), UnixMillis(1_000_000 + (round - 100) * 999)).unwrap();
        }
    }

    #[test]
    fn an_invitation_from_impossible_rounds_is_refused() {
        let clock = clock();
        let now = UnixMillis(1_000_000);
        assert!(clock.explains(Round(100), now, now).is_ok());
        assert!(clock.explains(Round(0), UnixMillis(900_000), now).is_ok());
        assert!(clock.explains(Round(700), now, now).is_ok());
        assert!(clock.explains(Round(100_000), now, now).is_err());
        let late = Clock { newest: (Round(1_000_000), now), ..clock };
        assert!(late.explains(Round(0), now, now).is_err());
        assert!(late.explains(Round(0), UnixMillis(0), UnixMillis(u64::MAX)).is_ok());
    }
}
