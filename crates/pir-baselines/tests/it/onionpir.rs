//! OnionPIR: QUERY, ANSWER, EXTRACT together, and its formats.

use pir_baselines::OnionPir;
use pir_baselines::onionpir::{ClientKey, Database, MAXIMUM_QUERY_BYTES, Parameters, PublicKeys};
use pir_core::{Error, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

struct Client {
    key: ClientKey,
    keys: PublicKeys,
}

impl Client {
    fn new() -> Self {
        let key = OnionPir::client_key(&[7; 32]);
        let encoded = OnionPir::encode_public_keys(&key);
        assert_eq!(encoded.len(), OnionPir::public_keys_bytes());
        let keys = OnionPir::decode_public_keys(&encoded).unwrap();
        Self { key, keys }
    }

    /// Fetches elements at both ends and in the middle, and two of every column, and compares them.
    fn fetch(&self, parameters: &Parameters) {
        let (n, size) = (parameters.elements(), parameters.element_bytes());
        let mut elements = vec![0; n * size];
        ChaCha20Rng::seed_from_u64(n as u64).fill_bytes(&mut elements);
        let database = OnionPir::setup(parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut indices = vec![0, n / 2, n - 1];
        let columns = parameters.columns().min(8);
        indices.extend((0..columns).map(|column| column * (n - 1) / columns));
        indices.sort_unstable();
        indices.dedup();
        let items: Vec<_> = indices.iter().map(|index| (parameters, *index)).collect();
        let queries = OnionPir::queries(&self.key, &items, &mut rng).unwrap();
        let tile: Vec<_> = queries.iter().map(|query| (&self.keys, &query[..])).collect();
        let answers = OnionPir::answer_tile(&database, &tile);
        for ((index, query), answer) in indices.iter().zip(&queries).zip(answers) {
            let answer = answer.unwrap();
            assert_eq!(query.len(), OnionPir::query_bytes(parameters));
            assert_eq!(answer.len(), OnionPir::answer_bytes(parameters));
            if *index == 0 {
                let alone = OnionPir::answer(&database, &self.keys, query).unwrap();
                assert!(answer == alone, "alone or in a tile");
            }
            let element = OnionPir::extract(parameters, &self.key, *index, &answer).unwrap();
            assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
        }
    }
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    let client = Client::new();
    for n in [1, 2, 8, 9, 17, 200, 1023] {
        client.fetch(&OnionPir::parameters(n, 288).unwrap());
    }
}

/// Where a range of columns has no upper half, a choice is left out.
#[test]
fn numbers_of_columns_that_are_no_powers_of_two_lose_no_column() {
    let client = Client::new();
    for columns in 1..=9 {
        client.fetch(&Parameters::with_columns(8 * 2 * columns, 288, columns).unwrap());
    }
}

#[test]
fn elements_far_smaller_and_larger_than_a_plaintext_come_back_whole() {
    let client = Client::new();
    for (n, size) in [(50_000, 1), (3, 2304), (3, 2305), (9, 4000)] {
        client.fetch(&OnionPir::parameters(n, size).unwrap());
    }
}

/// The numbers of the documents, that no shape is beyond the bound, and that an answer is one ciphertext.
#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    for n in (0..=20).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]) {
        for size in [1, 288, if n < 1 << 19 { 5000 } else { 500 }] {
            let parameters = OnionPir::parameters(n, size).unwrap();
            assert!(OnionPir::failure_log2(&parameters) <= -40.0, "{parameters:?}");
            assert!(OnionPir::query_bytes(&parameters) <= MAXIMUM_QUERY_BYTES);
            let group = 4096 * parameters.answer_coefficient_bits() as usize / 8;
            assert_eq!(OnionPir::answer_bytes(&parameters), 4 + group * size.div_ceil(2304));
            assert!(parameters.columns() <= 1 << parameters.column_bits());
            assert_eq!(OnionPir::security_bits(&parameters), 137);
        }
    }
}

