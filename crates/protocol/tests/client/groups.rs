//! Groups.

use proptest::prelude::{ProptestConfig, any, proptest};
use sotto_protocol::{Client, Error, Notice, Warning};

use crate::world::{Fate, World};

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Four people, each the contact of those named before, in one group.
fn four(seed: u64, contacts: &[(usize, usize)]) -> World {
    let mut world = World::new(seed, &NAMES, 4, 16);
    for (one, other) in contacts {
        world.befriend(*one, *other);
    }
    let now = world.now();
    let others: Vec<_> =
        (1..4).map(|other| (NAMES[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, now, &mut world.rng).unwrap();
    let copied: sotto_protocol::GroupCard = card.to_string().parse().unwrap();
    assert_eq!((copied.name(), copied.members().len()), ("crew", 4));
    for client in &mut world.clients[1..] {
        client.join_group(&copied, now).unwrap();
    }
    world
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
    assert!(world.warnings().is_empty());
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

#[test]
fn a_removed_member_hears_nothing_more() {
    let mut world = four(3, &ALL_OF_ALICE);
    world.run(60);
    let crew = world.id(0, "crew");
    world.clients[0].remove_member(crew, 3).unwrap();
    assert_eq!(world.clients[0].remove_member(crew, 3), Err(Error::Unknown("member")));
    world.say(0, "crew", "among ourselves");
    world.say(1, "crew", "at last");
    world.run(150);
    assert_eq!(world.texts(0).len(), 1);
    assert_eq!((world.texts(1).len(), world.texts(2).len()), (1, 2));
    assert!(world.texts(3).is_empty());
    let left = Notice::Left { conversation: world.id(1, "crew"), from: "dave".into() };
    assert!(world.notices[1].contains(&left));
    assert_eq!(world.clients[0].conversations().iter().map(|summary| summary.queued).sum::<usize>(), 0);
    assert_eq!(world.clients[2].members(world.id(2, "crew")).iter().filter(|m| m.present).count(), 3);
    assert!(world.warnings().is_empty());
}

#[test]
fn a_member_who_leaves_takes_no_key_along() {
    let mut world = four(4, &ALL_OF_ALICE);
    world.run(60);
    world.say(3, "crew", "farewell");
    let crew = world.id(3, "crew");
    world.run(8);
    world.clients[3].leave_group(crew).unwrap();
    assert!(world.clients[3].queue_text(crew, "wait").is_err());
    let mut stale = None;
    for _ in 0..60 {
        world.run(1);
        if world.clients[3].find("crew").is_some() {
            stale = Some(world.clients[3].snapshot());
        }
    }
    assert_eq!(world.clients[3].find("crew"), None);
    for client in 0..3 {
        let left = Notice::Left { conversation: world.id(client, "crew"), from: "dave".into() };
        assert_eq!(world.notices[client].iter().filter(|notice| **notice == left).count(), 1);
    }
    // Whoever stole dave's last state reads nothing of what is said now.
    world.clients[3] = Client::restore(&stale.unwrap()).unwrap();
    world.say(1, "crew", "is he gone?");
    world.run(100);
    assert_eq!(world.texts(2).iter().filter(|(_, text)| text == "is he gone?").count(), 1);
    assert!(world.texts(3).is_empty());
    assert!(world.warnings().is_empty());
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
    let needed = Warning::RekeyNeeded { conversation: world.id(0, "crew") };
    assert_eq!(world.warnings(), [&Notice::Warning(needed)]);
    world.say(1, "crew", "still here");
    world.run(60);
    assert_eq!(world.texts(2).len(), 1);
}

/// Alice and bob remove a member each at the same time: both must be out in the end, and the rest together.
#[test]
fn two_removals_at_once_both_hold() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    let mut world = World::new(6, &names, 6, 16);
    for (one, other) in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)] {
        world.befriend(one, other);
    }
    let now = world.now();
    let others: Vec<_> =
        (1..5).map(|other| (names[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, now, &mut world.rng).unwrap();
    for client in &mut world.clients[1..] {
        client.join_group(&card, now).unwrap();
    }
    world.run(80);
    let crew = [world.id(0, "crew"), world.id(1, "crew")];
    world.clients[0].remove_member(crew[0], 3).unwrap();
    world.clients[1].remove_member(crew[1], 4).unwrap();
    world.run(200);
    for client in 0..3 {
        let members = world.clients[client].members(world.id(client, "crew"));
        let present: Vec<u8> = members.iter().filter(|member| member.present).map(|m| m.number).collect();
        assert_eq!(present, [0, 1, 2], "{client}");
    }
    world.say(0, "crew", "just us");
    world.say(2, "crew", "just us");
    world.run(120);
    assert_eq!([0, 1, 2, 3, 4].map(|client| world.texts(client).len()), [1, 2, 1, 0, 0]);
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
    let card = alice.create_group("pair", &others, now, rng).unwrap();
    assert!(matches!(stranger.join_group(&card, now), Err(Error::Input(_))));
    assert!(matches!(alice.join_group(&card, now), Err(Error::Input(_))));
    for members in [vec![], vec![("alice".to_owned(), [5; 32])], vec![("x".to_owned(), me)]] {
        assert!(matches!(alice.create_group("odd", &members, now, rng), Err(Error::Input(_))));
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
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

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
        assert!(world.warnings().is_empty(), "{:?}", world.warnings());
    }
}
