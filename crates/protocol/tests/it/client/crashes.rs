//! Power cuts, and what a stored state gives away.

use proptest::prelude::{ProptestConfig, any, proptest};
use sotto_protocol::error::Malformed;
use sotto_protocol::{Client, Error, Notice, Round, UnixMillis, Warning};

use crate::client::world::{Fate, ROUND_MS, World, answers};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// `cuts[i]` says where in a round a client's power fails: 0 nowhere, 1 before its state is stored, 2 after that and
    /// before sending, 3 after sending, 4 after reading.
    #[test]
    fn no_key_is_used_twice_wherever_the_power_fails(
        seed in any::<u64>(),
        cuts in proptest::collection::vec((0_u8..6, 0_u8..6), 40),
    ) {
        let mut world = World::new(seed, &["alice", "bob"], 1, 4);
        world.befriend(0, 1);
        world.say(0, "bob", "one");
        world.say(1, "alice", "two");
        let mut disk = [world.clients[0].snapshot(), world.clients[1].snapshot()];
        for (alice, bob) in cuts {
            let mut deposits = Vec::new();
            for (number, cut) in [alice, bob].into_iter().enumerate() {
                let (round, now) = (Round(world.round), world.now());
                world.clients[number].open_round(round, now, &mut world.rng).unwrap();
                if cut == 1 {
                    world.clients[number] = Client::restore(&disk[number]).unwrap();
                    world.clients[number].open_round(round, now, &mut world.rng).unwrap();
                }
                disk[number] = world.clients[number].snapshot();
                let before = world.clients[number].deposit().unwrap().1.clone();
                if cut == 2 || cut == 3 {
                    world.clients[number] = Client::restore(&disk[number]).unwrap();
                    let again = world.clients[number].open_round(round, now, &mut world.rng);
                    assert_eq!(again, Err(Error::RoundReplayed(round)));
                }
                let (of, after) = world.clients[number].deposit().unwrap();
                assert_eq!((of, after), (round, &before));
                world.record(number, &before);
                deposits.push(before);
            }
            let published = world.publish(&deposits);
            world.read(&published, &[Fate::default(); 2]);
            for (number, cut) in [alice, bob].into_iter().enumerate() {
                if cut == 4 {
                    // What was read is lost with the state, and is read again.
                    world.clients[number] = Client::restore(&disk[number]).unwrap();
                    let _ = world.ready(number, &published.manifest);
                    let retrieval = world.lookup(number, &published);
                    let answers = answers(&retrieval, &published.buckets);
                    world.clients[number].received(retrieval, answers);
                }
                disk[number] = world.clients[number].snapshot();
            }
            world.round += 1;
        }
        world.run(60);
        assert!(world.texts(0).iter().any(|(_, text)| text == "two"));
        assert!(world.texts(1).iter().any(|(_, text)| text == "one"));
    }
}

#[test]
fn a_damaged_state_is_refused_and_never_half_read() {
    let mut world = World::new(1, &["alice", "bob"], 2, 4);
    world.befriend(0, 1);
    world.run(3);
    let snapshot = world.clients[0].snapshot();
    for at in 0..snapshot.len() {
        let mut damaged = snapshot.to_vec();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(Client::restore(&damaged).unwrap_err(), Error::Malformed(Malformed::State));
    }
    for length in 0..snapshot.len() {
        assert!(Client::restore(&snapshot[..length]).is_err());
    }
    assert!(Client::restore(&[snapshot.as_slice(), &[0]].concat()).is_err());
    assert_eq!(Client::restore(&snapshot).unwrap().snapshot(), snapshot);
}

#[test]
fn a_stolen_state_does_not_open_what_was_read_before() {
    let mut world = World::new(2, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "burn after reading");
    let deposits = world.deposits(&[Fate::default(); 2]);
    let published = world.publish(&deposits);
    let _ = world.ready(1, &published.manifest);
    let early = world.clients[1].snapshot();
    world.read(&published, &[Fate::default(); 2]);
    assert_eq!(world.texts(1).len(), 1);
    let late = world.clients[1].snapshot();

    let round = Round(world.round);
    let mut thief = Client::restore(&early).unwrap();
    assert_eq!(thief.lookup(round, &published.mapping, &mut world.rng).counts.found, 1);
    thief = Client::restore(&late).unwrap();
    let _ = thief.ready(&published.manifest);
    let retrieval = thief.lookup(round, &published.mapping, &mut world.rng);
    assert_eq!((retrieval.counts, retrieval.targets.iter().flatten().count()), Default::default());
    assert!(thief.open_round(round, world.now(), &mut world.rng).is_err());
}

