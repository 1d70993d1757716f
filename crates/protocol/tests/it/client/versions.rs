//! What is kept over changes: of the program, and of a server's parameters.

use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::server::{SeedChain, segment_end};
use sotto_protocol::{CodeKind, Error, KeyAgreement, Notice, Round, ServerParameters, UnixMillis, Warning};

use crate::client::world::{ROUND_MS, World};

const VERSION_2: [&str; 3] = [
    include_str!("../../golden/state/version2-alice.hex"),
    include_str!("../../golden/state/version2-bob.hex"),
    include_str!("../../golden/state/version2-carol.hex"),
];

/// The first two of them as the program of protocol version 2 stored them, 120 rounds later.
const VERSION_3: [&str; 2] = [
    include_str!("../../golden/state/version3-alice-checks.hex"),
    include_str!("../../golden/state/version3-bob-checks.hex"),
];

/// The same two as the program stored them before there were slots.
const VERSION_4: [&str; 2] = [
    include_str!("../../golden/state/version4-alice.hex"),
    include_str!("../../golden/state/version4-bob.hex"),
];

/// The same two as the program of protocol version 3 stored them.
const VERSION_5: [&str; 2] = [
    include_str!("../../golden/state/version5-alice.hex"),
    include_str!("../../golden/state/version5-bob.hex"),
];

/// The same two as the program stored them that kept nothing of groups that were left.
const VERSION_6: [&str; 2] = [
    include_str!("../../golden/state/version6-alice.hex"),
    include_str!("../../golden/state/version6-bob.hex"),
];

/// The same two as the program of protocol version 4 stored them, in a state of version 6.
const PROTOCOL_4: [&str; 2] = [
    include_str!("../../golden/state/version6-alice-protocol4.hex"),
    include_str!("../../golden/state/version6-bob-protocol4.hex"),
];

/// The same two as the program stored them that renewed no keys of two.
const VERSION_7: [&str; 2] = [
    include_str!("../../golden/state/version7-alice.hex"),
    include_str!("../../golden/state/version7-bob.hex"),
];

/// The same two as the program stored them that took no note of texts about to be shown.
const VERSION_8: [&str; 2] = [
    include_str!("../../golden/state/version8-alice.hex"),
    include_str!("../../golden/state/version8-bob.hex"),
];

/// The same two as the program stored them that looked for nobody else under an invitation once somebody was met.
const VERSION_9: [&str; 2] = [
    include_str!("../../golden/state/version9-alice.hex"),
    include_str!("../../golden/state/version9-bob.hex"),
];

/// The first as a program stored it whose groups acknowledged by numbers alone.
const VERSION_3_BEFORE_CHECKS: &str = include_str!("../../golden/state/version3-alice.hex");

fn bytes(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.replace('\n', "").as_bytes()).unwrap()
}

