//! Worlds that differ in everything secret look alike, exactly, from the first byte to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpir::{Engine, noop, sealpir, voce, voce_apart, voce_hint};
use sha2::{Digest, Sha256};
use sotto_participant::host::Work;
use sotto_protocol::{CodeKind, ConversationId, RoundMode, STANDING_ROUNDS, ServerParameters, UnixMillis};

use crate::lies::Call;
use crate::machine::{BASE_MS, Line, What};
use crate::server::Seen;
use crate::world::{DEPOSIT_MS, FIRST, LOOKUP_MS, QUERY_MS, ROUND_MS, Told, World, parameters, quick};

/// What is secret about a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secret {
    /// No contacts, nothing to say.
    Idle,
    /// Talks with Bob.
    Bob,
    /// Talks with Bob, Carol and a group, all of whom have much to say, with more than a turn's worth for each.
    Everybody,
    /// Talks with somebody who never comes.
    Nobody,
    /// Talks with Bob, and composing takes until just before its time.
    Slow,
    /// Talks with Bob, and composing takes longer than it may.
    LateCompose,
    /// Talks with Bob, and the look-up takes longer than it may.
    LateLookup,
    /// Talks with Bob, and a look-up takes as long as five rounds.
    LastingLookup,
    /// Talks with Bob, and building the query takes longer than it may.
    LateQuery,
    /// Talks with Bob, and nothing can be stored for some rounds.
    FullDisk,
    /// Talks with Bob, and goes on typing at odd moments.
    Typing,
}

const SECRETS: [Secret; 11] = [
    Secret::Idle,
    Secret::Bob,
    Secret::Everybody,
    Secret::Nobody,
    Secret::Slow,
    Secret::LateCompose,
    Secret::LateLookup,
    Secret::LastingLookup,
    Secret::LateQuery,
    Secret::FullDisk,
    Secret::Typing,
];

