//! Encode, schedule, look up, read, decode: whatever the keys, the element wanted is the element found.

use pbc::{BatchCode, BucketIndex, CuckooCode, EncodingOracle, Error, Oracle, Plan};
use proptest::prelude::*;

fn slices(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

/// A valid code of any admissible dimensions.
fn codes() -> impl Strategy<Value = CuckooCode> {
    (1..12_usize, 0..20_usize, 1..=8_usize, any::<[u8; 32]>()).prop_map(|(k, spare, w, seed)| {
        CuckooCode::new(k, k.max(w) + spare, w, seed).expect("k >= 1, w in 1..=8, b >= max(k, w)")
    })
}

proptest! {
    /// A wrong position is a lost message, a bucket used twice a broken pattern, a missing element a lost message.
    #[test]
    fn every_scheduled_key_is_read_from_its_bucket(
        code in codes(),
        stored in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..80),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        padding in 0..5_usize,
    ) {
        let stored = slices(&stored);
        let mut wanted: Vec<&[u8]> = vec![b"certainly absent"];
        if !stored.is_empty() {
            wanted.extend(picks.iter().map(|pick| stored[pick.index(stored.len())]));
        }
        let elements: Vec<u8> = (0..stored.len() as u32).flat_map(|i| (i + 1).to_le_bytes()).collect();

        let encoding = code.encode(&stored);
        prop_assert_eq!(encoding.codewords(), code.choices() * stored.len());
        let padded = encoding.largest() + padding;
        let buckets = encoding.materialise(4, &elements, padded).unwrap();
        prop_assert!(buckets.iter().all(|bucket| bucket.len() == 4 * padded));

        let oracle = EncodingOracle::new(&encoding, &stored).for_wanted(&wanted);
        let plan = Plan::new(&code, &wanted, &oracle);
        prop_assert_eq!(plan.targets.len(), code.bucket_count());
        prop_assert_eq!(plan.assignment(0), []);
        prop_assert!(plan.deferred().any(|key| key == 0));

        let mut used = Vec::new();
        for (key_number, key) in wanted.iter().enumerate() {
            for bucket in plan.assignment(key_number) {
                prop_assert!(!used.contains(bucket));
                used.push(*bucket);
                prop_assert!(code.candidates(key).contains(bucket));
                let position = plan.targets[bucket.to_usize()].unwrap();
                prop_assert_eq!(Some(position), oracle.position(key_number, key, *bucket));
                let codeword = &buckets[bucket.to_usize()][4 * position..4 * position + 4];
                let element = u32::from_le_bytes(code.decode(&[codeword]).unwrap().try_into().unwrap());
                // Equal keys are served in turn: the i-th copy wanted is the i-th copy stored.
                let before = wanted[..key_number].iter().filter(|other| *other == key).count();
                let copies = (0..stored.len()).filter(|i| stored[*i] == *key);
                prop_assert_eq!(copies.skip(before).map(|i| i as u32 + 1).next(), Some(element));
            }
        }
        prop_assert_eq!(plan.targets.iter().flatten().count(), used.len());
    }

    /// What a bucket holds must not depend on how many cores or passes made it.
    #[test]
    fn encoding_is_sorted_and_repeatable(code in codes(), stored in proptest::collection::vec(any::<[u8; 2]>(), 0..80)) {
        let stored: Vec<&[u8]> = stored.iter().map(<[u8; 2]>::as_slice).collect();
        let encoding = code.encode(&stored);
        prop_assert_eq!(&encoding, &code.clone().encode(&stored));
        for bucket in encoding.buckets() {
            let places: Vec<_> = bucket
                .iter()
                .map(|codeword| codeword.elements()[0])
                .map(|element| (code.order(stored[element as usize]), stored[element as usize], element))
                .collect();
            prop_assert!(places.is_sorted());
        }
    }
}

/// A squatter who deposits under somebody else's key must not make the other element unreadable.
#[test]
fn equal_keys_are_both_stored_and_both_readable() {
    let code = CuckooCode::new(2, 6, 3, [1; 32]).unwrap();
    let stored: [&[u8]; 4] = [b"one", b"same", b"two", b"same"];
    let wanted: [&[u8]; 2] = [b"same", b"same"];
    let encoding = code.encode(&stored);
    let first = EncodingOracle::new(&encoding, &stored);
    let oracle = first.clone().for_wanted(&wanted);
    for bucket in code.candidates(b"same").iter() {
        let position = oracle.position(0, b"same", *bucket).unwrap();
        assert_eq!(oracle.position(1, b"same", *bucket), Some(position + 1));
        assert_eq!(first.position(1, b"same", *bucket), Some(position));
        assert_eq!(encoding.buckets()[bucket.to_usize()][position].elements(), [1]);
        assert_eq!(encoding.buckets()[bucket.to_usize()][position + 1].elements(), [3]);
    }
    assert_eq!(Plan::new(&code, &wanted, &oracle).deferred().count(), 0);
    assert_eq!(oracle.position(0, b"other", BucketIndex(0)), None);
}

