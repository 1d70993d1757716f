//! A closed loop that nobody can hold up.

use super::{ANSWERS_MS, ATTEMPTS_MAX, Accepted, Refusal, RoundConfig, RoundMachine, Turn};
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
