//! Every code from Encode to Decode: what comes back is the element wanted, or the key is reported as deferred.

use pbc::{
    BatchCode, BucketIndex, CuckooCode, DownloadedOracle, EncodingOracle, Error, HashedCode, HybridCode,
    Oracle, PartitionedCode, Plan, RandomBatch, ReplicationCode, Search, ShardingCode, SimulatedOracle,
    TwoChoiceCode,
};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

const ELEMENT_BYTES: usize = 5;

/// Distinct elements.
fn elements(count: usize) -> Vec<u8> {
    (0..count as u64)
        .flat_map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).to_le_bytes()[3..].to_vec())
        .collect()
}

fn slices(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

/// Reads a batch through an oracle, without an engine, and checks everything that must hold for any code.
fn read(
    code: &dyn BatchCode,
    stored: &[&[u8]],
    wanted: &[&[u8]],
    oracle: &dyn Oracle,
) -> Vec<Option<Vec<u8>>> {
    let encoding = code.encode(stored);
    let elements = elements(stored.len());
    let padded = encoding.largest() + 1;
    let buckets = encoding.materialise(ELEMENT_BYTES, &elements, padded).unwrap();
    assert_eq!(buckets.len(), code.bucket_count());
    assert_eq!(encoding.buckets().len(), code.bucket_count());
    assert_eq!(encoding.codewords(), encoding.buckets().iter().map(Vec::len).sum::<usize>());

    let plan = Plan::new(code, wanted, oracle);
    assert_eq!(plan.keys(), wanted.len());
    let mut used = vec![false; code.bucket_count()];
    let read: Vec<Option<Vec<u8>>> = (0..wanted.len())
        .map(|key_number| {
            let assignment = plan.assignment(key_number);
            let codewords: Vec<&[u8]> = assignment
                .iter()
                .map(|bucket| {
                    assert!(!core::mem::replace(&mut used[bucket.to_usize()], true), "{bucket:?} twice");
                    let position = plan.targets[bucket.to_usize()].unwrap();
                    &buckets[bucket.to_usize()][position * ELEMENT_BYTES..][..ELEMENT_BYTES]
                })
                .collect();
            (!assignment.is_empty()).then(|| code.decode(&codewords).unwrap())
        })
        .collect();
    assert_eq!(plan.targets.iter().flatten().count(), used.iter().filter(|used| **used).count());
    let deferred: Vec<usize> = (0..wanted.len()).filter(|key_number| read[*key_number].is_none()).collect();
    assert_eq!(plan.deferred().collect::<Vec<_>>(), deferred);
    read
}

/// Whatever was read must be the element that stands under the key, and nothing is read of a key that does not exist.
fn check(stored: &[&[u8]], wanted: &[&[u8]], read: &[Option<Vec<u8>>]) {
    let elements = elements(stored.len());
    for (key, read) in wanted.iter().zip(read) {
        let of_key: Vec<&[u8]> = stored
            .iter()
            .zip(elements.chunks(ELEMENT_BYTES))
            .filter_map(|(stored, element)| (stored == key).then_some(element))
            .collect();
        assert!(read.as_ref().is_none_or(|read| of_key.contains(&read.as_slice())), "a foreign element");
    }
}

/// One of the codes whose keys are any bytes, of small dimensions so that batches collide.
fn hashed_codes(k: usize, spare: usize, seed: [u8; 32]) -> Vec<Box<dyn BatchCode>> {
    let walk = Search::RandomWalk { displacements: 5 };
    vec![
        Box::new(ReplicationCode::new(k, seed).unwrap()),
        Box::new(ShardingCode::new(k, 2 + spare, k, seed).unwrap()),
        Box::new(ShardingCode::new(k, k, 1 + spare, seed).unwrap()),
        Box::new(TwoChoiceCode::new(k, 2 + spare, k.div_ceil(2), seed).unwrap()),
        Box::new(HybridCode::new(k, 2 + spare, seed).unwrap()),
        Box::new(HybridCode::new(k, k.max(2), seed).unwrap()),
        Box::new(CuckooCode::new(k, k.max(5) + spare, 5, seed).unwrap()),
        Box::new(CuckooCode::new(k, k.max(3) + spare, 3, seed).unwrap().with_search(walk)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A wrong element, a bucket read twice, or a key that is missing without a word: any of them loses a message or
    /// gives away what was wanted. Few different keys, so that equal ones and collisions are common.
    #[test]
    fn every_code_returns_the_element_or_defers_the_key(
        k in 1..10_usize,
        spare in 0..4_usize,
        seed in any::<[u8; 32]>(),
        stored in proptest::collection::vec(proptest::collection::vec(0..4_u8, 0..4), 0..90),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..14),
    ) {
        let stored = slices(&stored);
        let mut wanted: Vec<&[u8]> = vec![b"certainly absent"];
        if !stored.is_empty() {
            wanted.extend(picks.iter().map(|pick| stored[pick.index(stored.len())]));
        }
        for code in hashed_codes(k, spare, seed) {
            let encoding = code.encode(&stored);
            let oracle = EncodingOracle::new(&encoding, &stored);
            let read = read(&*code, &stored, &wanted, &oracle);
            prop_assert_eq!(&read[0], &None);
            check(&stored, &wanted, &read);
        }
    }

    /// The same for indices, where positions are computed and collections can be smaller than the batch.
    #[test]
    fn the_partitioned_code_finds_every_index_by_itself(
        k in 1..10_usize,
        group in 1..6_usize,
        w in 1..=8_usize,
        n in 1..90_usize,
        seed in any::<[u8; 32]>(),
        picks in proptest::collection::vec(0..100_u64, 0..14),
    ) {
        let code = PartitionedCode::new(k.min(w * group), w * group, w, n, seed).unwrap();
        let stored: Vec<Vec<u8>> = (0..n as u64).rev().map(|i| PartitionedCode::key(i).to_vec()).collect();
        let stored = slices(&stored);
        let encoding = code.encode(&stored);
        prop_assert!(encoding.buckets().iter().all(|bucket| bucket.len() == code.bucket_size()));
        prop_assert_eq!(code.bucket_size(), n.div_ceil(group));

        let wanted: Vec<Vec<u8>> = picks.iter().map(|index| PartitionedCode::key(*index).to_vec()).collect();
        let wanted = slices(&wanted);
        let computed = read(&code, &stored, &wanted, &code);
        check(&stored, &wanted, &computed);
        let known = EncodingOracle::new(&encoding, &stored);
        prop_assert_eq!(computed, read(&code, &stored, &wanted, &known));
        for index in 0..n as u64 + 3 {
            for bucket in (0..code.bucket_count() as u32).map(BucketIndex) {
                let key = PartitionedCode::key(index);
                prop_assert_eq!(code.position(0, &key, bucket), known.position(0, &key, bucket));
            }
        }
    }

    /// A client that simulates, or downloads, must read what the server wrote.
    #[test]
    fn all_oracles_know_the_same_positions(
        k in 1..6_usize,
        seed in any::<[u8; 32]>(),
        stored in proptest::collection::btree_set(proptest::collection::vec(0..6_u8, 0..4), 1..60),
        later in 0..20_usize,
    ) {
        // A set, shuffled by reversing: the mapping by fingerprints does not tell equal keys apart.
        let stored: Vec<Vec<u8>> = stored.into_iter().rev().collect();
        let stored = slices(&stored);
        fn compare<C: HashedCode + 'static>(code: &C, stored: &[&[u8]], later: usize, seed: [u8; 32]) {
            let encoding = code.encode(stored);
            let known = EncodingOracle::new(&encoding, stored);
            let mapping = DownloadedOracle::encode(&encoding, stored, &seed).unwrap();
            let downloaded = DownloadedOracle::decode(&mapping, code, &seed, encoding.largest()).unwrap();
            let at_once = SimulatedOracle::new(code, stored);
            let (first, rest) = stored.split_at(stored.len().saturating_sub(later));
            let mut step_by_step = SimulatedOracle::new(code, first);
            rest.iter().for_each(|key| step_by_step.insert(key));
            assert_eq!(step_by_step.elements(), stored.len());
            for key in stored.iter().copied().chain([b"absent".as_slice()]) {
                for bucket in (0..code.bucket_count() as u32).map(BucketIndex) {
                    let bucket = code.holder(key, bucket);
                    let position = known.position(0, key, bucket);
                    assert_eq!(at_once.position(0, key, bucket), position);
                    assert_eq!(step_by_step.position(0, key, bucket), position);
                    assert_eq!(downloaded.position(0, key, bucket), position);
                }
            }
        }
        compare(&CuckooCode::new(k, k.max(4) + 2, 4, seed).unwrap(), &stored, later, seed);
        compare(&ReplicationCode::new(k, seed).unwrap(), &stored, later, seed);
        compare(&ShardingCode::new(k, k, 3, seed).unwrap(), &stored, later, seed);
        compare(&TwoChoiceCode::new(k, k.max(2), 2, seed).unwrap(), &stored, later, seed);
        compare(&HybridCode::new(k, k.max(2), seed).unwrap(), &stored, later, seed);
    }
}

/// What is drawn for those keys, of which these are wanted: for each a bucket that holds it, which serves nothing else, or none. A
/// batch is filled up with keys that are not wanted, and what was drawn for them would be read.
fn draw(
    code: &dyn BatchCode,
    keys: &[&[u8]],
    wanted: &[bool],
    rng: &mut ChaCha20Rng,
) -> Vec<Vec<BucketIndex>> {
    let drawn = code.schedule_wanted(keys, wanted, &mut || rng.next_u64());
    let drawn: Vec<_> = (0..keys.len()).map(|key| drawn.assignment(key)).collect();
    let encoding = code.encode(keys);
    let mut used = vec![false; code.bucket_count()];
    for (number, buckets) in drawn.iter().enumerate() {
        assert!(buckets.is_empty() || wanted.get(number) == Some(&true), "{number} is not wanted");
        for bucket in buckets {
            assert!(!core::mem::replace(&mut used[bucket.to_usize()], true), "{bucket:?} twice");
        }
        if let [bucket] = buckets[..] {
            let holds = |codeword: &pbc::Codeword| codeword.elements().contains(&(number as u32));
            assert!(
                encoding.buckets()[bucket.to_usize()].iter().any(holds),
                "{bucket:?} does not hold {number}"
            );
        }
    }
    drawn
}

#[test]
fn only_for_what_is_wanted_a_bucket_is_drawn() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let hashed: Vec<[u8; 8]> = (0..14_u64).map(|key| (key * 77).to_le_bytes()).collect();
    let hashed: Vec<&[u8]> = hashed.iter().map(<[u8; 8]>::as_slice).collect();
    // The last is none of its indices.
    let indices: Vec<[u8; 8]> = [3, 0, 8, 5, 1, 2, 4, 6, 7, 9].map(PartitionedCode::key).to_vec();
    let indices: Vec<&[u8]> = indices.iter().map(<[u8; 8]>::as_slice).collect();
    for trial in 0..6 {
        let seed = [trial; 32];
        let partitioned: Box<dyn BatchCode> = Box::new(PartitionedCode::new(6, 12, 3, 9, seed).unwrap());
        // Of the keys so many exist.
        let mut codes: Vec<_> =
            hashed_codes(6, 3, seed).into_iter().map(|code| (code, &hashed, 14)).collect();
        codes.push((partitioned, &indices, 9));
        for (code, keys, existing) in codes {
            let nothing = draw(&*code, keys, &vec![false; keys.len()], &mut rng);
            assert!(nothing.iter().all(Vec::is_empty));
            // The flags of some are missing.
            let wanted: Vec<bool> = (0..keys.len() - 2).map(|_| rng.next_u32().is_multiple_of(3)).collect();
            draw(&*code, keys, &wanted, &mut rng);
            // One that exists, alone, always has a bucket, wherever it stands.
            for number in 0..keys.len() {
                let alone: Vec<bool> = (0..keys.len()).map(|key| key == number).collect();
                let drawn = draw(&*code, keys, &alone, &mut rng);
                assert_eq!(!drawn[number].is_empty(), number < existing, "{number}");
            }
        }
    }
}

