//! The server's rounds: nobody can delay, skip or double one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use sotto_protocol::server::{ATTEMPTS_MAX, Accepted, Account, Refusal, RoundConfig, RoundMachine, Turn};
use sotto_protocol::{Round, RoundMode, UnixMillis};

const ROUND_MS: u64 = 1000;

fn machine(mode: RoundMode) -> RoundMachine {
    let config = RoundConfig { mode, round_ms: ROUND_MS as u32, deposits_max: 4 };
    RoundMachine::new(config, Round(1), UnixMillis(5_000))
}

/// Does what is due, as a log of one writer has it at once.
fn tick(machine: &mut RoundMachine, now: UnixMillis) -> Vec<Turn> {
    let turns: Vec<Turn> = machine.turn(now).into_iter().collect();
    for turn in &turns {
        perform(machine, *turn, now);
    }
    turns
}

fn perform(machine: &mut RoundMachine, turn: Turn, now: UnixMillis) {
    let opens = match turn {
        Open(round) => Some(round),
        Seal(round, next) => {
            machine.sealed(round);
            next
        }
    };
    if let Some(round) = opens {
        machine.opened(round, now);
    }
}

fn at(ms: u64) -> UnixMillis {
    UnixMillis(5_000 + ms)
}

fn account(number: u8) -> Account {
    [number; 32]
}

use Turn::{Open, Seal};

#[test]
fn rounds_with_a_deadline_overlap_with_building() {
    let mut machine = machine(RoundMode::Deadline);
    assert_eq!(tick(&mut machine, at(0)), [Open(Round(1))]);
    assert_eq!(machine.next_wakeup(at(300)), Some(at(1000)));
    assert_eq!(tick(&mut machine, at(999)), []);
    assert_eq!(tick(&mut machine, at(1000)), [Seal(Round(1), Some(Round(2)))]);
    // Round 1 is still being built, and round 2 takes deposits already.
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Err(Refusal::NotReady));
    machine.ready(Round(1), at(1500));
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(2000)), [Seal(Round(2), Some(Round(3)))]);
    machine.ready(Round(2), at(2500));
    machine.retired(Round(1));
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.retrieve(account(1), Round(2), [1; 32]), Ok(Accepted::New));
}

#[test]
fn a_silent_client_delays_nobody() {
    let mut machine = machine(RoundMode::Deadline);
    machine.registered(account(1), true);
    machine.registered(account(2), true);
    let _ = tick(&mut machine, at(0));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(1000)), [Seal(Round(1), Some(Round(2)))]);
}

#[test]
fn a_build_that_is_given_up_stalls_nothing() {
    let mut machine = machine(RoundMode::Deadline);
    let _ = tick(&mut machine, at(0));
    for round in 1..=3 {
        let turns = tick(&mut machine, at(round * ROUND_MS));
        assert_eq!(turns, [Seal(Round(round), Some(Round(round + 1)))]);
    }
    assert!(machine.is_building(Round(1)));
    machine.retired(Round(1));
    assert!(!machine.is_building(Round(1)));
    machine.ready(Round(1), at(3100));
    assert_eq!(machine.retrieve(account(1), Round(1), [0; 32]), Err(Refusal::Closed), "too late");
    machine.ready(Round(2), at(3200));
    assert_eq!(machine.retrieve(account(1), Round(2), [0; 32]), Ok(Accepted::New));
}

#[test]
fn a_round_that_is_held_up_goes_on_and_ends_when_it_is_let_go() {
    let mut machine = machine(RoundMode::Deadline);
    let _ = tick(&mut machine, at(0));
    machine.hold(true);
    assert_eq!((machine.is_held_up(at(999)), machine.next_wakeup(at(999))), (false, Some(at(1000))));
    assert_eq!(tick(&mut machine, at(5000)), []);
    assert_eq!((machine.is_held_up(at(5000)), machine.next_wakeup(at(5000))), (true, None));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    machine.hold(false);
    assert_eq!(machine.next_wakeup(at(5001)), Some(at(5001)));
    assert_eq!(tick(&mut machine, at(5001)), [Seal(Round(1), Some(Round(2)))]);
    // In closed loop nothing waits that would not wait anyway, and what is to end now ends.
    let mut machine = self::machine(RoundMode::ClosedLoop);
    machine.opened(Round(7), at(0));
    machine.hold(true);
    assert!(!machine.is_held_up(at(5000)));
    machine.end_now();
    assert!(matches!(machine.turn(at(1)), Some(Seal(Round(7), _))));
}

