//! Two worlds under the same lies: in one, Alice talks with Bob, with Carol and in a group; in the other,
//! the same people have nothing to do with each other. What the wire shows of every one of them is the same to the byte and
//! the millisecond, from the first connection to the last; a seed plays the same twice; no key seals two boxes; what is said
//! arrives once and in order when the lies have ended; and the person is told what a careful reader would want to know.

use core::ops::Range;
use std::collections::BTreeMap;

use mpir::Engine;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sotto_protocol::client::Client;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{ConversationId, RoundMode, ServerParameters, UnixMillis};

use crate::lies::{Act, Call, FAR, Told as Lied, Who};
use crate::machine::{BASE_MS, Line, Pace};
use crate::more_seeds;
use crate::server::Seen;
use crate::traces::difference;
use crate::world::{Person, ROUND_MS, Told, World, parameters, quick};

/// What happens in both worlds.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// Lies, and to whom they are told when.
    pub(crate) lies: &'static [Lied],
    /// What happens when, ms since the world began; ascending.
    pub(crate) acts: &'static [(u64, Act)],
    /// Rounds in which Alice and Bob say something to each other, if they talk.
    pub(crate) says: &'static [u64],
    /// Rounds until everybody leaves.
    pub(crate) rounds: u64,
    /// Words that Alice or Bob must be told, if they talk.
    pub(crate) told: &'static [&'static str],
    /// Whether everything that was said arrives.
    pub(crate) arrives: bool,
    pub(crate) parameters: fn(ServerParameters) -> ServerParameters,
    pub(crate) pace: Pace,
}

pub(crate) const HONEST: Scenario = Scenario {
    lies: &[],
    acts: &[],
    says: &[2, 40, 44, 48],
    rounds: 110,
    told: &[],
    arrives: true,
    parameters: |parameters| parameters,
    pace: quick,
};

/// With whom people have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Nobody with anybody.
    Idle,
    /// Alice with Bob, with Carol, and with Carol and Dave in a group.
    Talking,
    /// Alice with Bob and Carol.
    Pairs,
    /// Alice's invitation to Bob is answered by Carol, too.
    Intercepted,
}

/// What a world showed.
#[derive(PartialEq, Eq)]
pub(crate) struct Played {
    /// Everybody's wires: Alice's, Bob's, Carol's and Dave's.
    pub(crate) tapes: Vec<Vec<Line>>,
    pub(crate) seen: Vec<Vec<Seen>>,
    pub(crate) told: Vec<Told>,
    said: usize,
}

fn introduce(world: &World, secret: Secret, all: &mut [Client; 4]) -> Option<[ConversationId; 2]> {
    let [alice, bob, carol, dave] = all;
    if secret == Secret::Idle {
        return None;
    }
    let with_bob = world.introduce(alice, bob);
    if secret == Secret::Intercepted {
        return Some(with_bob);
    }
    let [with_carol, at_carol] = world.introduce(alice, carol);
    alice.queue_text(with_carol, &"much to say to Carol ".repeat(20)).unwrap();
    carol.queue_text(at_carol, &"much to say ".repeat(20)).unwrap();
    // With slots a group can be made of those one has met.
    if secret == Secret::Talking && !world.server.parameters.code.has_slots() {
        let roster = [("Carol".to_owned(), carol.identity()), ("Dave".to_owned(), dave.identity())];
        let now = UnixMillis(BASE_MS);
        let mut rng = ChaCha20Rng::from_seed(world.rng("the group"));
        let card = alice.create_group("desk", &roster, &mut rng).unwrap();
        for member in [carol, dave] {
            member.join_group(&card, now).unwrap();
        }
        alice.queue_text(alice.find("desk").unwrap(), &"to all ".repeat(40)).unwrap();
    }
    Some(with_bob)
}

/// Alice makes a group of Bob, Carol and herself.
async fn gather(people: &[Person], seed: [u8; 32]) {
    let (mut roster, mut rng) = (Vec::new(), ChaCha20Rng::from_seed(seed));
    for (name, person) in [("Bob", 1), ("Carol", 2)] {
        let identity = people[person].handle.ask(Client::identity).await.unwrap();
        roster.push((name.to_owned(), identity));
    }
    let create = move |alice: &mut Client| {
        let card = alice.create_group("desk", &roster, &mut rng)?;
        alice.queue_text(alice.find("desk").unwrap(), &"to all ".repeat(40))?;
        Ok::<_, sotto_protocol::Error>(card.to_string())
    };
    let card = people[0].handle.change(create).await.unwrap().unwrap();
    for person in &people[1..3] {
        let card = card.clone();
        let join =
            move |member: &mut Client| member.join_group(&card.parse()?, UnixMillis(BASE_MS)).map(drop);
        person.handle.change(join).await.unwrap().unwrap();
    }
}