/// Where every bucket holds everything, each serves one of the first keys that are wanted.
#[test]
fn of_replicas_each_serves_a_key_until_there_is_none_left() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let keys: Vec<[u8; 2]> = (0..12_u16).map(u16::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 2]>::as_slice).collect();
    let code = ReplicationCode::new(5, [1; 32]).unwrap();
    let wanted: Vec<bool> = (0..12).map(|key| key % 2 == 1).collect();
    let mut first = [0; 5];
    for _ in 0..1_000 {
        let drawn = draw(&code, &keys, &wanted, &mut rng);
        let served: Vec<usize> = (0..12).filter(|key| !drawn[*key].is_empty()).collect();
        assert_eq!(served, [1, 3, 5, 7, 9]);
        first[drawn[1][0].to_usize()] += 1;
    }
    assert!(first.iter().all(|count| (130..270).contains(count)), "{first:?}");
}

/// A simulated mapping must find the first of several elements under one key, like the others.
#[test]
fn simulation_finds_the_first_of_equal_keys() {
    let code = CuckooCode::new(2, 6, 3, [1; 32]).unwrap();
    let stored: [&[u8]; 4] = [b"same", b"one", b"same", b"two"];
    let encoding = code.encode(&stored);
    let known = EncodingOracle::new(&encoding, &stored);
    let mut simulated = SimulatedOracle::new(&code, &stored[..2]);
    stored[2..].iter().for_each(|key| simulated.insert(key));
    for key in stored {
        for bucket in (0..6).map(BucketIndex) {
            assert_eq!(simulated.position(0, key, bucket), known.position(0, key, bucket));
        }
    }
    let mapping = DownloadedOracle::encode(&encoding, &stored, &[1; 32]).unwrap();
    let downloaded = DownloadedOracle::decode(&mapping, &code, &[1; 32], encoding.largest()).unwrap();
    assert!((0..6).all(|bucket| downloaded.position(0, b"same", BucketIndex(bucket)).is_none()));
}

