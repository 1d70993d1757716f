//! Which round numbers time can explain.

use serde::{Deserialize, Serialize};

use crate::{Error, Round, ServerParameters, UnixMillis};

/// Rounds by which a server may be ahead of the calculation.
const SLACK_ROUNDS: u64 = 8;
/// Of a thousand milliseconds, how many the clocks of client and server may differ.
const DRIFT_PER_MILLE: u64 = 2;
/// How far the clocks of two people may be apart when one invites the other, ms.
const SKEW_MS: u64 = 10 * 60 * 1000;
/// Of the time by which rounds are behind, how much is kept when the clock is put back, ms.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// The newest round a client has used, and how far ahead it may go.
///
/// Rounds ahead of the calculation use up the slack; only time gives it back. A server can thus run ahead by 8 rounds in
/// all, not by 8 each time. Rounds that come late do not move the calculation: whoever hears of many at once, after a
/// pause of his own, can use them all, and those that are punctual again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Clock {
    round_ms: u32,
    /// From which the calculation starts.
    anchor: (Round, UnixMillis),
    /// The newest round known, and when it was.
    newest: (Round, UnixMillis),
    used: Used,
}

/// Whether the newest round has served. As bytes the first two are what states had here before the third: false and true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Used {
    No,
    Yes,
    /// It is the last that somebody else can have used with the same state, as long as rounds have not changed since.
    Perhaps,
}

impl Clock {
    pub(crate) fn new(server: &ServerParameters, joined: (Round, UnixMillis)) -> Self {
        Self { round_ms: server.round_ms.max(1), anchor: joined, newest: joined, used: Used::No }
    }

    /// The newest round known, and when it was.
    pub(crate) fn newest(&self) -> (Round, UnixMillis) {
        self.newest
    }

    /// The first round that can still be used.
    pub(crate) fn next(&self) -> Round {
        if self.used == Used::No { self.newest.0 } else { self.newest.0.next() }
    }

    /// Takes `round` as the newest.
    ///
    /// # Errors
    /// [`Error::RoundReplayed`] if it is not newer than the last one used; [`Error::RoundTooFar`].
    pub(crate) fn advance(&mut self, round: Round, now: UnixMillis) -> Result<(), Error> {
        if round < self.next() {
            return Err(Error::RoundReplayed(round));
        }
        let anchor = self.anchor_at(now);
        let ahead = round.0.saturating_sub(anchor.0.0);
        if ahead > self.rounds_in(now.since(anchor.1)).saturating_add(SLACK_ROUNDS) {
            return Err(Error::RoundTooFar(round));
        }
        self.anchor = anchor;
        self.newest = (round, now);
        self.used = Used::Yes;
        Ok(())
    }

    /// Calculates from the newest round on, as one does who joins then: by how much rounds were late before is forgotten. If the newest
    /// is ahead of the calculation that stays as it is: otherwise a server would get further ahead each time, and beyond what
    /// [`Clock::use_up`] takes for used in a copy from before.
    pub(crate) fn begin_at_newest(&mut self) {
        let ((start, time), (newest, newest_time)) = (self.anchor, self.newest);
        let is_explained = |rounds| newest_time >= time && rounds <= self.rounds_in(newest_time.since(time));
        if newest.0.checked_sub(start.0).is_some_and(is_explained) {
            self.anchor = self.newest;
        }
    }

    /// Takes for used all rounds that [`Clock::advance`] would have taken until `now`, whoever used them. Returns the first that it
    /// takes from then on, and when that is opened if rounds were, and are, as long as they should be.
    pub(crate) fn use_up(&mut self, now: UnixMillis) -> (Round, UnixMillis) {
        let (start, time) = self.anchor;
        let (newest, newest_time) = self.newest;
        // On a machine whose clock is behind, it is at least as late as when the state was written.
        let now = now.max(newest_time);
        let explained = start.0.saturating_add(self.rounds_in(now.since(time))).saturating_add(SLACK_ROUNDS);
        let last = Round(explained.max(newest.0));
        self.newest = (last, now);
        self.used = Used::Perhaps;
        let rounds = last.next().0.saturating_sub(newest.0);
        let at = newest_time.0.saturating_add(rounds.saturating_mul(self.round_ms.into()));
        (last.next(), UnixMillis(at.max(now.0)))
    }

