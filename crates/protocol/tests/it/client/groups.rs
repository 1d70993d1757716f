//! Groups.

#[path = "observer.rs"]
mod observer;

use proptest::prelude::{ProptestConfig, any, proptest};
use sotto_protocol::error::Unknown;
use sotto_protocol::{Client, Error, Notice, Warning};

use crate::client::seeds;
use crate::client::world::{Fate, World};

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Four people, some of them each other's contacts, in one group.
fn four(seed: u64, contacts: &[(usize, usize)]) -> World {
    four_and_card(seed, contacts).0
}

fn four_and_card(seed: u64, contacts: &[(usize, usize)]) -> (World, String) {
    four_from(1, seed, contacts)
}

/// Where rounds begin with this number.
fn four_from(round: u64, seed: u64, contacts: &[(usize, usize)]) -> (World, String) {
    let mut world = World::from_round(round, seed, &NAMES, 4, 16);
    for (one, other) in contacts {
        world.befriend(*one, *other);
    }
    let now = world.now();
    let others: Vec<_> =
        (1..4).map(|other| (NAMES[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, &mut world.rng).unwrap();
    let copied: sotto_protocol::GroupCard = card.to_string().parse().unwrap();
    assert_eq!((copied.name(), copied.members().len()), ("crew", 4));
    for client in &mut world.clients[1..] {
        client.join_group(&copied, now).unwrap();
    }
    (world, card.to_string())
}

/// Goes on until the first clients have that notice, in so many rounds at most.
fn run_until(world: &mut World, clients: usize, rounds: u64, has: impl Fn(&Notice) -> bool) {
    for _ in 0..rounds {
        if world.notices[..clients].iter().all(|notices| notices.iter().any(&has)) {
            return;
        }
        world.run(1);
    }
    panic!("not within {rounds} rounds");
}

fn new_keys(notice: &Notice) -> bool {
    matches!(notice, Notice::NewKeys { .. })
}

const ALL_OF_ALICE: [(usize, usize); 3] = [(0, 1), (0, 2), (0, 3)];

#[test]
fn one_deposit_reaches_everybody() {
    let mut world = four(1, &[]);
    world.say(0, "crew", "all hands!");
    world.say(2, "crew", &"aye ".repeat(100));
    world.run(120);
    for client in 0..4 {
        let mut expected = Vec::new();
        if client != 0 {
            expected.push(("alice".to_owned(), "all hands!".to_owned()));
        }
        if client != 2 {
            expected.push(("carol".to_owned(), "aye ".repeat(100)));
        }
        let mut texts = world.texts(client);
        texts.sort();
        assert_eq!(texts, expected, "{client}");
    }
    for client in [0, 2] {
        let acknowledged = |notice: &&Notice| matches!(notice, Notice::Acknowledged { .. });
        assert_eq!(world.notices[client].iter().filter(acknowledged).count(), 1);
    }
    // Alice knows nobody, so there are no other keys than those of the card.
    let card_keys = Warning::CardKeys { conversation: world.id(0, "crew") };
    assert_eq!(world.warnings(), [&Notice::Warning(card_keys)]);
    assert!(world.clients.iter().all(|client| client.conversations()[0].on_card));
}

#[test]
fn a_text_is_not_done_before_the_last_member_has_it() {
    let mut world = four(2, &[]);
    world.say(0, "crew", "dave?");
    let here = Fate::default();
    let away = Fate { absent: true, ..here };
    for _ in 0..100 {
        world.step(&[here, here, here, away]);
    }
    assert_eq!(world.clients[0].conversations()[0].queued, 1);
    world.run(60);
    assert_eq!(world.clients[0].conversations()[0].queued, 0);
    assert_eq!(world.texts(3).len(), 1);
}

/// Whoever has the card and recorded every box, with who sent it, opens what was said under the card's keys, and nothing
/// of what was said after.
#[test]
fn attack_a6_group_card_found_later_opens_nothing_said_since_it_was_replaced() {
    let (mut world, card) = four_and_card(9, &ALL_OF_ALICE);
    world.say(1, "crew", "under the card");
    run_until(&mut world, 4, 200, new_keys);
    let changed = world.round;
    for (client, name) in NAMES.iter().enumerate() {
        world.say(client, "crew", &format!("{name} under new keys"));
        assert!(!world.clients[client].conversations().iter().any(|conversation| conversation.on_card));
    }
    world.run(80);
    for client in 0..4 {
        let after = world.texts(client).into_iter().filter(|(_, text)| text.ends_with("under new keys"));
        assert_eq!(after.count(), 3);
    }
    let opened = observer::open_all(&card, world.round, &world.sent);
    let holds =
        |text: &[u8]| opened.iter().any(|(_, content)| content.windows(text.len()).any(|w| w == text));
    assert!(holds(b"under the card"), "the observer can read");
    assert!(!holds(b"under new keys"));
    assert_eq!(opened.iter().filter(|(round, _)| *round >= changed).count(), 0);
    assert!(world.warnings().is_empty());
}

/// A server that keeps its log counts rounds from 1970: there, too, a group leaves its card and removes whom it removes.
#[test]
fn groups_change_keys_whatever_number_a_servers_rounds_begin_with() {
    for round_ms in [200, 2000] {
        let (mut world, _) = four_from(1_790_000_000_000 / round_ms, 9, &ALL_OF_ALICE);
        run_until(&mut world, 4, 200, new_keys);
        let crew = world.id(0, "crew");
        assert_eq!(world.clients[0].remove_member(crew, 3), Ok(true));
        world.run(200);
        world.say(1, "crew", "not for dave");
        world.run(60);
        assert!(world.texts(2).iter().any(|(_, text)| text == "not for dave"));
        assert!(!world.texts(3).iter().any(|(_, text)| text == "not for dave"));
        assert!(
            world.notices[3].iter().any(|notice| matches!(notice, Notice::Removed { yourself: true, .. }))
        );
        assert!(world.warnings().is_empty());
    }
}

/// Said of A7: any member removed any other, everybody was told that it had left, and it was told nothing.
#[test]
fn attack_a7_only_the_creator_removes_and_everybody_is_told_who_did_it() {
    let every_pair = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)];
    let mut world = four(8, &every_pair);
    run_until(&mut world, 4, 200, new_keys);
    let crew = world.id(1, "crew");
    for victim in [0, 2, 3] {
        assert!(matches!(world.clients[1].remove_member(crew, victim), Err(Error::Input(_))));
    }
    let crew = world.id(0, "crew");
    assert_eq!(world.clients[0].remove_member(crew, 3), Ok(true));
    world.run(60);
    for (client, name) in NAMES.iter().enumerate() {
        let removed = Notice::Removed {
            conversation: world.id(client, "crew"),
            by: "alice".into(),
            member: "dave".into(),
            yourself: client == 3,
        };
        assert_eq!(world.notices[client].iter().filter(|notice| **notice == removed).count(), 1, "{name}");
        assert!(!world.notices[client].iter().any(|notice| matches!(notice, Notice::Left { .. })));
    }
    assert!(world.warnings().is_empty());
}

