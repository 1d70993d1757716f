//! The paper's SealPIR: QUERY, ANSWER, EXTRACT together, its sizes and its formats.

use pir_baselines::PaperSealPir;
use pir_baselines::paper::{ClientKey, Database, INSECURE_PROFILE, Parameters, PublicKeys};
use pir_core::{Error, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

struct Client<const T: u32> {
    key: ClientKey,
    encoded_keys: Vec<u8>,
    keys: PublicKeys<T>,
}

impl<const T: u32> Client<T> {
    fn new() -> Self {
        let key = PaperSealPir::<T>::client_key(&[7; 32]);
        let encoded_keys = PaperSealPir::<T>::encode_public_keys(&key);
        let keys = PaperSealPir::<T>::decode_public_keys(&encoded_keys).unwrap();
        Self { key, encoded_keys, keys }
    }

    /// Fetches the elements at `indices` and compares them.
    fn fetch(&self, parameters: &Parameters<T>, indices: &[usize]) {
        let (n, size) = (parameters.elements(), parameters.element_bytes());
        let mut elements = vec![0; n * size];
        ChaCha20Rng::seed_from_u64(n as u64).fill_bytes(&mut elements);
        let database = PaperSealPir::<T>::setup(parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for index in indices.iter().copied() {
            let items = [(parameters, index)];
            let query = PaperSealPir::<T>::queries(&self.key, &items, &mut rng).unwrap().remove(0);
            assert_eq!(query.len(), PaperSealPir::<T>::query_bytes(parameters));
            let answer = PaperSealPir::<T>::answer(&database, &self.keys, &query).unwrap();
            assert_eq!(answer.len(), PaperSealPir::<T>::answer_bytes(parameters));
            let element = PaperSealPir::<T>::extract(parameters, &self.key, index, &answer).unwrap();
            assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
        }
    }
}

fn parameters<const T: u32>(elements: usize, dimensions: usize) -> Parameters<T> {
    Parameters::new_allowing_insecure_parameters(elements, 288, dimensions).unwrap()
}

#[test]
fn an_insecure_lattice_needs_the_loud_door() {
    let refused = Some(Error::Security { bits: 113 });
    assert_eq!(PaperSealPir::<20>::parameters(1000, 288).err(), refused);
    assert_eq!(PaperSealPir::<23>::parameters(1000, 288).err(), refused);
    assert_eq!(PaperSealPir::<23>::security_bits(&parameters(1000, 2)), 113);
    // In a round, the door is a profile that says so, and no other one.
    let by_profile = |profile: [u8; 16]| PaperSealPir::<23>::with_profile(1000, 288, &profile);
    assert_eq!(by_profile(INSECURE_PROFILE), Ok(parameters(1000, 2)));
    for other in [[0; 16], *b"INSECURE, d = 1\0"] {
        assert_eq!(by_profile(other).err(), refused);
    }
    assert_eq!(
        [PaperSealPir::<20>::NAME, PaperSealPir::<23>::NAME],
        ["sealpir-paper-t20", "sealpir-paper-t23"]
    );
}

#[test]
fn a_thousand_elements_come_back_right() {
    for dimensions in [1, 2] {
        Client::<20>::new().fetch(&parameters(1000, dimensions), &[0, 499, 999]);
        Client::<23>::new().fetch(&parameters(1000, dimensions), &[0, 499, 999]);
    }
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    let client = Client::<20>::new();
    for n in [1, 2, 13, 14, 15, 57] {
        for dimensions in [1, 2] {
            client.fetch(&parameters(n, dimensions), &[0, n / 2, n - 1]);
        }
    }
}

#[test]
fn the_papers_smallest_database_comes_back_right() {
    Client::<23>::new().fetch(&parameters(1 << 16, 2), &[0, 12_345, (1 << 16) - 1]);
}

#[test]
#[ignore = "takes 2 GB of memory; the shape alone is tested next to the code"]
fn the_papers_largest_database_comes_back_right() {
    Client::<20>::new().fetch(&parameters(1 << 20, 2), &[0, (1 << 20) - 1]);
    Client::<23>::new().fetch(&parameters(1 << 20, 2), &[0, (1 << 20) - 1]);
}

/// Equation (1) worked out by hand.
#[test]
fn shapes_are_those_of_the_paper() {
    for (log2, bits, alpha, rows, columns, factor) in
        [(16, 16, 14, 69, 68, 8), (18, 15, 13, 143, 142, 8), (20, 14, 12, 296, 296, 10)]
    {
        let parameters = parameters::<23>(1 << log2, 2);
        assert_eq!(parameters.plaintext_bits(), bits, "2^{log2}");
        assert_eq!(parameters.elements_per_plaintext(), alpha);
        assert_eq!((parameters.rows(), parameters.columns()), (rows, columns), "2^{log2}");
        assert_eq!(parameters.expansion_factor(), factor);
        assert_eq!(PaperSealPir::<23>::query_bytes(&parameters), 4 + 2 * 30_720);
        assert_eq!(PaperSealPir::<23>::answer_bytes(&parameters), 4 + factor * 30_720);
    }
    let shape = |log2: u32| {
        let parameters = parameters::<20>(1 << log2, 2);
        (parameters.plaintext_bits(), parameters.rows(), parameters.expansion_factor())
    };
    assert_eq!([shape(16), shape(20)], [(13, 78, 10), (11, 342, 12)]);
    // As many bytes as the paper's keys, in 60 bits instead of 64.
    assert_eq!(PaperSealPir::<20>::public_keys_bytes(), 4 + 11 * 8 * 2 * 15_360);
    assert_eq!(PaperSealPir::<23>::public_keys_bytes(), 4 + 11 * 10 * 2 * 15_360);
}

/// log t' where Equation (1) alone would leave too much noise.
#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    fn check<const T: u32>(n: usize, dimensions: usize) {
        let parameters = parameters::<T>(n, dimensions);
        assert!(PaperSealPir::<T>::failure_log2(&parameters) <= -40.0, "{parameters:?}");
        assert!(parameters.rows() * parameters.columns() >= parameters.plaintexts());
        assert!(parameters.plaintext_bits() + parameters.levels()[0] <= T, "{parameters:?}");
        assert!(parameters.rows() <= 2048);
    }
    for n in (0..=22).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]) {
        check::<20>(n, 2);
        check::<23>(n, 2);
    }
    for n in 0..=13 {
        check::<20>(1 << n, 1);
        check::<23>(1 << n, 1);
    }
}