fn ms(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// Alice comes within the first round, and leaves after this many: several blocks of rounds, and a change of keys.
const ROUNDS: u64 = 110;
/// The same with the real engine, which takes real time.
const ROUNDS_REAL: u64 = 4;

struct Observed {
    tape: Vec<Line>,
    seen: Vec<Seen>,
    alice: Told,
    others: Vec<Told>,
    /// The most look-ups that Alice's machine did at once.
    searches: usize,
}

/// The parameters of a server: how its rounds end, and how boxes are found.
type Mode = (RoundMode, CodeKind);

const LABELS: Mode = (RoundMode::Deadline, CodeKind::Cuckoo);

async fn observe(engine: &dyn Engine, seed: u64, secret: Secret, (mode, code): Mode) -> Observed {
    let buckets = if code.has_slots() { 15 } else { 8 };
    let server = ServerParameters { code, buckets, ..parameters(engine, mode) };
    let mut world = World::new(seed, server, 2);
    let mut alice = world.client("Alice", 3);
    let [mut bob, mut carol, mut dave] = ["Bob", "Carol", "Dave"].map(|name| world.client(name, 3));
    let mut talks: Vec<ConversationId> = Vec::new();
    match secret {
        Secret::Idle => {}
        Secret::Nobody => talks.push(world.introduce(&mut alice, &mut world.client("Erin", 1))[0]),
        Secret::Everybody => {
            for other in [&mut bob, &mut carol] {
                let [at_alice, at_other] = world.introduce(&mut alice, other);
                other.queue_text(at_other, &"much to say ".repeat(60)).unwrap();
                talks.push(at_alice);
            }
            // With slots a group is made of those one has met, see `tables`.
            if code.has_slots() {
                talks.push(talks[0]);
            } else {
                let roster = [("Carol".to_owned(), carol.identity()), ("Dave".to_owned(), dave.identity())];
                let now = UnixMillis(BASE_MS);
                let mut rng: rand_chacha::ChaCha20Rng =
                    rand_core::SeedableRng::from_seed(world.rng("the group"));
                let card = alice.create_group("desk", &roster, &mut rng).unwrap();
                carol.join_group(&card, now).unwrap();
                dave.join_group(&card, now).unwrap();
                talks.extend(alice.find("desk"));
            }
        }
        _ => {
            let [at_alice, at_bob] = world.introduce(&mut alice, &mut bob);
            bob.queue_text(at_bob, "from Bob").unwrap();
            talks.push(at_alice);
        }
    }
    for conversation in &talks {
        let long = if secret == Secret::Everybody { 60 } else { 1 };
        alice.queue_text(*conversation, &"from Alice ".repeat(long)).unwrap();
    }
    let mut others = Vec::new();
    for other in [bob, carol, dave] {
        others.push(world.start(other, quick).await);
    }
    world.until(500).await;
    let pace = match secret {
        Secret::Slow => |work| if work == Work::Compose { ms(DEPOSIT_MS - 1) } else { quick(work) },
        Secret::LateCompose => |work| if work == Work::Compose { ms(DEPOSIT_MS + 1) } else { quick(work) },
        Secret::LateLookup => |work| if work == Work::LookUp { ms(LOOKUP_MS + 7) } else { quick(work) },
        Secret::LastingLookup => |work| if work == Work::LookUp { ms(5 * ROUND_MS) } else { quick(work) },
        Secret::LateQuery => {
            |work| if work == Work::Query { ms(QUERY_MS - LOOKUP_MS + 1) } else { quick(work) }
        }
        _ => quick,
    };
    let mut alice = world.start(alice, pace).await;
    match secret {
        Secret::FullDisk => {
            world.until(2050).await;
            alice.disk.fill(true);
            world.until(5050).await;
            alice.disk.fill(false);
        }
        Secret::Typing => {
            for place in 0..300 {
                world.until(2000 + 17 * place).await;
                drop(alice.handle.queue_text(talks[0], &format!("and {place}")).await);
            }
        }
        _ => {}
    }
    // With slots it takes longer until people have met.
    let rounds = match (engine.name() == noop().name(), code) {
        (true, CodeKind::Standing) => ROUNDS + 130,
        (true, CodeKind::Partitioned) => ROUNDS + 50,
        (true, _) => ROUNDS,
        (false, _) => ROUNDS_REAL,
    };
    world.until(u64::from(ROUND_MS) * rounds + 650).await;
    alice.handle.finish().await.unwrap();
    world.until(u64::from(ROUND_MS) * (rounds + 6)).await;
    let (tape, seen) = (alice.machine.tape.lines(), world.server.seen(&alice.account));
    let others = others.iter_mut().map(crate::world::Person::told).collect();
    let searches = alice.machine.most_searches();
    Observed { tape, seen, alice: alice.told(), others, searches }
}

/// Every test of this kind shows that its worlds are what they claim to be.
fn happened(secret: Secret, Observed { alice, others, searches, .. }: &Observed) {
    let has = |what: &str| alice.troubles.iter().any(|trouble| trouble.contains(what));
    assert_eq!(has("composing"), secret == Secret::LateCompose, "{secret:?}: {alice:?}");
    let late_lookups = matches!(secret, Secret::LateLookup | Secret::LastingLookup);
    assert_eq!(has("look-up"), late_lookups, "{secret:?}: {alice:?}");
    // Those that were given up are at work, too: however long they last, there are two at most.
    assert_eq!(*searches, if secret == Secret::LastingLookup { 2 } else { 1 }, "{secret:?}");
    assert_eq!(has("building"), secret == Secret::LateQuery, "{secret:?}: {alice:?}");
    assert_eq!(has("disk"), secret == Secret::FullDisk, "{secret:?}: {alice:?}");
    let late = late_lookups || matches!(secret, Secret::LateCompose | Secret::LateQuery);
    if !late {
        let talks = !matches!(secret, Secret::Idle | Secret::Nobody);
        assert_eq!(!alice.texts.is_empty(), talks, "{secret:?}: {alice:?}");
        assert_eq!(!others[0].texts.is_empty(), talks, "{secret:?}: {others:?}");
    }
}

/// Plays a world to its end, in one thread and no real time.
fn play(engine: &dyn Engine, seed: u64, secret: Secret, mode: Mode) -> Observed {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(observe(engine, seed, secret, mode))
}

pub(crate) fn difference(one: &[Line], other: &[Line]) -> Option<String> {
    let place = one.iter().zip(other).position(|(one, other)| one != other);
    let place = place.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())))?;
    let around = place.saturating_sub(3)..;
    let near = |lines: &[Line]| {
        format!("{:?}", lines.get(around.clone()).unwrap_or_default().iter().take(6).collect::<Vec<_>>())
    };
    Some(format!("at {place}:\n{}\n{}", near(one), near(other)))
}

