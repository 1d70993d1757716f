//! Conversations of two.

use proptest::prelude::{ProptestConfig, any, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use sotto_protocol::{Client, CodeKind, Error, Notice, Settings, TEXT_MAX};

use crate::client::world::{Fate, World};

fn established(world: &World, client: usize) -> usize {
    world.notices[client].iter().filter(|notice| matches!(notice, Notice::Established { .. })).count()
}

#[test]
fn two_people_meet_and_talk() {
    let mut world = World::new(1, &["alice", "bob"], 2, 4);
    world.befriend(0, 1);
    world.say(0, "bob", "hello, bob");
    world.say(1, "alice", "hello, alice");
    world.renew();
    world.run(24);
    assert_eq!(world.texts(1), [("alice".into(), "hello, bob".into())]);
    assert_eq!(world.texts(0), [("bob".into(), "hello, alice".into())]);
    for client in [0, 1] {
        assert_eq!(established(&world, client), 1);
        let acknowledged = |notice: &&Notice| matches!(notice, Notice::Acknowledged { .. });
        assert_eq!(world.notices[client].iter().filter(acknowledged).count(), 1);
        let summary = &world.clients[client].conversations()[0];
        assert_eq!((summary.established, summary.queued, summary.unacknowledged), (true, 0, 0));
    }
    assert!(world.warnings().is_empty());
    let bob = world.clients[1].identity();
    assert_eq!(world.clients[0].contact_identity(world.id(0, "bob")), Some(bob));
}

/// Where a code reads boxes as sums of others, everybody's messages still arrive, and each of them once.
#[test]
fn every_code_carries_conversations() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    for code in [CodeKind::Cuckoo, CodeKind::Hybrid, CodeKind::Single] {
        let mut world = World::with_code(1, 5, &names, 4, 8, code);
        for one in 0..names.len() {
            for other in one + 1..names.len() {
                world.befriend(one, other);
                world.say(one, names[other], "hello");
                world.say(other, names[one], "and hello");
            }
        }
        world.run(80);
        for reader in 0..names.len() {
            let text = |writer: usize| if writer < reader { "hello" } else { "and hello" };
            let others = (0..names.len()).filter(|writer| *writer != reader);
            let expected: Vec<_> = others.map(|writer| (names[writer].into(), text(writer).into())).collect();
            let mut read = world.texts(reader);
            read.sort_unstable();
            assert_eq!(read, expected, "{code:?}");
        }
        assert!(world.warnings().is_empty(), "{code:?}: {:?}", world.warnings());
    }
}

/// A conversation that goes on for ever when nobody has anything to say would wear out its sequence numbers, and one
/// whose key exchange never ends would keep its invitation.
#[test]
fn an_idle_conversation_falls_silent() {
    for (texts, cut) in [(1, 0), (0, 0), (0, 4), (0, 8), (0, 12), (0, 16), (0, 20), (0, 24), (0, 28)] {
        let mut world = World::new(2, &["alice", "bob"], 1, 4);
        world.befriend(0, 1);
        for _ in 0..texts {
            world.say(0, "bob", "hello");
        }
        // Whatever alice sends at the worst moment is lost.
        world.run(cut);
        for _ in 0..4 {
            world.step(&[Fate { deposit_lost: true, ..Fate::default() }, Fate::default()]);
        }
        world.run(60);
        let mut heard = 0;
        for _ in 0..10 {
            let deposits = world.deposits(&[Fate::default(); 2]);
            let published = world.publish(&deposits);
            for client in [0, 1] {
                assert!(world.ready(client, &published.manifest).is_empty());
                heard += world.lookup(client, &published).counts.found;
            }
            world.round += 1;
        }
        assert_eq!(heard, 0);
    }
}