#[test]
fn a_removed_member_hears_nothing_more_and_learns_it() {
    let mut world = four(3, &ALL_OF_ALICE);
    run_until(&mut world, 4, 200, new_keys);
    let crew = world.id(0, "crew");
    assert_eq!(world.clients[0].remove_member(crew, 3), Ok(true));
    assert_eq!(world.clients[0].remove_member(crew, 3), Err(Error::Unknown(Unknown::Member)));
    world.say(0, "crew", "among ourselves");
    world.say(1, "crew", "at last");
    let crew = world.id(3, "crew");
    // The keys are made when the next block of rounds begins.
    world.run(8);
    let unheard = world.clients[3].queue_text(crew, "hello?").unwrap();
    world.run(150);
    assert!(world.texts(0).contains(&("bob".into(), "at last".into())));
    assert!(world.texts(2).contains(&("alice".into(), "among ourselves".into())));
    assert!(!world.texts(3).iter().any(|(_, text)| text == "among ourselves"));
    assert!(world.notices[3].contains(&Notice::NotSent { conversation: crew, message: unheard }));
    assert!(matches!(world.clients[3].queue_text(crew, "hello?"), Err(Error::Input(_))));
    let ended =
        |world: &World| world.clients[3].conversations().iter().any(|talk| talk.id == crew && talk.ended);
    assert!(ended(&world));
    world.clients[3].forget(crew).unwrap();
    assert!(!ended(&world));
    assert_eq!(world.clients[0].conversations().iter().map(|summary| summary.queued).sum::<usize>(), 0);
    for client in 0..3 {
        let members = world.clients[client].members(world.id(client, "crew"));
        assert!(members.iter().all(|member| member.present == (member.number != 3)));
        assert!(members.iter().all(|member| member.confirmed == member.present && member.missing == 0));
    }
    assert!(world.warnings().is_empty());
}