/// A mapping comes from a server that may be anybody's.
#[test]
fn foreign_mappings_are_refused() {
    let code = CuckooCode::new(2, 6, 3, [1; 32]).unwrap();
    let stored: [&[u8]; 2] = [b"one", b"two"];
    let mapping = DownloadedOracle::encode(&code.encode(&stored), &stored, &[1; 32]).unwrap();
    assert_eq!(mapping.len(), 1 + 4 + 6 * 4 + 6 * 5);
    let decode = |mapping: &[u8]| DownloadedOracle::decode(mapping, &code, &[1; 32], 2).err();
    assert_eq!(decode(&mapping), None);
    for length in 0..mapping.len() {
        assert_eq!(decode(&mapping[..length]), Some(Error::Mapping), "{length} bytes");
    }
    assert_eq!(decode(&[mapping.as_slice(), &[0]].concat()), Some(Error::Mapping));
    let mut changed = mapping.clone();
    changed[0] = 2;
    assert_eq!(decode(&changed), Some(Error::Mapping));
    // Of a code with another number of buckets, and of none.
    for contents in [4_u8, 0] {
        let other = [&[1, contents, 0, 0, 0][..], &vec![0; 4 * usize::from(contents)]].concat();
        assert_eq!(decode(&other), Some(Error::Mapping), "{contents} contents");
    }
    changed = mapping.clone();
    changed[1..9].fill(0xff);
    assert_eq!(decode(&changed), Some(Error::Mapping));
    let too_few = DownloadedOracle::encode(&code.encode(&stored), &stored[..1], &[1; 32]);
    assert_eq!(too_few, Err(Error::Mapping));
}

