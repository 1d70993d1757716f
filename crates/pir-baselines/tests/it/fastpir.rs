//! FastPIR with both presets: QUERY, ANSWER, EXTRACT together, and its formats.

use pir_baselines::FastPir;
use pir_baselines::fastpir::{
    ClientKey, Database, INSECURE_PROFILE, MAXIMUM_QUERY_BYTES, Parameters, PublicKeys,
};
use pir_core::{Error, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

struct Client<const Q: u32> {
    key: ClientKey,
    keys: PublicKeys<Q>,
}

impl<const Q: u32> Client<Q> {
    fn new() -> Self {
        let key = FastPir::<Q>::client_key(&[7; 32]);
        let encoded = FastPir::<Q>::encode_public_keys(&key);
        assert_eq!(encoded.len(), FastPir::<Q>::public_keys_bytes());
        let keys = FastPir::<Q>::decode_public_keys(&encoded).unwrap();
        Self { key, keys }
    }

    /// Fetches elements at both ends and in the middle and compares them.
    fn fetch(&self, n: usize, size: usize) {
        let parameters = parameters::<Q>(n, size);
        let mut elements = vec![0; n * size];
        ChaCha20Rng::seed_from_u64(n as u64).fill_bytes(&mut elements);
        let database = FastPir::<Q>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut indices = vec![0, n / 2, n - 1];
        indices.dedup();
        let items: Vec<_> = indices.iter().map(|index| (&parameters, *index)).collect();
        let queries = FastPir::<Q>::queries(&self.key, &items, &mut rng).unwrap();
        let tile: Vec<_> = queries.iter().map(|query| (&self.keys, &query[..])).collect();
        let answers = FastPir::<Q>::answer_tile(&database, &tile);
        for ((index, query), answer) in indices.iter().zip(&queries).zip(answers) {
            let answer = answer.unwrap();
            assert_eq!(query.len(), FastPir::<Q>::query_bytes(&parameters));
            assert_eq!(answer.len(), FastPir::<Q>::answer_bytes(&parameters));
            if *index == 0 && n > 1 {
                let alone = FastPir::<Q>::answer(&database, &self.keys, query).unwrap();
                assert!(answer == alone, "alone or in a tile");
            }
            let element = FastPir::<Q>::extract(&parameters, &self.key, *index, &answer).unwrap();
            assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
        }
    }
}

fn parameters<const Q: u32>(elements: usize, element_bytes: usize) -> Parameters<Q> {
    Parameters::new_allowing_insecure_parameters(elements, element_bytes).unwrap()
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    let (own, paper) = (Client::<100>::new(), Client::<109>::new());
    for n in [1, 2, 1000, 2047, 2048, 2049, 5000] {
        own.fetch(n, 288);
    }
    for n in [1, 2048, 2049] {
        paper.fetch(n, 288);
    }
}

#[test]
fn elements_far_smaller_and_larger_than_a_plaintext_come_back_whole() {
    let (own, paper) = (Client::<100>::new(), Client::<109>::new());
    for (n, size) in [(9000, 1), (3, 3), (2100, 5)] {
        own.fetch(n, size);
    }
    for (n, size) in [(9000, 1), (2100, 5)] {
        paper.fetch(n, size);
    }
    // Just more than 4096 values of 18 and of 20 bits: two ciphertexts in an answer.
    assert_eq!((parameters::<100>(1, 9217).groups(), parameters::<100>(1, 8192).groups()), (2, 1));
    own.fetch(1, 9217);
    paper.fetch(1, 10_241);
}

#[test]
fn the_papers_primes_need_the_loud_door() {
    let refused = Some(Error::Security { bits: 125 });
    assert_eq!(FastPir::<109>::parameters(1000, 288).err(), refused);
    assert_eq!(FastPir::<109>::security_bits(&parameters(1000, 288)), 125);
    assert_eq!(FastPir::<100>::security_bits(&parameters(1000, 288)), 128);
    // In a round, the door is a profile that says so, and no other one.
    assert_eq!(FastPir::<109>::with_profile(1000, 288, &INSECURE_PROFILE), Ok(parameters(1000, 288)));
    assert_eq!(FastPir::<109>::with_profile(1000, 288, &[0; 16]).err(), refused);
    assert!(FastPir::<109>::with_profile(1000, 288, &[1; 16]).is_err());
    assert!(FastPir::<100>::with_profile(1000, 288, &INSECURE_PROFILE).is_err());
    assert_eq!(FastPir::<100>::with_profile(1000, 288, &[0; 16]), Ok(parameters(1000, 288)));
    assert_eq!([FastPir::<100>::NAME, FastPir::<109>::NAME], ["fastpir", "fastpir-paper"]);
}

/// The numbers of the documents, and that no shape is beyond the bound.
#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    fn check<const Q: u32>(n: usize, size: usize, row: usize) {
        let parameters = parameters::<Q>(n, size);
        assert!(FastPir::<Q>::failure_log2(&parameters) <= -40.0, "{parameters:?}");
        assert_eq!(FastPir::<Q>::query_bytes(&parameters), 36 + row * n.div_ceil(2048));
        assert!(FastPir::<Q>::query_bytes(&parameters) <= MAXIMUM_QUERY_BYTES);
        let values = 2 * parameters.columns() * parameters.groups();
        assert!(values * parameters.value_bits() as usize >= 8 * size, "{parameters:?}");
        assert!(parameters.plaintext_modulus() >= 1 << parameters.value_bits());
        let group = 2 * 4096 * parameters.answer_coefficient_bits() as usize / 8;
        assert_eq!(FastPir::<Q>::answer_bytes(&parameters), 4 + group * parameters.groups());
    }
    for n in (0..=21).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]) {
        let longest = if n <= 1 << 16 { 5000 } else { 500 };
        for size in [1, 288, longest] {
            check::<100>(n, size, 25_600);
            check::<109>(n, size, 36_864);
        }
    }
    let bits = |n| [parameters::<100>(n, 288).value_bits(), parameters::<109>(n, 288).value_bits()];
    assert_eq!([1 << 10, 1 << 14, 1 << 18, 1 << 20].map(bits), [[18, 20], [17, 20], [16, 20], [16, 20]]);
}