    /// The anchor, moved along if the clock was put back since the newest round, as if no time had passed meanwhile.
    ///
    /// A clock that was wrong before may have made rounds seem late by years: so much is not kept.
    fn anchor_at(&self, now: UnixMillis) -> (Round, UnixMillis) {
        let (start, time) = self.anchor;
        let (newest, newest_time) = self.newest;
        if now >= newest_time {
            return self.anchor;
        }
        let elapsed = newest_time.since(time);
        let behind = self.rounds_in(elapsed).saturating_sub(newest.0.saturating_sub(start.0));
        let kept = behind <= self.rounds_in(KEPT_MS);
        match now.0.checked_sub(elapsed) {
            Some(moved) if kept => (start, UnixMillis(moved)),
            _ => (newest, UnixMillis(now.0.saturating_sub(KEPT_MS.min(elapsed)))),
        }
    }

    /// Checks a pair of round and time that somebody else gives, when the newest round is this clock's.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if no time between the two explains the rounds between them.
    pub(crate) fn explains(&self, round: Round, time: UnixMillis, now: UnixMillis) -> Result<(), Error> {
        let slack = SLACK_ROUNDS + SKEW_MS / u64::from(self.round_ms);
        let (newest, newest_time) = self.newest;
        let (rounds, elapsed) = match round.0.checked_sub(newest.0) {
            Some(ahead) => (ahead, now.max(time).since(newest_time)),
            None => (newest.0 - round.0, now.since(time)),
        };
        if rounds > self.rounds_in(elapsed).saturating_add(slack) {
            return Err(Error::RoundTooFar(round));
        }
        Ok(())
    }

    /// Goes on with rounds of another length, of which `open` is open now. What passed since the newest round may have
    /// been rounds of either length.
    ///
    /// After [`Clock::use_up`], whoever else has the state may have heard of the other length at any moment since the anchor. All
    /// rounds of the shorter of both count as used that they could have opened then: with those by which a server can be ahead
    /// before the change, in it, and after it.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if no time explains that round.
    pub(crate) fn adopt(&mut self, round_ms: u32, (open, now): (Round, UnixMillis)) -> Result<(), Error> {
        let (mut newest, newest_time) = self.newest;
        let elapsed = now.since(newest_time);
        let shorter = Self { round_ms: self.round_ms.min(round_ms.max(1)), ..self.clone() };
        if self.used == Used::Perhaps && round_ms != self.round_ms {
            let (start, time) = self.anchor;
            let rounds = shorter.rounds_in(now.max(newest_time).since(time)).saturating_add(3 * SLACK_ROUNDS);
            newest = newest.max(Round(start.0.saturating_add(rounds)));
        }
        if open.0.saturating_sub(newest.0) > shorter.rounds_in(elapsed).saturating_add(SLACK_ROUNDS) {
            return Err(Error::RoundTooFar(open));
        }
        self.round_ms = round_ms.max(1);
        self.anchor = (open.max(newest), now.max(newest_time));
        if self.used == Used::Perhaps {
            self.newest = (newest, now.max(newest_time));
        }
        Ok(())
    }

