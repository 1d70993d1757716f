//! A contact and the server together try to learn whom a client hears, by the places at which they let it read.

use pbc::{BatchCode, PartitionedCode};
use rand_core::Rng;
use sotto_protocol::deposit::{self, BOX_BYTES};
use sotto_protocol::mapping::MAPPING_HEADER_BYTES;
use sotto_protocol::{
    BloomMapping, Client, CodeKind, Deposit, Label, Manifest, Notice, SignedManifest, Table, Warning,
};

use crate::client::seeds;
use crate::client::world::{Fate, Published, World};

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
    world.renew();
    world.run(24);
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
            assert!(copy.ready(&published.manifest).is_empty());
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
    const TRIALS: u32 = 1000;
    let seeds = seeds(2);
    let read = |alice_hears_bob: bool| {
        let mut read = 0;
        for seed in seeds.clone() {
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
                    target.and_then(|position| bucket.get(position)) == Some(&sealed[..BOX_BYTES])
                }));
            }
        }
        f64::from(read)
    };
    let trials = seeds.clone().count() as f64 * f64::from(TRIALS);
    let (hears, does_not) = (read(true) / trials, read(false) / trials);
    let mean = (hears + does_not) / 2.0;
    let deviations = (hears - does_not) / (2.0 * mean * (1.0 - mean) / trials).sqrt();
    println!(
        "read: {hears} where both are wanted, {does_not} where one is; {deviations:.2} standard deviations"
    );
    assert!(mean > 0.3 && deviations.abs() < 3.0);
}

/// The round with filters that hide a label everywhere but in one of its buckets, where it stands as ever.
fn hidden(world: &World, deposits: &[Deposit], label: Label) -> Published {
    let seed = [9; 32];
    let mut deposits = deposits.to_vec();
    deposit::arrange(&mut deposits, &seed);
    let (mut manifest, mut mapping, buckets) = world.sealed(&deposits, seed);
    let code = manifest.code().unwrap();
    let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
    let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
    let others: Vec<Label> =
        labels.iter().map(|other| if *other == label { Label([0xaa; 16]) } else { *other }).collect();
    let without =
        BloomMapping::build(&seed, &*code, &code.encode(&keys), &others, manifest.bucket_size).unwrap();
    let filter = 3 * (manifest.bucket_size as usize).max(64);
    let filters = MAPPING_HEADER_BYTES + 4 * usize::from(manifest.buckets);
    for bucket in &code.holders(&label.0)[1..] {
        let range = filters + bucket * filter..filters + (bucket + 1) * filter;
        mapping[range.clone()].copy_from_slice(&without[range]);
    }
    manifest.mapping_digest = BloomMapping::digest(&mapping);
    let (round, manifest) = (manifest.round, SignedManifest::sign(&manifest, &world.key));
    Published { round, manifest, mapping, buckets }
}

/// A box that is shown in one of its buckets only is read in a third of all rounds, and whether it was tells its sender
/// which bucket served. Nobody was warned: the label passed for one that is not in the round.
#[test]
fn a_mapping_that_hides_copies_of_a_box_is_noticed_when_the_box_is_read() {
    let (mut world, deposits) = world(1, true);
    let published = hidden(&world, &deposits, deposits[MALLORY].label);
    assert!(world.ready(ALICE, &published.manifest).is_empty());
    let snapshot = world.clients[ALICE].snapshot();
    let (mut read, mut round) = ([0_u32; 2], 0);
    while round < 60 {
        round += 1;
        let mut alice = Client::restore(&snapshot).unwrap();
        let retrieval = world.lookup(ALICE, &published);
        let answers = crate::client::world::answers(&retrieval, &published.buckets);
        let heard = answers.iter().flatten().any(|answer| *answer == deposits[MALLORY].sealed.0);
        let notices = alice.received(retrieval, answers);
        let warned = Notice::Warning(Warning::FalseMapping { round: published.round });
        assert_eq!(notices.contains(&warned), heard);
        read[usize::from(heard)] += 1;
    }
    assert!(read.iter().all(|read| *read > 10), "{read:?}");
}