/// Three people who have each other as contacts and are in a group, in the middle of conversations, as the program of
/// protocol version 1 stored them; the first has also invited somebody.
fn people_of_version_2() -> World {
    let mut world = World::new(5, &["alice", "bob", "carol"], 4, 16);
    world.clients = VERSION_2.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 86;
    world
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_2() {
    let mut world = people_of_version_2();
    for (client, name) in ["alice", "bob", "carol"].into_iter().enumerate() {
        assert_eq!(world.clients[client].name(), name);
        assert_eq!(world.clients[client].server().serial, 0);
        world.restart(client);
    }
    let names = |world: &World, client: usize| -> Vec<String> {
        world.clients[client].conversations().into_iter().map(|summary| summary.name).collect()
    };
    assert_eq!(names(&world, 0), ["bob", "carol", "desk"]);
    world.say(1, "carol", "four, said afterwards");
    world.say(0, "desk", "five, to all");
    world.run(120);
    let expired = |notice: &Notice| matches!(notice, Notice::Expired { contact, accepted: false, .. } if contact == "dave");
    assert_eq!(world.notices[0].iter().filter(|notice| expired(notice)).count(), 1);
    // This world begins its chain of manifests anew, and each of the three notices that once.
    let anew = |warning: &&Notice| matches!(warning, Notice::Warning(Warning::BadManifest(_)));
    assert!(world.warnings().len() == 3 && world.warnings().iter().all(anew), "{:?}", world.warnings());
    let texts =
        |client: usize| -> Vec<String> { world.texts(client).into_iter().map(|(_, text)| text).collect() };
    // What was under way when the states were stored arrives once; "three" had not reached bob and alice alike.
    assert_eq!(texts(0), ["two, in several parts ".repeat(30)]);
    assert_eq!(texts(1), ["five, to all"]);
    assert!(texts(2).contains(&"four, said afterwards".to_owned()));
    assert!(
        world.clients.iter().all(|client| client.conversations().iter().all(|summary| summary.queued == 0))
    );
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_3() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_3.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        let server = world.clients[client].server();
        assert_eq!((server.deposit_spread_ms, server.query_spread_ms), (0, 0));
        world.restart(client);
    }
    world.say(0, "bob", "said in version 4");
    world.say(1, "alice", "heard in version 4");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 4".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 4".to_owned())]);
    // This world begins its chain of manifests anew.
    let anew = |warning: &&Notice| matches!(warning, Notice::Warning(Warning::BadManifest(_)));
    assert!(world.warnings().iter().all(anew), "{:?}", world.warnings());
    let before_checks = sotto_protocol::Client::restore(&bytes(VERSION_3_BEFORE_CHECKS)).unwrap();
    assert_eq!(before_checks.name(), "alice");
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_4() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_4.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        assert!(world.clients[client].slot().is_none());
        world.restart(client);
    }
    world.say(0, "bob", "said in version 5");
    world.say(1, "alice", "heard in version 5");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 5".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 5".to_owned())]);
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_5() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_5.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        assert_eq!(world.clients[client].server().key_epoch, sotto_protocol::KeyEpoch::ENDLESS);
        world.clients[client].keep_root([1; 32]).unwrap();
        world.restart(client);
        assert!(world.clients[client].keep_root([2; 32]).is_err(), "the root key is kept");
    }
    world.say(0, "bob", "said in version 6");
    world.say(1, "alice", "heard in version 6");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 6".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 6".to_owned())]);
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_6() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_6.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        world.restart(client);
    }
    world.say(0, "bob", "said in version 7");
    world.say(1, "alice", "heard in version 7");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 7".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 7".to_owned())]);
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_7() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_7.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    let agreed = |world: &World, client: usize, name: &str| {
        let id = world.id(client, name);
        let conversations = world.clients[client].conversations();
        conversations.into_iter().find(|conversation| conversation.id == id).unwrap().agreement
    };
    for client in 0..2 {
        world.restart(client);
    }
    world.say(0, "bob", "said in version 8");
    world.say(1, "alice", "heard in version 8");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 8".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 8".to_owned())]);
    // Keys that were agreed on before stay as they are, and who meets anew has others.
    for (client, name) in [(0, "bob"), (1, "alice")] {
        assert_eq!(agreed(&world, client, name), Some(KeyAgreement::Classical));
        let id = world.id(client, name);
        world.clients[client].forget(id).unwrap();
    }
    world.befriend(0, 1);
    assert_eq!(agreed(&world, 0, "bob"), Some(KeyAgreement::Renewing));
    world.run(200);
    for (client, name) in [(0, "bob"), (1, "alice")] {
        assert_eq!(agreed(&world, client, name), Some(KeyAgreement::Hybrid));
    }
}

/// They were shown nothing yet, as far as anybody knows.
#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_8() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_8.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        assert!((0..100).all(|number| !world.clients[client].was_offered(number)));
        world.restart(client);
    }
    world.say(0, "bob", "said in version 9");
    world.say(1, "alice", "heard in version 9");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 9".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 9".to_owned())]);
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_version_9() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = VERSION_9.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        world.restart(client);
    }
    world.say(0, "bob", "said in version 10");
    world.say(1, "alice", "heard in version 10");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in version 10".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in version 10".to_owned())]);
}

#[test]
fn people_and_what_they_were_saying_survive_the_change_from_protocol_4() {
    let mut world = World::new(5, &["alice", "bob"], 4, 16);
    world.clients = PROTOCOL_4.map(|hex| sotto_protocol::Client::restore(&bytes(hex)).unwrap()).into();
    world.round = 206;
    for client in 0..2 {
        world.restart(client);
    }
    world.say(0, "bob", "said in protocol 5");
    world.say(1, "alice", "heard in protocol 5");
    world.run(120);
    assert_eq!(world.texts(0), [("bob".to_owned(), "heard in protocol 5".to_owned())]);
    assert_eq!(world.texts(1), [("alice".to_owned(), "said in protocol 5".to_owned())]);
}

