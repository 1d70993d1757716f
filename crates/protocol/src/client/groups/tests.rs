//! Whom a client takes for whom in its groups, and what it says to keepers.

use std::collections::BTreeSet;

use crate::client::invitations::Untold;
use crate::client::world::World;
use crate::client::{Client, Notice, Want, Warning};
use crate::conversation::{ConversationId, ConversationKind, Talk};
use crate::group::{Farewell, Group};
use crate::message::Kind;
use crate::seal::OpeningKey;
use crate::secret::Secret;
use crate::stream::Outbox;
use crate::{Label, Round};

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Four people of whom the first two are contacts and have met.
fn world() -> World {
    let mut world = World::new(1, &NAMES, 3, 4);
    world.befriend(0, 1);
    let established =
        |world: &World| world.clients[..2].iter().all(|client| client.conversations()[0].established);
    for _ in 0..100 {
        if established(&world) {
            return world;
        }
        world.run(1);
    }
    panic!("the first two have not met");
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

fn group(world: &mut World, client: usize) -> &mut Group {
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
    let summary = &world.clients[0].conversations()[0];
    assert!(summary.established && summary.on_card && !summary.ended);
    assert_eq!((summary.kind, summary.agreement), (ConversationKind::Group, None));
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

/// Nobody may be taken for somebody else by a name, and a name that is one's own is free.
#[test]
fn two_conversations_have_two_names() {
    let mut world = world();
    crew(&mut world, &["bob"]);
    let (bob, crew) = (world.id(0, "bob"), world.id(0, "crew"));
    let alice = &mut world.clients[0];
    for (id, name, renamed) in [
        (bob, "bob", true),
        (bob, "crew", false),
        (crew, "bob", false),
        (crew, "desk", true),
        (bob, "crew", true),
    ] {
        assert_eq!(alice.rename(id, name).is_ok(), renamed, "{name}");
    }
    assert_eq!(
        [bob, crew].map(|id| alice.find(if id == bob { "crew" } else { "desk" })),
        [Some(bob), Some(crew)]
    );
    assert!(alice.rename(bob, "").is_err() && alice.rename(ConversationId(99), "carol").is_err());
}

/// A name that is cut in the middle of a letter is none, and a card with a name of its own for each must be made from any names.
#[test]
fn of_a_long_name_as_much_stands_on_a_card_as_there_is_room_for() {
    for (name, on_card) in [
        ("alice", "alice"),
        ("sixteen of bytes", "sixteen of bytes"),
        ("seventeen of bytes", "seventeen of byt"),
        ("fifteen and a \u{eb}", "fifteen and a \u{eb}"),
        ("fifteen and an \u{eb}", "fifteen and an"),
        ("fourteen and \u{65e5}\u{672c}", "fourteen and \u{65e5}"),
        ("fourteen of: \u{1f600}", "fourteen of:"),
    ] {
        assert_eq!(crate::client::groups::member_name(name), on_card);
    }
}

/// Every account has a key of its own at the server, which has nothing to do with the identity that contacts know.
#[test]
fn accounts_have_keys_of_their_own() {
    let world = World::new(1, &NAMES, 1, 1);
    let mut seeds: Vec<[u8; 32]> = world.clients.iter().map(|client| *client.account_seed()).collect();
    assert_eq!(seeds[0], *world.clients[0].state.account.bytes());
    let identity = |client: &Client| *Secret::from(client.state.identity.clone()).bytes();
    seeds.extend(world.clients.iter().map(identity));
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 2 * NAMES.len());
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

/// Whoever asks again and again for keys of a group that this person has left must not make it say goodbye as often.
#[test]
fn who_counts_on_one_who_has_left_is_told_once_until_it_has_read_it() {
    let mut world = world();
    crew(&mut world, &["bob"]);
    let (request, left) = (group(&mut world, 1).request(), farewell(&mut world, 0));
    let bobs = world.clients[1].identity();
    let (crew, bob) = (world.id(0, "crew"), world.id(0, "bob"));
    let alice = &mut world.clients[0];
    let talk = &alice.state.conversations.iter().find(|talk| talk.id == crew).unwrap().talk;
    let Talk::Group(group) = talk else { panic!("that is the group") };
    alice.state.left.keep(group);
    alice.forget(crew).unwrap();
    let (before, block) = (outbox(alice, bob).len(), world.round / 8);
    for later in 1..4 {
        alice.state.left.ask(&request, &bobs);
        alice.state.tend_left(Round(8 * (block + later)));
        assert!(outbox(alice, bob).holds(Kind::Leave, &left.encode()));
        assert_eq!(outbox(alice, bob).len(), before + 1);
    }
}

/// What is to be told of a conversation that is forgotten meanwhile would be told of nobody, and what is looked for be read for
/// nobody.
#[test]
fn nothing_is_told_or_looked_for_of_a_conversation_that_was_forgotten() {
    let mut world = world();
    let bob = world.id(0, "bob");
    let (round, now, mut rng) = (world.round, world.now(), world.rng.clone());
    let alice = &mut world.clients[0];
    let held = |conversation| Untold::IdentityHeld { conversation, held: None };
    alice.state.untold.extend([bob, ConversationId(77)].map(held));
    let key = OpeningKey::new(Round(1), Label([0; 16]), Secret::new([0; 32]));
    let other = Want { conversation: ConversationId(77), epoch: 1, member: 0, key };
    alice.open_round(Round(round), now, &mut rng).unwrap();
    alice.state.wants.get_mut(&Round(round)).unwrap().push(other);
    let wanted = |alice: &Client| -> BTreeSet<ConversationId> {
        alice.state.wants.values().flatten().map(|want| want.conversation).collect()
    };
    assert_eq!(wanted(alice), BTreeSet::from([bob, ConversationId(77)]));
    alice.forget(bob).unwrap();
    assert_eq!(wanted(alice), BTreeSet::from([ConversationId(77)]));
    let told = alice.state.tell();
    assert!(matches!(
        told[..],
        [Notice::Warning(Warning::IdentityHeld { conversation: ConversationId(77), .. })]
    ));
    assert!(alice.state.tell().is_empty());
}

/// A unit that a contact needs no more is another's, where nobody can notice that it is missing.
#[test]
fn units_are_given_back_where_all_are_polled_in_every_round() {
    for (places, kept) in [(2, 1), (3, 2)] {
        let mut world = World::new(1, &NAMES[..2], places, 4);
        world.befriend(0, 1);
        let units = |world: &World| world.clients[0].state.conversations[0].units.len();
        assert_eq!(units(&world), 2);
        world.renew();
        world.run(1);
        assert_eq!(units(&world), kept, "{places} places");
    }
}