#[test]
fn databases_without_a_shape_are_refused() {
    for (n, size) in [(0, 288), (1, 0), (usize::MAX, 1), (usize::MAX, 2), (1 << 30, 288), (1 << 44, 1)] {
        assert!(matches!(OnionPir::parameters(n, size), Err(Error::Shape(_))), "{n} of {size}");
    }
    for columns in [0, 4, 6, usize::MAX] {
        assert!(matches!(Parameters::with_columns(40, 288, columns), Err(Error::Shape(_))), "{columns}");
    }
    let parameters = OnionPir::parameters(10, 288).unwrap();
    assert!(matches!(OnionPir::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let key = OnionPir::client_key(&[7; 32]);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(OnionPir::queries(&key, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; OnionPir::answer_bytes(&parameters)];
    assert_eq!(OnionPir::extract(&parameters, &key, 10, &answer), Err(Error::Index));
}

const INDEX: usize = 77;

struct Example {
    client: Client,
    parameters: Parameters,
    database: Database,
    elements: Vec<u8>,
    encoded_keys: Vec<u8>,
    query: Vec<u8>,
    answer: Vec<u8>,
}

impl Example {
    fn new() -> Self {
        let (client, parameters) = (Client::new(), Parameters::with_columns(90, 288, 4).unwrap());
        let elements: Vec<u8> = (0..25_920u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let database = OnionPir::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = OnionPir::queries(&client.key, &[(&parameters, INDEX)], &mut rng).unwrap().remove(0);
        let answer = OnionPir::answer(&database, &client.keys, &query).unwrap();
        let encoded_keys = OnionPir::encode_public_keys(&client.key);
        Self { client, parameters, database, elements, encoded_keys, query, answer }
    }

    fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        OnionPir::answer(&self.database, &self.client.keys, query)
    }

    fn extract(&self, answer: &[u8]) -> Result<Vec<u8>, Error> {
        OnionPir::extract(&self.parameters, &self.client.key, INDEX, answer)
    }

    fn element(&self) -> &[u8] {
        &self.elements[INDEX * 288..(INDEX + 1) * 288]
    }
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn deployed_clients_and_servers_keep_understanding_each_other() {
    let example = Example::new();
    assert_eq!(example.extract(&example.answer).unwrap(), example.element());
    let digests = [&example.encoded_keys, &example.query, &example.answer].map(|bytes| -> String {
        Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    });
    assert_eq!(digests, ["06d1c79addd93680", "3cc444b0130c3c6f", "5e6d8693c84a6579"]);
}

#[test]
fn every_kernel_gives_the_same_bytes() {
    crate::passes_with_other_kernels("onionpir::deployed_clients_and_servers_keep_understanding_each_other");
}

#[test]
fn malformed_input_is_refused_without_a_panic() {
    let example = Example::new();
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
    for keys in sizes(&example.encoded_keys) {
        let refused = OnionPir::decode_public_keys(&keys).err();
        assert_eq!(refused, Some(Error::Malformed("public keys")), "{}", keys.len());
    }
    let flip = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    for bit in 0..32 {
        assert!(OnionPir::decode_public_keys(&flip(&example.encoded_keys, bit)).is_err());
        assert!(example.answer(&flip(&example.query, bit)).is_err());
        assert!(example.extract(&flip(&example.answer, bit)).is_err());
    }
    // Residues that are not below Q, in either kind of keys.
    for start in [36, example.encoded_keys.len() - 8] {
        let mut keys = example.encoded_keys.clone();
        keys[start..start + 8].fill(0xFF);
        assert!(OnionPir::decode_public_keys(&keys).is_err());
    }
    // One bad query leaves the others of its tile alone.
    let tile =
        [&example.query[..], &example.query[1..], &example.query].map(|query| (&example.client.keys, query));
    let answers = OnionPir::answer_tile(&example.database, &tile);
    assert!(answers[1].is_err());
    assert!([&answers[0], &answers[2]].iter().all(|answer| answer.as_ref() == Ok(&example.answer)));
    // Garbage gives garbage of the right size.
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..6 {
        let bit = 32 + rng.next_u32() as usize % (example.query.len() * 8 - 32);
        if let Ok(answer) = example.answer(&flip(&example.query, bit)) {
            assert_eq!(example.extract(&answer).unwrap().len(), 288);
        }
        let bit = 32 + rng.next_u32() as usize % (example.answer.len() * 8 - 32);
        assert_eq!(example.extract(&flip(&example.answer, bit)).unwrap().len(), 288);
    }
    let other = OnionPir::client_key(&[44; 32]);
    let element = OnionPir::extract(&example.parameters, &other, INDEX, &example.answer).unwrap();
    assert_ne!(element, example.element());
}

#[test]
fn queries_for_the_same_index_share_nothing() {
    let example = Example::new();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let items = [(&example.parameters, INDEX), (&example.parameters, INDEX)];
    let queries = OnionPir::queries(&example.client.key, &items, &mut rng).unwrap();
    // Both ciphertexts of a query begin with a seed.
    let second = queries[0].len() - (32 + 6 * 34 * 256 / 8);
    let seeds = |query: &[u8]| [query[4..36].to_vec(), query[second..second + 32].to_vec()];
    let all = [seeds(&queries[0]), seeds(&queries[1])].concat();
    for (i, seed) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other != seed));
    }
    assert_ne!(queries[0][36..second], queries[1][36..second]);
    assert_ne!(queries[0][second + 32..], queries[1][second + 32..]);
}