#[test]
fn keys_of_rounds_never_read_are_erased_when_those_retire() {
    let mut world = World::new(3, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "unread");
    let deposits = world.deposits(&[Fate::default(); 2]);
    let published = world.publish(&deposits);
    let _ = world.ready(1, &published.manifest);
    let round = world.round;
    for found in [1, 1, 1, 0] {
        let bob = &mut world.clients[1];
        let retrieval = bob.lookup(Round(round), &published.mapping, &mut world.rng);
        assert_eq!(retrieval.counts.found, found);
        world.round += 1;
        let now = UnixMillis(world.round * ROUND_MS);
        bob.open_round(Round(world.round), now, &mut world.rng).unwrap();
    }
}

#[test]
fn rounds_that_time_cannot_explain_use_no_key() {
    let mut world = World::new(4, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    let before = world.clients[0].snapshot();
    let now = world.now();
    for round in [0, 1, 39, 40] {
        let replayed = world.clients[0].open_round(Round(round), now, &mut world.rng);
        assert_eq!(replayed, Err(Error::RoundReplayed(Round(round))));
    }
    for round in [50, 1000, u64::MAX] {
        let far = world.clients[0].open_round(Round(round), now, &mut world.rng);
        assert_eq!(far, Err(Error::RoundTooFar(Round(round))));
    }
    assert_eq!(world.clients[0].snapshot(), before);
}

/// Away for 2^22 rounds, 97 days of two seconds, an account was refused for ever.
#[test]
fn attack_a8_an_account_survives_any_absence() {
    const AWAY: u64 = (1 << 19) + 5;
    let mut world = World::new(4, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "before");
    world.round += AWAY;
    // Chains catch up by 2^13 steps a round.
    world.run(AWAY / (1 << 13) + 3);
    world.run(20);
    world.say(1, "alice", "after");
    world.run(20);
    assert_eq!(world.texts(1), [("alice".to_owned(), "before".to_owned())]);
    assert_eq!(world.texts(0), [("bob".to_owned(), "after".to_owned())]);
    assert!(world.warnings().is_empty());
}

fn went_back(world: &World, client: usize, contact: &str) -> bool {
    let warning = Warning::WentBack { conversation: world.id(client, contact) };
    world.notices[client].contains(&Notice::Warning(warning))
}

/// Three texts said after an older state was brought back were shown as arrived, and were never seen.
#[test]
fn attack_a8_a_restored_state_is_told_and_loses_nothing_that_it_says() {
    for said_before in 0..6 {
        let mut world = World::new(9, &["alice", "bob"], 1, 4);
        world.befriend(0, 1);
        world.run(40);
        let backup = world.clients[0].snapshot();
        for number in 0..said_before {
            world.say(0, "bob", &format!("before {number}"));
        }
        world.run(40);
        assert_eq!(world.texts(1).len(), said_before);
        world.clients[0] = Client::restore(&backup).unwrap();
        world.notices = vec![Vec::new(); 2];
        for number in 0..3 {
            world.say(0, "bob", &format!("after {number}"));
        }
        let arrived = |world: &World| {
            let acknowledged = |notice: &&Notice| matches!(notice, Notice::Acknowledged { .. });
            world.notices[0].iter().filter(acknowledged).count()
        };
        for _ in 0..80 {
            world.run(1);
            assert!(
                arrived(&world) <= world.texts(1).len(),
                "a text is shown as arrived that nobody has seen"
            );
        }
        let texts: Vec<String> = world.texts(1).into_iter().map(|(_, text)| text).collect();
        // Each in its order, and perhaps one of them twice.
        let mut once = texts.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once, ["after 0", "after 1", "after 2"], "{texts:?}");
        assert_eq!(arrived(&world), 3);
        assert_eq!(went_back(&world, 0, "bob"), said_before > 0);
    }
}

/// What is still under way when numbers are changed must not set the two ends apart again: with much to say that went on for
/// ever, and nothing more arrived.
#[test]
fn a_restored_state_with_much_to_say_comes_to_an_end() {
    for rounds_before in [1, 6, 11, 17] {
        let mut world = World::new(9, &["alice", "bob"], 1, 4);
        world.befriend(0, 1);
        world.run(40);
        let backup = world.clients[0].snapshot();
        for number in 0..40 {
            world.say(0, "bob", &format!("before {number}"));
        }
        world.run(rounds_before);
        world.clients[0] = Client::restore(&backup).unwrap();
        for number in 0..40 {
            world.say(0, "bob", &format!("after {number:02}"));
        }
        world.run(200);
        let heard: std::collections::BTreeSet<String> = world
            .texts(1)
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| text.starts_with("after"))
            .collect();
        let said: Vec<String> = (0..40).map(|number| format!("after {number:02}")).collect();
        assert!(heard.iter().eq(&said), "{rounds_before} rounds: {heard:?}");
        assert_eq!(world.clients[0].conversations()[0].queued, 0, "{rounds_before} rounds");
    }
}

