//! The whole of Figure 8 with an engine that hides nothing: the engine's own tests show that it hides.

use mpir::{Error, MultiClient, MultiDatabase, MultiQuery, reconstruct};
use pbc::{
    BatchCode, CuckooCode, Encoding, EncodingOracle, HybridCode, PartitionedCode, Plan, ReplicationCode,
    Search, ShardingCode, TwoChoiceCode,
};
use pir_core::{NoOp, Scheme};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

const ELEMENT_BYTES: usize = 24;

/// Distinct elements, so that a wrong one is noticed.
fn elements(count: usize) -> Vec<u8> {
    (0..count as u64).flat_map(|i| [i, !i, i << 7].map(u64::to_le_bytes)).flatten().collect()
}

fn element(number: usize) -> Vec<u8> {
    elements(number + 1)[number * ELEMENT_BYTES..].to_vec()
}

fn database<S: Scheme>(encoding: &Encoding, padded: usize) -> MultiDatabase<S> {
    let elements = elements(encoding.elements());
    let buckets =
        encoding.materialise(ELEMENT_BYTES, &elements, padded).expect("padded to at least the largest");
    MultiDatabase::setup(ELEMENT_BYTES, padded, &buckets).expect("equal, non-empty buckets")
}

fn slices(query: &MultiQuery) -> Vec<&[u8]> {
    query.encoded().iter().map(Vec::as_slice).collect()
}

proptest! {
    /// Whatever the batch, what comes back is what a direct look-up finds, and what is not there is deferred.
    #[test]
    fn retrieval_equals_direct_look_up(
        k in 1..12_usize,
        w in 1..=4_usize,
        count in 1..60_usize,
        wants in proptest::collection::vec(0..80_u32, 0..12),
        seed in any::<[u8; 32]>(),
    ) {
        let code = CuckooCode::new(k, k.max(w) + k, w, seed).unwrap();
        let stored: Vec<[u8; 4]> = (0..count as u32).map(u32::to_le_bytes).collect();
        let stored: Vec<&[u8]> = stored.iter().map(<[u8; 4]>::as_slice).collect();
        let wanted: Vec<[u8; 4]> = wants.iter().copied().map(u32::to_le_bytes).collect();
        let wanted: Vec<&[u8]> = wanted.iter().map(<[u8; 4]>::as_slice).collect();

        let encoding = code.encode(&stored);
        let server = database::<NoOp>(&encoding, encoding.largest() + 1);
        prop_assert_eq!(server.bucket_count(), code.bucket_count());
        let plan = Plan::new(&code, &wanted, &EncodingOracle::new(&encoding, &stored));

        let client = MultiClient::<NoOp>::new(&seed);
        let keys = NoOp::decode_public_keys(&client.public_keys()).unwrap();
        let mut rng = ChaCha8Rng::from_seed(seed);
        let query = client.multi_query(server.parameters(), &plan.targets, &mut rng).unwrap();
        let answers = server.answer(&keys, &slices(&query)).unwrap();
        for (bucket, answer) in answers.iter().enumerate() {
            prop_assert_eq!(answer, &server.answer_one(bucket, &keys, &query.encoded()[bucket]).unwrap());
            let tile = server.answer_tile(bucket, &[(&keys, &query.encoded()[bucket])]).unwrap();
            prop_assert_eq!(&tile, &[Ok(answer.clone())]);
        }

        let codewords = client.multi_extract(server.parameters(), &query, &answers);
        let found = reconstruct(&code, &plan, &codewords);
        prop_assert_eq!(found.len(), wanted.len());
        for (key_number, (found, want)) in found.iter().zip(&wants).enumerate() {
            let deferred = plan.deferred().any(|key| key == key_number);
            prop_assert!(deferred || (*want as usize) < count);
            let expected = (!deferred).then(|| Ok(element(*want as usize)));
            prop_assert_eq!(found, &expected);
        }
    }
}

