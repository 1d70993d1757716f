//! The server's rounds: nobody can delay, skip or double one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use sotto_protocol::server::{ATTEMPTS_MAX, Accepted, Account, Action, Refusal, RoundConfig, RoundMachine};
use sotto_protocol::{Round, RoundMode, UnixMillis};

const ROUND_MS: u64 = 1000;

fn machine(mode: RoundMode, retained: u8) -> RoundMachine {
    let config = RoundConfig { mode, round_ms: ROUND_MS as u32, retained, deposits_max: 4 };
    RoundMachine::new(config, Round(1), UnixMillis(5_000))
}

fn at(ms: u64) -> UnixMillis {
    UnixMillis(5_000 + ms)
}

fn account(number: u8) -> Account {
    [number; 32]
}

use Action::{Open, Retire, Seal};

#[test]
fn rounds_with_a_deadline_overlap_with_building() {
    let mut machine = machine(RoundMode::Deadline, 2);
    assert_eq!(machine.tick(at(0)), [Open(Round(1))]);
    assert_eq!(machine.next_wakeup(at(300)), Some(at(1000)));
    assert_eq!(machine.tick(at(999)), []);
    assert_eq!(machine.tick(at(1000)), [Seal(Round(1)), Open(Round(2))]);
    // Round 1 is still being built, and round 2 takes deposits already.
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Err(Refusal::NotReady));
    assert_eq!(machine.built(Round(1), at(1500)), []);
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(2000)), [Seal(Round(2)), Open(Round(3))]);
    assert_eq!(machine.built(Round(2), at(2500)), []);
    assert_eq!(machine.tick(at(3000)), [Seal(Round(3)), Open(Round(4))]);
    assert_eq!(machine.built(Round(3), at(3500)), [Retire(Round(1))]);
    assert_eq!(machine.retrieve(account(1), Round(1), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.retrieve(account(1), Round(2), [1; 32]), Ok(Accepted::New));
}

#[test]
fn a_silent_client_delays_nobody() {
    let mut machine = machine(RoundMode::Deadline, 2);
    machine.registered(account(1), true);
    machine.registered(account(2), true);
    let _ = machine.tick(at(0));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(1000)), [Seal(Round(1)), Open(Round(2))]);
}

#[test]
fn a_build_that_takes_too_long_is_given_up_and_stalls_nothing() {
    let mut machine = machine(RoundMode::Deadline, 2);
    let _ = machine.tick(at(0));
    assert_eq!(machine.tick(at(1000)), [Seal(Round(1)), Open(Round(2))]);
    assert_eq!(machine.tick(at(2000)), [Seal(Round(2)), Open(Round(3))]);
    assert!(machine.is_building(Round(1)));
    assert_eq!(machine.tick(at(3000)), [Seal(Round(3)), Retire(Round(1)), Open(Round(4))]);
    assert!(!machine.is_building(Round(1)));
    assert_eq!(machine.built(Round(1), at(3100)), [], "too late to be published");
    assert_eq!(machine.retrieve(account(1), Round(1), [0; 32]), Err(Refusal::Closed));
    assert_eq!(machine.built(Round(2), at(3200)), []);
    assert_eq!(machine.retrieve(account(1), Round(2), [0; 32]), Ok(Accepted::New));
}

#[test]
fn closed_loop_waits_for_everybody_and_for_nobody_who_left() {
    let mut machine = machine(RoundMode::ClosedLoop, 2);
    machine.registered(account(1), true);
    machine.registered(account(2), true);
    machine.registered(account(3), false);
    assert_eq!(machine.tick(at(0)), [Open(Round(1))]);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.deposit(account(2), Round(1), [2; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(5000)), [], "one deposit is missing");
    assert_eq!(machine.next_wakeup(at(5000)), None);
    assert_eq!(machine.deposit(account(3), Round(1), [3; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(5001)), [Seal(Round(1))]);
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Err(Refusal::NotReady));

    assert_eq!(machine.built(Round(1), at(5100)), [], "two are to retrieve");
    assert_eq!(machine.retrieved(&account(1), Round(1), at(5200)), []);
    // A newcomer has nothing in round 1 and is not waited for; the one without keys cannot retrieve.
    machine.registered(account(4), true);
    assert_eq!(machine.tick(at(5300)), []);
    machine.gone(&account(2));
    assert_eq!(machine.tick(at(5301)), [Open(Round(2))]);
}

#[test]
fn closed_loop_keeps_the_least_length_and_does_not_spin_when_empty() {
    let mut machine = machine(RoundMode::ClosedLoop, 1);
    let _ = machine.tick(at(0));
    assert_eq!(machine.tick(at(9000)), [], "no deposit, no round");
    machine.registered(account(1), true);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(9001)), [Seal(Round(1))]);
    assert_eq!(machine.built(Round(1), at(9002)), []);
    assert_eq!(machine.retrieved(&account(1), Round(1), at(9003)), [Open(Round(2))]);
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
    assert_eq!(machine.tick(at(9100)), []);
    assert_eq!(machine.next_wakeup(at(9100)), Some(at(10_003)));
    assert_eq!(machine.tick(at(10_003)), [Seal(Round(2))]);
}