/// A batch of keys that all collide: every code serves exactly as many as it has room for, and the most important.
#[test]
fn keys_made_to_collide_are_deferred_by_priority() {
    let seed = [4; 32];
    let colliding = |holders: &dyn Fn(&[u8]) -> Vec<usize>| -> Vec<Vec<u8>> {
        let target = holders(b"target");
        let collides = |key: &Vec<u8>| holders(key).iter().all(|holder| target.contains(holder));
        (0..).map(|i: u32| i.to_le_bytes().to_vec()).filter(collides).take(24).collect()
    };
    let served = |code: &dyn BatchCode, wanted: &[Vec<u8>]| {
        let wanted = slices(wanted);
        let encoding = code.encode(&wanted);
        let read = read(code, &wanted, &wanted, &EncodingOracle::new(&encoding, &wanted));
        check(&wanted, &wanted, &read);
        let served = read.iter().take_while(|read| read.is_some()).count();
        assert!(read[served..].iter().all(Option::is_none), "a later key was preferred");
        served
    };

    let sharding = ShardingCode::new(16, 16, 9, seed).unwrap();
    assert_eq!(served(&sharding, &colliding(&|key| sharding.holders(key))), 9);
    let two_choice = TwoChoiceCode::new(16, 16, 4, seed).unwrap();
    assert_eq!(served(&two_choice, &colliding(&|key| two_choice.holders(key))), 8);
    let cuckoo = CuckooCode::new(16, 32, 3, seed).unwrap();
    assert_eq!(served(&cuckoo, &colliding(&|key| cuckoo.holders(key))), 3);
    // The same two cubes and the same quarters: four from each cube.
    let hybrid = HybridCode::new(4, 4, seed).unwrap();
    assert_eq!(served(&hybrid, &colliding(&|key| hybrid.holders(key))), 8);
    let replication = ReplicationCode::new(16, seed).unwrap();
    assert_eq!(served(&replication, &colliding(&|key| replication.holders(key))), 16);
}