/// Something happens, or a text is said.
#[derive(Clone, Copy)]
enum Does {
    Say,
    Gather,
    Act(Act),
}

/// When those who talk have met, on a server with slots.
const MET: u64 = 60;

async fn observe(engine: &dyn Engine, seed: u64, secret: Secret, scenario: Scenario) -> Played {
    let server = (scenario.parameters)(parameters(engine, RoundMode::Deadline));
    let round_ms = u64::from(server.round_ms);
    let mut world = World::new(seed, server, 2);
    let mut all = ["Alice", "Bob", "Carol", "Dave"].map(|name| world.client(name, 3));
    let talk = if secret == Secret::Intercepted {
        let [alice, bob, carol, _] = &mut all;
        let mut rng = ChaCha20Rng::from_seed(world.rng("the invitation"));
        let now = UnixMillis(BASE_MS);
        let invitation = alice.invite("Bob", now, &mut rng).unwrap();
        carol.accept("Alice", &invitation, now, &mut rng).unwrap();
        Some([alice.find("Bob").unwrap(), bob.accept("Alice", &invitation, now, &mut rng).unwrap()])
    } else {
        introduce(&world, secret, &mut all)
    };
    let accounts = all.each_ref().map(crate::world::account);
    for (lie, rounds, who) in scenario.lies {
        let whom = match who {
            Who::Alice => Some(accounts[0]),
            Who::Bob => Some(accounts[1]),
            Who::Everybody => None,
        };
        world.server.plan(*lie, rounds, whom);
    }
    let old = all[0].snapshot();
    let mut people = Vec::new();
    for (place, client) in (0_u64..).zip(all) {
        // Nobody comes at the moment of another.
        world.until(100 * place).await;
        let pace = if place == 0 { scenario.pace } else { quick };
        people.push(world.start(client, pace).await);
    }
    let mut does: Vec<(u64, Does)> =
        scenario.says.iter().map(|round| (round * round_ms + 333 * round_ms / 1000, Does::Say)).collect();
    does.extend(scenario.acts.iter().map(|(at, act)| (*at, Does::Act(*act))));
    if secret == Secret::Talking && world.server.parameters.code.has_slots() {
        does.push((MET * round_ms + 444 * round_ms / 1000, Does::Gather));
    }
    does.sort_by_key(|(at, _)| *at);
    let (mut said, mut stopped) = (0, false);
    for (at, act) in does {
        world.until(at).await;
        match act {
            Does::Gather => gather(&people, world.rng("the group")).await,
            Does::Say => {
                let Some([at_alice, at_bob]) = talk else { continue };
                let text = format!("text {said:04}");
                said += 1;
                for (person, conversation) in people.iter().zip([at_alice, at_bob]) {
                    person.handle.queue_text(conversation, &text).await.unwrap();
                }
            }
            Does::Act(Act::Cut(who)) => {
                let count = if who == Who::Everybody { people.len() } else { 1 };
                let from = usize::from(who == Who::Bob);
                people[from..from + count].iter().for_each(|person| person.wire.cut());
            }
            Does::Act(Act::Restart(round)) => world.server.restart(round),
            Does::Act(Act::Pretend(pretence)) => world.server.pretend(pretence),
            Does::Act(Act::Clock(wrong_ms)) => people[0].machine.set_clock(wrong_ms),
            Does::Act(Act::Stop) => {
                drop(people[0].handle.stop().await.unwrap());
                stopped = true;
            }
            Does::Act(act @ (Act::Start | Act::Restore)) => {
                let kept = people[0].disk.snapshots().pop().map(|(_, kept)| kept);
                let kept = if act == Act::Start { kept.unwrap() } else { old.to_vec() };
                let alice = people.remove(0);
                people.insert(0, world.again(alice, Client::restore(&kept).unwrap(), scenario.pace).await);
                stopped = false;
            }
        }
    }
    // With some seeds it takes longer until all has arrived that was disturbed.
    let rounds = scenario.rounds + if more_seeds() { 60 } else { 0 };
    world.until(round_ms * rounds + round_ms * 650 / 1000).await;
    let finish = |person: &Person| {
        let handle = person.handle.clone();
        tokio::spawn(async move { handle.finish().await.map(drop) })
    };
    let finishing: Vec<_> = people.iter().skip(usize::from(stopped)).map(finish).collect();
    for finished in finishing {
        finished.await.unwrap().unwrap();
    }
    world.until(round_ms * (rounds + 16)).await;
    let tapes = people.iter().map(|person| person.machine.tape.lines()).collect();
    // Calls that waited for one session leave at one moment, in an order that the runtime draws.
    let in_order = |mut seen: Vec<Seen>| {
        seen.sort_by_key(|seen| (seen.at, seen.call, seen.round));
        seen
    };
    let seen = accounts.iter().map(|account| in_order(world.server.seen(account))).collect();
    let told = people.iter_mut().map(Person::told).collect();
    Played { tapes, seen, told, said }
}

