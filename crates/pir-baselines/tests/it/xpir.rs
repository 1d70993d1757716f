//! XPIR in two and in three dimensions: QUERY, ANSWER, EXTRACT together, and its formats.

use pir_baselines::Xpir;
use pir_baselines::xpir::{ClientKey, Database, MAXIMUM_QUERY_BYTES, Parameters, PublicKeys};
use pir_core::{Error, Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

fn keys<const D: usize>(key: &ClientKey) -> PublicKeys<D> {
    Xpir::<D>::decode_public_keys(&Xpir::<D>::encode_public_keys(key)).unwrap()
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut elements = vec![0; bytes];
    ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut elements);
    elements
}

/// Fetches elements at both ends and in the middle and compares them.
fn fetch<const D: usize>(parameters: &Parameters<D>) {
    let (n, size) = (parameters.elements(), parameters.element_bytes());
    let elements = random(n * size, n as u64);
    let database = Xpir::<D>::setup(parameters, &elements).unwrap();
    let key = Xpir::<D>::client_key(&[7; 32]);
    let keys = keys(&key);
    let indices = [0, n / 2, n - 1];
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let items = indices.map(|index| (parameters, index));
    let queries = Xpir::<D>::queries(&key, &items, &mut rng).unwrap();
    let tile: Vec<_> = queries.iter().map(|query| (&keys, &query[..])).collect();
    for ((index, query), answer) in indices.iter().zip(&queries).zip(Xpir::<D>::answer_tile(&database, &tile))
    {
        let answer = answer.unwrap();
        assert_eq!(query.len(), Xpir::<D>::query_bytes(parameters));
        assert_eq!(answer.len(), Xpir::<D>::answer_bytes(parameters));
        assert!(answer == Xpir::<D>::answer(&database, &keys, query).unwrap(), "alone or in a tile");
        let element = Xpir::<D>::extract(parameters, &key, *index, &answer).unwrap();
        assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
    }
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    for n in [1, 2, 8, 9, 17, 200, 1023] {
        fetch(&Xpir::<2>::parameters(n, 288).unwrap());
        fetch(&Xpir::<3>::parameters(n, 288).unwrap());
    }
}

#[test]
fn a_last_plane_that_is_almost_empty_loses_nothing() {
    for (n, shape) in [(8 * 12 + 1, [3, 2, 3]), (8 * 30, [6, 5, 1]), (8 * 7 + 5, [2, 1, 4])] {
        fetch(&Parameters::with_shape(n, 288, shape).unwrap());
    }
}

#[test]
fn elements_far_smaller_and_larger_than_a_plaintext_come_back_whole() {
    for (n, size) in [(50_000, 1), (3, 2304), (3, 2305), (9, 4000), (1, 20_000)] {
        fetch(&Xpir::<2>::parameters(n, size).unwrap());
        fetch(&Xpir::<3>::parameters(n, size).unwrap());
    }
}

/// Too unlike dimensions would not be what is compared with, and too much noise would not decode.
#[test]
fn every_size_has_a_shape_near_the_root_within_the_failure_bound() {
    fn check<const D: usize>(n: usize) {
        let parameters = Xpir::<D>::parameters(n, 288).unwrap();
        let plaintexts = parameters.plaintexts() as f64;
        assert!(parameters.shape().iter().product::<usize>() as f64 >= plaintexts);
        let root = (plaintexts.powf(1.0 / D as f64) - 1e-9).ceil();
        for size in parameters.shape() {
            assert!((root / 2.0..=2.0 * root).contains(&(size as f64)), "{parameters:?}");
        }
        assert!(Xpir::<D>::failure_log2(&parameters) <= -40.0, "{parameters:?}");
        assert_eq!(Xpir::<D>::security_bits(&parameters), 193);
        assert_eq!(Xpir::<D>::query_bytes(&parameters), 36 + 9216 * parameters.selectors());
        assert!(Xpir::<D>::query_bytes(&parameters) <= MAXIMUM_QUERY_BYTES);
        assert_eq!(Xpir::<D>::answer_bytes(&parameters), 4 + 8704 * 4usize.pow(D as u32 - 1));
    }
    for n in (0..=22).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]) {
        check::<2>(n);
        check::<3>(n);
    }
}

