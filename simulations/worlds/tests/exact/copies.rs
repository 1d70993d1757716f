//! One account in two hands: programs that run at the same time, from states that were the same once.

use std::collections::{BTreeMap, BTreeSet};

use mpir::noop;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sotto_protocol::client::Client;
use sotto_protocol::{RoundMode, UnixMillis};

use crate::lies::Call;
use crate::machine::{BASE_MS, Machine, Memory};
use crate::seeds;
use crate::server::Seen;
use crate::stage::at;
use crate::world::{Person, World, parameters, quick};

const DOUBLED: &str = "a copy of it is online";

/// When, behind the renewal of keys, somebody begins to run the state that the first program had then, when the first ends, and when all is over.
const COPIED: u64 = at(80, 460);
const STOPPED: u64 = at(100, 500);
const OVER: u64 = at(200, 650);

/// What a person typed, and where.
fn typed(who: &str, number: usize) -> String {
    format!("{who} {number:04}")
}

struct Both {
    first: Person,
    copy: Person,
    bob: Person,
    /// Everything that was deposited under the account, or was to be.
    seen: Vec<Seen>,
}

/// Alice and Bob talk. Her state is copied, and run in a second place `late_ms` after a round began, while the first goes
/// on; both have so much to say that they would speak in every round. The copy begins anew, or goes on as if it were the first.
async fn both(seed: u64, late_ms: u64, anew: bool) -> Both {
    let mut world = World::new(seed, parameters(&*noop(), RoundMode::Deadline), 2);
    let (mut alice, mut bob) = (world.client("Alice", 1), world.client("Bob", 1));
    let [at_alice, _] = world.introduce(&mut alice, &mut bob);
    let first = world.start(alice, quick).await;
    world.until(100).await;
    let bob = world.start(bob, quick).await;
    world.until(COPIED).await;
    for number in 0..30 {
        first.handle.queue_text(at_alice, &typed("first", number)).await.unwrap();
    }
    let stored = first.disk.snapshots().pop().unwrap().1;
    world.until(COPIED + late_ms).await;
    let mut restored = Client::restore(&stored).unwrap();
    if anew {
        let now = UnixMillis(BASE_MS + COPIED + late_ms);
        restored.begin_anew(now, &mut ChaCha20Rng::from_seed(world.rng("anew")));
    }
    let (wire, disk) = (world.wire(), Memory::new(world.began));
    let seed = world.rng("another machine");
    let machine = Machine::new(wire.dial.clone(), world.began, seed, quick);
    let copy = world.start_on(restored, machine, wire, disk).await.unwrap();
    for number in 0..30 {
        copy.handle.queue_text(at_alice, &typed("copy", number)).await.unwrap();
    }
    world.until(STOPPED).await;
    drop(first.handle.stop().await.unwrap());
    world.until(OVER).await;
    let seen = world.server.seen(&first.account);
    Both { first, copy, bob, seen }
}

fn boxes(seen: &[Seen]) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut boxes: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for deposit in seen.iter().filter(|seen| seen.call == Call::Deposit) {
        let (label, sealed) = deposit.bytes.split_at(16);
        let under = boxes.entry(label).or_default();
        if !under.contains(&sealed) {
            under.push(sealed);
        }
    }
    boxes
}

/// What must hold of two programs, whatever they were told.
fn check(seed: u64, late_ms: u64, anew: bool) {
    let what = format!("seed {seed}, {late_ms} ms late, anew: {anew}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Both { mut first, mut copy, mut bob, seen } = runtime.unwrap().block_on(both(seed, late_ms, anew));
    let boxes = boxes(&seen);
    for sealed in boxes.values() {
        assert_eq!(sealed.len(), 1, "{what}: one key for {} boxes", sealed.len());
    }
    let different: BTreeSet<&[u8]> = boxes.values().flatten().copied().collect();
    assert_eq!(different.len(), boxes.len(), "{what}: two boxes are alike");
    let (first, copy, bob) = (first.told(), copy.told(), bob.told());
    let doubled = |troubles: &[String]| troubles.iter().any(|told| told.contains(DOUBLED));
    assert!(doubled(&first.troubles) || doubled(&copy.troubles), "{what}: nobody was told");
    // What waited when the state was copied both of them have to say.
    let heard: BTreeSet<&String> = bob.texts.iter().collect();
    let by_first = heard.iter().filter(|text| text.starts_with("first")).count();
    assert!(first.acknowledged <= by_first, "{what}: {} of {by_first}", first.acknowledged);
    assert!(copy.acknowledged <= heard.len(), "{what}: {} of {}", copy.acknowledged, heard.len());
    let said = |number| heard.contains(&typed("copy", number));
    assert!((0..30).all(said), "{what}: the copy that goes on is not heard: {heard:?}");
}

/// Two programs that run one account at the same time seal no two boxes under one key, tell their person, and show nothing as
/// arrived that did not arrive; when one of them ends, the other goes on.
#[test]
fn attack_b8_two_copies_online_use_no_key_twice() {
    for seed in seeds() {
        // In the round in which it was copied, before and after its deposit, and in later ones.
        for late_ms in [0, 100, 545, 640, 1000, 2300, 7545] {
            check(seed, late_ms, false);
        }
    }
}

/// The same where the copy was brought back as one that was kept aside is, though the first goes on.
#[test]
fn attack_b8_a_copy_that_begins_anew_beside_the_first_uses_no_key_twice() {
    for seed in seeds() {
        for late_ms in [100, 2300] {
            check(seed, late_ms, true);
        }
    }
}