#[test]
fn a_member_who_leaves_takes_no_key_along() {
    let mut world = four(4, &ALL_OF_ALICE);
    run_until(&mut world, 4, 200, new_keys);
    world.say(3, "crew", "farewell");
    let crew = world.id(3, "crew");
    world.run(8);
    world.clients[3].leave_group(crew).unwrap();
    assert!(world.clients[3].queue_text(crew, "wait").is_err());
    let mut stale = None;
    let mut left_after = 0;
    for round in 0..80 {
        world.run(1);
        if world.clients[3].find("crew").is_some() {
            stale = Some(world.clients[3].snapshot());
            left_after = round;
        }
    }
    // Twelve turns, one in four rounds, are what it may need without an answer.
    assert!(left_after < 40, "{left_after}");
    for client in 0..3 {
        let left = Notice::Left { conversation: world.id(client, "crew"), from: "dave".into() };
        assert_eq!(world.notices[client].iter().filter(|notice| **notice == left).count(), 1);
        assert_eq!(world.notices[client].iter().filter(|notice| new_keys(notice)).count(), 2);
        let removed = |notice: &Notice| matches!(notice, Notice::Removed { .. });
        assert!(!world.notices[client].iter().any(removed));
    }
    // Whoever stole dave's last state reads nothing of what is said now.
    world.clients[3] = Client::restore(&stale.unwrap()).unwrap();
    world.say(1, "crew", "is he gone?");
    world.run(100);
    assert_eq!(world.texts(2).iter().filter(|(_, text)| text == "is he gone?").count(), 1);
    assert!(!world.texts(3).iter().any(|(_, text)| text == "is he gone?"));
    assert!(world.warnings().is_empty());
}

/// A member who is away until the last farewell in the group is past would take the other for present for ever, and wait
/// for it. Whoever is its contact tells it there.
#[test]
fn a_contact_who_was_away_hears_who_has_left_a_group() {
    let mut world = four(12, &[(1, 3)]);
    world.run(80);
    let crew = world.id(1, "crew");
    world.clients[1].leave_group(crew).unwrap();
    let without_dave =
        core::array::from_fn::<_, 4, _>(|client| Fate { absent: client == 3, ..Fate::default() });
    for _ in 0..120 {
        world.step(&without_dave);
    }
    assert_eq!(world.clients[1].find("crew"), None, "there are farewells to come");
    let crew = world.id(3, "crew");
    assert!(world.clients[3].members(crew)[1].present);
    world.run(80);
    assert!(!world.clients[3].members(crew)[1].present);
    let left = Notice::Left { conversation: crew, from: "bob".into() };
    assert_eq!(world.notices[3].iter().filter(|notice| **notice == left).count(), 1);
}

#[test]
fn nobody_is_told_that_keys_are_new_when_they_are_not() {
    let mut world = four(5, &[(0, 1)]);
    world.run(60);
    let crew = world.id(0, "crew");
    assert!(matches!(world.clients[0].remove_member(crew, 3), Err(Error::Input(_))));
    let crew = world.id(3, "crew");
    world.clients[3].leave_group(crew).unwrap();
    world.run(80);
    let conversation = world.id(0, "crew");
    let warnings =
        [Warning::CardKeys { conversation }, Warning::RekeyNeeded { conversation }].map(Notice::Warning);
    assert_eq!(world.warnings(), warnings.iter().collect::<Vec<_>>());
    world.say(1, "crew", "still here");
    world.run(60);
    assert_eq!(world.texts(2).len(), 1);
}

