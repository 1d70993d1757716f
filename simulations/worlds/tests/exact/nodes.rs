//! A server of two nodes, of which one dies: its people go on at the other one, and whether they talk does not show.
//!
//! Both nodes have the same rounds, as nodes of a cluster do, and each knows its own sessions and keys.

use core::time::Duration;

use mpir::noop;
use sotto::Address;
use sotto_protocol::RoundMode;
use sotto_session::ConnectionSettings;
use sotto_wire::Refused;
use tokio::sync::mpsc;

use crate::lies::{Call, Lie};
use crate::machine::{Line, Machine, Memory};
use crate::server::{Account, Seen};
use crate::stage::at;
use crate::traces::difference;
use crate::world::{SPREAD_MS, Told, World, account, drawn, parameters, quick};

const NODES: [&str; 2] = ["127.0.0.1:7370", "127.0.0.1:7371"];

/// How a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Its connections end, and it refuses others.
    Crash,
    /// Its connections end, and nobody answers any more.
    Silence,
    /// It takes connections, and no sessions.
    Unready,
    /// Its connections end, and that is all.
    Hiccup,
    /// Both nodes die, and refuse until some time later.
    Both,
    /// Its connections end, and until some time later both nodes take sessions and say nothing of rounds.
    Mute,
    /// The same, and both nodes say what they are before they end the watch.
    Curt,
    /// Its connections stay, and it tells nothing of rounds any more, as a node does that is cut off from the others.
    CutOff,
}

const DEATH_MS: u64 = at(5, 650);
/// When both are there again.
const BACK_MS: u64 = at(8, 650);
const ROUNDS: u64 = 80;

struct Observed {
    tape: Vec<Line>,
    seen: Vec<Seen>,
    dialled: Vec<(Duration, String)>,
    home: String,
    account: Account,
    alice: Told,
    bob: Told,
}

async fn observe(seed: u64, talks: bool, death: Death) -> Observed {
    let mut world = World::new(seed, parameters(&*noop(), RoundMode::Deadline), 2);
    let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 2));
    if talks {
        let [at_alice, at_bob] = world.introduce(&mut alice, &mut bob);
        for text in 0..6 {
            alice.queue_text(at_alice, &format!("text {text}")).unwrap();
            bob.queue_text(at_bob, &format!("text {text}")).unwrap();
        }
    }
    let mut bob = world.start(bob, quick).await;

    let nodes = NODES.join(",");
    let address: Address = world.settings().address.to_string().replace(NODES[0], &nodes).parse().unwrap();
    let order =
        address.in_order_of(&account(&alice), None).iter().map(Address::authority).collect::<Vec<_>>();
    let settings = ConnectionSettings { address, ..world.settings() };
    let wires = [world.wire_to(0), world.wire_to(1)];
    let (disk, seed) = (Memory::new(world.began), world.rng("machine of Alice"));
    let machine = Machine::new(wires[0].dial.clone(), world.began, seed, quick);
    for (authority, wire) in order.iter().zip(&wires) {
        machine.lead(authority, wire.dial.clone());
    }
    world.until(500).await;
    let mut alice = world.start_with(settings, alice, machine.clone(), world.wire(), disk).await.unwrap();

    world.until(DEATH_MS).await;
    let (refusing, _) = mpsc::unbounded_channel();
    let (silent, unheard) = mpsc::unbounded_channel();
    let unready = World::new(0, parameters(&*noop(), RoundMode::Deadline), 2);
    match death {
        Death::Crash => machine.lead(&order[0], refusing.clone()),
        Death::Silence => machine.lead(&order[0], silent),
        Death::Unready => {
            unready.server.plan(Lie::Refuse(Call::Register, Refused::Busy), &(0..1000), None);
            machine.lead(&order[0], unready.wire().dial.clone());
        }
        Death::Hiccup => {}
        Death::Mute => {
            world.server.plan(Lie::Refuse(Call::Watch, Refused::Busy), &(0..9), Some(alice.account));
        }
        Death::Curt => world.server.plan(Lie::Curt, &(0..9), Some(alice.account)),
        Death::CutOff => world.server.plan(Lie::Silence, &(6..20), Some(alice.account)),
        Death::Both => order.iter().for_each(|node| machine.lead(node, refusing.clone())),
    }
    if death != Death::CutOff {
        wires[0].cut();
    }
    if !matches!(death, Death::Hiccup | Death::Mute | Death::Curt | Death::CutOff) {
        world.server.forget(0, &alice.account);
    }
    if death == Death::Both {
        world.until(BACK_MS).await;
        order.iter().zip(&wires).for_each(|(node, wire)| machine.lead(node, wire.dial.clone()));
    } else {
        // The stand-in has a hiccup: whoever is there asks at home first.
        world.until(at(12, 650)).await;
        wires[1].cut();
    }
    world.until(at(ROUNDS, 650)).await;
    alice.handle.finish().await.unwrap();
    world.until(at(ROUNDS + 6, 0)).await;
    drop(unheard);
    let home = order[0].clone();
    let seen = world.server.seen(&alice.account);
    Observed {
        tape: machine.tape.lines(),
        seen,
        dialled: machine.dialled(),
        home,
        account: alice.account,
        alice: alice.told(),
        bob: bob.told(),
    }
}