/// A mapping of filters is made of what holds copies; a client that takes another bucket for one finds nothing in it.
#[test]
fn codes_say_how_many_keys_they_are_for_and_which_contents_hold_copies() {
    let seed = [3; 32];
    let keys: Vec<Vec<u8>> = (0..500_u32).map(|i| i.to_le_bytes().to_vec()).collect();
    let keys = slices(&keys);
    let codes: [(Box<dyn HashedCode>, usize); 5] = [
        (Box::new(HybridCode::new(5, 3, seed).unwrap()), 3 * 4),
        (Box::new(CuckooCode::new(5, 12, 3, seed).unwrap()), 12),
        (Box::new(ShardingCode::new(5, 4, 3, seed).unwrap()), 4),
        (Box::new(TwoChoiceCode::new(5, 4, 3, seed).unwrap()), 4),
        (Box::new(ReplicationCode::new(5, seed).unwrap()), 1),
    ];
    for (code, copying) in codes {
        assert_eq!(code.batch_size(), 5);
        let encoding = code.encode(&keys);
        let copies = |content: &usize| {
            let codewords = &encoding.contents()[*content];
            codewords.iter().all(|codeword| codeword.elements().len() == 1)
        };
        assert_eq!(code.copying(), (0..code.contents()).filter(copies).collect::<Vec<_>>());
        assert_eq!((code.copying().len(), encoding.contents().len()), (copying, code.contents()));
        assert_eq!(encoding.copies() * code.contents(), code.bucket_count());
        assert!(
            keys.iter().all(|key| code.holders(key).iter().all(|holder| code.copying().contains(holder)))
        );
    }
}

#[test]
fn a_bucket_has_the_same_number_as_its_place_in_a_list() {
    for place in [0, 1, 7, u32::MAX as usize] {
        let bucket = BucketIndex::from_usize(place).unwrap();
        assert_eq!((bucket.to_usize(), usize::from(bucket)), (place, place));
    }
    assert_eq!(BucketIndex::from_usize(1 << 32), None);
}

