//! What clients do to find out what to ask: with secret places, labels and coins.

use pbc::{BatchCode, BucketIndex, CuckooCode, PartitionedCode, ReplicationCode};
use rand_core::Rng;
use sotto_protocol::mapping::{Lookup, Outcome, Reading, Sought};
use sotto_protocol::{CodeKind, Label};

use crate::cases::{SecretRng, opened, rng};
use crate::memcheck::{is_secret, make_public, make_secret, secret};
use crate::round::published;

const SEED: [u8; 32] = [45; 32];

/// Where the copies of a secret slot are is computed: among few slots and among many, with one bucket and with several.
pub(crate) fn places() {
    for (buckets, groups, places) in [(1, 1, 33), (36, 3, 270_336), (44, 4, 1 << 20)] {
        let code = PartitionedCode::new(1, buckets, groups, places, SEED).expect("a code of this shape");
        for index in [0, 7, places as u32 - 1] {
            let of = |index| code.places(index).into_iter();
            let (buckets, positions): (Vec<u32>, Vec<usize>) =
                of(secret(index)).map(|(bucket, position)| (bucket.0, position)).unzip();
            assert_eq!(opened(positions), of(index).map(|(_, position)| position).collect::<Vec<_>>());
            // Of one bucket alone nothing is secret.
            let mut found = buckets;
            make_public(&mut found);
            assert_eq!(found, of(index).map(|(bucket, _)| bucket.0).collect::<Vec<_>>());
        }
    }
}

/// A code, and how its keys are made of numbers.
type Keyed<'a> = (&'a dyn BatchCode, &'a dyn Fn(u32) -> [u8; 8]);