/// The log of a group is written by whoever leads it: a node follows, decides nothing twice, and takes the lead at any time.
#[test]
fn a_round_ends_once_and_takes_nothing_while_its_end_is_being_written() {
    let mut machine = machine(RoundMode::Deadline);
    machine.opened(Round(7), at(0));
    assert_eq!(machine.deposit(account(1), Round(7), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.turn(at(1000)), Some(Seal(Round(7), Some(Round(8)))));
    machine.ending(true);
    assert_eq!((machine.turn(at(1000)), machine.next_wakeup(at(1000))), (None, None));
    assert_eq!(machine.deposit(account(2), Round(7), [1; 32]), Err(Refusal::Closed));
    // Nobody could write it.
    machine.ending(false);
    assert_eq!(machine.deposit(account(2), Round(7), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.turn(at(1000)), Some(Seal(Round(7), Some(Round(8)))));
    // Somebody else wrote it, and ended the next one early.
    machine.sealed(Round(7));
    machine.opened(Round(9), at(1500));
    machine.retired(Round(7));
    assert_eq!(machine.turn(at(2499)), None, "it has its full length from when it was heard of");
    assert_eq!(machine.turn(at(2500)), Some(Seal(Round(9), Some(Round(10)))));
}

#[test]
fn a_round_of_which_nobody_knows_how_long_it_is_open_can_be_ended() {
    for mode in [RoundMode::Deadline, RoundMode::ClosedLoop] {
        let mut machine = machine(mode);
        machine.registered(account(1), true);
        machine.opened(Round(7), at(0));
        assert_eq!(machine.turn(at(1)), None);
        machine.end_now();
        assert_eq!(machine.next_wakeup(at(1)), Some(at(1)));
        assert!(matches!(machine.turn(at(1)), Some(Seal(Round(7), _))));
    }
}

#[test]
fn what_was_not_stored_may_be_deposited_again_or_something_else() {
    let mut machine = machine(RoundMode::Deadline);
    machine.opened(Round(1), at(0));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.deposit(account(1), Round(1), [2; 32]), Err(Refusal::Quota));
    machine.not_stored(&account(1), Round(1), &[2; 32]);
    assert_eq!(machine.deposit(account(1), Round(1), [2; 32]), Err(Refusal::Quota), "that was another one");
    machine.not_stored(&account(1), Round(1), &[1; 32]);
    assert_eq!(machine.deposit(account(1), Round(1), [2; 32]), Ok(Accepted::New));
}

#[test]
fn closed_loop_waits_for_everybody_and_for_nobody_who_left() {
    let mut machine = machine(RoundMode::ClosedLoop);
    machine.registered(account(1), true);
    machine.registered(account(2), true);
    machine.registered(account(3), false);
    assert_eq!(tick(&mut machine, at(0)), [Open(Round(1))]);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.deposit(account(2), Round(1), [2; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(5000)), [], "one deposit is missing");
    assert_eq!(machine.next_wakeup(at(5000)), None);
    assert_eq!(machine.deposit(account(3), Round(1), [3; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(5001)), [Seal(Round(1), None)]);
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Err(Refusal::NotReady));

    machine.ready(Round(1), at(5100));
    assert_eq!(tick(&mut machine, at(5100)), [], "two are to retrieve");
    machine.retrieved(&account(1), Round(1));
    // A newcomer has nothing in round 1 and is not waited for; the one without keys cannot retrieve.
    machine.registered(account(4), true);
    assert_eq!(tick(&mut machine, at(5300)), []);
    machine.gone(&account(2));
    assert_eq!(tick(&mut machine, at(5301)), [Open(Round(2))]);
}

#[test]
fn closed_loop_keeps_the_least_length_and_does_not_spin_when_empty() {
    let mut machine = machine(RoundMode::ClosedLoop);
    let _ = tick(&mut machine, at(0));
    assert_eq!(tick(&mut machine, at(9000)), [], "no deposit, no round");
    machine.registered(account(1), true);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(9001)), [Seal(Round(1), None)]);
    machine.ready(Round(1), at(9002));
    assert_eq!(tick(&mut machine, at(9002)), []);
    machine.retrieved(&account(1), Round(1));
    assert_eq!(tick(&mut machine, at(9003)), [Open(Round(2))]);
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
    assert_eq!(tick(&mut machine, at(9100)), []);
    assert_eq!(machine.next_wakeup(at(9100)), Some(at(10_003)));
    assert_eq!(tick(&mut machine, at(10_003)), [Seal(Round(2), None)]);
}

