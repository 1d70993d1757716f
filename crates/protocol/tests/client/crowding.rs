//! A contact and the server together try to learn whom a client hears, by the places at which they let it read.

use rand_core::Rng;
use sotto_protocol::deposit::{self, BOX_BYTES};
use sotto_protocol::mapping::MAPPING_HEADER_BYTES;
use sotto_protocol::{BloomMapping, Client, Deposit, Label, Manifest, SignedManifest};

use crate::world::{Fate, Published, World};

const ALL: [Fate; 4] = [Fate { absent: false, deposit_lost: false, answers_lost: false, restarts: false }; 4];
/// Deposits of others in a round.
const STRANGERS: usize = 300;
const ALICE: usize = 0;
const MALLORY: usize = 1;
const BOB: usize = 2;
const DAVE: usize = 3;

/// Alice hears Mallory, and hears Bob or does not know him; a round in which Mallory and Bob speak, both to somebody.
fn world(seed: u64, alice_hears_bob: bool) -> (World, Vec<Deposit>) {
    let mut world = World::new(seed, &["alice", "mallory", "bob", "dave"], 2, 16);
    world.befriend(ALICE, MALLORY);
    world.befriend(BOB, if alice_hears_bob { ALICE } else { DAVE });
    world.run(60);
    let listener = world.clients[BOB].conversations()[0].name.clone();
    loop {
        if world.clients[MALLORY].conversations()[0].queued == 0 {
            world.say(MALLORY, "alice", "heard?");
            world.say(BOB, &listener, "whose?");
        }
        let mut deposits = world.deposits(&ALL);
        for _ in 0..STRANGERS {
            let (mut label, sealed) = (Label([0; 16]), world.noise());
            world.rng.fill_bytes(&mut label.0);
            deposits.push(Deposit { label, sealed });
        }
        let published = publish(&world, &deposits, [0; 32], &[]);
        let found = [ALICE, DAVE].map(|reader| {
            let mut copy = Client::restore(&world.clients[reader].snapshot()).unwrap();
            assert!(copy.ready(&published.manifest, world.now()).is_empty());
            copy.lookup(published.round, &published.mapping, &mut world.rng).counts.found
        });
        if found == (if alice_hears_bob { [2, 0] } else { [1, 1] }) {
            return (world, deposits);
        }
        world.previous = manifest(&world, &published).digest();
        world.read(&published, &ALL);
        world.round += 1;
    }
}

fn manifest(world: &World, published: &Published) -> Manifest {
    published.manifest.verify(&world.parameters.manifest_key).unwrap()
}

/// The round under this seed, with filters that show every label everywhere for some of the buckets.
fn publish(world: &World, deposits: &[Deposit], seed: [u8; 32], spoiled: &[usize]) -> Published {
    let mut deposits = deposits.to_vec();
    deposit::arrange(&mut deposits, &seed);
    let (mut manifest, mut mapping, buckets) = world.sealed(&deposits, seed);
    let filter = 3 * (manifest.bucket_size as usize).max(64);
    let filters = MAPPING_HEADER_BYTES + 4 * usize::from(manifest.buckets);
    for bucket in spoiled {
        mapping[filters + bucket * filter..][..filter].fill(0xff);
    }
    manifest.mapping_digest = BloomMapping::digest(&mapping);
    let (round, manifest) = (manifest.round, SignedManifest::sign(&manifest, &world.key));
    Published { round, manifest, mapping, buckets }
}

/// Buckets in which both labels would stand, and those in which only one would.
fn shared(world: &World, seed: [u8; 32], labels: [Label; 2]) -> (Vec<usize>, Vec<usize>) {
    let code = world.parameters.shape().code(seed).unwrap();
    let [one, other] = labels.map(|label| code.holders(&label.0));
    let both = one.iter().filter(|bucket| other.contains(bucket)).copied().collect();
    let mut single: Vec<usize> = one.iter().chain(&other).copied().collect();
    single.retain(|bucket| !(one.contains(bucket) && other.contains(bucket)));
    (both, single)
}

/// The server has ground a seed by which two labels share one bucket, and has spoiled their other ones. If the reader
/// wanted both, and had only usable buckets to choose from, one of them would have to wait. The contact sees by an
/// acknowledgement whether hers was read: in 28 of 60 rounds before, against 60 of 60 where the other was not wanted.
#[test]
fn attack_a1_a_contact_and_the_server_do_not_learn_whom_a_client_hears() {
    const SEEDS: u64 = 10;
    const TRIALS: u32 = 1000;
    let read = |alice_hears_bob: bool| {
        let mut read = 0;
        for seed in 0..SEEDS {
            let (mut world, deposits) = world(seed, alice_hears_bob);
            let labels = [MALLORY, BOB].map(|client| deposits[client].label);
            let (seed, spoiled) = (0_u64..)
                .find_map(|number| {
                    let mut seed = [7; 32];
                    seed[..8].copy_from_slice(&number.to_le_bytes());
                    let (both, single) = shared(&world, seed, labels);
                    (both.len() == 1).then_some((seed, single))
                })
                .unwrap();
            let published = publish(&world, &deposits, seed, &spoiled);
            assert!(world.ready(ALICE, &published.manifest).is_empty());
            let sealed = deposits[MALLORY].sealed.0;
            for _ in 0..TRIALS {
                let retrieval = world.lookup(ALICE, &published);
                let targets = retrieval.targets.iter().zip(&published.buckets);
                read += u32::from(targets.into_iter().any(|(target, bucket)| {
                    target.is_some_and(|position| bucket[position] == sealed[..BOX_BYTES])
                }));
            }
        }
        f64::from(read)
    };
    let trials = SEEDS as f64 * f64::from(TRIALS);
    let (hears, does_not) = (read(true) / trials, read(false) / trials);
    let mean = (hears + does_not) / 2.0;
    let deviations = (hears - does_not) / (2.0 * mean * (1.0 - mean) / trials).sqrt();
    println!(
        "read: {hears} where both are wanted, {does_not} where one is; {deviations:.2} standard deviations"
    );
    assert!(mean > 0.3 && deviations.abs() < 3.0);
}
