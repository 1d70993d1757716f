//! What a client gives back to the heap does not say where in the round the boxes stood that it wanted.
//!
//! One test, since the allocator watches the whole process. It sees neither the stack nor registers.
#![allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]

#[path = "../../../mpir/tests/wiping/heap.rs"]
mod heap;
#[allow(dead_code, reason = "that of the clients' tests, who need more of it")]
#[path = "../it/client/world.rs"]
mod world;

use heap::left_behind;
use sotto_protocol::mapping::MAPPING_HEADER_BYTES;
use sotto_protocol::{BloomMapping, Label, Manifest, Retrieval, Round, cover};
use world::{Fate, Published, World, answers};

const ALICE: usize = 0;
const FRIENDS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
/// Positions are to be numbers that nothing else happens to be.
const STRANGERS: usize = 10_000;
const NAMES: [&str; 4] = ["first", "second", "third", "fourth"];

#[test]
fn what_a_client_gives_back_holds_no_wanted_position() {
    let mut world = World::new(3, &FRIENDS, 4, 4);
    (1..FRIENDS.len()).for_each(|friend| world.befriend(ALICE, friend));
    world.run(40);
    (1..FRIENDS.len()).for_each(|friend| world.say(friend, FRIENDS[ALICE], "until she answers"));
    // Until a round in which several have something for her.
    let (published, retrieval, positions) = loop {
        let (published, retrieval) = look_up(&mut world);
        let wanted = retrieval.targets.iter().flatten();
        let positions: Vec<u64> = wanted.map(|position| *position as u64).collect();
        if positions.len() >= 2 && positions.iter().all(|position| *position > 256) {
            break (published, retrieval, positions);
        }
        assert!(world.round < 100, "nobody has anything for her");
        world.round += 1;
    };
    let secrets: Vec<_> = NAMES.into_iter().zip(positions.iter().map(|position| vec![*position])).collect();

    // What is not erased is seen, be it where to read or where a label is shown.
    let all = &NAMES[..positions.len()];
    assert_eq!(left_behind(&secrets, || drop(retrieval.targets.to_vec())), all);
    assert_eq!(left_behind(&secrets, || drop(positions.clone())), all);

    let rng = world.rng.clone();
    let answers = answers(&retrieval, &published.buckets);
    let left = left_behind(&secrets, || {
        let alice = &mut world.clients[ALICE];
        let again = alice.lookup(published.round, &published.mapping, &mut rng.clone());
        assert!(*again.targets == *retrieval.targets);
        // As for the thread that builds the query.
        drop(again.targets.clone());
        drop(alice.received(again, answers));
    });
    assert!(left.is_empty(), "{left:?}");

    crowded(&published);
}

/// A round with many strangers, and where its boxes stand that alice wants.
fn look_up(world: &mut World) -> (Published, Retrieval) {
    let mut deposits = world.deposits(&[Fate::default(); FRIENDS.len()]);
    deposits.extend((0..STRANGERS).map(|_| cover(Round(world.round), &mut world.rng)));
    let published = world.publish(&deposits);
    world.ready(ALICE, &published.manifest);
    let rng = &mut world.rng.clone();
    let retrieval = world.clients[ALICE].lookup(published.round, &published.mapping, rng);
    (published, retrieval)
}

/// Where a filter shows a label everywhere, the positions are so many that a vector of them would grow.
fn crowded(published: &Published) {
    let mut manifest = Manifest::decode(&published.manifest.bytes).unwrap();
    let code = manifest.code().unwrap();
    let mut encoded = published.mapping.clone();
    encoded[MAPPING_HEADER_BYTES + 4 * code.contents()..].fill(0xFF);
    manifest.mapping_digest = BloomMapping::digest(&encoded);
    let mapping = BloomMapping::decode(&encoded, &manifest).unwrap();
    // One whose window does not end with the bucket, and begins where no other number happens to be.
    let hits_of = |label: &Label| mapping.hits(&*code, 0, label);
    let stands_out = |label: &Label| {
        let hits = hits_of(label);
        hits.len() > 200 && hits[0] > 256
    };
    let label = (0..=255).map(|byte| Label([byte; 16])).find(stands_out).unwrap();
    let hits = hits_of(&label);
    let secrets: Vec<_> = NAMES.into_iter().zip([0, 3, 50, 200].map(|at| vec![hits[at] as u64])).collect();
    assert_eq!(left_behind(&secrets, || drop(hits.to_vec())), NAMES);
    // Nor which positions were hits, nor the filters that were taken for them: here all of these are of ones.
    let ones = ["ones"];
    let secrets: Vec<_> = secrets.into_iter().chain([(ones[0], vec![u64::MAX; 16])]).collect();
    assert_eq!(left_behind(&secrets[NAMES.len()..], || drop(vec![u64::MAX; 17])), ones);
    let left = left_behind(&secrets, || drop(hits_of(&label)));
    assert!(left.is_empty(), "{left:?}");
}