#[test]
fn a_failed_build_does_not_end_a_closed_loop() {
    let mut machine = machine(RoundMode::ClosedLoop, 1);
    machine.registered(account(1), true);
    let _ = machine.tick(at(0));
    let _ = machine.deposit(account(1), Round(1), [1; 32]);
    assert_eq!(machine.tick(at(1000)), [Seal(Round(1))]);
    assert_eq!(machine.abandoned(Round(1), at(1100)), [Retire(Round(1)), Open(Round(2))]);
}

#[test]
fn late_and_early_deposits_are_refused_and_never_moved() {
    let mut machine = machine(RoundMode::Deadline, 2);
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Err(Refusal::NotReady));
    let _ = machine.tick(at(0));
    assert_eq!(machine.deposit(account(1), Round(0), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Err(Refusal::NotReady));
    let _ = machine.tick(at(1000));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Err(Refusal::Closed));
    assert_eq!(machine.deposit(account(1), Round(2), [1; 32]), Ok(Accepted::New));
}

#[test]
fn one_call_of_a_kind_per_account_and_round() {
    let mut machine = machine(RoundMode::Deadline, 2);
    let _ = machine.tick(at(0));
    assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::New));
    for _ in 0..100 {
        assert_eq!(machine.deposit(account(1), Round(1), [1; 32]), Ok(Accepted::Repeated));
    }
    assert_eq!(machine.deposit(account(1), Round(1), [2; 32]), Err(Refusal::Quota));
    for other in 2..=4 {
        assert_eq!(machine.deposit(account(other), Round(1), [1; 32]), Ok(Accepted::New));
    }
    assert_eq!(machine.deposit(account(5), Round(1), [1; 32]), Err(Refusal::Full));

    let _ = machine.tick(at(1000));
    let _ = machine.built(Round(1), at(1000));
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
    let mut machine = machine(RoundMode::Deadline, 2);
    let _ = machine.tick(UnixMillis(1_000_000));
    assert_eq!(machine.tick(UnixMillis(1_000_600)), []);
    // Back by a quarter of an hour; 400 ms were left.
    assert_eq!(machine.tick(UnixMillis(100_000)), []);
    assert_eq!(machine.next_wakeup(UnixMillis(100_000)), Some(UnixMillis(100_400)));
    assert_eq!(machine.tick(UnixMillis(100_400)), [Seal(Round(1)), Open(Round(2))]);
    // Forward by a year: one round ends, and the next has its full length.
    assert_eq!(machine.tick(UnixMillis(31_536_000_000)), [Seal(Round(2)), Open(Round(3))]);
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

/// What a server would hold, told by the actions alone.
#[derive(Default)]
struct World {
    open: Option<Round>,
    opened: Vec<Round>,
    sealed: BTreeMap<Round, BTreeSet<(u8, u8)>>,
    pending: BTreeSet<(u8, u8)>,
    building: BTreeSet<Round>,
    live: BTreeSet<Round>,
}

impl World {
    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Open(round) => {
                    assert_eq!(self.open.replace(round), None, "two open rounds");
                    assert_eq!(
                        round.0,
                        self.opened.last().map_or(1, |last| last.0 + 1),
                        "a round was skipped"
                    );
                    self.opened.push(round);
                }
                Seal(round) => {
                    assert_eq!(self.open.take(), Some(round));
                    let deposits = core::mem::take(&mut self.pending);
                    assert!(self.sealed.insert(round, deposits).is_none(), "sealed twice");
                    self.building.insert(round);
                    self.live.insert(round);
                }
                Retire(round) => {
                    assert!(self.live.remove(&round), "retired twice, or never sealed");
                    self.building.remove(&round);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_every_accepted_deposit_is_in_exactly_one_sealed_round(
        events in proptest::collection::vec(event(), 1..200),
        closed in any::<bool>(),
        retained in 1..=4_u8,
    ) {
        let mode = if closed { RoundMode::ClosedLoop } else { RoundMode::Deadline };
        let mut machine = machine(mode, retained);
        let mut world = World::default();
        let mut accepted: BTreeMap<Round, BTreeSet<(u8, u8)>> = BTreeMap::new();
        let mut now = 5_000;
        for event in events {
            let actions = match event {
                Event::Registered(number, keys) => {
                    machine.registered(account(number), keys);
                    Vec::new()
                }
                Event::Gone(number) => {
                    machine.gone(&account(number));
                    Vec::new()
                }
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
                    Vec::new()
                }
                Event::Retrieved(number) => {
                    let newest = world.live.difference(&world.building).last().copied();
                    newest.map_or(Vec::new(), |round| machine.retrieved(&account(number), round, UnixMillis(now)))
                }
                Event::Pass(ms) => {
                    now += u64::from(ms);
                    Vec::new()
                }
                Event::SetClock(to) => {
                    now = to;
                    Vec::new()
                }
                Event::Built => world.building.pop_first().map_or(Vec::new(), |round| machine.built(round, UnixMillis(now))),
                Event::Failed => {
                    world.building.first().copied().map_or(Vec::new(), |round| machine.abandoned(round, UnixMillis(now)))
                }
            };
            world.perform(actions);
            world.perform(machine.tick(UnixMillis(now)));
            assert_eq!(machine.open(UnixMillis(now)).map(|(round, _)| round), world.open);
            assert!(world.live.len() <= 2 * usize::from(retained), "rounds pile up");
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