#[test]
fn databases_without_a_shape_are_refused() {
    for (n, size) in [(0, 288), (1, 0), (usize::MAX, 2), (1 << 30, 288), (1 << 44, 1)] {
        assert!(matches!(Xpir::<2>::parameters(n, size), Err(Error::Shape(_))), "{n} of {size}");
    }
    assert!(matches!(Xpir::<3>::parameters(1 << 35, 288), Err(Error::Shape(_))));
    for shape in [[0, 1], [1, 0], [2, 4], [3, 4], [1, 6], [usize::MAX, 2]] {
        assert!(matches!(Parameters::with_shape(40, 288, shape), Err(Error::Shape(_))), "{shape:?}");
    }
    let parameters = Xpir::<2>::parameters(10, 288).unwrap();
    assert!(matches!(Xpir::<2>::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let key = Xpir::<2>::client_key(&[7; 32]);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(Xpir::<2>::queries(&key, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; Xpir::<2>::answer_bytes(&parameters)];
    assert_eq!(Xpir::<2>::extract(&parameters, &key, 10, &answer), Err(Error::Index));
}

const INDEX: usize = 57;

struct Example<const D: usize> {
    parameters: Parameters<D>,
    key: ClientKey,
    keys: PublicKeys<D>,
    database: Database<D>,
    elements: Vec<u8>,
    query: Vec<u8>,
    answer: Vec<u8>,
}

impl<const D: usize> Example<D> {
    fn new() -> Self {
        let parameters = Xpir::<D>::parameters(100, 288).unwrap();
        let key = Xpir::<D>::client_key(&[42; 32]);
        let keys = keys(&key);
        let elements: Vec<u8> = (0..28_800u32).map(|i| ((i * i) >> 7) as u8).collect();
        let database = Xpir::<D>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = Xpir::<D>::queries(&key, &[(&parameters, INDEX)], &mut rng).unwrap().remove(0);
        let answer = Xpir::<D>::answer(&database, &keys, &query).unwrap();
        Self { parameters, key, keys, database, elements, query, answer }
    }

    fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        Xpir::<D>::answer(&self.database, &self.keys, query)
    }

    fn extract(&self, answer: &[u8]) -> Result<Vec<u8>, Error> {
        Xpir::<D>::extract(&self.parameters, &self.key, INDEX, answer)
    }

    fn element(&self) -> &[u8] {
        &self.elements[INDEX * 288..(INDEX + 1) * 288]
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn deployed_clients_and_servers_keep_understanding_each_other() {
    let (two, three) = (Example::<2>::new(), Example::<3>::new());
    assert_eq!((two.parameters.shape(), three.parameters.shape()), ([5, 3], [4, 2, 2]));
    let digests = [&two.query, &two.answer, &three.query, &three.answer].map(|bytes| digest(bytes));
    assert_eq!(digests, ["b9d3183f06d0c055", "a72adb1307ed6309", "862cc88d30e6dc5b", "5f45a9e07101de01"]);
    assert_eq!(two.extract(&two.answer).unwrap(), two.element());
    assert_eq!(three.extract(&three.answer).unwrap(), three.element());
}

fn malformed<const D: usize>() {
    let example = Example::<D>::new();
    let sizes = |bytes: &[u8]| {
        let (longer, twice) = ([bytes, &[0]].concat(), [bytes, bytes].concat());
        let shorter = [0, 1, 3, 4, 35, 36, 37, bytes.len() / 2, bytes.len() - 1];
        shorter.map(|size| bytes[..size].to_vec()).into_iter().chain([longer, twice]).collect::<Vec<_>>()
    };
    for query in sizes(&example.query) {
        assert_eq!(example.answer(&query), Err(Error::Malformed("query")), "{}", query.len());
    }
    for answer in sizes(&example.answer) {
        assert_eq!(example.extract(&answer), Err(Error::Malformed("answer")), "{}", answer.len());
    }
    let public = Xpir::<D>::encode_public_keys(&example.key);
    assert_eq!(public.len(), Xpir::<D>::public_keys_bytes());
    assert!(Xpir::<D>::decode_public_keys(&[&public[..], &[0]].concat()).is_err());
    assert!(Xpir::<D>::decode_public_keys(&public[..3]).is_err());
    let flip = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    for bit in 0..32 {
        assert!(Xpir::<D>::decode_public_keys(&flip(&public, bit)).is_err());
        assert!(example.answer(&flip(&example.query, bit)).is_err());
        assert!(example.extract(&flip(&example.answer, bit)).is_err());
    }
    // A slot that is not below the prime, in the first and in the last selector.
    let q: u64 = 68_719_230_977;
    for start in [36, example.query.len() - 9] {
        for (value, valid) in [(q - 1, true), (q, false), ((1 << 36) - 1, false)] {
            let mut query = example.query.clone();
            let word = u64::from_le_bytes(query[start..start + 8].try_into().unwrap());
            query[start..start + 8].copy_from_slice(&(word >> 36 << 36 | value).to_le_bytes());
            assert_eq!(example.answer(&query).is_ok(), valid, "{value}");
        }
    }
    // One bad query leaves the others of its tile alone.
    let tile = [&example.query[..], &example.query[1..], &example.query].map(|query| (&example.keys, query));
    let answers = Xpir::<D>::answer_tile(&example.database, &tile);
    assert!(answers[1].is_err());
    assert!([&answers[0], &answers[2]].iter().all(|answer| answer.as_ref() == Ok(&example.answer)));
    // Garbage gives garbage of the right size.
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..12 {
        let bit = 32 + rng.next_u32() as usize % (example.query.len() * 8 - 32);
        if let Ok(answer) = example.answer(&flip(&example.query, bit)) {
            assert_eq!(example.extract(&answer).unwrap().len(), 288);
        }
        let bit = 32 + rng.next_u32() as usize % (example.answer.len() * 8 - 32);
        assert_eq!(example.extract(&flip(&example.answer, bit)).unwrap().len(), 288);
    }
}

#[test]
fn malformed_input_is_refused_without_a_panic_in_two_dimensions() {
    malformed::<2>();
}

#[test]
fn malformed_input_is_refused_without_a_panic_in_three_dimensions() {
    malformed::<3>();
}

#[test]
fn an_answer_of_one_number_of_dimensions_is_no_answer_of_the_other() {
    let (two, three) = (Example::<2>::new(), Example::<3>::new());
    assert!(two.answer(&three.query).is_err() && three.answer(&two.query).is_err());
    assert!(two.extract(&three.answer).is_err() && three.extract(&two.answer).is_err());
}

#[test]
fn queries_for_the_same_index_share_nothing() {
    let example = Example::<2>::new();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let items = [(&example.parameters, INDEX), (&example.parameters, INDEX)];
    let queries = Xpir::<2>::queries(&example.key, &items, &mut rng).unwrap();
    let selectors = |query: &[u8]| query[36..].chunks(9216).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_ne!(queries[0][4..36], queries[1][4..36]);
    let (first, second) = (selectors(&queries[0]), selectors(&queries[1]));
    assert!(first.iter().all(|selector| !second.contains(selector)));
    // Two encryptions of 0 under one stream of errors or uniform halves would be equal.
    let distinct = |i: usize| first[i + 1..].iter().all(|other| first[i] != *other);
    assert!((0..first.len()).all(distinct));
}

#[test]
fn another_clients_key_and_another_engines_from_the_same_seed_read_nothing() {
    let example = Example::<2>::new();
    let other = Xpir::<2>::client_key(&[44; 32]);
    let element = Xpir::<2>::extract(&example.parameters, &other, INDEX, &example.answer).unwrap();
    assert_ne!(element, example.element());
    assert_ne!(Xpir::<2>::NAME, SealPir::NAME);
    assert_ne!(Xpir::<2>::NAME, Xpir::<3>::NAME);
}
