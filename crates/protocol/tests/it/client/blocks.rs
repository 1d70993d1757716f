//! What somebody says in a block of eight rounds follows from what had been read before it: in groups, too.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_protocol::{Client, Deposit, Notice, Round, UnixMillis};

use crate::client::world::{Published, ROUND_MS, World, answers};

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];
const ROUNDS: u64 = 200;
const BLOCK: u64 = 8;
/// Rounds of a block, and of those after it in which a loss may show.
const WATCHED: u64 = 3 * BLOCK;

/// A round of the world in which nothing is lost: what was deposited, and everybody before it was read.
struct Played {
    deposits: Vec<Deposit>,
    published: Published,
    clients: Vec<Vec<u8>>,
}

/// Each draws other coins in every round, so that whoever reads less in one has the same in the next.
fn coins(round: u64, client: usize, purpose: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64((4 * round + client as u64) * 2 + purpose)
}

/// What persons do before a round opens: say something in the group; remove dave; leave.
fn act(client: &mut Client, number: usize, round: u64) {
    let Some(crew) = client.find("crew") else { return };
    match (number, round) {
        (1, 20 | 69) | (0, 70 | 100) => {
            client.queue_text(crew, &"to the crew ".repeat(40)).unwrap();
        }
        (0, 71) => {
            client.remove_member(crew, 3).unwrap();
        }
        (0, 130) => client.leave_group(crew).unwrap(),
        _ => {}
    }
}

fn open(client: &mut Client, number: usize, round: u64) -> Deposit {
    act(client, number, round);
    client.open_round(Round(round), UnixMillis(round * ROUND_MS), &mut coins(round, number, 0)).unwrap();
    client.deposit().unwrap().1.clone()
}

fn read(client: &mut Client, number: usize, published: &Published, lost: bool) -> Vec<Notice> {
    let mut notices = client.ready(&published.manifest);
    let rng = &mut coins(published.round.0, number, 1);
    let retrieval = client.lookup(published.round, &published.mapping, rng);
    let mut answers = answers(&retrieval, &published.buckets);
    if lost {
        answers.fill(None);
    }
    notices.extend(client.received(retrieval, answers));
    notices
}

/// Four people who are each other's contacts, in a group that replaces its card's keys, then those that dave has, then
/// those of its keeper.
fn play() -> (Vec<Played>, Vec<Vec<Notice>>) {
    let mut world = World::new(1, &NAMES, 4, 16);
    for one in 0..4 {
        for other in one + 1..4 {
            world.befriend(one, other);
        }
    }
    let now = world.now();
    let others: Vec<_> =
        (1..4).map(|other| (NAMES[other].to_owned(), world.clients[other].identity())).collect();
    let card = world.clients[0].create_group("crew", &others, &mut world.rng).unwrap();
    for client in &mut world.clients[1..] {
        client.join_group(&card, now).unwrap();
    }
    let mut played = Vec::new();
    for round in 1..=ROUNDS {
        world.round = round;
        let open = |(number, client)| open(client, number, round);
        let deposits: Vec<Deposit> = world.clients.iter_mut().enumerate().map(open).collect();
        let published = world.publish(&deposits);
        let clients = world.clients.iter().map(|client| client.snapshot().to_vec()).collect();
        for (number, client) in world.clients.iter_mut().enumerate() {
            world.notices[number].extend(read(client, number, &published, false));
        }
        played.push(Played { deposits, published, clients });
    }
    (played, world.notices)
}

/// Somebody whose answers of one round are lost says the same, bit by bit, to the end of the block, whatever the group is
/// about to do: take keys, show them, change over, go on without those who left. Whoever made the answers get lost sees no
/// more than that some of a block's were.
#[test]
fn a_round_that_a_member_could_not_read_shows_when_its_block_has_ended() {
    let (played, notices) = play();
    let keys = |notices: &Vec<Notice>| {
        notices.iter().filter(|notice| matches!(notice, Notice::NewKeys { .. })).count()
    };
    assert_eq!(notices.iter().map(keys).collect::<Vec<_>>(), [2, 3, 3, 1]);
    let mut shows = [0; 4];
    for lost in BLOCK..ROUNDS - WATCHED {
        let next_block = (lost / BLOCK + 1) * BLOCK;
        for (number, shows) in shows.iter_mut().enumerate() {
            let before = &played[lost as usize - 1];
            let mut client = Client::restore(&before.clients[number]).unwrap();
            read(&mut client, number, &before.published, true);
            for (round, at) in (lost + 1..lost + WATCHED).zip(&played[lost as usize..]) {
                let same = open(&mut client, number, round) == at.deposits[number];
                assert!(same || round >= next_block, "{}, round {lost}, seen in {round}", NAMES[number]);
                if !same {
                    *shows += 1;
                    break;
                }
                read(&mut client, number, &at.published, false);
            }
        }
    }
    println!("rounds whose loss shows in a later block, of each: {shows:?}");
    assert!(shows.iter().all(|shows| *shows > 3), "{shows:?}");
}