#[test]
fn a_failed_build_does_not_end_a_closed_loop() {
    let mut machine = machine(RoundMode::ClosedLoop);
    machine.registered(account(1), true);
    let _ = tick(&mut machine, at(0));
    let _ = machine.deposit(account(1), Round(1), [1; 32]);
    assert_eq!(tick(&mut machine, at(1000)), [Seal(Round(1), None)]);
    assert_eq!(tick(&mut machine, at(1050)), []);
    machine.retired(Round(1));
    assert_eq!(tick(&mut machine, at(1100)), [Open(Round(2))]);
}

#[test]
fn late_and_early_deposits_are_refused_and_never_moved() {
    let mut machine = machine(RoundMode::Deadline);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Err(Refusal::NotReady));
    let _ = tick(&mut machine, at(0));
    assert_eq!(machine.deposit(account(1), Round(0), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Err(Refusal::NotReady));
    let _ = tick(&mut machine, at(1000));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
}

#[test]
fn one_call_of_a_kind_per_account_and_round() {
    let mut machine = machine(RoundMode::Deadline);
    let _ = tick(&mut machine, at(0));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    for _ in 0..100 {
        assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::Repeated));
    }
    assert_eq!(machine.deposit(account(1), Round(1), [2; 32]), Err(Refusal::Quota));
    for other in 2..=4 {
        assert_eq!(machine.deposit(account(other), Round(1), [1; 32]), Ok(Accepted::New));
    }
    assert_eq!(machine.deposit(account(5), Round(1), [1; 32]), Err(Refusal::Full));

    let _ = tick(&mut machine, at(1000));
    machine.ready(Round(1), at(1000));
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.retrieve(account(1), Round(1), [2; 32]), Err(Refusal::Quota));
    assert_eq!(machine.mapping(account(1), Round(1)), Ok(Accepted::New));
    for _ in 1..ATTEMPTS_MAX {
        assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Ok(Accepted::Repeated));
        assert_eq!(machine.mapping(account(1), Round(1)), Ok(Accepted::Repeated));
    }
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Err(Refusal::Quota));
    assert_eq!(machine.mapping(account(1), Round(1)), Err(Refusal::Quota));
    assert_eq!(machine.retrieve(account(2), Round(1), [1; 32]), Ok(Accepted::New));
}

#[test]
fn a_clock_set_back_does_not_stall_and_one_set_forward_skips_nothing() {
    let mut machine = machine(RoundMode::Deadline);
    let _ = tick(&mut machine, UnixMillis(1_000_000));
    assert_eq!(tick(&mut machine, UnixMillis(1_000_600)), []);
    // Back by a quarter of an hour; 400 ms were left.
    assert_eq!(tick(&mut machine, UnixMillis(100_000)), []);
    assert_eq!(machine.next_wakeup(UnixMillis(100_000)), Some(UnixMillis(100_400)));
    assert_eq!(tick(&mut machine, UnixMillis(100_400)), [Seal(Round(1), Some(Round(2)))]);
    // Forward by a year: one round ends, and the next has its full length.
    assert_eq!(tick(&mut machine, UnixMillis(31_536_000_000)), [Seal(Round(2), Some(Round(3)))]);
    assert_eq!(machine.next_wakeup(UnixMillis(31_536_000_000)), Some(UnixMillis(31_536_001_000)));
}