/// The hybrid's sums: a lone codeword decodes to itself, several to their sum, and the last element of an odd number
/// is read like the others.
#[test]
fn the_hybrid_decodes_sums_and_odd_numbers() {
    let code = HybridCode::new(4, 4, [2; 32]).unwrap();
    assert_eq!(code.decode(&[&[1, 2]]), Ok(vec![1, 2]));
    assert_eq!(code.decode(&[&[1, 2], &[3, 4], &[8, 8]]), Ok(vec![10, 14]));
    assert_eq!(code.decode(&[]), Err(Error::Codewords));
    assert_eq!(code.decode(&[&[1, 2], &[3]]), Err(Error::Codewords));
    assert_eq!(code.decode(&[[1_u8].as_slice(); 9]), Ok(vec![1]));
    assert_eq!(code.decode(&[[0_u8].as_slice(); 10]), Err(Error::Codewords));

    let stored: Vec<Vec<u8>> = (0..1_001_u32).map(|i| i.to_le_bytes().to_vec()).collect();
    let stored = slices(&stored);
    let encoding = code.encode(&stored);
    let oracle = EncodingOracle::new(&encoding, &stored);
    let mut sums = 0;
    for wanted in stored.chunks(4) {
        let read = read(&code, &stored, wanted, &oracle);
        assert!(read.iter().all(Option::is_some));
        check(&stored, wanted, &read);
        let plan = Plan::new(&code, wanted, &oracle);
        sums += (0..wanted.len()).filter(|key| plan.assignment(*key).len() > 1).count();
    }
    assert!(sums > 0, "no element was read as a sum");
    let codewords = encoding.codewords() as f64 / 1_001.0;
    assert!((4.5..4.8).contains(&codewords), "{codewords} codewords for each element");
}

/// The paper's numbers of codewords and buckets, as its own code has them.
#[test]
fn dimensions_are_those_of_the_paper() {
    let keys: Vec<Vec<u8>> = (0..500_u32).map(|i| i.to_le_bytes().to_vec()).collect();
    let keys = slices(&keys);
    for (k, sharding, two_choice) in [(16, 9, 4), (64, 9, 5), (256, 12, 5)] {
        let code = ShardingCode::of_paper(k, [0; 32]).unwrap();
        assert_eq!((code.copies(), code.bucket_count()), (sharding, k * sharding));
        assert_eq!(code.encode(&keys).codewords(), 500 * sharding);
        let code = TwoChoiceCode::of_paper(k, [0; 32]).unwrap();
        assert_eq!((code.copies(), code.bucket_count()), (two_choice, k * two_choice));
        assert_eq!(code.encode(&keys).codewords(), 500 * 2 * two_choice);
        assert_eq!(HybridCode::of_paper(k, [0; 32]).unwrap().bucket_count(), 9 * k);
        let code = ReplicationCode::new(k, [0; 32]).unwrap();
        assert_eq!((code.bucket_count(), code.encode(&keys).codewords()), (k, 500 * k));
        assert_eq!(code.encode(&keys).contents().len(), 1);
    }
}

/// Numbers from a configuration are refused, not trusted.
#[test]
fn impossible_dimensions_are_refused() {
    let refused = |error: Option<Error>| assert!(matches!(error, Some(Error::Parameters(_))), "{error:?}");
    let seed = [0; 32];
    refused(ReplicationCode::new(0, seed).err());
    refused(ReplicationCode::new(1 << 33, seed).err());
    refused(ShardingCode::new(4, 0, 3, seed).err());
    refused(ShardingCode::new(4, 3, 0, seed).err());
    refused(ShardingCode::new(4, 1, 3, seed).err());
    (0..3).for_each(|k| refused(ShardingCode::of_paper(k, seed).err()));
    assert!(ShardingCode::of_paper(3, seed).is_ok() && TwoChoiceCode::of_paper(3, seed).is_ok());
    refused(TwoChoiceCode::new(1, 1, 3, seed).err());
    refused(TwoChoiceCode::new(1, 1 << 20, 1 << 20, seed).err());
    (0..3).for_each(|k| refused(TwoChoiceCode::of_paper(k, seed).err()));
    refused(HybridCode::new(0, 4, seed).err());
    refused(HybridCode::new(1, 1, seed).err());
    refused(HybridCode::new(19, 2, seed).err());
    refused(HybridCode::new(1, usize::MAX / 4, seed).err());
    refused(PartitionedCode::new(0, 4, 2, 9, seed).err());
    refused(PartitionedCode::new(5, 4, 2, 9, seed).err());
    refused(PartitionedCode::new(1, 5, 2, 9, seed).err());
    refused(PartitionedCode::new(1, 9, 9, 9, seed).err());
    refused(PartitionedCode::new(1, 4, 2, 1 << 32, seed).err());
    refused(PartitionedCode::new(1, 4, 2, usize::MAX, seed).err());
    assert!(PartitionedCode::new(1, 4, 2, 0, seed).is_ok());
}