/// Who has gone back misses what was acknowledged to its sender before, is told so, and hears what comes after.
#[test]
fn a_restored_state_hears_what_is_said_after() {
    let mut world = World::new(9, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    let backup = world.clients[1].snapshot();
    world.say(0, "bob", "missed");
    world.run(40);
    world.clients[1] = Client::restore(&backup).unwrap();
    world.notices = vec![Vec::new(); 2];
    world.say(0, "bob", "heard");
    world.run(60);
    let texts = world.texts(1);
    assert!((1..=2).contains(&texts.len()) && texts.iter().all(|(_, text)| text == "heard"), "{texts:?}");
    assert!(went_back(&world, 1, "alice"));
    assert_eq!(world.clients[0].conversations()[0].queued, 0);
}

/// Between the step that acknowledges a text and its being shown, the program may end.
#[test]
fn a_text_stays_until_it_was_shown() {
    let mut world = World::new(9, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "one");
    world.say(0, "bob", "two");
    world.run(40);
    assert_eq!(world.clients[0].conversations()[0].queued, 0);
    world.restart(1);
    let unshown: Vec<_> = world.clients[1].unshown().cloned().collect();
    let texts: Vec<_> = unshown.iter().map(|text| (text.from.as_str(), text.text.as_str())).collect();
    assert_eq!(texts, [("alice", "one"), ("alice", "two")]);
    let id = world.id(1, "alice");
    world.clients[1].shown(id, unshown[0].number);
    world.restart(1);
    assert_eq!(world.clients[1].unshown().map(|text| text.text.as_str()).collect::<Vec<_>>(), ["two"]);
    world.clients[1].forget(id).unwrap();
    assert_eq!(world.clients[1].unshown().count(), 0);
}

/// Who comes back after rounds that it missed hears first of one that is newer, and after another crash of one in between.
#[test]
fn a_manifest_in_a_gap_is_no_reason_to_accuse_the_server() {
    let mut world = World::new(11, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(5);
    let mut missed = Vec::new();
    for _ in 0..3 {
        let mut rng = world.rng.clone();
        let (round, now) = (Round(world.round), world.now());
        world.clients[0].open_round(round, now, &mut rng).unwrap();
        let published = world.publish(&[]);
        missed.push(published.manifest);
        world.round += 1;
    }
    assert_eq!(world.clients[0].ready(&missed[2]), []);
    let mut alice = Client::restore(&world.clients[0].snapshot()).unwrap();
    let before = alice.snapshot();
    assert_eq!(alice.ready(&missed[1]), []);
    assert!(alice.snapshot() == before, "how it stands to the others is not known yet");
    let (first, last) = alice.missing_manifests().unwrap();
    assert_eq!((last.0 - first.0, alice.supply_manifests(&missed[..2])), (1, Vec::new()));
    assert_eq!(alice.missing_manifests(), None);
}

/// Who dies between showing a text and saying so leaves a note that it may have been seen, until somebody says so.
#[test]
fn what_may_have_been_seen_is_known_after_a_crash_until_it_was_seen() {
    let mut world = World::new(3, &["alice", "bob"], 4, 16);
    world.befriend(0, 1);
    for text in ["one", "two", "three"] {
        world.say(0, "bob", text);
    }
    world.run(40);
    let numbers: Vec<u64> = world.clients[1].unshown().map(|text| text.number).collect();
    let offered = |world: &World| -> Vec<bool> {
        numbers.iter().map(|number| world.clients[1].was_offered(*number)).collect()
    };
    assert_eq!(offered(&world), [false; 3]);
    // Of what is not there, nothing is noted.
    world.clients[1].offer(&[numbers[0], numbers[1], 1000].into());
    assert!(!world.clients[1].was_offered(1000));
    world.restart(1);
    assert_eq!(offered(&world), [true, true, false]);
    let id = world.id(1, "alice");
    world.clients[1].shown(id, numbers[0]);
    world.restart(1);
    assert_eq!(offered(&world), [false, true, false]);
    world.clients[1].drop_unshown(numbers[1]);
    world.clients[1].drop_unshown(numbers[2]);
    assert_eq!(offered(&world), [false; 3]);
}