#[derive(Clone, Debug)]
enum Event {
    Registered(u8, bool),
    Gone(u8),
    Deposit(u8, i8, u8),
    Retrieved(u8),
    Pass(u16),
    SetClock(u64),
    Built,
    Failed,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..6_u8, any::<bool>()).prop_map(|(account, keys)| Event::Registered(account, keys)),
        1 => (0..6_u8).prop_map(Event::Gone),
        8 => (0..6_u8, -2..=2_i8, 0..3_u8).prop_map(|(account, off, bytes)| Event::Deposit(account, off, bytes)),
        4 => (0..6_u8).prop_map(Event::Retrieved),
        4 => (0..1500_u16).prop_map(Event::Pass),
        1 => (0..100_000_000_u64).prop_map(Event::SetClock),
        4 => Just(Event::Built),
        1 => Just(Event::Failed),
    ]
}

/// What a server would hold, told by the log alone.
#[derive(Default)]
struct World {
    open: Option<Round>,
    opened: Vec<Round>,
    sealed: BTreeMap<Round, BTreeSet<(u8, u8)>>,
    pending: BTreeSet<(u8, u8)>,
    building: BTreeSet<Round>,
}

impl World {
    fn perform(&mut self, turn: Turn) {
        let opens = match turn {
            Open(round) => Some(round),
            Seal(round, next) => {
                assert_eq!(self.open.take(), Some(round));
                let deposits = core::mem::take(&mut self.pending);
                assert!(self.sealed.insert(round, deposits).is_none(), "sealed twice");
                self.building.insert(round);
                next
            }
        };
        if let Some(round) = opens {
            assert_eq!(self.open.replace(round), None, "two open rounds");
            assert_eq!(round.0, self.opened.last().map_or(1, |last| last.0 + 1), "a round was skipped");
            self.opened.push(round);
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_every_accepted_deposit_is_in_exactly_one_sealed_round(
        events in proptest::collection::vec(event(), 1..200),
        closed in any::<bool>(),
    ) {
        let mode = if closed { RoundMode::ClosedLoop } else { RoundMode::Deadline };
        let mut machine = machine(mode);
        let mut world = World::default();
        let mut accepted: BTreeMap<Round, BTreeSet<(u8, u8)>> = BTreeMap::new();
        let mut now = 5_000;
        let mut ready = BTreeSet::new();
        for event in events {
            match event {
                Event::Registered(number, keys) => machine.registered(account(number), keys),
                Event::Gone(number) => machine.gone(&account(number)),
                Event::Deposit(number, off, bytes) => {
                    let round = Round(machine.current().0.saturating_add_signed(off.into()));
                    match machine.deposit(account(number), round, [bytes; 32]) {
                        Ok(kind) => {
                            assert_eq!(world.open, Some(round));
                            let new = accepted.entry(round).or_default().insert((number, bytes));
                            assert_eq!(new, kind == Accepted::New);
                            world.pending.insert((number, bytes));
                        }
                        Err(Refusal::Closed) => assert!(world.sealed.contains_key(&round) || round.0 == 0),
                        Err(_) => {}
                    }
                }
                Event::Retrieved(number) => {
                    if let Some(newest) = ready.last() {
                        machine.retrieved(&account(number), *newest);
                    }
                }
                Event::Pass(ms) => now += u64::from(ms),
                Event::SetClock(to) => now = to,
                Event::Built => {
                    if let Some(round) = world.building.pop_first() {
                        machine.ready(round, UnixMillis(now));
                        ready.insert(round);
                    }
                }
                Event::Failed => {
                    if let Some(round) = world.building.pop_first() {
                        machine.retired(round);
                    }
                }
            }
            for turn in tick(&mut machine, UnixMillis(now)) {
                world.perform(turn);
            }
            assert_eq!(machine.open(UnixMillis(now)).map(|(round, _)| round), world.open);
            if !closed {
                assert!(world.open.is_some(), "deposits must always be possible");
            }
        }
        for (round, deposits) in accepted {
            let stored = if world.open == Some(round) { &world.pending } else { &world.sealed[&round] };
            assert_eq!(*stored, deposits);
            // One deposit per account.
            let accounts: BTreeSet<u8> = deposits.iter().map(|(account, _)| *account).collect();
            assert_eq!(accounts.len(), deposits.len());
        }
    }
}