fn play(seed: u64, talks: bool, death: Death) -> Observed {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(observe(seed, talks, death))
}

/// Which nodes are asked when, ms since the world began: the home, or else its stand-in.
fn asked(observed: &Observed) -> Vec<(u64, bool)> {
    let line = |(at, node): &(Duration, String)| (at.as_millis() as u64, *node == observed.home);
    observed.dialled.iter().map(line).collect()
}

impl Observed {
    /// When a stand-in is opened for the time of that number, if one is wanted from then on.
    fn opens(&self, from_ms: u64, number: u64) -> u64 {
        from_ms + drawn(&self.account, 1, number, SPREAD_MS)
    }

    /// When the pauses that begin then have ended, each of which is twice as long as the one before in the mean.
    fn pauses(&self, from_ms: u64) -> [u64; 3] {
        let mut at = from_ms;
        [1, 2, 3].map(|number| {
            let mean = PAUSE_MS << (number - 1);
            at += mean / 2 + drawn(&self.account, 0, number, mean);
            at
        })
    }
}

/// What is asked follows from what fails alone, and everything that was said arrives.
fn goes_on(death: Death, expected: impl Fn(&Observed) -> Vec<(u64, bool)>) -> Observed {
    let [idle, talking] = [false, true].map(|talks| play(1, talks, death));
    assert_eq!(asked(&talking), expected(&talking), "{death:?}");
    let difference = difference(&idle.tape, &talking.tape);
    assert_eq!(difference, None, "{death:?}: {}", difference.as_deref().unwrap_or(""));
    assert_eq!(idle.dialled, talking.dialled, "{death:?}");
    let shapes = |seen: &[Seen]| -> Vec<_> {
        seen.iter().map(|seen| (seen.at, seen.call, seen.round, seen.bytes.len())).collect()
    };
    assert_eq!(shapes(&idle.seen), shapes(&talking.seen), "{death:?}");
    let said: Vec<String> = (0..6).map(|text| format!("text {text}")).collect();
    assert_eq!((&talking.alice.texts, &talking.bob.texts), (&said, &said), "{death:?}");
    assert!(idle.alice.texts.is_empty());
    talking
}

const HOME: bool = true;
const STAND_IN: bool = false;
/// The first pause, in the mean.
const PAUSE_MS: u64 = 500;
/// When home is asked first: the keys are drawn before.
const BEGAN_MS: u64 = 540;

