//! A closed loop that nobody can hold up, and what a server with deadlines gives to whom.

use super::{
    ANSWERS_MS, ATTEMPTS_MAX, Accepted, Refusal, RoundConfig, RoundMachine, Turn, UNITS_MAX, UNITS_WINDOW,
};
use crate::{Round, RoundMode, UnixMillis};

const ONE: [u8; 32] = [1; 32];

/// One account has deposited in round 1, which is ready at 2,000 ms.
fn waiting() -> RoundMachine {
    let config = RoundConfig { mode: RoundMode::ClosedLoop, round_ms: 1000, deposits_max: 4 };
    let mut machine = RoundMachine::new(config, Round(1), UnixMillis(0));
    machine.registered(ONE, true);
    machine.opened(Round(1), UnixMillis(0));
    assert_eq!(machine.deposit(ONE, Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.turn(UnixMillis(1000)), Some(Turn::Seal(Round(1), None)));
    machine.sealed(Round(1));
    machine.ready(Round(1), UnixMillis(2000));
    assert_eq!(machine.turn(UnixMillis(2000)), None);
    machine
}

#[test]
fn a_client_that_never_retrieves_holds_a_closed_loop_up_for_a_time_only() {
    let mut machine = waiting();
    let due = UnixMillis(2000 + ANSWERS_MS);
    assert_eq!(machine.next_wakeup(UnixMillis(2500)), Some(due));
    assert_eq!(machine.turn(UnixMillis(due.0 - 1)), None);
    assert_eq!(machine.next_wakeup(due), Some(due));
    assert_eq!(machine.turn(due), Some(Turn::Open(Round(2))));
}

#[test]
fn a_client_whose_attempts_are_spent_does_not_hold_a_closed_loop_up() {
    let mut machine = waiting();
    let now = UnixMillis(3000);
    for _ in 1..ATTEMPTS_MAX {
        assert!(machine.retrieve(ONE, Round(1), [1; 32]).is_ok());
        machine.unanswered(&ONE, Round(1));
        assert_eq!(machine.turn(now), None, "it may ask again");
    }
    assert!(machine.retrieve(ONE, Round(1), [1; 32]).is_ok());
    assert_eq!(machine.turn(now), None, "it may still be answered");
    machine.unanswered(&ONE, Round(1));
    assert_eq!(machine.turn(now), Some(Turn::Open(Round(2))));
}

#[test]
fn a_client_whose_query_is_refused_does_not_hold_a_closed_loop_up() {
    let mut machine = waiting();
    assert!(machine.retrieve(ONE, Round(1), [1; 32]).is_ok());
    machine.unanswered(&ONE, Round(1));
    assert_eq!(machine.turn(UnixMillis(3000)), None);
    assert_eq!(machine.retrieve(ONE, Round(1), [2; 32]), Err(Refusal::Quota));
    assert_eq!(machine.turn(UnixMillis(3000)), Some(Turn::Open(Round(2))));
}

/// Who asks what is due, and a millisecond later when to ask again, must not sleep where the round reached its length in between.
#[test]
fn a_closed_loop_does_not_stand_still_where_everybody_has_deposited_before_its_least_length() {
    let config = RoundConfig { mode: RoundMode::ClosedLoop, round_ms: 1000, deposits_max: 4 };
    let mut machine = RoundMachine::new(config, Round(1), UnixMillis(0));
    machine.registered(ONE, true);
    machine.opened(Round(1), UnixMillis(0));
    assert_eq!(machine.next_wakeup(UnixMillis(1000)), None, "only a deposit changes something");
    assert_eq!(machine.deposit(ONE, Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.turn(UnixMillis(999)), None);
    assert_eq!(machine.next_wakeup(UnixMillis(999)), Some(UnixMillis(1000)));
    for late in [1000, 1001, 5000] {
        assert_eq!(machine.next_wakeup(UnixMillis(late)), Some(UnixMillis(late)));
    }
    assert_eq!(machine.turn(UnixMillis(1000)), Some(Turn::Seal(Round(1), None)));
}

const TWO: [u8; 32] = [2; 32];

/// A server with deadlines of which this round is open, and the one before can be retrieved.
fn with_deadlines(round: u64) -> RoundMachine {
    let config = RoundConfig { mode: RoundMode::Deadline, round_ms: 1000, deposits_max: 4 };
    let mut machine = RoundMachine::new(config, Round(round - 1), UnixMillis(0));
    machine.opened(Round(round - 1), UnixMillis(0));
    goes_on(&mut machine, round);
    machine
}

/// This round is opened, and the one before can be retrieved.
fn goes_on(machine: &mut RoundMachine, round: u64) {
    machine.sealed(Round(round - 1));
    machine.opened(Round(round), UnixMillis(0));
    machine.ready(Round(round - 1), UnixMillis(0));
}

/// Whoever could have every unit of every round would have everybody's boxes without asking for any, and the others would wait
/// for it; whoever had its sixteen once, and never again, could not check what it is asked to check.
#[test]
fn of_64_rounds_an_account_has_units_of_sixteen_and_of_the_next_64_as_many() {
    let mut machine = with_deadlines(UNITS_WINDOW);
    let mut had = Vec::new();
    for round in UNITS_WINDOW..3 * UNITS_WINDOW {
        let before = Round(round - 1);
        match machine.unit(ONE, before, 7) {
            Ok(Accepted::New) => {
                had.push(round);
                assert_eq!(machine.unit(ONE, before, 8), Err(Refusal::Quota), "another unit of the round");
                for _ in 1..ATTEMPTS_MAX {
                    assert_eq!(machine.unit(ONE, before, 7), Ok(Accepted::Repeated));
                }
            }
            refused => assert_eq!(refused, Err(Refusal::Quota)),
        }
        assert_eq!(machine.unit(ONE, Round(round), 7), Err(Refusal::NotReady));
        goes_on(&mut machine, round + 1);
    }
    let expected = [1, 2].map(|window| (window * UNITS_WINDOW..).take(UNITS_MAX.into()));
    assert_eq!(had, expected.into_iter().flatten().collect::<Vec<_>>());
    assert_eq!(
        machine.unit(TWO, Round(3 * UNITS_WINDOW - 1), 256 + 7),
        Ok(Accepted::New),
        "nobody else had any"
    );
    assert_eq!(
        machine.unit(TWO, Round(3 * UNITS_WINDOW - 1), 7),
        Err(Refusal::Quota),
        "all of the number counts"
    );
}

/// Where a leader that was cut off has told people when the round ends, its follower must not end it before; nor may it hold up a
/// round for ever by saying so again.
#[test]
fn a_round_stays_open_for_as_long_as_was_said_and_no_longer() {
    let mut machine = with_deadlines(5);
    machine.stays_open(UnixMillis(200), 100);
    assert_eq!(machine.next_wakeup(UnixMillis(200)), Some(UnixMillis(1000)), "its length is its length");
    machine.stays_open(UnixMillis(200), 3000);
    assert_eq!(machine.turn(UnixMillis(3199)), None);
    assert_eq!(machine.next_wakeup(UnixMillis(3199)), Some(UnixMillis(3200)));
    machine.stays_open(UnixMillis(3199), 1);
    assert_eq!(machine.turn(UnixMillis(3200)), Some(Turn::Seal(Round(5), Some(Round(6)))));
}

/// The same box is what was sent already, and its sender may have missed the answer; another one under the name of the account
/// would take its place.
#[test]
fn of_two_deposits_of_an_account_the_first_stands() {
    let mut machine = with_deadlines(5);
    assert_eq!(machine.current(), Round(5));
    assert_eq!(machine.deposit(ONE, Round(5), [1; 32]), Ok(Accepted::New));
    for (digest, expected) in
        [([2; 32], Err(Refusal::Quota)), ([1; 32], Ok(Accepted::Repeated)), ([2; 32], Err(Refusal::Quota))]
    {
        assert_eq!(machine.deposit(ONE, Round(5), digest), expected);
    }
    // Unless nobody knows what came of it.
    machine.forget_deposits();
    assert_eq!(machine.deposit(ONE, Round(5), [2; 32]), Ok(Accepted::New));
}

/// What is kept must be kept from the oldest round on that somebody may ask for, and numbers rise whatever was left out.
#[test]
fn the_oldest_round_is_one_that_may_still_be_asked_for() {
    let mut machine = with_deadlines(5);
    assert_eq!((machine.oldest(), machine.current()), (Round(4), Round(5)));
    machine.sealed(Round(5));
    assert_eq!((machine.oldest(), machine.current()), (Round(4), Round(6)));
    machine.retired(Round(4));
    assert_eq!(machine.oldest(), Round(5), "it is being built");
    machine.retired(Round(5));
    assert_eq!((machine.oldest(), machine.current()), (Round(6), Round(6)));
    machine.used_up(Round(8));
    assert_eq!((machine.oldest(), machine.current()), (Round(9), Round(9)));
    machine.used_up(Round(7));
    assert_eq!(machine.current(), Round(9));
}