/// A server that took any number of queries would let a client's wants show in their number.
#[test]
fn exactly_one_query_per_bucket_is_answered() {
    let (server, client, keys) = fixture();
    let query = client.multi_query(server.parameters(), &[None; 12], &mut rng(1)).unwrap();
    let mut queries = slices(&query);
    queries.push(queries[0]);
    let count = |actual| Error::Count { what: "queries", expected: 12, actual };
    assert_eq!(server.answer(&keys, &queries), Err(count(13)));
    assert_eq!(server.answer(&keys, &queries[..11]), Err(count(11)));
    assert_eq!(server.answer(&keys, &[]), Err(count(0)));
    assert!(server.answer(&keys, &queries[..12]).is_ok());
    assert_eq!(server.answer_one(12, &keys, queries[0]), Err(Error::Bucket));
    assert_eq!(server.answer_tile(12, &[]), Err(Error::Bucket));
    assert!(matches!(server.answer_one(0, &keys, b"short"), Err(Error::Engine(_))));
}

/// What travels must have one shape, whether a client wants all, some or nothing.
#[test]
fn query_sizes_are_independent_of_the_targets() {
    let (server, client, _) = fixture();
    for targets in [[None; 12], [Some(0); 12], core::array::from_fn(|i| (i % 3 == 0).then_some(i))] {
        let query = client.multi_query(server.parameters(), &targets, &mut rng(2)).unwrap();
        let size = NoOp::query_bytes(server.parameters());
        assert_eq!(query.encoded().iter().map(Vec::len).collect::<Vec<_>>(), [size; 12]);
        assert_eq!(format!("{query:?}"), "MultiQuery { buckets: 12, .. }");
    }
}

/// Dummies that repeat, or that avoid some index, would be told from real queries by an engine's failure or a server
/// that sees one index; the engine without privacy shows them.
#[test]
fn dummy_indices_are_fresh_and_uniform() {
    let (server, client, _) = fixture();
    let elements = NoOp::elements(server.parameters());
    let mut rng = rng(3);
    let mut ask = |targets: &[Option<usize>]| -> Vec<usize> {
        let query = client.multi_query(server.parameters(), targets, &mut rng).unwrap();
        let index = |query: &Vec<u8>| u64::from_le_bytes(query[..8].try_into().unwrap()) as usize;
        query.encoded().iter().map(index).collect()
    };
    assert_ne!(ask(&[None; 12]), ask(&[None; 12]));

    let mut counts = vec![0_u32; elements];
    for _ in 0..1_000 {
        let indices = ask(&[[Some(5); 6], [None; 6]].concat());
        assert_eq!(indices[..6], [5; 6]);
        for &index in &indices[6..] {
            counts[index] += 1;
        }
    }
    let expected = 6_000.0 / elements as f64;
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let freedom = (elements - 1) as f64;
    assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "chi-square {chi} for {freedom}");
}

/// A server that corrupts, drops or adds answers must find its client doing the same work and losing only those.
#[test]
fn a_bad_answer_spoils_no_other() {
    let (server, client, keys) = fixture();
    let targets: Vec<Option<usize>> = (0..12).map(|i| (i < 9).then_some(i)).collect();
    let query = client.multi_query(server.parameters(), &targets, &mut rng(4)).unwrap();
    let mut answers = server.answer(&keys, &slices(&query)).unwrap();
    let good = client.multi_extract(server.parameters(), &query, &answers);
    assert!(good.iter().all(Result::is_ok));

    answers[3].push(0);
    let bad = client.multi_extract(server.parameters(), &query, &answers);
    assert!(matches!(bad[3], Err(Error::Engine(_))));
    assert!((0..12).all(|bucket| bucket == 3 || bad[bucket] == good[bucket]));

    answers.pop();
    let missing = client.multi_extract(server.parameters(), &query, &answers);
    assert_eq!(missing, vec![Err(Error::Count { what: "answers", expected: 12, actual: 11 }); 12]);
    assert_eq!(client.extract(server.parameters(), &query, 12, b""), Err(Error::Bucket));
}

/// A plan made for another database must be refused, not asked.
#[test]
fn targets_beyond_the_bucket_are_refused() {
    let (server, client, _) = fixture();
    let targets = [Some(NoOp::elements(server.parameters()))];
    let refused = client.multi_query(server.parameters(), &targets, &mut rng(5));
    assert_eq!(refused.err(), Some(Error::Engine(pir_core::Error::Index)));
}