    fn rounds_in(&self, elapsed: u64) -> u64 {
        elapsed.saturating_add(elapsed / 1000 * DRIFT_PER_MILLE) / u64::from(self.round_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Used};
    use crate::{Error, Round, UnixMillis};

    fn clock() -> Clock {
        let joined = (Round(100), UnixMillis(1_000_000));
        Clock { round_ms: 1000, anchor: joined, newest: joined, used: Used::No }
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
    fn rounds_heard_of_all_at_once_are_explained_and_so_are_those_after_them() {
        let mut clock = clock();
        clock.advance(Round(100), UnixMillis(1_000_000)).unwrap();
        let now = UnixMillis(1_040_000);
        for round in 101..=140 {
            assert_eq!(clock.advance(Round(round), now), Ok(()));
            assert_eq!(clock.advance(Round(round), now), Err(Error::RoundReplayed(Round(round))));
        }
        assert_eq!(clock.advance(Round(149), now), Err(Error::RoundTooFar(Round(149))));
        for round in 141..1000 {
            let now = UnixMillis(1_000_000 + (round - 100) * 1000);
            assert_eq!(clock.advance(Round(round), now), Ok(()));
        }
    }

    #[test]
    fn a_long_pause_with_one_late_round_before_the_open_one_locks_nobody_out() {
        let mut clock = clock();
        clock.advance(Round(100), UnixMillis(1_000_000)).unwrap();
        let week = 7 * 24 * 3600;
        let now = UnixMillis(1_000_000 + week * 1000);
        clock.advance(Round(101), now).unwrap();
        let stored = postcard::to_allocvec(&clock).unwrap();
        let mut clock: Clock = postcard::from_bytes(&stored).unwrap();
        assert_eq!(clock.advance(Round(100), now), Err(Error::RoundReplayed(Round(100))));
        let far = Round(100 + week + 2 * week);
        assert_eq!(clock.advance(far, now), Err(Error::RoundTooFar(far)));
        for round in 100 + week..100 + week + 1000 {
            let now = UnixMillis(1_000_000 + (round - 100) * 1000);
            assert_eq!(clock.advance(Round(round), now), Ok(()));
        }
    }

    #[test]
    fn a_clock_that_was_years_ahead_leaves_no_more_than_a_day() {
        let mut clock = clock();
        let (year, day) = (365 * 24 * 3600, 24 * 3600);
        clock.advance(Round(101), UnixMillis(1_000_000 + 10 * year * 1000)).unwrap();
        let now = UnixMillis(1_000_000 + day * 1000);
        assert!(clock.advance(Round(102 + 2 * day), now).is_err());
        assert!(clock.advance(Round(102), now).is_ok());
        assert!(clock.advance(Round(102 + 2 * day), now).is_err());
        assert!(clock.advance(Round(103), UnixMillis(now.0 + 1000)).is_ok());
    }

    /// The same in the years that there are: so far back that the time of the anchor could be moved along.
    #[test]
    fn by_how_much_a_clock_was_ahead_is_not_how_far_rounds_may_be() {
        let (year, day, now) = (365 * 24 * 3_600_000, 24 * 3_600_000, 1_790_000_000_000);
        let joined = (Round(100), UnixMillis(now));
        let mut clock = Clock { anchor: joined, newest: joined, ..clock() };
        clock.advance(Round(101), UnixMillis(now + 2 * year)).unwrap();
        let mut kept = Clock { anchor: joined, newest: joined, ..clock.clone() };
        kept.advance(Round(101), UnixMillis(now + day)).unwrap();
        // A day and its drift, less the round that there was; and what the server may be ahead.
        let most = 101 + 24 * 3600 + 172 + 8;
        for (clock, most) in [(clock, most), (kept, most - 1)] {
            let far = |round| clock.clone().advance(Round(round), UnixMillis(now)).is_ok();
            assert_eq!([most, most + 1].map(far), [true, false]);
        }
    }

    /// Neither may whoever comes back be locked out by a change, nor a server be further ahead after it.
    #[test]
    fn with_another_length_of_rounds_a_server_is_ahead_by_as_many() {
        for (round_ms, elapsed, most) in
            [(500, 0, 108), (1000, 0, 108), (500, 10_000, 128), (2000, 10_000, 118)]
        {
            let adopts =
                |open| clock().adopt(round_ms, (Round(open), UnixMillis(1_000_000 + elapsed))).is_ok();
            assert_eq!([most, most + 1].map(adopts), [true, false], "{round_ms}, {elapsed}");
        }
    }

    #[test]
    fn a_clock_put_back_during_a_long_life_does_not_lock_a_client_out() {
        let mut clock = clock();
        for round in 100..20_000 {
            clock.advance(Round(round), UnixMillis(1_000_000_000 + round * 1000)).unwrap();
        }
        for back in [3600 * 1000, 1_000_000_000] {
            let mut clock = clock.clone();
            for round in 20_000..40_000 {
                clock.advance(Round(round), UnixMillis(1_000_000_000 - back + round * 1000)).unwrap();
            }
        }
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
    fn what_one_can_have_used_until_a_moment_is_used_for_another_and_the_next_is_not() {
        let mut clock = clock();
        for round in 100..150 {
            // A server that was slow for a while: the rounds that time explains are ahead of it.
            clock.advance(Round(round), UnixMillis(1_000_000 + (round - 100) * 1500)).unwrap();
        }
        for elapsed in [0, 1, 999, 1000, 100_000, 30_000_000] {
            let now = UnixMillis(1_000_000 + 49 * 1500 + elapsed);
            let (first, at) = clock.clone().use_up(now);
            // Of one who goes on, the fastest that any server can make it.
            let mut other = clock.clone();
            let taken = (150..).take_while(|round| other.advance(Round(*round), now).is_ok()).last().unwrap();
            assert_eq!(first, Round(taken + 1));
            let mut anew = clock.clone();
            anew.use_up(now);
            for round in [100, 149, 150, taken] {
                let later = UnixMillis(now.0 + 1_000_000);
                assert_eq!(
                    anew.clone().advance(Round(round), later),
                    Err(Error::RoundReplayed(Round(round)))
                );
            }
            assert_eq!(anew.clone().advance(first, now), Err(Error::RoundTooFar(first)));
            anew.advance(first, UnixMillis(now.0 + 1000)).unwrap();
            assert!(at >= now && at.0 <= now.0 + (first.0 - 149) * 1000);
        }
    }

    #[test]
    fn by_how_much_rounds_were_late_holds_up_nobody_who_began_at_the_newest() {
        let mut clock = clock();
        let day = 24 * 3600;
        clock.advance(Round(110), UnixMillis(1_000_000 + day * 1000)).unwrap();
        let now = UnixMillis(1_000_000 + day * 1000 + 5000);
        assert_eq!(clock.clone().use_up(now).0, Round(100 + day + 172 + 5 + 8 + 1));
        clock.begin_at_newest();
        assert_eq!(clock.clone().use_up(now).0, Round(110 + 5 + 8 + 1));
        // Nor does whoever goes on get further than that.
        assert!(clock.clone().advance(Round(123), now).is_ok());
        assert_eq!(clock.advance(Round(124), now), Err(Error::RoundTooFar(Round(124))));
    }

    /// Whoever keeps copies aside again and again gives a server that is ahead no more rounds than a copy takes for used.
    #[test]
    fn attack_a_server_that_is_ahead_whenever_a_copy_is_made_gets_no_further() {
        let (mut clock, now) = (clock(), UnixMillis(1_000_000));
        clock.begin_at_newest();
        let copy = clock.clone();
        for _ in 0..10 {
            while clock.advance(clock.newest.0.next(), now).is_ok() {}
            clock.begin_at_newest();
        }
        let mut anew = copy;
        anew.use_up(now);
        assert_eq!(anew.newest.0, clock.newest.0);
        // Nor if the rounds have become shorter since the newest.
        let (mut clock, later) = (Clock { round_ms: 1000, ..clock }, UnixMillis(1_000_000 + 3_600_000));
        clock.adopt(200, (Round(2000), later)).unwrap();
        let before = clock.clone();
        clock.begin_at_newest();
        for round in [2001, 2008, 2009, 10_000, 18_000] {
            let (with, without) =
                (clock.clone().advance(Round(round), later), before.clone().advance(Round(round), later));
            assert_eq!(with, without, "{round}");
        }
    }

    /// Whoever goes on hears of other lengths at any moment, from a server that is as far ahead as it can be; whoever comes back hears
    /// of them last, and is neither locked out nor uses a round again.
    #[test]
    fn a_copy_from_before_another_length_of_rounds_uses_nothing_twice_and_is_not_locked_out() {
        let greedy = |clock: &mut Clock, now| {
            while clock.advance(clock.newest.0.next(), now).is_ok() {}
        };
        for round_ms in [200, 999, 1001, 5000] {
            for (changed, back) in
                [(0, 0), (0, 1), (1, 1), (50_000, 50_000), (50_000, 90_000), (0, 3_600_000)]
            {
                let [start, changed, back] = [0, changed, back].map(|ms| UnixMillis(1_000_000 + ms));
                let mut goes_on = clock();
                greedy(&mut goes_on, start);
                goes_on.begin_at_newest();
                let mut copy = goes_on.clone();
                greedy(&mut goes_on, changed);
                // The furthest open round that it believes.
                let believes = |open: &u64| goes_on.clone().adopt(round_ms, (Round(*open), changed)).is_ok();
                let open = Round((goes_on.newest.0.0..).take_while(believes).last().unwrap());
                goes_on.adopt(round_ms, (open, changed)).unwrap();
                greedy(&mut goes_on, back);

                copy.use_up(back);
                let open = goes_on.newest.0;
                copy.adopt(round_ms, (open, back)).unwrap();
                let next = copy.next();
                assert!(next > open, "{round_ms} {changed:?} {back:?}");
                assert_eq!(copy.clone().advance(open, back), Err(Error::RoundReplayed(open)));
                // It speaks again when rounds have come there, and then like everybody.
                for round in next.0..next.0 + 100 {
                    let time = UnixMillis(back.0 + u64::from(round_ms) * (round - open.0));
                    copy.advance(Round(round), time).unwrap();
                }
                assert_eq!(copy.used, Used::Yes);
            }
        }
    }

    #[test]
    fn on_a_clock_that_is_behind_nothing_is_used_twice_either() {
        let mut clock = clock();
        clock.advance(Round(160), UnixMillis(1_060_000)).unwrap();
        for now in [UnixMillis(0), UnixMillis(1_060_000)] {
            assert_eq!(clock.clone().use_up(now), (Round(169), UnixMillis(1_069_000)));
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
        assert!(late.explains(Round(999_990), now, now).is_ok());
        // Ten minutes of rounds of a second, by which clocks may differ, and eight by which a server may be ahead.
        let explains = |round| clock.explains(Round(round), now, now).is_ok();
        assert_eq!([708, 709].map(explains), [true, false]);
    }
}