/// Keys made to collide cost their own readers deferrals, in order of priority, and nobody a failed batch.
#[test]
fn colliding_keys_defer_only_the_least_important() {
    let code = CuckooCode::new(16, 32, 3, [7; 32]).unwrap();
    let target = code.candidates(b"victim");
    let inside = |key: &u32| code.candidates(&key.to_le_bytes()).iter().all(|bucket| target.contains(bucket));
    let colliding: Vec<[u8; 4]> = (0..).filter(inside).take(5).map(u32::to_le_bytes).collect();
    let mut keys: Vec<&[u8]> = colliding.iter().map(<[u8; 4]>::as_slice).collect();
    keys.push(b"victim");
    let elsewhere =
        (0..).map(u32::to_be_bytes).find(|key| code.candidates(key).iter().all(|b| !target.contains(b)));
    let elsewhere = elsewhere.unwrap();
    keys.push(&elsewhere);

    let schedule = code.schedule(&keys, &|_, _| true);
    assert_eq!(schedule.deferred().collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(schedule.assignment(6).len(), 1);
    keys.reverse();
    let schedule = code.schedule(&keys, &|_, _| true);
    assert_eq!(schedule.deferred().collect::<Vec<_>>(), [4, 5, 6]);
}

/// An unusable candidate is never read, and its key is served by another while there is one.
#[test]
fn unusable_buckets_are_avoided() {
    let code = CuckooCode::new(4, 12, 3, [9; 32]).unwrap();
    let [_, second, third] = *code.candidates(b"key").as_slice() else { panic!("three candidates") };
    let only = |allowed: BucketIndex| move |_: usize, bucket: BucketIndex| bucket == allowed;
    assert_eq!(code.schedule(&[b"key"], &only(second)).assignment(0), [second]);
    assert_eq!(code.schedule(&[b"key"], &only(third)).assignment(0), [third]);
    assert_eq!(code.schedule(&[b"key", b"key"], &only(third)).deferred().collect::<Vec<_>>(), [1]);
    assert!(!code.schedule(&[b"key"], &|_, _| false).is_complete());
}

/// An oracle with a false-hit rate must not be asked twice and answer differently.
#[test]
fn the_oracle_is_asked_once_for_a_key_and_a_bucket() {
    struct Counting(std::sync::Mutex<Vec<(usize, BucketIndex)>>);
    impl Oracle for Counting {
        fn position(&self, key_number: usize, _: &[u8], bucket: BucketIndex) -> Option<usize> {
            self.0.lock().unwrap().push((key_number, bucket));
            Some(bucket.to_usize())
        }
    }
    let code = CuckooCode::new(4, 12, 3, [9; 32]).unwrap();
    let oracle = Counting(std::sync::Mutex::default());
    let keys: [&[u8]; 5] = [b"a", b"b", b"b", b"b", b"b"];
    let plan = Plan::new(&code, &keys, &oracle);
    let mut asked = oracle.0.into_inner().unwrap();
    assert_eq!(asked.len(), 15);
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 15);
    assert_eq!(plan.deferred().collect::<Vec<_>>(), [4]);
    assert_eq!(format!("{plan:?}"), "Plan { buckets: 12, .. }");
}

/// Neither empty nor single collections, nor empty lists of wants, may fail.
#[test]
fn nothing_stored_and_nothing_wanted_are_fine() {
    let code = CuckooCode::new(4, 12, 3, [3; 32]).unwrap();
    let empty = code.encode(&[]);
    assert_eq!((empty.elements(), empty.largest(), empty.buckets().len()), (0, 0, 12));
    assert!(empty.materialise(288, &[], 2).unwrap().iter().all(|bucket| bucket == &vec![0; 576]));
    let plan = Plan::new(&code, &[b"x"], &EncodingOracle::new(&empty, &[]));
    assert_eq!(plan.targets, [None; 12]);

    let single = code.encode(&[b"x"]);
    assert_eq!((single.codewords(), single.largest()), (3, 1));
    assert!(code.schedule(&[], &|_, _| true).is_complete());
    let plan = Plan::new(&code, &[b"x"], &EncodingOracle::new(&single, &[b"x"]));
    assert_eq!(plan.targets.iter().flatten().collect::<Vec<_>>(), [&0]);
}

/// Numbers from a configuration or a manifest are refused, not trusted.
#[test]
fn impossible_dimensions_and_sizes_are_refused() {
    for (k, b, w) in [(0, 3, 3), (1, 0, 0), (1, 2, 3), (4, 3, 3), (1, 9, 9), (2, 1 << 33, 3), (1, 3, 0)] {
        assert!(matches!(CuckooCode::new(k, b, w, [0; 32]), Err(Error::Parameters(_))), "{k} {b} {w}");
    }
    assert!(CuckooCode::recommended(16, 5, [0; 32]).is_err());

    let code = CuckooCode::new(1, 3, 3, [0; 32]).unwrap();
    assert_eq!(code.decode(&[]), Err(Error::Codewords));
    assert_eq!(code.decode(&[b"a", b"b"]), Err(Error::Codewords));
    let encoding = code.encode(&[b"a", b"b"]);
    assert_eq!(encoding.materialise(1, b"xy", 1), Err(Error::Capacity { codewords: 2, padded: 1 }));
    assert!(matches!(encoding.materialise(0, b"", 2), Err(Error::Shape(_))));
    assert!(matches!(encoding.materialise(1, b"x", 2), Err(Error::Shape(_))));
    assert!(matches!(encoding.materialise(1, b"xyz", 2), Err(Error::Shape(_))));
    assert!(matches!(code.encode(&[b"a"]).materialise(2, b"xy", usize::MAX), Err(Error::Shape(_))));
    assert!(matches!(encoding.materialise_bucket(BucketIndex(3), 1, b"xy", 2), Err(Error::Shape(_))));
}
