//! Another manifest key, while people go on.

use ed25519_dalek::SigningKey;
use sotto_protocol::error::{ManifestError, NegotiationError};
use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::server::{SeedChain, segment_end};
use sotto_protocol::{Client, Error, KeyEpoch, Notice, Round, ServerParameters, Settings, Warning};

use crate::client::world::{Fate, World};

/// Two people on a server whose key has an end.
fn world() -> World {
    let mut world = World::new(7, &["alice", "bob"], 4, 4);
    let first = Round(world.round);
    let tree = SeedTree::new(first, vec![segment_end(&[9; 32], first, 0)]).unwrap();
    world.parameters.seeds = tree.commitment();
    world.parameters.key_epoch = KeyEpoch::first(Round(300));
    world.seeds = Some(SeedChain::new([9; 32].into(), tree).unwrap());
    let open = (first, world.now());
    world.parameters.serial += 1;
    for client in &mut world.clients {
        client.adopt(world.parameters.clone(), open).unwrap();
    }
    world.befriend(0, 1);
    world
}

/// What is announced when another key is to sign from a round on.
fn rotated(parameters: &ServerParameters, key: &SigningKey, first: u64, end: u64) -> ServerParameters {
    let mut next = parameters.clone();
    next.serial += 1;
    next.manifest_key = key.verifying_key().to_bytes();
    next.key_epoch = parameters.key_epoch.next(parameters.manifest_key, Round(first), Round(end));
    next
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

#[test]
fn people_go_on_over_a_change_of_keys_and_miss_no_round() {
    let mut world = world();
    world.run(40);
    world.say(0, "bob", "before");
    let next = rotated(&world.parameters, &key(2), 90, 600);
    // Both hear of it in the middle of a round, long before the key signs anything.
    for (client, rounds) in [(0, 3), (1, 20)] {
        world.run(rounds);
        let deposits = world.deposits(&[Fate::default(); 2]);
        world.clients[client].adopt_keys(next.clone()).unwrap();
        assert!(world.clients[client].adopt_keys(next.clone()).is_err(), "the same is no later one");
        world.restart(client);
        let published = world.publish(&deposits);
        world.read(&published, &[Fate::default(); 2]);
        world.round += 1;
    }
    world.say(0, "bob", "while both know");
    while world.round < 90 {
        world.run(1);
    }
    world.key = key(2);
    world.parameters = next;
    world.say(1, "alice", "after");
    world.run(60);
    assert_eq!(world.texts(0), [("bob".to_owned(), "after".to_owned())]);
    let texts = ["before", "while both know"].map(|text| ("alice".to_owned(), text.to_owned()));
    assert_eq!(world.texts(1), texts);
    assert!(world.warnings().is_empty(), "{:?}", world.warnings());
}

/// Who has stolen the key that was given up, or has the next one too early.
#[test]
fn a_key_signs_the_rounds_of_its_epoch_and_no_others() {
    for (round, number, reason) in [
        (89, 1, None),
        (89, 2, Some(ManifestError::Unsigned)),
        (90, 1, Some(ManifestError::Unsigned)),
        (90, 2, None),
        (119, 2, None),
        (120, 2, Some(ManifestError::KeyEnded)),
        (120, 1, Some(ManifestError::KeyEnded)),
    ] {
        let mut world = world();
        world.run(20);
        let next = rotated(&world.parameters, &key(2), 90, 120);
        for client in &mut world.clients {
            client.adopt_keys(next.clone()).unwrap();
        }
        while world.round < round {
            world.key = if world.round < 90 { key(1) } else { key(2) };
            world.run(1);
        }
        assert!(world.warnings().is_empty());
        world.key = key(number);
        world.run(1);
        let bad = |reason| Notice::Warning(Warning::BadManifest(Error::Manifest(reason)));
        let expected: Vec<_> = reason.into_iter().map(bad).collect();
        let both: Vec<_> = expected.iter().chain(&expected).collect();
        assert_eq!(world.warnings(), both, "round {round} under key {number}");
    }
}

#[test]
fn what_is_no_change_of_keys_alone_is_not_taken_over_in_the_middle_of_a_round() {
    let world = world();
    let next = rotated(&world.parameters, &key(2), 90, 120);
    let mut client = Client::restore(&world.clients[0].snapshot()).unwrap();
    let before = client.snapshot();
    let longer = ServerParameters { round_ms: 2 * next.round_ms, ..next.clone() };
    let early = ServerParameters { serial: world.parameters.serial, ..next.clone() };
    let foreign =
        ServerParameters { key_epoch: KeyEpoch { former: [8; 32], ..next.key_epoch }, ..next.clone() };
    for other in [longer, early, foreign] {
        assert!(client.adopt_keys(other).is_err());
        assert_eq!(client.snapshot(), before);
    }
    client.adopt_keys(next).unwrap();
    let back = ServerParameters { serial: 9, ..world.parameters.clone() };
    assert_eq!(client.adopt_keys(back), Err(Error::Negotiation(NegotiationError::KeySuccession)));
}

/// Invitations and cards are for the server, not for a key that it gives up.
#[test]
fn what_was_handed_out_stays_valid_over_a_change_of_keys() {
    for knows_root in [false, true] {
        let mut world = world();
        let now = world.now();
        let anew = |world: &mut World, name: &str| {
            let settings = Settings { conversations: 3 };
            let joined = (Round(world.round), now);
            let mut client =
                Client::new(name, world.parameters.clone(), settings, joined, &mut world.rng).unwrap();
            client.keep_root([5; 32]).unwrap();
            client
        };
        let mut carol = anew(&mut world, "carol");
        if knows_root {
            world.clients[0].keep_root([5; 32]).unwrap();
        }
        // The state is of before, and its invitations name the key that signs now; or they name the root.
        let alice = &mut world.clients[0];
        let invitation = alice.invite("carol", now, &mut world.rng).unwrap();
        let members = [("carol".to_owned(), carol.identity())];
        let mut dave = anew(&mut world, "dave");
        let card = world.clients[0].create_group("desk", &members, &mut world.rng).unwrap();
        let next = rotated(&world.parameters, &key(2), 90, 120);
        carol.adopt_keys(next.clone()).unwrap();
        carol.accept("alice", &invitation, now, &mut world.rng).unwrap();
        carol.join_group(&card, now).unwrap();
        // Behind two keys the root alone is left.
        let later = rotated(&next, &key(3), 300, 500);
        dave.adopt_keys(next).unwrap();
        dave.adopt_keys(later).unwrap();
        assert_eq!(dave.accept("alice", &invitation, now, &mut world.rng).is_ok(), knows_root);
        let mut elsewhere = anew(&mut world, "erin");
        assert!(elsewhere.keep_root([6; 32]).is_err());
    }
}

/// What keys signed that are not known any more is as good as not there: one warning, and not the same call in every round.
#[test]
fn who_was_away_while_there_were_two_other_keys_hears_once_that_the_history_has_a_gap() {
    let mut world = world();
    world.run(20);
    let away = Client::restore(&world.clients[1].snapshot()).unwrap();
    let from = world.round;
    let second = rotated(&world.parameters, &key(2), 90, 200);
    let third = rotated(&second, &key(3), 120, 300);
    let mut signed = Vec::new();
    while world.round < 130 {
        world.key = key(if world.round < 90 {
            1
        } else if world.round < 120 {
            2
        } else {
            3
        });
        if world.round == 60 {
            world.clients.iter_mut().for_each(|client| client.adopt_keys(second.clone()).unwrap());
        }
        if world.round == 100 {
            world.clients.iter_mut().for_each(|client| client.adopt_keys(third.clone()).unwrap());
        }
        let deposits = world.deposits(&[Fate::default(); 2]);
        let published = world.publish(&deposits);
        signed.push(published.manifest.clone());
        world.read(&published, &[Fate::default(); 2]);
        world.round += 1;
    }
    world.clients[1] = away;
    world.clients[1].adopt_keys(third).unwrap();
    world.run(1);
    let (first, last) = world.clients[1].missing_manifests().unwrap();
    assert_eq!((first.0, last.0), (from, 129));
    let told = world.clients[1].supply_manifests(&signed);
    assert_eq!(told, [Notice::Warning(Warning::HistoryLost)]);
    assert_eq!(world.clients[1].missing_manifests(), None);
}

/// Under the second key the first is known: what it has not signed is forged, and must not pass for something that nobody can check.
#[test]
fn a_forged_manifest_of_the_former_key_is_told_as_such() {
    let mut world = world();
    world.run(20);
    let mut missed = Vec::new();
    for _ in 0..4 {
        let away = Fate { absent: true, ..Fate::default() };
        let deposits = world.deposits(&[Fate::default(), away]);
        missed.push(world.publish(&deposits).manifest);
        world.round += 1;
    }
    let next = rotated(&world.parameters, &key(2), 90, 600);
    world.clients[1].adopt_keys(next).unwrap();
    world.run(1);
    missed[0].signature[7] ^= 1;
    let told = world.clients[1].supply_manifests(&missed);
    let forged = Warning::BadManifest(Error::Manifest(ManifestError::Unsigned));
    assert_eq!(told, [Notice::Warning(forged)]);
}

/// From its first round on the third key is known: what it has not signed is forged, and no more than that is passed over.
#[test]
fn a_forged_manifest_of_the_first_round_of_a_key_is_told_as_such() {
    let mut world = world();
    let second = rotated(&world.parameters, &key(2), 30, 200);
    let third = rotated(&second, &key(3), 40, 300);
    world.clients.iter_mut().for_each(|client| client.adopt_keys(second.clone()).unwrap());
    while world.round < 40 {
        world.key = key(if world.round < 30 { 1 } else { 2 });
        world.run(1);
    }
    world.clients.iter_mut().for_each(|client| client.adopt_keys(third.clone()).unwrap());
    world.key = key(3);
    let mut missed = Vec::new();
    for _ in 0..4 {
        let away = Fate { absent: true, ..Fate::default() };
        let deposits = world.deposits(&[Fate::default(), away]);
        missed.push(world.publish(&deposits).manifest);
        world.round += 1;
    }
    world.run(1);
    missed[0].signature[7] ^= 1;
    let told = world.clients[1].supply_manifests(&missed);
    let forged = Warning::BadManifest(Error::Manifest(ManifestError::Unsigned));
    assert_eq!(told, [Notice::Warning(forged)]);
}