#[test]
fn when_home_dies_its_stand_in_is_asked_at_once_and_a_session_stays_there() {
    let expected = |observed: &Observed| {
        let back = at(12, 650);
        let [again, ..] = observed.pauses(back);
        vec![
            (BEGAN_MS, HOME),
            (DEATH_MS, STAND_IN),
            // As the stand-in's own stand-in, in vain.
            (observed.opens(DEATH_MS, 2), HOME),
            (back, HOME),
            (again, HOME),
            (again, STAND_IN),
            (observed.opens(again, 4), HOME),
        ]
    };
    for death in [Death::Crash, Death::Unready] {
        let played = goes_on(death, expected);
        // The keys are uploaded to the stand-in, which never saw them, and no round goes by without a deposit.
        let uploads = played.seen.iter().filter(|seen| seen.call == Call::Upload).count();
        assert!(uploads >= 2, "{death:?}: {uploads}");
        let deposits: Vec<u64> =
            played.seen.iter().filter(|seen| seen.call == Call::Deposit).map(|seen| seen.round).collect();
        assert!(deposits.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{death:?}: {deposits:?}");
    }
}

#[test]
fn a_home_that_is_back_is_gone_to_at_the_next_loss_and_not_before() {
    goes_on(Death::Hiccup, |observed| {
        let ready = observed.opens(DEATH_MS, 2);
        // It holds a session ready by then, and nobody needs to ask it.
        vec![
            (BEGAN_MS, HOME),
            (DEATH_MS, STAND_IN),
            (ready, HOME),
            (observed.opens(at(12, 650), 3), STAND_IN),
        ]
    });
}

#[test]
fn a_home_that_is_silent_is_given_up_for_its_stand_in() {
    // It is probed after a second, and has two to answer, four after the first short session, and eight after the second.
    let patience = 9_000;
    goes_on(Death::Silence, |observed| {
        let back = at(12, 650);
        let [again, ..] = observed.pauses(back + patience);
        vec![
            (BEGAN_MS, HOME),
            (DEATH_MS, STAND_IN),
            (observed.opens(DEATH_MS, 2), HOME),
            (back, HOME),
            (again, HOME),
            (again + patience, STAND_IN),
        ]
    });
}

#[test]
fn a_home_that_tells_nothing_of_rounds_is_left_after_ten_seconds() {
    // From the last that was heard, which took 20 ms.
    let left = at(6, 20) + 10_000;
    goes_on(Death::CutOff, |observed| {
        vec![(BEGAN_MS, HOME), (left, STAND_IN), (observed.opens(left, 2), HOME)]
    });
}

/// Asked in vain, or with nothing to show for it: everybody at the ends of two pauses, and home at the end of the third.
fn in_turns(observed: &Observed) -> Vec<(u64, bool)> {
    let pauses = observed.pauses(DEATH_MS);
    assert!(pauses[1] < BACK_MS && BACK_MS < pauses[2]);
    let mut expected = vec![(BEGAN_MS, HOME), (DEATH_MS, STAND_IN)];
    expected.extend(pauses[..2].iter().flat_map(|at| [(*at, HOME), (*at, STAND_IN)]));
    expected.push((pauses[2], HOME));
    expected
}

/// Or two nodes that drop everybody would be asked as fast as they can answer.
#[test]
fn nodes_that_take_sessions_and_drop_them_are_asked_no_more_often_than_such_that_take_none() {
    for death in [Death::Mute, Death::Curt] {
        goes_on(death, |observed| {
            let last = observed.pauses(DEATH_MS)[2];
            // Six sessions before wanted a stand-in.
            [in_turns(observed), vec![(observed.opens(last, 7), STAND_IN)]].concat()
        });
    }
}

#[test]
fn only_a_whole_turn_in_vain_is_followed_by_a_pause_which_doubles() {
    goes_on(Death::Both, |observed| {
        let last = observed.pauses(DEATH_MS)[2];
        [in_turns(observed), vec![(observed.opens(last, 2), STAND_IN)]].concat()
    });
}