/// Buckets of unequal size would need parameters of their own, and tell which is which.
#[test]
fn unequal_or_missing_buckets_are_refused() {
    let setup = |padded, buckets: &[Vec<u8>]| MultiDatabase::<NoOp>::setup(2, padded, buckets).err();
    assert_eq!(setup(1, &[]), Some(Error::Bucket));
    assert!(matches!(setup(2, &[vec![0; 4], vec![0; 6]]), Some(Error::Engine(_))));
    assert!(matches!(setup(0, &[vec![], vec![]]), Some(Error::Engine(_))));
    assert_eq!(setup(2, &[vec![0; 4], vec![0; 4]]), None);
}

/// Key and public keys must be the same after a restart: different ones under one seed would leak.
#[test]
fn a_seed_gives_the_same_keys_again() {
    let keys = MultiClient::<NoOp>::new(&[6; 32]).public_keys();
    assert_eq!(keys, MultiClient::<NoOp>::new(&[6; 32]).public_keys());
    assert_ne!(keys, MultiClient::<NoOp>::new(&[7; 32]).public_keys());
}

type Fixture = (MultiDatabase<NoOp>, MultiClient<NoOp>, <NoOp as Scheme>::PublicKeys);

/// 40 elements in 12 buckets.
fn fixture() -> Fixture {
    let code = CuckooCode::new(4, 12, 3, [1; 32]).expect("valid dimensions");
    let keys: Vec<[u8; 4]> = (0..40_u32).map(u32::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let encoding = code.encode(&keys);
    let client = MultiClient::new(&[2; 32]);
    let public = NoOp::decode_public_keys(&client.public_keys()).expect("just encoded");
    (database(&encoding, 20.max(encoding.largest())), client, public)
}

fn rng(seed: u8) -> ChaCha8Rng {
    ChaCha8Rng::from_seed([seed; 32])
}

/// Every code must bring back what a direct look-up finds, sums of several codewords included.
#[test]
fn every_code_retrieves_what_a_direct_look_up_finds() {
    let stored: Vec<[u8; 8]> = (0..300).map(PartitionedCode::key).collect();
    let stored: Vec<&[u8]> = stored.iter().map(<[u8; 8]>::as_slice).collect();
    let mut several = 0;
    for round in 0..6 {
        let seed = [round; 32];
        let walk = Search::RandomWalk { displacements: 100 };
        let codes: [(&str, Box<dyn BatchCode>); 8] = [
            ("replication", Box::new(ReplicationCode::new(8, seed).unwrap())),
            ("sharding", Box::new(ShardingCode::of_paper(8, seed).unwrap())),
            ("two-choice", Box::new(TwoChoiceCode::of_paper(8, seed).unwrap())),
            ("hybrid", Box::new(HybridCode::of_paper(8, seed).unwrap())),
            ("hybrid, crowded", Box::new(HybridCode::new(8, 2, seed).unwrap())),
            ("cuckoo", Box::new(CuckooCode::recommended(8, 4, seed).unwrap())),
            ("cuckoo, random walk", Box::new(CuckooCode::new(8, 12, 3, seed).unwrap().with_search(walk))),
            ("partitioned", Box::new(PartitionedCode::new(8, 24, 3, 300, seed).unwrap())),
        ];
        for (name, code) in codes {
            let wanted: Vec<usize> = (0..8).map(|i| (usize::from(round) * 37 + i * i * 5) % 300).collect();
            let keys: Vec<&[u8]> = wanted.iter().map(|number| stored[*number]).collect();
            let encoding = code.encode(&stored);
            let server = database::<NoOp>(&encoding, encoding.largest() + 1);
            let plan = Plan::new(&*code, &keys, &EncodingOracle::new(&encoding, &stored));
            several += (0..8).filter(|key| plan.assignment(*key).len() > 1).count();

            let client = MultiClient::<NoOp>::new(&seed);
            let public = NoOp::decode_public_keys(&client.public_keys()).unwrap();
            let query = client.multi_query(server.parameters(), &plan.targets, &mut rng(round)).unwrap();
            let answers = server.answer(&public, &slices(&query)).unwrap();
            let codewords = client.multi_extract(server.parameters(), &query, &answers);
            let deferred: Vec<usize> = plan.deferred().collect();
            for (key_number, found) in reconstruct(&*code, &plan, &codewords).into_iter().enumerate() {
                let expected = (!deferred.contains(&key_number)).then(|| Ok(element(wanted[key_number])));
                assert_eq!(found, expected, "{name}, round {round}");
            }
        }
    }
    assert!(several > 0, "no element was read as a sum");
}
