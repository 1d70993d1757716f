//! Making contacts: what a relay, a finder of the invitation and a forger get.

use sotto_protocol::{Error, Holder, Invitation, Notice, Warning};

use crate::client::finder::{self, Finder};
use crate::client::world::{Fate, World};

const ALICE: usize = 0;
const CAROL: usize = 1;
const MALLORY: usize = 2;
const DAVE: usize = 3;
const ERIN: usize = 4;

/// All that mallory's client tells her in a round, and what she reads with the string of the relayed invitation.
type View = (Vec<Notice>, Vec<Option<Vec<u8>>>);

/// Mallory, whom alice and carol both know, asks alice for an invitation and hands it to carol as her own. After as many
/// rounds she accepts it herself, too.
fn relayed(acquainted: bool, seed: u64, bearer: Option<u64>, restarts: bool) -> (World, Vec<View>) {
    let mut world = World::new(seed, &["alice", "carol", "mallory", "dave", "erin"], 4, 8);
    // As many contacts in either world.
    let others = if acquainted { [(ALICE, CAROL), (DAVE, ERIN)] } else { [(ALICE, DAVE), (CAROL, ERIN)] };
    for (one, other) in [(MALLORY, ALICE), (MALLORY, CAROL)].into_iter().chain(others) {
        world.befriend(one, other);
    }
    world.run(60);
    let now = world.now();
    let relayed = world.clients[ALICE].invite("again", now, &mut world.rng).unwrap();
    let relayed: Invitation = relayed.to_string().parse().unwrap();
    let begin = world.round;
    let mut finder = Finder::new(&relayed);
    let mut views = Vec::new();
    let fates = [Fate { restarts, ..Fate::default() }; 5];
    for round in 0..160 {
        if bearer == Some(round) {
            let now = world.now();
            world.clients[MALLORY].accept("again", &relayed, now, &mut world.rng).unwrap();
        }
        if round == 3 {
            let now = world.now();
            let known = world.clients[CAROL].holder(relayed.identity());
            let alice = world.clients[CAROL].find("alice").map(Holder::Contact);
            assert_eq!((known, alice.is_some()), (alice, acquainted));
            world.clients[CAROL].accept("again", &relayed, now, &mut world.rng).unwrap();
        }
        if round % 20 == 0 {
            world.say(MALLORY, "alice", "are you there?");
            world.say(MALLORY, "carol", "are you there?");
        }
        let told = world.notices[MALLORY].len();
        let deposits = world.deposits(&fates);
        let mut read = finder.read(begin + round, &deposits);
        for opened in read.iter_mut().flatten() {
            // Without the digest of the newest manifest and the random keys.
            opened.truncate(32);
        }
        let published = world.publish(&deposits);
        world.read(&published, &fates);
        world.round += 1;
        views.push((world.notices[MALLORY][told..].to_vec(), read));
    }
    (world, views)
}

/// Whether alice and carol know each other, mallory's client does not tell, and neither does the string that she has.
#[test]
fn attack_a4_who_passes_an_invitation_on_does_not_learn_whether_two_people_know_each_other() {
    for (seed, bearer, restarts) in [
        (1, None, false),
        (2, Some(0), false),
        (3, Some(3), true),
        (4, Some(12), false),
        (5, Some(100), true),
    ] {
        let (_, strangers) = relayed(false, seed, bearer, restarts);
        let (_, friends) = relayed(true, seed, bearer, restarts);
        for (round, (strangers, friends)) in strangers.iter().zip(&friends).enumerate() {
            assert!(strangers == friends, "seed {seed}, round {round}: {strangers:?}, {friends:?}");
        }
        // She sees something: her own texts arrive, and carol's requests.
        assert!(friends.iter().flat_map(|(notices, _)| notices).count() >= 16);
        assert!(friends.iter().any(|(_, read)| !read.is_empty()));
    }
}