/// What is no index, and an index given twice, must not displace what is stored.
#[test]
fn the_partitioned_code_stores_indices_only_and_once() {
    let code = PartitionedCode::new(2, 6, 3, 4, [1; 32]).unwrap();
    assert_eq!(code.elements(), 4);
    let places = code.places(1);
    assert!(places.as_slice().len() == 3 && places.into_iter().eq(places.as_slice().iter().copied()));
    let (one, beyond) = (PartitionedCode::key(1), PartitionedCode::key(4));
    let stored: [&[u8]; 4] = [&one, b"text", &beyond, &one];
    let encoding = code.encode(&stored);
    let held: Vec<u32> =
        encoding.buckets().iter().flatten().flat_map(|word| word.elements()).copied().collect();
    assert_eq!(held, [0; 3]);
    assert!(code.schedule(&[b"text", &beyond, &one], &|_, _| true).deferred().eq([0, 1]));
}

/// Quarters of a key that depended on each other would collide more often than the failure rates say.
#[test]
fn both_quarters_of_a_key_in_the_hybrid_are_independent() {
    let code = HybridCode::new(4, 16, [7; 32]).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for key in 0..8_000_u32 {
        let holders = code.holders(&key.to_le_bytes());
        *counts.entry([holders[0] % 9, holders[1] % 9]).or_insert(0) += 1;
    }
    // A fixed set; 500 in the mean, with a deviation of 22.
    assert!(counts.len() == 16 && counts.values().all(|count| (410..590).contains(count)), "{counts:?}");
}

/// Failure rates are counted with it: it must fail as often as real batches do, where that can be computed.
#[test]
fn batches_drawn_for_a_simulation_fail_as_often_as_they_should() {
    let failures = |code: &dyn RandomBatch| {
        let mut state = 1_u64;
        let mut words = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        (0..8_000).filter(|_| !code.serves_batch(&mut words)).count()
    };
    // Three keys, two groups of two buckets: all three have the same two in one of 16 cases, 500 with a deviation of 22.
    let partitioned = PartitionedCode::new(3, 4, 2, 9, [1; 32]).unwrap();
    assert_eq!(partitioned.batch_size(), 3);
    let failed = failures(&partitioned);
    assert!((410..590).contains(&failed), "{failed}");
    // Any four keys in each of two cubes, and never eighteen in eighteen buckets of which most hold sums.
    assert_eq!(failures(&HybridCode::new(8, 2, [1; 32]).unwrap()), 0);
    assert_eq!(failures(&HybridCode::new(18, 2, [1; 32]).unwrap()), 8_000);
}

/// A random walk pays no heed to priorities, but it serves nearly as many batches as a matching, and never more.
#[test]
fn a_random_walk_fails_little_more_often_than_a_matching() {
    let matching = CuckooCode::new(16, 24, 3, [1; 32]).unwrap();
    let walk = matching.clone().with_search(Search::RandomWalk { displacements: 1_000 });
    let hasty = matching.clone().with_search(Search::RandomWalk { displacements: 3 });
    let failures = |code: &CuckooCode| {
        let mut state = 1_u64;
        let mut words = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        (0..20_000).filter(|_| !code.serves_batch(&mut words)).count()
    };
    let [matching, walk, hasty] = [&matching, &walk, &hasty].map(failures);
    assert!((1..20).contains(&matching), "{matching}");
    assert!((matching..=matching + 3).contains(&walk), "{walk} after {matching}");
    assert!(hasty > 10 * walk, "{hasty}");
}
