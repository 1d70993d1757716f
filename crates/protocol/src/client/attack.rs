//! What a member who asks for keys all the time costs its keeper and the others.

use crate::client::world::{Fate, World};
use crate::client::{Client, Notice};
use crate::conversation::Talk;
use crate::message::Kind;

const FOUR: [&str; 4] = ["alice", "bob", "carol", "dave"];
const CAROL: usize = 2;
const DAVE: usize = 3;

fn four() -> World {
    let mut world = World::new(1, &FOUR, 4, 16);
    for other in 1..4 {
        world.befriend(0, other);
    }
    world.run(60);
    let now = world.now();
    let others: Vec<_> =
        (1..4).map(|other| (FOUR[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, &mut world.rng).unwrap();
    for other in 1..4 {
        world.clients[other].join_group(&card, now).unwrap();
    }
    world.run(200);
    world
}

fn waiting(client: &Client, name: &str) -> usize {
    let id = client.find(name).unwrap();
    match &client.state.conversation(id).unwrap().talk {
        Talk::Pair(pair) => pair.outbox().len(),
        Talk::Group(group) => group.outbox().len(),
    }
}

/// Keys for one who is away wait in its conversation with the keeper; whoever asks for them must not make them more and more.
#[test]
fn attack_a_member_who_always_asks_piles_up_no_keys_for_one_who_is_away() {
    let mut world = four();
    let mut fates = [Fate::default(); 4];
    fates[DAVE].absent = true;
    world.notices = vec![Vec::new(); 4];
    for round in 0..4000 {
        if round % 8 == 0 {
            let carol = &mut world.clients[CAROL];
            let crew = carol.find("crew").unwrap();
            let request = carol.state.group_mut(crew).unwrap().request();
            let alice = carol.find("alice").unwrap();
            if waiting(carol, "alice") < 8
                && let Talk::Pair(pair) = &mut carol.state.conversation_mut(alice).unwrap().talk
            {
                pair.queue(Kind::Rekey, &request.encode()).unwrap();
            }
        }
        world.step(&fates);
    }
    let changes = world.notices[1].iter().filter(|notice| matches!(notice, Notice::NewKeys { .. })).count();
    let piled = waiting(&world.clients[0], "dave");
    world.say(0, "dave", "are you there?");
    let back = world.round;
    while !world.texts(DAVE).iter().any(|(_, text)| text == "are you there?") && world.round < back + 2000 {
        world.run(1);
    }
    println!(
        "{changes} changes of keys in 4,000 rounds; {piled} messages wait for dave, and a text behind them {} rounds",
        world.round - back
    );
    assert!(piled <= 32, "{piled} messages wait for one who is away");
}
