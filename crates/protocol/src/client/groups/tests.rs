//! Whom a client takes for whom in its groups, and what it says to keepers.

use crate::client::Client;
use crate::client::world::World;
use crate::conversation::{ConversationId, Talk};
use crate::group::{Farewell, Group};
use crate::message::Kind;
use crate::stream::Outbox;

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Four people of whom the first two are contacts and have met.
fn world() -> World {
    let mut world = World::new(1, &NAMES, 3, 4);
    world.befriend(0, 1);
    while world.clients[..2].iter().any(|client| !client.conversations()[0].established) {
        world.run(1);
    }
    world
}

/// Makes a group of the first, whose others have these names on the card, which all join.
fn crew(world: &mut World, names: &[&str]) {
    let now = world.now();
    let others: Vec<_> = (1..)
        .zip(names)
        .map(|(other, name): (usize, _)| ((*name).to_owned(), world.clients[other].identity()))
        .collect();
    let card = world.clients[0].create_group("crew", &others, &mut world.rng).unwrap();
    for client in &mut world.clients[1..=names.len()] {
        client.join_group(&card, now).unwrap();
    }
}

fn group<'a>(world: &'a mut World, client: usize) -> &'a mut Group {
    let id = world.id(client, "crew");
    world.clients[client].state.group_mut(id).unwrap()
}

fn outbox(client: &Client, id: ConversationId) -> &Outbox {
    client.state.conversation(id).unwrap().talk.outbox()
}

/// A member's word that it leaves.
fn farewell(world: &mut World, member: usize) -> Farewell {
    let identity = world.clients[member].state.identity.key().clone();
    group(world, member).own_farewell(&identity)
}

/// Whoever is asked to remove somebody must be the one who can.
#[test]
fn the_keeper_is_the_first_of_the_card_who_is_present() {
    let mut world = World::new(1, &NAMES[..3], 3, 4);
    crew(&mut world, &["bob", "carol"]);
    let keepers =
        |world: &World| [0, 1, 2].map(|client| world.clients[client].keeper(world.id(client, "crew")));
    assert_eq!(keepers(&world), [Some(0); 3]);
    let left = farewell(&mut world, 0);
    group(&mut world, 2).take_farewell(&left).unwrap();
    assert_eq!(keepers(&world), [Some(0), Some(0), Some(1)]);
    let now = world.now();
    let alice = &mut world.clients[0];
    alice.invite("erin", now, &mut world.rng).unwrap();
    assert_eq!(alice.keeper(alice.find("erin").unwrap()), None);
    assert_eq!(alice.keeper(ConversationId(99)), None);
}

/// What is said to a name must go to whom the person knows by it, whatever names stand on a card.
#[test]
fn members_are_shown_by_the_names_that_this_person_gave_them() {
    let mut world = world();
    let bob = world.id(0, "bob");
    world.clients[0].rename(bob, "Robert").unwrap();
    crew(&mut world, &["bob", "robert", "dave"]);
    let crew = world.id(0, "crew");
    let alice = &world.clients[0];
    let names: Vec<String> = alice.members(crew).into_iter().map(|member| member.name).collect();
    assert_eq!(names, ["alice", "Robert", "robert (not your contact)", "dave"]);
    let names = [0, 1, 2, 3].map(|member| alice.state.name_of(crew, member).unwrap());
    assert_eq!(names, ["alice", "Robert", "robert (not your contact)", "dave"]);
    assert!(alice.state.name_of(crew, 4).is_err() && alice.members(bob).is_empty());
    assert_eq!(alice.state.name_of(bob, 0).unwrap(), "Robert");
    let identities = [bob, crew, ConversationId(99)].map(|id| alice.contact_identity(id));
    assert_eq!(identities, [Some(world.clients[1].identity()), None, None]);
}

/// A keeper that has gone back waits for members whom nobody else tells of it; and who is asked again before it has read the first
/// request has one more thing to read, each time.
#[test]
fn a_keeper_that_is_a_contact_is_asked_once_and_told_who_has_left() {
    let mut world = world();
    crew(&mut world, &["bob", "carol"]);
    let left = farewell(&mut world, 2);
    let request = group(&mut world, 1).request();
    let (keeper, stranger) = (world.clients[0].identity(), world.clients[2].identity());
    let alice = world.id(1, "alice");
    let bob = &mut world.clients[1];
    let before = outbox(bob, alice).len();
    bob.state.ask_for_keys(&[stranger], &request, core::slice::from_ref(&left));
    assert_eq!(outbox(bob, alice).len(), before);
    for _ in 0..2 {
        bob.state.ask_for_keys(&[stranger, keeper], &request, core::slice::from_ref(&left));
        assert!(outbox(bob, alice).holds(Kind::Leave, &left.encode()));
        assert!(outbox(bob, alice).holds(Kind::Rekey, &request.encode()));
        assert_eq!(outbox(bob, alice).len(), before + 2);
    }
}

/// A second conversation with a contact, or with oneself, must show whom it leads to.
#[test]
fn who_is_known_already_is_shown_by_its_name_there() {
    let mut world = world();
    let now = world.now();
    for ((inviter, name), (invited, other)) in [((0, "twice"), (1, "again")), ((0, "mirror"), (0, "image"))] {
        let invitation = world.clients[inviter].invite(name, now, &mut world.rng).unwrap();
        world.clients[invited].accept(other, &invitation, now, &mut world.rng).unwrap();
        world.run(40);
        for (client, name, known_as) in [(inviter, name, NAMES[invited]), (invited, other, NAMES[inviter])] {
            let id = world.id(client, name);
            assert_eq!(world.clients[client].state.name_of(id, 0).unwrap(), known_as, "{name}");
            let talk = &world.clients[client].state.conversation(id).unwrap().talk;
            assert!(matches!(talk, Talk::Pair(pair) if pair.is_double()));
        }
        for (client, name) in [(inviter, name), (invited, other)] {
            let id = world.id(client, name);
            world.clients[client].forget(id).unwrap();
        }
    }
}