/// What the present program stores of the first two, 120 rounds after those of version 2. A change of what is stored wants
/// another version, and a way from this one; then `SOTTO_BLESS=1` writes the files of that version.
#[test]
fn the_form_of_states_does_not_change_unnoticed() {
    let mut world = people_of_version_2();
    world.say(0, "desk", "five, to all");
    world.run(120);
    for (client, name) in ["alice", "bob"].into_iter().enumerate() {
        let snapshot = world.clients[client].snapshot();
        let file = format!("{}/tests/golden/state/version10-{name}.hex", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("SOTTO_BLESS").is_some_and(|value| value == "1") {
            let lines = snapshot.chunks(60).map(|line| data_encoding::HEXLOWER.encode(line) + "\n");
            std::fs::write(&file, lines.collect::<String>()).unwrap();
        }
        let stored = bytes(&std::fs::read_to_string(file).unwrap());
        assert_eq!(stored[0], 10);
        let same = *sotto_protocol::Client::restore(&stored).unwrap().snapshot() == stored;
        assert!(same, "what {name} stores again");
        let same = *snapshot == stored;
        assert!(same, "what {name} stores after the same rounds");
    }
}

#[test]
fn states_of_other_versions_and_damaged_ones_are_refused_with_the_reason() {
    let good = bytes(VERSION_2[0]);
    for version in [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 255] {
        let mut other = good.clone();
        other[0] = version;
        assert!(sotto_protocol::Client::restore(&other).is_err());
    }
    for at in (1..good.len()).step_by(7) {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        assert!(matches!(sotto_protocol::Client::restore(&damaged), Err(Error::Malformed(_))));
        assert!(sotto_protocol::Client::restore(&good[..at]).is_err());
    }
}

/// The parameters that an operator announces next, with seeds for the rounds to come.
fn announce(world: &mut World, change: impl FnOnce(&mut ServerParameters)) -> ServerParameters {
    let (secret, first) = ([9; 32], Round(world.round));
    let tree = SeedTree::new(first, vec![segment_end(&secret, first, 0)]).unwrap();
    let mut parameters = world.parameters.clone();
    parameters.serial += 1;
    parameters.seeds = tree.commitment();
    change(&mut parameters);
    world.seeds = Some(SeedChain::new(secret.into(), tree).unwrap());
    parameters
}

/// Whoever changed a server's parameters had everybody make a new account and meet anew.
#[test]
fn attack_b10_a_change_of_parameters_keeps_accounts_contacts_and_texts() {
    let mut world = World::new(5, &["alice", "bob"], 2, 16);
    world.befriend(0, 1);
    world.run(60);
    world.say(0, "bob", "said before");
    let changes: [fn(&mut ServerParameters); 3] = [
        |parameters| (parameters.retrieve, parameters.buckets) = (4, 12),
        |parameters| (parameters.round_ms, parameters.query_ms) = (500, 400),
        |parameters| {
            (parameters.code, parameters.retrieve, parameters.buckets, parameters.choices) =
                (CodeKind::Single, 1, 1, 1);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let parameters = announce(&mut world, change);
        let now = world.now();
        for client in 0..2 {
            let before = world.clients[client].snapshot();
            let open = (Round(world.round), now);
            let too_far = (Round(world.round + 1_000_000), now);
            assert_eq!(
                world.clients[client].adopt(parameters.clone(), too_far),
                Err(Error::RoundTooFar(too_far.0))
            );
            assert_eq!(world.clients[client].snapshot(), before);
            world.clients[client].adopt(parameters.clone(), open).unwrap();
            assert!(
                world.clients[client].adopt(parameters.clone(), open).is_err(),
                "the same is no later one"
            );
            world.restart(client);
        }
        world.parameters = parameters;
        world.say(1, "alice", &format!("said after change {number}"));
        world.run(60);
        let downgrade = ServerParameters { serial: 1, ..world.parameters.clone() };
        let open = (Round(world.round), world.now());
        assert!(world.clients[0].adopt(downgrade, open).is_err());
    }
    assert_eq!(world.texts(1), [("alice".to_owned(), "said before".to_owned())]);
    let expected = (0..3).map(|number| ("bob".to_owned(), format!("said after change {number}")));
    assert_eq!(world.texts(0), expected.collect::<Vec<_>>());
    assert!(world.warnings().is_empty());
}

/// Who was away while rounds became longer has seen more of them than the new length explains.
#[test]
fn who_was_away_while_the_length_of_rounds_changed_is_not_locked_out() {
    for (round_ms, rounds) in [(10 * ROUND_MS, 1000), (ROUND_MS / 2, 2000)] {
        let mut world = World::new(5, &["alice"], 2, 16);
        world.run(5);
        let later = UnixMillis(world.now().0 + 1000 * ROUND_MS);
        world.round += rounds;
        let parameters = announce(&mut world, |parameters| parameters.round_ms = round_ms as u32);
        let open = Round(world.round);
        world.clients[0].adopt(parameters, (open, later)).unwrap();
        world.clients[0].open_round(open, later, &mut world.rng).unwrap();
        let next = (Round(open.0 + 1), UnixMillis(later.0 + round_ms));
        world.clients[0].open_round(next.0, next.1, &mut world.rng).unwrap();
    }
}