#[test]
fn a_text_of_the_greatest_size_arrives_whole() {
    let mut world = World::new(3, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    let text: String = ('a'..='z').cycle().take(TEXT_MAX).collect();
    world.say(0, "bob", &text);
    world.say(0, "bob", "and then");
    let id = world.id(0, "bob");
    assert!(world.clients[0].queue_text(id, &format!("{text}!")).is_err());
    assert!(world.clients[0].queue_text(id, "").is_err());
    world.run(160);
    assert_eq!(world.texts(1), [("alice".into(), text), ("alice".into(), "and then".into())]);
}

/// As a server with deadlines works: a round is read while the next is open.
#[test]
fn rounds_may_overlap() {
    let mut world = World::new(8, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    for number in 0..20 {
        world.say(0, "bob", &number.to_string());
    }
    let mut ready = None;
    for _ in 0..100 {
        let deposits = world.deposits(&[Fate::default(); 2]);
        if let Some(published) = ready.take() {
            world.read(&published, &[Fate::default(); 2]);
        }
        ready = Some(world.publish(&deposits));
        world.round += 1;
    }
    let said: Vec<_> = (0..20).map(|number| ("alice".to_owned(), number.to_string())).collect();
    assert_eq!(world.texts(1), said);
    assert_eq!(world.clients[0].conversations()[0].queued, 0);
    assert!(world.warnings().is_empty());
}

/// With k = 1 the poll cycle has as many rounds as units, and there is one bucket only.
#[test]
fn one_retrieval_a_round_is_enough() {
    let mut world = World::new(4, &["alice", "bob"], 2, 1);
    world.befriend(0, 1);
    world.say(0, "bob", "slow");
    world.run(300);
    assert_eq!(world.texts(1), [("alice".into(), "slow".into())]);
}

#[test]
fn a_late_guest_finds_the_conversation() {
    let mut world = World::new(5, &["alice", "bob"], 2, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    world.run(1500);
    let now = world.now();
    world.clients[1].accept("alice", &invitation, now, &mut world.rng).unwrap();
    world.say(1, "alice", "sorry for being late");
    world.run(60);
    assert_eq!(world.texts(0).len(), 1);
    let twice = world.clients[1].accept("again", &invitation, now, &mut world.rng);
    assert!(matches!(twice, Err(Error::Input(_))));
}

#[test]
fn an_absent_friend_is_waited_for() {
    let mut world = World::new(6, &["alice", "bob"], 2, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "where are you?");
    let away = Fate { absent: true, ..Fate::default() };
    for _ in 0..300 {
        world.step(&[Fate::default(), away]);
    }
    world.run(20);
    assert_eq!(world.texts(1).len(), 1);
    let (from, to) = world.clients[1].missing_manifests().unwrap();
    assert_eq!((from.0, to.0), (41, 340));
}

#[test]
fn contacts_beyond_capacity_are_refused() {
    let mut world = World::new(7, &["alice", "bob"], 2, 1);
    let (now, rng) = (world.now(), &mut world.rng);
    let alice = &mut world.clients[0];
    for name in ["", "two\nlines", &"x".repeat(65)] {
        assert!(matches!(alice.invite(name, now, rng), Err(Error::Input(_))));
    }
    alice.invite("one", now, rng).unwrap();
    assert!(matches!(alice.invite("one", now, rng), Err(Error::Input(_))));
    alice.invite("two", now, rng).unwrap();
    assert_eq!(alice.invite("three", now, rng).unwrap_err(), Error::Capacity { capacity: 2 });
    alice.forget(alice.find("one").unwrap()).unwrap();
    alice.invite("three", now, rng).unwrap();

    let bob = &mut world.clients[1];
    let others: Vec<_> = (0..7_u8).map(|number| (format!("m{number}"), [number; 32])).collect();
    assert_eq!(bob.create_group("many", &others, rng).unwrap_err(), Error::Capacity { capacity: 2 });
    assert!(bob.conversations().is_empty());
    let none =
        Client::new("x", world.parameters, Settings { conversations: 0 }, (Default::default(), now), rng);
    assert!(none.is_err());
}

fn fate() -> impl Strategy<Value = Fate> {
    let restarts = prop_oneof![4 => Just(false), 1 => Just(true)];
    (any::<u8>(), restarts).prop_map(|(dice, restarts)| Fate {
        absent: dice < 40,
        deposit_lost: dice % 4 == 0,
        answers_lost: dice % 5 == 0,
        restarts,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_every_text_arrives_once_and_in_order(
        seed in any::<u64>(),
        fates in proptest::collection::vec((fate(), fate()), 60),
        texts in proptest::collection::vec((any::<bool>(), 0_u8..60, 1_usize..600), 1..8),
    ) {
        let mut world = World::new(seed, &["alice", "bob"], 2, 4);
        world.befriend(0, 1);
        let mut said = [Vec::new(), Vec::new()];
        for (round, (alice, bob)) in (0..).zip(fates) {
            for (_, (from_alice, _, length)) in
                texts.iter().enumerate().filter(|(_, (_, when, _))| *when == round)
            {
                let (from, to) = if *from_alice { (0, "bob") } else { (1, "alice") };
                let text = format!("{round} {}", "x".repeat(*length));
                world.say(from, to, &text);
                said[from].push(text);
            }
            world.step(&[alice, bob]);
        }
        world.run(100);
        for (from, to) in [(0, 1), (1, 0)] {
            let heard: Vec<String> = world.texts(to).into_iter().map(|(_, text)| text).collect();
            assert_eq!(heard, said[from]);
            assert_eq!(world.clients[from].conversations()[0].queued, 0);
        }
        assert!(world.warnings().is_empty(), "{:?}", world.warnings());
    }
}