#[test]
fn databases_without_a_shape_are_refused() {
    for (n, size) in [(0, 288), (1, 0), (usize::MAX, 1), (usize::MAX, 2), (1 << 23, 1), (1 << 44, 1)] {
        assert!(matches!(FastPir::<100>::parameters(n, size), Err(Error::Shape(_))), "{n} of {size}");
    }
    let parameters = parameters::<100>(10, 288);
    assert!(matches!(FastPir::<100>::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let key = FastPir::<100>::client_key(&[7; 32]);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(FastPir::<100>::queries(&key, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; FastPir::<100>::answer_bytes(&parameters)];
    assert_eq!(FastPir::<100>::extract(&parameters, &key, 10, &answer), Err(Error::Index));
}

const INDEX: usize = 2057;

struct Example<const Q: u32> {
    client: Client<Q>,
    parameters: Parameters<Q>,
    database: Database<Q>,
    elements: Vec<u8>,
    encoded_keys: Vec<u8>,
    query: Vec<u8>,
    answer: Vec<u8>,
}

impl<const Q: u32> Example<Q> {
    fn new() -> Self {
        let (client, parameters) = (Client::<Q>::new(), parameters::<Q>(2100, 40));
        let elements: Vec<u8> = (0..84_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let database = FastPir::<Q>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = FastPir::<Q>::queries(&client.key, &[(&parameters, INDEX)], &mut rng).unwrap().remove(0);
        let answer = FastPir::<Q>::answer(&database, &client.keys, &query).unwrap();
        let encoded_keys = FastPir::<Q>::encode_public_keys(&client.key);
        Self { client, parameters, database, elements, encoded_keys, query, answer }
    }

    fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        FastPir::<Q>::answer(&self.database, &self.client.keys, query)
    }

    fn extract(&self, answer: &[u8]) -> Result<Vec<u8>, Error> {
        FastPir::<Q>::extract(&self.parameters, &self.client.key, INDEX, answer)
    }

    fn element(&self) -> &[u8] {
        &self.elements[INDEX * 40..(INDEX + 1) * 40]
    }
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn deployed_clients_and_servers_keep_understanding_each_other() {
    fn digests<const Q: u32>() -> [String; 3] {
        let example = Example::<Q>::new();
        assert_eq!(example.extract(&example.answer).unwrap(), example.element());
        [&example.encoded_keys, &example.query, &example.answer]
            .map(|bytes| Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }
    assert_eq!(digests::<100>(), ["58cd04928bacf434", "801b5e4f8b361a26", "53b885977ccdf55f"]);
    assert_eq!(digests::<109>(), ["4f259de8533609cd", "891705bdfb1269d6", "ee790ec025877ad2"]);
}

#[test]
fn every_kernel_gives_the_same_bytes() {
    crate::passes_with_other_kernels("fastpir::deployed_clients_and_servers_keep_understanding_each_other");
}

fn malformed<const Q: u32>() {
    let example = Example::<Q>::new();
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
        let refused = FastPir::<Q>::decode_public_keys(&keys).err();
        assert_eq!(refused, Some(Error::Malformed("public keys")), "{}", keys.len());
    }
    let flip = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    for bit in 0..32 {
        assert!(FastPir::<Q>::decode_public_keys(&flip(&example.encoded_keys, bit)).is_err());
        assert!(example.answer(&flip(&example.query, bit)).is_err());
        assert!(example.extract(&flip(&example.answer, bit)).is_err());
    }
    // Residues that are not below their prime, the first one and the last one.
    for start in [36, example.query.len() - 9] {
        let mut query = example.query.clone();
        query[start..start + 9].fill(0xFF);
        assert_eq!(example.answer(&query), Err(Error::Malformed("query")));
        let mut keys = example.encoded_keys.clone();
        let start = if start == 36 { 36 } else { keys.len() - 10 };
        keys[start..start + 10].fill(0xFF);
        assert!(FastPir::<Q>::decode_public_keys(&keys).is_err());
    }
    // One bad query leaves the others of its tile alone.
    let tile =
        [&example.query[..], &example.query[1..], &example.query].map(|query| (&example.client.keys, query));
    let answers = FastPir::<Q>::answer_tile(&example.database, &tile);
    assert!(answers[1].is_err());
    assert!([&answers[0], &answers[2]].iter().all(|answer| answer.as_ref() == Ok(&example.answer)));
    // Garbage gives garbage of the right size.
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..6 {
        let bit = 32 + rng.next_u32() as usize % (example.query.len() * 8 - 32);
        if let Ok(answer) = example.answer(&flip(&example.query, bit)) {
            assert_eq!(example.extract(&answer).unwrap().len(), 40);
        }
        let bit = 32 + rng.next_u32() as usize % (example.answer.len() * 8 - 32);
        assert_eq!(example.extract(&flip(&example.answer, bit)).unwrap().len(), 40);
    }
    let other = FastPir::<Q>::client_key(&[44; 32]);
    let element = FastPir::<Q>::extract(&example.parameters, &other, INDEX, &example.answer).unwrap();
    assert_ne!(element, example.element());
}

#[test]
fn malformed_input_is_refused_without_a_panic() {
    malformed::<100>();
}

#[test]
fn malformed_input_is_refused_without_a_panic_with_the_papers_primes() {
    malformed::<109>();
}

#[test]
fn queries_for_the_same_index_share_nothing() {
    let example = Example::<100>::new();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let items = [(&example.parameters, INDEX), (&example.parameters, INDEX)];
    let queries = FastPir::<100>::queries(&example.client.key, &items, &mut rng).unwrap();
    let ciphertexts = |query: &[u8]| query[36..].chunks(25_600).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_ne!(queries[0][4..36], queries[1][4..36]);
    let (first, second) = (ciphertexts(&queries[0]), ciphertexts(&queries[1]));
    assert!(first.iter().all(|ciphertext| !second.contains(ciphertext)));
    // Two encryptions of 0 under one stream of errors and uniform halves would be equal.
    assert_ne!(first[0], first[1]);
}
