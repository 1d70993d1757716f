//! A server, a contact or a stranger that does what it should not.

use ed25519_dalek::SigningKey;
use proptest::prelude::{ProptestConfig, any, proptest};
use sotto_protocol::{
    Client, CodeKind, Deposit, KeyAgreement, Label, Manifest, Notice, Retrieval, Round, SealedBox,
    SignedManifest, Warning,
    deposit::{BOX_BYTES, LABEL_BYTES},
};

use crate::client::world::{Fate, Published, World, answers};

const BOTH: [Fate; 2] =
    [Fate { absent: false, deposit_lost: false, answers_lost: false, restarts: false }; 2];

fn friends(seed: u64) -> World {
    let mut world = World::new(seed, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world
}

/// One of two boxes under a label is read, by a coin of the reader's: the sender repeats what was not.
#[test]
fn a_squatter_under_an_equal_label_suppresses_nothing_for_long() {
    for squatter_first in [true, false] {
        let mut world = friends(1);
        world.say(0, "bob", "suppressed?");
        let mut rounds = 0;
        while world.texts(1).is_empty() {
            rounds += 1;
            assert!(rounds < 40);
            let mut deposits = world.deposits(&BOTH);
            let squatted = Deposit { label: deposits[0].label, sealed: world.noise() };
            deposits.insert(if squatter_first { 0 } else { deposits.len() }, squatted);
            let published = world.publish(&deposits);
            world.read(&published, &BOTH);
            world.round += 1;
        }
        assert!(world.warnings().iter().all(|warning| **warning == Notice::Warning(Warning::Crowded)));
    }
}

/// Whoever makes labels ambiguous, loses messages by it, and is noticed.
#[test]
fn squatting_in_every_round_is_reported() {
    let mut world = friends(1);
    for number in 0..20 {
        world.say(0, "bob", &format!("text {number}"));
        let mut deposits = world.deposits(&BOTH);
        let squatted = Deposit { label: deposits[0].label, sealed: world.noise() };
        deposits.push(squatted);
        let published = world.publish(&deposits);
        world.read(&published, &BOTH);
        world.round += 1;
    }
    assert!(world.notices[1].contains(&Notice::Warning(Warning::Crowded)));
}

/// Squatters who choose their boxes well must not be the only ones ever read.
#[test]
fn many_squatters_under_equal_labels_suppress_nothing_for_long() {
    for (squatters, rounds) in [(2, 20), (5, 40), (20, 200)] {
        let mut world = friends(12);
        world.say(0, "bob", "suppressed?");
        for _ in 0..rounds {
            let mut deposits = world.deposits(&BOTH);
            let label = deposits[0].label;
            // The lowest and the highest boxes there are.
            for number in 0..squatters {
                let fill = if number % 2 == 0 { number } else { 255 - number };
                deposits.push(Deposit { label, sealed: SealedBox([fill; BOX_BYTES]) });
            }
            let published = world.publish(&deposits);
            world.read(&published, &BOTH);
            world.round += 1;
        }
        assert_eq!(world.texts(1).len(), 1, "{squatters} squatters");
    }
}

#[test]
fn a_damaged_box_is_reported_and_its_text_comes_again() {
    let mut world = friends(2);
    world.say(0, "bob", "try again");
    let mut deposits = world.deposits(&BOTH);
    deposits[0].sealed.0[100] ^= 1;
    let published = world.publish(&deposits);
    world.read(&published, &BOTH);
    world.round += 1;
    assert!(world.texts(1).is_empty());
    let corrupted = Warning::Corrupted { conversation: world.id(1, "alice") };
    assert_eq!(world.notices[1].last(), Some(&Notice::Warning(corrupted)));
    world.run(10);
    assert_eq!(world.texts(1).len(), 1);
}

/// The number of targets is all that could show; which of them are real must not be asked differently.
#[test]
fn refused_manifests_and_mappings_leave_a_retrieval_of_the_same_shape() {
    let alter: [fn(&mut Manifest); 6] = [
        |manifest| manifest.engine = "other".into(),
        |manifest| manifest.choices = 2,
        |manifest| manifest.round = Round(manifest.round.0 + 1),
        |manifest| manifest.round = manifest.round.back(1),
        |manifest| manifest.previous = [9; 32],
        |manifest| manifest.version -= 1,
    ];
    for alter in alter {
        let mut world = friends(3);
        world.say(0, "bob", "unread");
        let deposits = world.deposits(&BOTH);
        let mut published = world.publish(&deposits);
        let mut manifest = published.manifest.verify(&world.parameters.manifest_key).unwrap();
        alter(&mut manifest);
        published.manifest = SignedManifest::sign(&manifest, &world.key);
        world.read(&published, &BOTH);
        assert!(world.texts(1).is_empty());
        assert!(matches!(world.notices[1].last(), Some(Notice::Warning(Warning::BadManifest(_)))));
    }

    let mut world = friends(4);
    world.say(0, "bob", "unread");
    let deposits = world.deposits(&BOTH);
    let mut published = world.publish(&deposits);
    let genuine = published.manifest.clone();
    published.manifest.signature[5] ^= 1;
    let bad = world.ready(1, &published.manifest);
    assert!(matches!(bad[..], [Notice::Warning(Warning::BadManifest(_))]));
    let manifest = genuine.verify(&world.parameters.manifest_key).unwrap();
    let stranger = SignedManifest::sign(&manifest, &SigningKey::from_bytes(&[2; 32]));
    assert_eq!(world.ready(1, &stranger).len(), 1);
    assert!(world.ready(1, &genuine).is_empty());
    assert!(world.ready(1, &genuine).is_empty());

    published.mapping[40] ^= 1;
    let retrieval = world.lookup(1, &published);
    assert_eq!(*retrieval.targets, vec![None; world.parameters.buckets.into()]);
    let round = retrieval.round;
    let answers = answers(&retrieval, &published.buckets);
    let notices = world.clients[1].received(retrieval, answers);
    assert_eq!(notices, [Notice::Warning(Warning::BadMapping { round })]);
}

#[test]
fn two_worlds_are_noticed_and_the_text_is_delivered() {
    let mut world = friends(5);
    let deposits = world.deposits(&BOTH);
    let published = world.publish(&deposits);
    world.read(&published, &[Fate::default(), Fate { absent: true, ..Fate::default() }]);
    // Bob is shown another manifest for the same round.
    let mut manifest = published.manifest.verify(&world.parameters.manifest_key).unwrap();
    manifest.deposits_digest = [7; 32];
    let other = SignedManifest::sign(&manifest, &world.key);
    assert!(world.ready(1, &other).is_empty());
    world.round += 1;

    world.say(0, "bob", "what do you see?");
    let deposits = world.deposits(&BOTH);
    // And goes on in his world.
    world.previous = manifest.digest();
    let published = world.publish(&deposits);
    world.read(&published, &[Fate { absent: true, ..Fate::default() }, Fate::default()]);
    let split = Warning::SplitView { conversation: world.id(1, "alice") };
    assert_eq!(world.notices[1][world.notices[1].len() - 2], Notice::Warning(split));
    assert_eq!(world.texts(1), [("alice".into(), "what do you see?".into())]);
}

/// A server that gives each of two people rounds which the other lacks never shows both the same round differently.
#[test]
fn a_split_view_in_rounds_of_ones_own_is_noticed() {
    let mut world = friends(13);
    for number in 0..6 {
        world.say(0, "bob", &format!("a{number}"));
        world.say(1, "alice", &format!("b{number}"));
    }
    let mut heads = [world.previous; 2];
    let away = Fate { absent: true, ..Fate::default() };
    for turn in 0..60 {
        let mut deposits = world.deposits(&BOTH);
        // Rounds of both, of bob alone, of alice alone.
        if turn % 3 != 0 {
            deposits.remove(turn % 3 - 1);
        }
        let published = world.publish(&deposits);
        let manifest = published.manifest.verify(&world.parameters.manifest_key).unwrap();
        for who in [0, 1] {
            if turn % 3 == 1 + who {
                continue;
            }
            let mut shown = manifest.clone();
            shown.previous = heads[who];
            heads[who] = shown.digest();
            let manifest = SignedManifest::sign(&shown, &world.key);
            let (mapping, buckets) = (published.mapping.clone(), published.buckets.clone());
            let published = Published { round: published.round, manifest, mapping, buckets };
            world.read(&published, &if who == 0 { [Fate::default(), away] } else { [away, Fate::default()] });
        }
        world.round += 1;
    }
    for (who, other) in [(0, "bob"), (1, "alice")] {
        let split = Notice::Warning(Warning::SplitView { conversation: world.id(who, other) });
        assert!(world.notices[who].contains(&split), "{:?}", world.notices[who]);
        assert!(!world.texts(who).is_empty());
    }
}

/// Rounds missed and fetched afterwards, and rounds that were never published, are no split view.
#[test]
fn rounds_missed_or_given_up_are_not_taken_for_a_split_view() {
    let mut world = friends(14);
    let away = Fate { absent: true, ..Fate::default() };
    for turn in 0..60 {
        if turn % 10 == 0 {
            world.say(0, "bob", "hello");
            world.say(1, "alice", "hello");
        }
        let fates = if turn % 6 == 2 { [Fate::default(), away] } else { BOTH };
        let deposits = world.deposits(&fates);
        if turn % 7 != 3 {
            let published = world.publish(&deposits);
            world.read(&published, &fates);
            missed_by(&mut world, 1, &published, turn % 6 == 2);
        }
        world.round += 1;
    }
    assert_eq!((world.texts(0).len(), world.texts(1).len()), (6, 6));
    assert!(world.warnings().is_empty(), "{:?}", world.warnings());
}

/// Fetches what the client lacks, which is one manifest at most.
fn missed_by(world: &mut World, client: usize, published: &Published, missed: bool) {
    let notices = if missed {
        world.missed = Some(published.manifest.clone());
        Vec::new()
    } else if world.clients[client].missing_manifests().is_some() {
        world.clients[client].supply_manifests(&world.missed.take().into_iter().collect::<Vec<_>>())
    } else {
        Vec::new()
    };
    world.notices[client].extend(notices);
}

/// Asking for what the server no longer has, every round and for ever, helps nobody.
#[test]
fn a_gap_longer_than_the_server_remembers_is_given_up_with_one_warning() {
    for kept in [0, 3] {
        let mut world = friends(15);
        let mut missed = Vec::new();
        for _ in 0..8 {
            let deposits = world.deposits(&[Fate::default(), Fate { absent: true, ..Fate::default() }]);
            missed.push(world.publish(&deposits).manifest);
            world.round += 1;
        }
        world.run(1);
        assert!(world.clients[1].missing_manifests().is_some());
        let notices = world.clients[1].supply_manifests(&missed[8 - kept..]);
        assert_eq!(notices, [Notice::Warning(Warning::HistoryLost)]);
        assert_eq!(world.clients[1].missing_manifests(), None);
        world.notices = vec![Vec::new(); 2];
        world.say(0, "bob", "back again?");
        world.run(20);
        assert_eq!(world.texts(1).len(), 1);
        assert!(world.warnings().is_empty(), "{:?}", world.warnings());
    }
}

/// What is read for one contact must not be taken for another's when a contact is forgotten meanwhile.
#[test]
fn a_contact_forgotten_between_look_up_and_answer_costs_no_other_its_text() {
    let mut world = World::new(3, &["alice", "bob", "carol"], 2, 16);
    world.befriend(0, 1);
    world.befriend(0, 2);
    world.renew();
    world.run(24);
    world.say(2, "alice", "hi");
    let all = [Fate::default(); 3];
    let away = Fate { absent: true, ..Fate::default() };
    for _ in 0..8 {
        let deposits = world.deposits(&all);
        let published = world.publish(&deposits);
        world.read(&published, &[away, Fate::default(), Fate::default()]);
        assert!(world.ready(0, &published.manifest).is_empty());
        let retrieval = world.lookup(0, &published);
        if retrieval.counts.found == 1 && world.clients[0].find("bob").is_some() {
            let bob = world.id(0, "bob");
            world.clients[0].forget(bob).unwrap();
        }
        let answers = answers(&retrieval, &published.buckets);
        let notices = world.clients[0].received(retrieval, answers);
        world.notices[0].extend(notices);
        world.round += 1;
        if !world.texts(0).is_empty() {
            break;
        }
    }
    assert_eq!(world.clients[0].find("bob"), None);
    assert_eq!(world.texts(0), [("carol".into(), "hi".into())]);
    assert!(world.warnings().is_empty());
}

#[test]
fn gaps_in_the_chain_are_closed_or_reported() {
    for honest in [true, false] {
        let mut world = friends(6);
        let mut missed = Vec::new();
        for _ in 0..5 {
            let away = Fate { absent: true, ..Fate::default() };
            let deposits = world.deposits(&[Fate::default(), away]);
            let published = world.publish(&deposits);
            missed.push(published.manifest);
            world.round += 1;
        }
        world.run(1);
        let (from, to) = world.clients[1].missing_manifests().unwrap();
        assert_eq!(to.0 - from.0, 4);
        if !honest {
            missed.remove(2);
        }
        let notices = world.clients[1].supply_manifests(&missed);
        assert_eq!(notices.is_empty(), honest);
        assert_eq!(world.clients[1].missing_manifests(), None);
    }
}

#[test]
fn a_second_bearer_of_an_invitation_is_not_heard() {
    let mut world = World::new(7, &["alice", "bob", "mallory"], 1, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    world.clients[1].accept("alice", &invitation, now, &mut world.rng).unwrap();
    let away = Fate { absent: true, ..Fate::default() };
    // Bob is heard first.
    world.step(&[Fate::default(), Fate::default(), away]);
    let now = world.now();
    world.clients[2].accept("alice", &invitation, now, &mut world.rng).unwrap();
    world.say(2, "alice", "trust me");
    for _ in 0..4 {
        world.step(&[Fate::default(), away, Fate::default()]);
    }
    let other = Warning::OtherKeys { conversation: world.id(0, "bob") };
    assert!(world.notices[0].contains(&Notice::Warning(other)));
    world.run(60);
    // Mallory hears nothing at all.
    assert!(world.notices[2].is_empty() && !world.clients[2].conversations()[0].established);
    assert!(world.clients[1].conversations()[0].established);
    assert_eq!(world.clients[0].contact_identity(world.id(0, "bob")), Some(world.clients[1].identity()));
    assert!(world.texts(0).is_empty());
}

/// The first has been answered, and the inviter heard: only the keys that stay are still to come.
#[test]
fn a_second_bearer_who_comes_when_the_first_was_met_is_noticed() {
    for code in [CodeKind::Cuckoo, CodeKind::Partitioned] {
        for (seed, later) in (0..16).zip([0, 8, 16].into_iter().cycle()) {
            let mut world = World::with_code(1, seed, &["alice", "bob", "mallory"], 2, 4, code);
            let now = world.now();
            let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
            world.clients[1].accept("alice", &invitation, now, &mut world.rng).unwrap();
            let met = |world: &World| world.clients[0].conversations()[0].established;
            while later > 0 && !met(&world) && world.round < 200 {
                world.run(1);
            }
            world.run(later % 16);
            let now = world.now();
            world.clients[2].accept("alice", &invitation, now, &mut world.rng).unwrap();
            world.run(200);
            let told: Vec<&Notice> = world.notices[0]
                .iter()
                .filter(|notice| matches!(notice, Notice::Warning(Warning::OtherKeys { .. })))
                .collect();
            assert_eq!(told.len(), 1, "{code:?}, seed {seed}, {later} rounds later: {:?}", world.notices[0]);
            let agreement = world.clients[0].conversations()[0].agreement;
            assert_eq!(agreement, Some(KeyAgreement::Hybrid), "{code:?}, seed {seed}");
            // One of the two hears nothing at all, and it is the second where there is one.
            let heard = [1, 2].map(|client| world.clients[client].conversations()[0].established);
            assert!(heard[0] != heard[1] && (heard[0] || later == 0), "{code:?}, seed {seed}: {heard:?}");
        }
    }
}

#[test]
fn an_invitation_for_another_server_or_from_impossible_rounds_is_refused() {
    let mut world = World::new(8, &["alice", "bob"], 1, 4);
    let mut elsewhere = World::new(9, &["carol"], 1, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    let key = SigningKey::from_bytes(&[3; 32]).verifying_key().to_bytes();
    elsewhere.parameters.manifest_key = key;
    let settings = sotto_protocol::Settings { conversations: 1 };
    let joined = (Round(1), now);
    let server = elsewhere.parameters.clone();
    let mut carol = Client::new("carol", server, settings, joined, &mut world.rng).unwrap();
    assert!(carol.accept("alice", &invitation, now, &mut world.rng).is_err());

    let joined = (Round(1_000_000), now);
    let server = world.parameters.clone();
    let mut late = Client::new("dave", server, settings, joined, &mut world.rng).unwrap();
    let refused = late.accept("alice", &invitation, now, &mut world.rng);
    assert_eq!(refused, Err(sotto_protocol::Error::RoundTooFar(Round(1))));
    assert!(late.conversations().is_empty());
}

#[test]
fn cover_cannot_be_told_from_messages() {
    let mut world = friends(10);
    // Alice has much to say, bob nothing; bob hears none of it, so he owes no answer.
    for _ in 0..60 {
        world.say(0, "bob", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    }
    let mut totals = [[0_u64; LABEL_BYTES + BOX_BYTES]; 2];
    let rounds = 1500;
    for _ in 0..rounds {
        let deposits = world.deposits(&BOTH);
        for (total, deposit) in totals.iter_mut().zip(&deposits) {
            for (total, byte) in total.iter_mut().zip(deposit.encode()) {
                *total += u64::from(byte);
            }
        }
        world.round += 1;
    }
    // Every byte of either is uniform: its mean lies within five standard deviations of 127.5.
    let deviation = 73.9 / f64::from(rounds).sqrt();
    for total in totals.as_flattened() {
        let mean = *total as f64 / f64::from(rounds);
        assert!((mean - 127.5).abs() < 5.0 * deviation, "{mean}");
    }
    // No label came twice: everything sent by both is still there.
    assert!(world.sent.len() >= 2 * rounds as usize);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_answers_do_not_panic(
        mapping in proptest::collection::vec(any::<u8>(), 0..300),
        elements in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400)), 0..20),
        round in any::<u64>(),
        label in any::<[u8; 16]>(),
    ) {
        let mut world = friends(11);
        world.say(0, "bob", "x");
        let mut deposits = world.deposits(&BOTH);
        let stranger = world.noise();
        deposits.push(Deposit { label: Label(label), sealed: stranger });
        let published = world.publish(&deposits);
        let bob = &mut world.clients[1];
        let _ = bob.ready(&published.manifest);
        let odd = bob.lookup(Round(round), &mapping, &mut world.rng);
        assert!(odd.targets.iter().all(Option::is_none));
        bob.received(odd, elements.clone());
        bob.received(Retrieval::dummy(Round(round), 3), elements.clone());
        let retrieval = world.lookup(1, &published);
        world.clients[1].received(retrieval, elements);
    }
}