/// Plays a world to its end, in one thread and no real time.
pub(crate) fn play(engine: &dyn Engine, seed: u64, secret: Secret, scenario: Scenario) -> Played {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(observe(engine, seed, secret, scenario))
}

/// What everybody shows: when, which calls, and how large.
fn shapes(played: &Played) -> Vec<Vec<(core::time::Duration, Call, u64, usize)>> {
    let shape = |seen: &Seen| (seen.at, seen.call, seen.round, seen.bytes.len());
    played.seen.iter().map(|seen| seen.iter().map(shape).collect()).collect()
}

/// Two worlds show the same.
pub(crate) fn same(what: &str, one: &Played, other: &Played) {
    for (person, (one, other)) in one.tapes.iter().zip(&other.tapes).enumerate() {
        let difference = difference(one, other);
        assert_eq!(difference, None, "{what}, person {person}: {}", difference.as_deref().unwrap_or(""));
    }
    assert_eq!(shapes(one), shapes(other), "{what}");
}

/// No label, and so no key, served two boxes; nothing was deposited in a round far ahead.
fn keys_serve_once(what: &str, played: &Played) {
    let mut boxes = BTreeMap::new();
    for seen in played.seen.iter().flatten().filter(|seen| seen.call == Call::Deposit) {
        let (label, sealed) = seen.bytes.split_at(seen.bytes.len() - BOX_BYTES);
        let first = boxes.entry((seen.account, label)).or_insert(sealed);
        assert_eq!(*first, sealed, "{what}: one key for two boxes");
        assert!(seen.round < FAR, "{what}: something was deposited in a round far ahead");
    }
}

/// What is not the same in two plays that look the same.
fn other_content(one: &Played, other: &Played) -> Option<String> {
    let mut calls = one.seen.iter().flatten().zip(other.seen.iter().flatten());
    if let Some((one, other)) = calls.find(|(one, other)| one != other) {
        let nodes = [one.node, other.node];
        return Some(format!("{:?} at {:?} for round {}, to nodes {nodes:?}", one.call, one.at, one.round));
    }
    let told = one.told.iter().zip(&other.told).enumerate();
    let mut told = told.filter(|(_, (one, other))| one != other);
    told.next().map(|(person, (one, other))| {
        let lists: [fn(&Told) -> &[String]; 4] =
            [|told| &told.texts, |told| &told.troubles, |told| &told.warnings, |told| &told.lost];
        let first = lists.iter().find_map(|list| {
            let place = list(one).iter().zip(list(other)).position(|(one, other)| one != other)?;
            Some([&list(one)[place], &list(other)[place]])
        });
        format!("what person {person} is told: {first:?}")
    })
}

/// Plays both worlds with so many seeds; each twice, if more were asked for than the gate has time for.
pub(crate) fn compare(
    engine: &dyn Engine,
    what: &str,
    seeds: Range<u64>,
    secrets: [Secret; 2],
    scenario: Scenario,
) {
    for seed in seeds {
        let what = format!("{what}, seed {seed}");
        let [one, other] = secrets.map(|secret| {
            let played = play(engine, seed, secret, scenario);
            if more_seeds() {
                let again = play(engine, seed, secret, scenario);
                same(&format!("{what}, {secret:?} again"), &played, &again);
                let other = other_content(&played, &again);
                assert_eq!(other, None, "{what}, {secret:?}: another play, another world");
            }
            keys_serve_once(&what, &played);
            played
        });
        same(&what, &one, &other);
        let busy = &one.tapes[0];
        assert!(busy.len() as u64 >= scenario.rounds.min(20), "{what}: there is nothing to compare");
        happened(&what, scenario, &other);
    }
}

fn happened(what: &str, scenario: Scenario, played: &Played) {
    let [alice, bob] = [&played.told[0], &played.told[1]];
    let all =
        [alice, bob].map(|told| [&told.warnings[..], &told.troubles[..], &told.lost[..]].concat().concat());
    for words in scenario.told {
        assert!(all.iter().any(|told| told.contains(words)), "{what}: nobody is told \"{words}\": {all:?}");
    }
    let said: Vec<String> = (0..played.said).map(|number| format!("text {number:04}")).collect();
    for told in [alice, bob] {
        let heard: Vec<&String> = told.texts.iter().filter(|text| text.starts_with("text ")).collect();
        let once = heard.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(once, "{what}: not once and in order: {heard:?}");
        let arrived = heard.iter().copied().eq(&said);
        assert!(arrived || !scenario.arrives, "{what}: {heard:?} of {said:?} arrived: {all:?}");
    }
}

/// Rounds, as milliseconds since the world began.
pub(crate) const fn at(round: u64, ms: u64) -> u64 {
    round * ROUND_MS as u64 + ms
}