/// How much the buckets of `keys`, seen together, tell whether one more key is wanted: the mutual information, in bits, with
/// a fair coin that says so; at most one.
fn told(code: &dyn BatchCode, known: &[&[u8]], one_more: &[u8], world: &mut World) -> f64 {
    const TRIALS: u32 = 3000;
    let mut counts = std::collections::BTreeMap::<Vec<usize>, [u32; 2]>::new();
    for wanted in [0, 1] {
        let keys: Vec<&[u8]> = known.iter().copied().chain([one_more].into_iter().take(wanted)).collect();
        for _ in 0..TRIALS {
            let schedule = code.schedule_drawn(&keys, &mut || world.rng.next_u64());
            let bucket =
                |number| schedule.assignment(number).first().map_or(usize::MAX, |bucket| bucket.to_usize());
            counts.entry((0..known.len()).map(bucket).collect()).or_default()[wanted] += 1;
        }
    }
    let information = |[one, other]: &[u32; 2]| {
        let all = f64::from(one + other);
        let part = |count: &u32| {
            let count = f64::from(*count);
            if count == 0.0 { 0.0 } else { count * (2.0 * count / all).log2() }
        };
        (part(one) + part(other)) / (2.0 * f64::from(TRIALS))
    };
    // Chance alone makes it look like so many bits more (Miller and Madow).
    let bias = (counts.len() as f64 - 1.0) / (2.0 * core::f64::consts::LN_2 * 2.0 * f64::from(TRIALS));
    counts.values().map(information).sum::<f64>() - bias
}

/// The most that 1, 2, 3 and 7 keys of a pool tell of its first, in the cases that are looked at.
#[expect(clippy::print_stdout, reason = "for whoever runs it with --nocapture")]
fn most_told(
    world: &mut World,
    code: &dyn BatchCode,
    pool: &[Vec<u8>],
    holders: &dyn Fn(&[u8]) -> Vec<usize>,
) -> [String; 4] {
    let (target, others) = pool.split_first().unwrap();
    let of_target = holders(target);
    let sharing = |shared: usize| {
        let shares = |key: &&Vec<u8>| {
            holders(key).iter().filter(|bucket| of_target.contains(bucket)).count() == shared
        };
        others.iter().filter(shares).take(20).map(Vec::as_slice).collect::<Vec<_>>()
    };
    [1, 2, 3, 7].map(|contacts| {
        let mut most = 0.0_f64;
        for shared in 1..=3 {
            let keys = sharing(shared);
            // Of two, those that do best of a few.
            let others = if contacts == 2 { 1..keys.len().min(20) } else { 1..2 };
            for other in others {
                let mut known: Vec<&[u8]> = keys.iter().take(contacts).copied().collect();
                if contacts == 2 {
                    known[1] = keys[other];
                }
                if known.len() == contacts {
                    most = most.max(told(code, &known, target, world));
                }
            }
            println!("{contacts} keys, to {shared} buckets shared with the other one: {most:.4} bits");
        }
        format!("{most:.2}")
    })
}

/// Forged content can at most show which bucket served each label of a colluding contact. One contact learns nothing by
/// that, two learn a little, three or more (the members of a group, say) more: see docs/PROTOCOL.md.
#[test]
fn what_colluding_contacts_learn_of_a_schedule_is_bounded() {
    let mut world = World::new(3, &["alice"], 1, 16);
    let mut label = || {
        let mut label = vec![0; 16];
        world.rng.fill_bytes(&mut label);
        label
    };
    let pool: Vec<Vec<u8>> = (0..20_000).map(|_| label()).collect();
    let code = world.parameters.shape().code([7; 32]).unwrap();
    let most = most_told(&mut world, &*code, &pool, &|key| code.holders(key));
    // As docs/SECURITY.md has it.
    assert_eq!(most, ["0.00", "0.05", "0.54", "0.99"]);
}

/// A code of slots, and the buckets of one.
fn slots(world: &World, seed: u8) -> PartitionedCode {
    let table = Table::holding(8192).unwrap();
    world.parameters.shape().slot_code([seed; 32], table.places() as usize).unwrap()
}