/// Neither believes the other to be mallory: carol knows before she accepts whose invitation it is, and both see the
/// right identity afterwards; whoever is known already is said to be, and no text gets under another's name.
#[test]
fn attack_a4_a_relayed_invitation_joins_nobody_under_a_false_name() {
    for acquainted in [false, true] {
        let (mut world, _) = relayed(acquainted, 6, None, false);
        let (alice, carol) = (world.clients[ALICE].identity(), world.clients[CAROL].identity());
        for (client, peer, name) in [(ALICE, carol, "carol"), (CAROL, alice, "alice")] {
            let again = world.id(client, "again");
            assert_eq!(world.clients[client].contact_identity(again), Some(peer));
            let warned = |warning: &Notice| matches!(warning, Notice::Warning(Warning::IdentityHeld { .. }));
            assert_eq!(world.notices[client].iter().any(warned), acquainted);
            let established = Notice::Established { conversation: again };
            assert_eq!(world.notices[client].contains(&established), !acquainted);
            let said = world.clients[client].queue_text(again, "mallory?");
            assert_eq!(said.is_ok(), !acquainted);
            let held = world.clients[client].find(name);
            assert_eq!(world.clients[client].double_of(again), held.map(Holder::Contact));
            if let Some(held) = held {
                let warning = Warning::IdentityHeld { conversation: again, held: Some(held) };
                assert!(world.notices[client].contains(&Notice::Warning(warning)));
                world.say(client, name, "it is me");
            }
        }
        let heard = [world.texts(ALICE).len(), world.texts(CAROL).len()];
        world.run(60);
        let heard = [(ALICE, heard[0], "carol"), (CAROL, heard[1], "alice")];
        for (client, before, name) in heard {
            let texts = world.texts(client)[before..].to_vec();
            let expected = if acquainted { (name, "it is me") } else { ("again", "mallory?") };
            assert_eq!(texts, [(expected.0.to_owned(), expected.1.to_owned())]);
        }
    }
}

/// What one says who does not notice comes under the name by which the other knows them.
#[test]
fn attack_a4_a_text_of_a_known_contact_comes_under_its_name_wherever_it_is_said() {
    let mut world = World::new(7, &["alice", "carol"], 2, 4);
    world.befriend(ALICE, CAROL);
    world.run(40);
    let alice = world.id(CAROL, "alice");
    world.clients[CAROL].forget(alice).unwrap();
    let now = world.now();
    let relayed = world.clients[ALICE].invite("mallory", now, &mut world.rng).unwrap();
    world.clients[CAROL].accept("mallory", &relayed, now, &mut world.rng).unwrap();
    world.say(CAROL, "mallory", "hello, mallory");
    // Said before it turned out who answers, and said to nobody.
    world.say(ALICE, "mallory", "for mallory alone");
    world.run(60);
    assert_eq!(world.texts(ALICE), [("carol".into(), "hello, mallory".into())]);
    assert!(world.texts(CAROL).is_empty());
    assert_eq!(world.clients[CAROL].conversations()[0].queued, 0);
    // When the other conversation is gone, this is where they talk.
    let carol = world.id(ALICE, "carol");
    world.clients[ALICE].forget(carol).unwrap();
    let mallory = world.id(ALICE, "mallory");
    assert_eq!(world.clients[ALICE].double_of(mallory), None);
    world.say(ALICE, "mallory", "so it is you");
    world.run(40);
    assert_eq!(world.texts(CAROL), [("mallory".into(), "so it is you".into())]);
}

/// Somebody hands a person's own invitation back: the person is told, and the requests go out.
#[test]
fn attack_a4_an_invitation_of_ones_own_is_answered_as_any_other() {
    let mut world = World::new(8, &["alice"], 2, 4);
    let now = world.now();
    let own = world.clients[ALICE].invite("mallory", now, &mut world.rng).unwrap();
    assert_eq!(world.clients[ALICE].holder(own.identity()), Some(Holder::Oneself));
    world.clients[ALICE].accept("again", &own, now, &mut world.rng).unwrap();
    let mut finder = Finder::new(&own);
    let mut requests = 0;
    for _ in 0..40 {
        let round = world.round;
        let deposits = world.deposits(&[Fate::default()]);
        requests += finder.read(round, &deposits).len();
        let published = world.publish(&deposits);
        world.read(&published, &[Fate::default()]);
        world.round += 1;
    }
    // One of two turns in the rounds 1 to 15.
    assert!((7..=8).contains(&requests), "{requests}");
    for name in ["mallory", "again"] {
        let id = world.id(ALICE, name);
        assert_eq!(world.clients[ALICE].double_of(id), Some(Holder::Oneself));
        let held = Notice::Warning(Warning::IdentityHeld { conversation: id, held: None });
        assert!(world.notices[ALICE].contains(&held));
        assert!(matches!(world.clients[ALICE].queue_text(id, "me?"), Err(Error::Input(_))));
    }
}