fn compare(engine: &dyn Engine, seeds: core::ops::Range<u64>, secrets: &[Secret], mode: Mode) {
    for seed in seeds {
        let idle = play(engine, seed, Secret::Idle, mode);
        for secret in secrets {
            let observed = play(engine, seed, *secret, mode);
            let difference = difference(&idle.tape, &observed.tape);
            assert_eq!(difference, None, "{secret:?}, seed {seed}: {}", difference.as_deref().unwrap_or(""));
            let shapes = |seen: &[Seen]| -> Vec<_> {
                seen.iter().map(|seen| (seen.at, seen.call, seen.round, seen.bytes.len())).collect()
            };
            assert_eq!(shapes(&idle.seen), shapes(&observed.seen), "{secret:?}, seed {seed}");
            if engine.name() == noop().name() {
                happened(*secret, &observed);
            }
        }
    }
}

#[test]
fn a_world_of_one_seed_is_always_the_same() {
    // All others are compared with the first elsewhere, which would find one that is not.
    let secrets =
        if crate::more_seeds() { &SECRETS[..] } else { &[Secret::Idle, Secret::Everybody, Secret::Typing] };
    for secret in secrets.iter().copied() {
        let [one, again] = [1, 1].map(|seed| play(&*noop(), seed, secret, LABELS));
        assert_eq!(difference(&one.tape, &again.tape), None, "{secret:?}");
        assert_eq!((one.seen, one.alice, one.others), (again.seen, again.alice, again.others), "{secret:?}");
    }
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace() {
    compare(&*noop(), crate::seeds(), &SECRETS, LABELS);
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace_in_closed_loop() {
    // With slots all secrets are compared in the gate.
    let secrets = if crate::more_seeds() { &SECRETS[..] } else { &[Secret::Everybody, Secret::LateQuery] };
    compare(&*noop(), crate::seeds(), secrets, (RoundMode::ClosedLoop, CodeKind::Cuckoo));
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace_with_slots() {
    compare(&*noop(), 0..1, &SECRETS, (RoundMode::Deadline, CodeKind::Partitioned));
    compare(&*noop(), 1..2, &SECRETS, (RoundMode::ClosedLoop, CodeKind::Partitioned));
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace_where_queries_stand() {
    compare(&*noop(), 0..1, &SECRETS, (RoundMode::Deadline, CodeKind::Standing));
    let mut engines = vec![voce()];
    if crate::more_seeds() {
        engines.extend([voce_hint(), sealpir()]);
    }
    for engine in engines {
        compare(&*engine, 0..1, &[Secret::Bob, Secret::LateQuery], (RoundMode::Deadline, CodeKind::Standing));
    }
}

/// In an epoch one multi-query is sent whole, and named in its other rounds, whatever happens; in each round once, at its time.
#[test]
fn where_queries_stand_one_is_sent_in_an_epoch() {
    let standing = (RoundMode::Deadline, CodeKind::Standing);
    for secret in [Secret::Everybody, Secret::LateLookup, Secret::LateQuery, Secret::Typing] {
        let observed = play(&*noop(), 1, secret, standing);
        let ready = |round: u64| {
            let opened = Duration::from_millis((round - FIRST.0) * u64::from(ROUND_MS));
            opened + ms(ROUND_MS) + Duration::from_millis(crate::server::BUILD_MS)
        };
        let is_query = |seen: &&Seen| matches!(seen.call, Call::Retrieve | Call::RetrieveAgain);
        let mut epochs: BTreeMap<u64, Vec<&Seen>> = BTreeMap::new();
        for seen in observed.seen.iter().filter(is_query) {
            assert_eq!(seen.at, ready(seen.round) + ms(QUERY_MS), "{seen:?}");
            epochs
                .entry(CodeKind::Standing.epoch(sotto_protocol::Round(seen.round)).0)
                .or_default()
                .push(seen);
        }
        assert!(epochs.len() as u64 >= ROUNDS / STANDING_ROUNDS);
        let last = *epochs.keys().next_back().unwrap();
        let mut whole = BTreeSet::new();
        for (epoch, seen) in epochs {
            let rounds: BTreeSet<u64> = seen.iter().map(|seen| seen.round).collect();
            assert!(rounds.len() == seen.len() && (epoch == last || seen.len() as u64 == STANDING_ROUNDS));
            // Keys are replaced every 64 rounds, and then what stood under the old ones stands no more.
            let mut under: BTreeMap<[u8; 32], [u8; 32]> = BTreeMap::new();
            for seen in seen {
                let digest: [u8; 32] = match seen.call {
                    Call::Retrieve => Sha256::digest(&seen.bytes).into(),
                    _ => seen.bytes[..].try_into().unwrap(),
                };
                let first = *under.entry(seen.keys).or_insert(digest);
                assert_eq!(first, digest, "another query in one epoch: {seen:?}");
                if seen.call == Call::Retrieve {
                    assert!(whole.insert((epoch, seen.keys)), "twice whole: {seen:?}");
                }
            }
            assert!(under.len() <= 2);
        }
    }
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace_with_the_real_engine() {
    compare(&*sealpir(), 0..1, &[Secret::Everybody, Secret::LateQuery], LABELS);
}

#[test]
fn worlds_that_differ_in_secrets_have_the_same_trace_with_an_engine_that_has_a_hint() {
    let mut engines = vec![voce_hint()];
    if crate::more_seeds() {
        // With a pack for every bucket it takes minutes.
        engines.extend([voce(), voce_apart()]);
    }
    for engine in engines {
        compare(&*engine, 0..1, &[Secret::Everybody, Secret::LateQuery], LABELS);
    }
}

/// A stay is one connection, begun and ended once, and its calls are in their slots.
#[test]
fn every_call_of_a_stay_is_in_its_slot() {
    let observed = play(&*noop(), 1, Secret::Everybody, LABELS);
    let opened = observed.tape.iter().filter(|line| line.what == What::Opened).count();
    let closed = observed.tape.iter().filter(|line| line.what == What::Closed).count();
    assert_eq!((opened, closed), (1, 1), "{:?}", observed.tape);
    assert_eq!(observed.tape.last().map(|line| line.what), Some(What::Closed));
    for seen in &observed.seen {
        let round = Duration::from_millis((seen.round - FIRST.0) * u64::from(ROUND_MS));
        let ready = round + ms(ROUND_MS) + Duration::from_millis(crate::server::BUILD_MS);
        let slot = match seen.call {
            Call::Deposit if seen.round > FIRST.0 => round + ms(DEPOSIT_MS),
            Call::Mapping => ready,
            Call::Retrieve => ready + ms(QUERY_MS),
            // What is made when the session begins.
            _ => seen.at,
        };
        assert_eq!(seen.at, slot, "{:?} of {}", seen.call, seen.round);
    }
    let count = |call| observed.seen.iter().filter(|seen| seen.call == call).count() as u64;
    assert!(count(Call::Deposit) >= ROUNDS && count(Call::Retrieve) >= ROUNDS, "{:?}", observed.seen);
}