/// When the creator has left, the next on the card makes keys and may remove.
#[test]
fn the_next_member_takes_over_from_a_creator_who_leaves() {
    let mut world = four(10, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]);
    run_until(&mut world, 4, 200, new_keys);
    let crew = world.id(0, "crew");
    world.clients[0].leave_group(crew).unwrap();
    world.run(120);
    assert_eq!(world.clients[0].find("crew"), None);
    for client in 1..4 {
        let keys = world.notices[client].iter().filter(|notice| new_keys(notice));
        assert_eq!(keys.count(), 2);
        assert_eq!(world.clients[client].keeper(world.id(client, "crew")), Some(1));
    }
    let crew = world.id(1, "crew");
    assert_eq!(world.clients[1].remove_member(crew, 3), Ok(true));
    world.say(1, "crew", "we two");
    world.run(100);
    assert!(world.texts(2).contains(&("bob".into(), "we two".into())));
    assert!(!world.texts(3).contains(&("bob".into(), "we two".into())));
    assert!(world.warnings().is_empty());
}

/// The second has to wait until the first has gone through.
#[test]
fn two_removals_at_once_both_hold() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    let mut world = World::new(6, &names, 6, 16);
    for (one, other) in [(0, 1), (0, 2), (0, 3), (0, 4)] {
        world.befriend(one, other);
    }
    let now = world.now();
    let others: Vec<_> =
        (1..5).map(|other| (names[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, &mut world.rng).unwrap();
    for client in &mut world.clients[1..] {
        client.join_group(&card, now).unwrap();
    }
    run_until(&mut world, 5, 300, new_keys);
    let crew = world.id(0, "crew");
    world.clients[0].remove_member(crew, 3).unwrap();
    world.clients[0].remove_member(crew, 4).unwrap();
    world.say(0, "crew", "just us");
    world.run(250);
    for client in 0..3 {
        let members = world.clients[client].members(world.id(client, "crew"));
        let present: Vec<u8> = members.iter().filter(|member| member.present).map(|m| m.number).collect();
        assert_eq!(present, [0, 1, 2], "{client}");
    }
    world.say(2, "crew", "just us");
    world.run(120);
    assert_eq!([0, 1, 2, 3, 4].map(|client| world.texts(client).len()), [1, 2, 1, 0, 0]);
    assert!(world.warnings().is_empty());
}

/// Whoever makes a card chooses the names on it.
#[test]
fn a_name_on_a_card_is_not_taken_for_a_contacts() {
    let mut world = World::new(11, &["alice", "bob", "mallory", "erin"], 4, 16);
    world.befriend(0, 1);
    world.befriend(0, 2);
    world.run(60);
    let now = world.now();
    let identity = |client: usize| world.clients[client].identity();
    let others =
        [("alice".to_owned(), identity(0)), ("Bob".to_owned(), identity(3)), ("rob".into(), identity(1))];
    let card = world.clients[2].create_group("crew", &others, &mut world.rng).unwrap();
    assert_eq!(world.clients[0].borrowed_names(&card), ["Bob"]);
    assert!(world.clients[1].borrowed_names(&card).is_empty());
    for client in [0, 1, 3] {
        world.clients[client].join_group(&card, now).unwrap();
    }
    world.say(3, "crew", "it is me");
    world.run(60);
    let borrowed = Warning::NameBorrowed { conversation: world.id(0, "crew") };
    assert!(world.notices[0].contains(&Notice::Warning(borrowed)));
    assert_eq!(world.texts(0), [("Bob (not your contact)".to_owned(), "it is me".to_owned())]);
    let names = world.clients[0].members(world.id(0, "crew")).into_iter().map(|member| member.name);
    assert_eq!(names.collect::<Vec<_>>(), ["mallory", "alice", "Bob (not your contact)", "bob"]);
}

#[test]
fn a_card_that_is_wrong_is_refused() {
    let mut world = four(7, &[]);
    let now = world.now();
    let me = world.clients[0].identity();
    let rng = &mut world.rng;
    let stranger = Client::new(
        "eve",
        world.parameters.clone(),
        sotto_protocol::Settings { conversations: 1 },
        (sotto_protocol::Round(1), now),
        rng,
    );
    let mut stranger = stranger.unwrap();
    let others = [("bob".to_owned(), [5; 32])];
    let alice = &mut world.clients[0];
    let card = alice.create_group("pair", &others, rng).unwrap();
    assert!(matches!(stranger.join_group(&card, now), Err(Error::Input(_))));
    assert!(matches!(alice.join_group(&card, now), Err(Error::Input(_))));
    for members in [vec![], vec![("alice".to_owned(), [5; 32])], vec![("x".to_owned(), me)]] {
        assert!(matches!(alice.create_group("odd", &members, rng), Err(Error::Input(_))));
    }
    let text = card.to_string();
    for at in (0..text.len()).step_by(3) {
        let mut mistyped = text.clone();
        let other = if text[at..].starts_with('a') { "b" } else { "a" };
        mistyped.replace_range(at..=at, other);
        assert!(mistyped.parse::<sotto_protocol::GroupCard>().is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: seeds(5).count() as u32, ..ProptestConfig::default() })]

    /// The worst moment for losses is when some have new keys and some have not.
    #[test]
    fn whatever_is_lost_all_who_remain_change_keys_and_no_text_is_lost(
        seed in any::<u64>(),
        dice in proptest::collection::vec(any::<[u8; 4]>(), 80),
        when in 0_usize..60,
    ) {
        let mut world = four(seed, &ALL_OF_ALICE);
        world.run(60);
        for (round, dice) in dice.into_iter().enumerate() {
            if round == when {
                let crew = world.id(0, "crew");
                world.clients[0].remove_member(crew, 3).unwrap();
            }
            if round % 20 == 0 {
                world.say(1, "crew", &format!("b{round}"));
                world.say(2, "crew", &format!("c{round}"));
            }
            world.step(&dice.map(|die| Fate {
                absent: die < 30,
                deposit_lost: die % 3 == 0,
                answers_lost: die % 4 == 0,
                restarts: die % 5 == 0,
            }));
        }
        world.run(200);
        let said = |letter: char| [0, 20, 40, 60].map(|round| format!("{letter}{round}")).to_vec();
        for (client, letter) in [(0, 'b'), (2, 'b'), (0, 'c'), (1, 'c')] {
            let heard = world.texts(client).into_iter().map(|(_, text)| text);
            assert_eq!(heard.filter(|text| text.starts_with(letter)).collect::<Vec<_>>(), said(letter));
        }
        assert!(world.clients[..3].iter().all(|client| client.conversations().iter().all(|c| c.queued == 0)));
        assert!(world.warnings().is_empty(), "{:?}", world.warnings());
    }

    #[test]
    fn whatever_is_lost_a_group_hears_every_text_once_and_in_order(
        seed in any::<u64>(),
        dice in proptest::collection::vec(any::<[u8; 4]>(), 60),
    ) {
        let mut world = four(seed, &[]);
        for number in 0..5 {
            world.say(0, "crew", &format!("a{number}"));
            world.say(3, "crew", &format!("d{number}"));
        }
        for dice in dice {
            world.step(&dice.map(|die| Fate {
                absent: die < 30,
                deposit_lost: die % 3 == 0,
                answers_lost: die % 4 == 0,
                restarts: die % 5 == 0,
            }));
        }
        world.run(200);
        for (client, letters) in [(0, "d"), (1, "ad"), (2, "ad"), (3, "a")] {
            for letter in letters.chars() {
                let heard = world.texts(client).into_iter().map(|(_, text)| text);
                let heard: Vec<String> = heard.filter(|text| text.starts_with(letter)).collect();
                let said: Vec<String> = (0..5).map(|number| format!("{letter}{number}")).collect();
                assert_eq!(heard, said);
            }
        }
        let card_keys = Warning::CardKeys { conversation: world.id(0, "crew") };
        assert_eq!(world.warnings(), [&Notice::Warning(card_keys)]);
    }
}