fn buckets_of(code: &PartitionedCode, key: &[u8]) -> Vec<usize> {
    let slot = u64::from_le_bytes(key.try_into().unwrap()) as u32;
    code.places(slot).into_iter().map(|(bucket, _)| bucket.to_usize()).collect()
}

/// The same with slots, whoever chose who gets which.
#[test]
fn what_colluding_contacts_learn_of_a_schedule_of_slots_is_bounded() {
    let mut world = World::with_code(1, 3, &["alice"], 1, 16, CodeKind::Partitioned);
    let code = slots(&world, 7);
    let pool: Vec<Vec<u8>> = (0..20_000).map(|slot| PartitionedCode::key(slot).to_vec()).collect();
    let most = most_told(&mut world, &code, &pool, &|key| buckets_of(&code, key));
    assert_eq!(most, ["0.00", "0.05", "0.53", "0.99"]);
}

/// With slots nothing says where boxes are that could be forged. What is nearest to it: a server that has given a contact a
/// slot whose places meet another's, in one bucket or in all, lays her box in one of its places alone, and she sees by an
/// acknowledgement whether it was read there.
#[test]
fn attack_a1_with_slots_a_contact_and_the_server_do_not_learn_whom_a_client_hears() {
    const TRIALS: u32 = 10_000;
    let mut world = World::with_code(1, 5, &["alice"], 1, 16, CodeKind::Partitioned);
    let code = slots(&world, 9);
    let key = |slot: u32| PartitionedCode::key(slot.into());
    let bobs = buckets_of(&code, &key(0));
    for shared in [1, 2, 3] {
        let common = |slot: &u32| {
            buckets_of(&code, &key(*slot)).iter().filter(|bucket| bobs.contains(bucket)).count() == shared
        };
        let mallorys = (1..1 << 18).find(common).unwrap();
        let meeting =
            buckets_of(&code, &key(mallorys)).into_iter().find(|bucket| bobs.contains(bucket)).unwrap();
        let mut read = |others: &[u32]| {
            let keys: Vec<[u8; 8]> = [mallorys].iter().chain(others).map(|slot| key(*slot)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            let mut read = 0;
            for _ in 0..TRIALS {
                let schedule = code.schedule_drawn(&keys, &mut || world.rng.next_u64());
                read += u32::from(schedule.assignment(0).first().unwrap().to_usize() == meeting);
            }
            f64::from(read) / f64::from(TRIALS)
        };
        let (hears, does_not) = (read(&[0]), read(&[]));
        let deviations = (hears - does_not) / (2.0 * 2.0 / 9.0 / f64::from(TRIALS)).sqrt();
        println!(
            "{shared} shared: read {hears} where both are wanted, {does_not} where one is: {deviations:.2} deviations"
        );
        assert!(deviations.abs() < 4.0 && (hears - 1.0 / 3.0).abs() < 0.02);
    }
}

/// A server that answers with nonsense for some buckets: a contact would see whether hers was read from another one, and
/// nobody was told.
#[test]
fn answers_spoiled_for_some_buckets_are_noticed_and_nothing_of_the_round_is_read() {
    let (mut world, deposits) = world(1, true);
    let published = publish(&world, &deposits, [9; 32], &[]);
    assert!(world.ready(ALICE, &published.manifest).is_empty());
    let snapshot = world.clients[ALICE].snapshot();
    let buckets = usize::from(world.parameters.buckets);
    for spoiled in [vec![0], vec![buckets - 1], (1..buckets).collect(), (0..buckets).collect()] {
        for _ in 0..20 {
            let mut alice = Client::restore(&snapshot).unwrap();
            let retrieval = world.lookup(ALICE, &published);
            let mut answers = crate::client::world::answers(&retrieval, &published.buckets);
            for bucket in &spoiled {
                answers[*bucket] = None;
            }
            let notices = alice.received(retrieval, answers);
            let told = Notice::Warning(Warning::BadAnswers { round: published.round });
            assert_eq!(notices, if spoiled.len() == buckets { vec![] } else { vec![told] });
        }
    }
}