/// A forger who puts another's identity into an invitation is heard by nobody.
#[test]
fn attack_a4_an_invitation_in_anothers_name_establishes_nothing() {
    let mut world = World::new(9, &["alice", "bob", "mallory"], 1, 4);
    let now = world.now();
    let own = world.clients[MALLORY].invite("bob", now, &mut world.rng).unwrap();
    let mut bytes = finder::bytes(&own);
    bytes[73..105].copy_from_slice(&world.clients[0].identity());
    let forged = finder::invitation(&bytes);
    world.clients[1].accept("alice", &forged, now, &mut world.rng).unwrap();
    world.run(60);
    for (client, name) in [(1, "alice"), (MALLORY, "bob")] {
        let id = world.id(client, name);
        assert_eq!(world.clients[client].contact_identity(id), None);
        assert!(!world.clients[client].conversations()[0].established);
    }
    // Mallory's client cannot read who it is that came.
    let corrupted = Warning::Corrupted { conversation: world.id(MALLORY, "bob") };
    assert!(world.notices[MALLORY].iter().all(|notice| *notice == Notice::Warning(corrupted.clone())));
}

/// Somebody noted who deposited under which label, and finds the invitation when all is over.
#[test]
fn attack_a6_a_string_found_later_names_the_invited_one_while_it_asked_and_nobody_else() {
    let names = ["alice", "bob", "carol"];
    let mut world = World::new(10, &names, 1, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    world.clients[1].accept("alice", &invitation, now, &mut world.rng).unwrap();
    world.say(0, "bob", "hello");
    world.say(1, "alice", "hello");
    let mut recorded = Vec::new();
    for _ in 0..80 {
        let deposits = world.deposits(&[Fate::default(); 3]);
        recorded.push((world.round, deposits.clone()));
        let published = world.publish(&deposits);
        world.read(&published, &[Fate::default(); 3]);
        world.round += 1;
    }
    assert_eq!((world.texts(0).len(), world.texts(1).len()), (1, 1));

    let matches = |mut finder: Finder| {
        let mut found = Vec::new();
        for (round, deposits) in &recorded {
            let label = finder.label(*round);
            let accounts = deposits.iter().enumerate().filter(|(_, deposit)| deposit.label.0 == label);
            found.extend(accounts.map(|(account, _)| (*round, account)));
        }
        found
    };
    // The answer goes out in the rounds from 8 on, and bob goes on from it where the next block of 8 begins.
    let expected: Vec<(u64, usize)> = (1..16).map(|round| (round, 1)).collect();
    assert_eq!(matches(Finder::new(&invitation)), expected);
    // The chains that there were when everything followed from the secret, and others that one might try.
    for domain in ["sotto v1 pair epoch 0 chain", "sotto v1 request chain", "sotto v1 pair chain"] {
        for direction in [0, 1] {
            let info = [domain.as_bytes(), &[0, direction]].concat();
            assert!(matches(Finder::of(&invitation, &info)).is_empty());
        }
    }

    // What he can open says nothing of whom it is from, and neither state holds what else it would take.
    let (secret, exchange) = (&finder::bytes(&invitation)[9..41], &finder::bytes(&invitation)[41..73]);
    let mut finder = Finder::new(&invitation);
    for (round, deposits) in &recorded[..15] {
        let opened = finder.read(*round, deposits).remove(0).unwrap();
        for client in &world.clients {
            assert!(!opened.windows(32).any(|window| window == client.identity()));
        }
    }
    for client in &world.clients {
        let state = client.snapshot();
        assert!(!state.windows(32).any(|window| window == secret || window == exchange));
    }
}

/// The inviter, who may wait for a week, says nothing meanwhile that the string would tell.
#[test]
fn attack_a6_an_invitation_that_nobody_accepts_names_nobody() {
    let mut world = World::new(11, &["alice", "bob"], 1, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    let mut finder = Finder::new(&invitation);
    let secret = finder::bytes(&invitation)[9..41].to_vec();
    for round in 1..60 {
        assert!(!world.clients[0].snapshot().windows(32).any(|window| window == secret));
        let deposits = world.deposits(&[Fate::default(); 2]);
        assert!(finder.read(round, &deposits).is_empty());
        let published = world.publish(&deposits);
        world.read(&published, &[Fate::default(); 2]);
        world.round += 1;
    }
}
