//! Cards of groups with false slots in them: they tell their author nothing, and harm no other group.

use super::world::{Fate, World};
use crate::conversation::ConversationId;
use crate::message::GroupFrame;
use crate::{Client, CodeKind, Error, Round};

const NAMES: [&str; 4] = ["alice", "mallory", "bob", "zed"];
const ALICE: usize = 0;
const MALLORY: usize = 1;
const BOB: usize = 2;
const ZED: usize = 3;
/// A slot in which nobody deposits.
const NOWHERE: u32 = 20;

/// Alice and bob know mallory and zed, and not each other.
fn world(seed: u64) -> World {
    let mut world = World::with_code(1, seed, &NAMES, 4, 8, CodeKind::Partitioned);
    for (one, other) in [(ALICE, MALLORY), (MALLORY, BOB), (ALICE, ZED), (BOB, ZED)] {
        world.befriend(one, other);
    }
    world
}

/// A group of alice, bob and its maker. On alice's card bob has a slot of the maker's choice.
fn group(world: &mut World, maker: usize, name: &str, forged: Option<u32>) {
    let others = [ALICE, BOB].map(|of| (NAMES[of].to_owned(), world.clients[of].identity()));
    let now = world.now();
    let card = world.clients[maker].create_group(name, &others, &mut world.rng).unwrap();
    world.clients[BOB].join_group(&card, now).unwrap();
    let mut shown = card.clone();
    if let Some(slot) = forged {
        shown.slots[2] = slot;
    }
    world.clients[ALICE].join_group(&shown.to_string().parse().unwrap(), now).unwrap();
}

/// What alice tells mallory in a group of what she has heard of bob.
fn entries(world: &mut World, rounds: u64) -> Vec<u32> {
    let mut seen = Vec::new();
    for _ in 0..rounds {
        let round = Round(world.round);
        let deposits = world.deposits(&[Fate::default(); 4]);
        for want in &world.clients[MALLORY].state.wants[&round] {
            if let Some(plaintext) = want.key.open(&deposits[ALICE].sealed.0)
                && let Ok(frame) = GroupFrame::decode(&plaintext, round, |_, _| true)
                && world.clients[MALLORY].keeper(want.conversation).is_some()
            {
                seen.push(frame.checks[2]);
            }
        }
        let published = world.publish(&deposits);
        world.read(&published, &[Fate::default(); 4]);
        world.round += 1;
    }
    seen
}

/// Whoever makes a card sees of every member what it has heard of every other. If a contact's slot, or that of another card,
/// stood in for a false one, she would see who has which.
#[test]
fn a_false_card_does_not_tell_whether_two_members_know_each_other() {
    for relation in ["nothing", "contacts", "another group"] {
        let mut world = world(5);
        if relation == "contacts" {
            world.befriend(ALICE, BOB);
        }
        world.run(150);
        if relation == "another group" {
            group(&mut world, ZED, "others", None);
        }
        group(&mut world, MALLORY, "ring", Some(NOWHERE));
        world.say(BOB, "ring", "hello ring");
        let seen = entries(&mut world, 120);
        assert!(seen.len() >= 4, "{relation}: {}", seen.len());
        assert!(seen.iter().all(|entry| *entry == 0), "{relation}: {seen:08x?}");
        assert!(world.texts(ALICE).is_empty(), "{relation}");
    }
}

#[test]
fn a_card_decides_for_its_own_group_alone() {
    let mut world = world(6);
    world.run(150);
    group(&mut world, MALLORY, "evil", Some(NOWHERE));
    group(&mut world, ZED, "ring", None);
    world.say(BOB, "ring", "hello ring");
    world.run(200);
    assert_eq!(world.texts(ALICE).len(), 1);
    let ring = world.id(ALICE, "ring");
    assert!(!world.clients[ALICE].state.group_mut(ring).unwrap().is_on_card());

    // What stands on a card is not passed on as if one had met.
    let others = [BOB, ZED].map(|of| (NAMES[of].to_owned(), world.clients[of].identity()));
    let made = world.clients[ALICE].create_group("mine", &others, &mut world.rng);
    assert!(matches!(made, Err(Error::Input(reason)) if reason.code() == "unknown-slot"));
}

/// A number that stays names a contact's account to the server that gave it.
#[test]
fn who_is_forgotten_leaves_no_slot_behind() {
    let mut world = world(7);
    world.run(150);
    group(&mut world, ZED, "ring", None);
    let known = |client: &Client, id: ConversationId| client.state.addresses.of(id).is_some();
    let [mallory, ring] = ["mallory", "ring"].map(|name| world.id(ALICE, name));
    let identity = world.clients[BOB].identity();
    let alice = &mut world.clients[ALICE];
    assert!(known(alice, mallory) && alice.state.addresses.of_member(ring, identity).is_some());
    alice.forget(mallory).unwrap();
    alice.forget(ring).unwrap();
    let stored = Client::restore(&alice.snapshot()).unwrap();
    assert!(!known(&stored, mallory) && stored.state.addresses.of_member(ring, identity).is_none());
}

/// Who makes a group in the middle of an epoch, of two whose slots it knows, sees nothing of whether one of them reads the other's
/// slot already: what is said in the group is heard from the next epoch on, in either world.
#[test]
fn a_card_in_the_middle_of_an_epoch_tells_nobody_who_knows_whom() {
    for (phase, seed) in [0, 1, 5].into_iter().flat_map(|phase| (0..4).map(move |seed| (phase, seed))) {
        let [strangers, contacts] = [false, true].map(|know_each_other| {
            let mut world = World::with_code(1, seed, &NAMES, 4, 8, CodeKind::Standing);
            for (one, other) in [(ALICE, MALLORY), (MALLORY, BOB), (ALICE, ZED), (BOB, ZED)] {
                world.befriend(one, other);
            }
            if know_each_other {
                world.befriend(ALICE, BOB);
            }
            world.run(300);
            while world.round % 8 != phase {
                world.run(1);
            }
            group(&mut world, MALLORY, "ring", None);
            world.say(BOB, "ring", "hello ring");
            world.run(8 - phase);
            let at_once = world.texts(ALICE).len();
            world.run(16);
            (at_once, world.texts(ALICE).len())
        });
        assert_eq!(strangers, contacts, "from round {phase} of an epoch on, seed {seed}");
        assert_eq!(strangers, (usize::from(phase == 0), 1));
    }
}