#[test]
fn databases_without_a_shape_are_refused() {
    let new = Parameters::<20>::new_allowing_insecure_parameters;
    for (n, size, dimensions) in [
        (0, 288, 2),
        (1, 0, 2),
        (usize::MAX, 2, 2),
        (1 << 35, 288, 2),
        (1 << 20, 288, 1),
        (1, 288, 3),
        (1, 6000, 2),
    ] {
        assert!(matches!(new(n, size, dimensions), Err(Error::Shape(_))), "{n} of {size}, d = {dimensions}");
    }
    let parameters = parameters::<20>(10, 2);
    assert!(matches!(PaperSealPir::<20>::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let key = PaperSealPir::<20>::client_key(&[7; 32]);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(PaperSealPir::<20>::queries(&key, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; PaperSealPir::<20>::answer_bytes(&parameters)];
    assert_eq!(PaperSealPir::<20>::extract(&parameters, &key, 10, &answer), Err(Error::Index));
}

const INDEX: usize = 57;

fn example() -> (Client<20>, Parameters<20>, Database<20>, Vec<u8>, Vec<u8>, Vec<u8>) {
    let (client, parameters) = (Client::<20>::new(), parameters::<20>(100, 2));
    let elements: Vec<u8> = (0..28_800u32).map(|i| ((i * i) >> 7) as u8).collect();
    let database = PaperSealPir::<20>::setup(&parameters, &elements).unwrap();
    let mut rng = ChaCha20Rng::from_seed([43; 32]);
    let items = [(&parameters, INDEX)];
    let query = PaperSealPir::<20>::queries(&client.key, &items, &mut rng).unwrap().remove(0);
    let answer = PaperSealPir::<20>::answer(&database, &client.keys, &query).unwrap();
    (client, parameters, database, elements, query, answer)
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn formats_stay_what_they_are() {
    let (client, _, _, _, query, answer) = example();
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let digests = [&client.encoded_keys, &query, &answer].map(|bytes| digest(bytes));
    assert_eq!(digests, ["5a88b4ec6f9bf9e3", "865ac3522005e5fb", "c57dec59ac272fa2"]);
}

#[test]
fn malformed_input_is_refused_without_a_panic() {
    type Engine = PaperSealPir<20>;
    let (client, parameters, database, elements, query, answer) = example();
    let respond = |query: &[u8]| Engine::answer(&database, &client.keys, query);
    let extract = |answer: &[u8]| Engine::extract(&parameters, &client.key, INDEX, answer);
    let right = &elements[INDEX * 288..(INDEX + 1) * 288];
    assert_eq!(extract(&answer).unwrap(), right);
    let sizes = |bytes: &[u8]| {
        let (longer, twice) = ([bytes, &[0]].concat(), [bytes, bytes].concat());
        let shorter = [0, 1, 3, 4, 5, bytes.len() / 2, bytes.len() - 1];
        shorter.map(|size| bytes[..size].to_vec()).into_iter().chain([longer, twice]).collect::<Vec<_>>()
    };
    for query in sizes(&query) {
        assert_eq!(respond(&query), Err(Error::Malformed("query")), "{}", query.len());
    }
    for answer in sizes(&answer) {
        assert_eq!(extract(&answer), Err(Error::Malformed("answer")), "{}", answer.len());
    }
    for keys in sizes(&client.encoded_keys) {
        assert!(Engine::decode_public_keys(&keys).is_err(), "{}", keys.len());
    }
    let flip = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    for bit in 0..32 {
        assert!(Engine::decode_public_keys(&flip(&client.encoded_keys, bit)).is_err());
        assert!(respond(&flip(&query, bit)).is_err());
        assert!(extract(&flip(&answer, bit)).is_err());
    }
    // Residues that are not below the prime: q has all of its highest 42 bits set.
    for start in [4, query.len() - 8] {
        let mut bad = query.clone();
        bad[start..start + 8].fill(0xFF);
        assert_eq!(respond(&bad), Err(Error::Malformed("query")));
        let mut bad = answer.clone();
        let start = if start == 4 { 4 } else { answer.len() - 8 };
        bad[start..start + 8].fill(0xFF);
        assert_eq!(extract(&bad), Err(Error::Malformed("answer")));
        let mut bad = client.encoded_keys.clone();
        let start = if start == 4 { 4 } else { bad.len() - 8 };
        bad[start..start + 8].fill(0xFF);
        assert!(Engine::decode_public_keys(&bad).is_err());
    }
    // Garbage gives garbage of the right size.
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..6 {
        let bit = 32 + rng.next_u32() as usize % (query.len() * 8 - 32);
        if let Ok(answer) = respond(&flip(&query, bit)) {
            assert_eq!(extract(&answer).unwrap().len(), 288);
        }
        let bit = 32 + rng.next_u32() as usize % (answer.len() * 8 - 32);
        if let Ok(element) = extract(&flip(&answer, bit)) {
            assert_eq!(element.len(), 288);
        }
    }
    let mut zeros = answer.clone();
    zeros[4..].fill(0);
    assert_ne!(extract(&zeros).unwrap(), right);
    let other = Engine::client_key(&[44; 32]);
    assert_ne!(Engine::extract(&parameters, &other, INDEX, &answer).unwrap(), right);
}