/// Which buckets serve keys that are secret, some of which are not wanted, by secret coins: with every code whose candidates are
/// hashes, also where not all can be served.
pub(crate) fn schedules() {
    let partitioned = |index: u32| PartitionedCode::key(u64::from(index) * 7_919 % 33_000);
    let hashed = |index: u32| (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let codes: [Keyed; 4] = [
        (&PartitionedCode::new(16, 36, 3, 33_000, SEED).expect("a code of this shape"), &partitioned),
        (&PartitionedCode::new(8, 9, 3, 33_000, SEED).expect("a code of this shape"), &partitioned),
        (&CuckooCode::new(16, 32, 3, SEED).expect("a code of this shape"), &hashed),
        (&ReplicationCode::new(4, SEED).expect("a code of this shape"), &hashed),
    ];
    for (code, key) in codes {
        let mut keys: Vec<[u8; 8]> = (0..code.batch_size() as u32).map(key).collect();
        let mut wanted: Vec<bool> = (0..code.batch_size()).map(|number| number % 5 != 1).collect();
        let drawn = |keys: &[[u8; 8]], wanted: &[bool], words: &mut dyn FnMut() -> u64| {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            let drawn = code.schedule_wanted(&keys, wanted, words);
            (0..keys.len()).map(|key| drawn.row(key)[0]).collect::<Vec<u32>>()
        };
        let mut plain = rng();
        let expected = drawn(&keys, &wanted, &mut || plain.next_u64());
        make_secret(&mut keys);
        make_secret(&mut wanted);
        let mut coins = SecretRng::new();
        assert_eq!(opened(drawn(&keys, &wanted, &mut || coins.next_u64())), expected);
    }
}

/// What was found out: targets, outcomes and buckets of what is wanted, and how often each outcome.
type Told = (Vec<Option<usize>>, Vec<(Outcome, Vec<BucketIndex>)>, [usize; 4]);

/// What was found out, which must depend on secrets if they are marked, and is now looked at.
fn told(mut lookup: Lookup, is_marked: bool) -> Told {
    let outcomes = [Outcome::Found, Outcome::Absent, Outcome::Ambiguous, Outcome::Deferred];
    let mut counts = outcomes.map(|outcome| lookup.count(outcome));
    let mut targets = lookup.targets().to_vec();
    let is_found = [is_secret(&counts), is_secret(&targets)];
    assert_eq!(is_found, [is_marked; 2]);
    make_public(&mut counts);
    make_public(&mut targets);
    lookup.each_secret(make_public);
    let said = |reading: &Reading| (reading.outcome(), reading.buckets());
    (targets, lookup.readings().iter().map(said).collect(), counts)
}

/// Places in a table that are secret, as is which of them are known; two of them are the same.
pub(crate) fn slots() {
    for (retrieve, buckets, choices) in [(1, 1, 1), (4, 9, 3), (16, 36, 3)] {
        let code =
            PartitionedCode::new(retrieve, buckets, choices, 8_448, SEED).expect("a code of this shape");
        let mut sought: Vec<Sought> = (0..retrieve as u32)
            .map(|number| Sought { place: (number % 12) * 700, is_known: number % 5 != 3 })
            .collect();
        let expected = told(Lookup::in_table(&code, &sought, &mut rng()), false);
        for sought in &mut sought {
            sought.place = secret(sought.place);
            sought.is_known = secret(sought.is_known);
        }
        assert_eq!(told(Lookup::in_table(&code, &sought, &mut SecretRng::new()), true), expected);
    }
}

/// Labels that are secret: some are in the round, one twice, some are not, and fewer are looked up than a batch has. Of
/// the rounds one has contents shorter than a stretch, and one longer.
pub(crate) fn labels() {
    for (kind, retrieve, buckets, choices, entries) in [
        (CodeKind::Single, 1, 1, 1, 60),
        (CodeKind::Cuckoo, 4, 9, 3, 300),
        (CodeKind::Cuckoo, 4, 9, 3, 20_000),
    ] {
        let mut generator = rng();
        let mut labels: Vec<Label> = (0..entries)
            .map(|_| {
                let mut label = Label([0; 16]);
                generator.fill_bytes(&mut label.0);
                label
            })
            .collect();
        labels[7] = labels[3];
        let (manifest, mapping) = published(SEED, kind, [retrieve, buckets, choices], &labels);
        let code = manifest.code().expect("a code of this shape");
        let wanted = [labels[3], Label([9; 16]), labels[11]];
        for wanted in [&wanted[..1], &wanted[..usize::from(retrieve).min(3)]] {
            let expected = told(Lookup::new(&*code, &mapping, wanted, &mut rng()), false);
            let mut hidden = wanted.to_vec();
            hidden.iter_mut().for_each(|label| make_secret(&mut label.0));
            assert_eq!(told(Lookup::new(&*code, &mapping, &hidden, &mut SecretRng::new()), true), expected);
        }
    }
}

/// The box of a secret bucket, taken from what all buckets hold, which is secret, too.
pub(crate) fn reading() {
    let code = PartitionedCode::new(16, 36, 3, 8_448, SEED).expect("a code of this shape");
    let sought: Vec<Sought> =
        (0..16).map(|number| Sought { place: number * 500, is_known: number != 4 }).collect();
    let mut hidden = sought.clone();
    for sought in &mut hidden {
        sought.place = secret(sought.place);
        sought.is_known = secret(sought.is_known);
    }
    let held: Vec<Vec<u8>> = (0..36_u8).map(|bucket| vec![bucket + 1; 288]).collect();
    let elements: Vec<&[u8]> = held.iter().map(Vec::as_slice).collect();
    let plain = Lookup::in_table(&code, &sought, &mut rng());
    let lookup = Lookup::in_table(&code, &hidden, &mut SecretRng::new());
    for (number, (reading, plain)) in lookup.readings().iter().zip(plain.readings()).enumerate() {
        let read = reading.codewords(&elements).expect("elements of one size").remove(0);
        let bucket = plain.buckets().first().map_or(0, |bucket| bucket.0 as u8 + 1);
        assert_eq!(opened(read.to_vec()), [bucket; 288]);
        assert_eq!(bucket == 0, number == 4);
    }
}
