//! The Spiral family with all its presets: QUERY, ANSWER, EXTRACT together, and its formats.

use pir_baselines::Spiral;
use pir_baselines::spiral::{
    AS_PUBLISHED, ClientKey, Database, INSECURE_PROFILE, MAXIMUM_QUERY_BYTES, ONIONPIR_AS_PUBLISHED,
    Parameters, PublicKeys, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM, SPIRAL_STREAM_PACK,
};
use pir_core::{Error, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

const PAPER: usize = SPIRAL + AS_PUBLISHED;
const PAPER_PACK: usize = SPIRAL_PACK + AS_PUBLISHED;
const PAPER_STREAM: usize = SPIRAL_STREAM + AS_PUBLISHED;
const PAPER_STREAM_PACK: usize = SPIRAL_STREAM_PACK + AS_PUBLISHED;

struct Client<const P: usize> {
    key: ClientKey,
    keys: PublicKeys,
}

impl<const P: usize> Client<P> {
    fn new() -> Self {
        let key = Spiral::<P>::client_key(&[7; 32]);
        let encoded = Spiral::<P>::encode_public_keys(&key);
        assert_eq!(encoded.len(), Spiral::<P>::public_keys_bytes());
        let keys = Spiral::<P>::decode_public_keys(&encoded).unwrap();
        Self { key, keys }
    }

    /// Fetches elements at both ends and in the middle and compares them.
    fn fetch(&self, n: usize, size: usize) -> Parameters {
        let parameters = parameters::<P>(n, size);
        let mut elements = vec![0; n * size];
        ChaCha20Rng::seed_from_u64(n as u64).fill_bytes(&mut elements);
        let database = Spiral::<P>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut indices = vec![0, n / 2, n - 1];
        indices.dedup();
        let items: Vec<_> = indices.iter().map(|index| (&parameters, *index)).collect();
        let queries = Spiral::<P>::queries(&self.key, &items, &mut rng).unwrap();
        let tile: Vec<_> = queries.iter().map(|query| (&self.keys, &query[..])).collect();
        let answers = Spiral::<P>::answer_tile(&database, &tile);
        for ((index, query), answer) in indices.iter().zip(&queries).zip(answers) {
            let answer = answer.unwrap();
            assert_eq!(query.len(), Spiral::<P>::query_bytes(&parameters));
            assert_eq!(answer.len(), Spiral::<P>::answer_bytes(&parameters));
            if *index == 0 {
                let alone = Spiral::<P>::answer(&database, &self.keys, query).unwrap();
                assert!(answer == alone, "alone or in a tile");
            }
            let element = Spiral::<P>::extract(&parameters, &self.key, *index, &answer).unwrap();
            assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
        }
        parameters
    }
}

fn parameters<const P: usize>(elements: usize, element_bytes: usize) -> Parameters {
    Parameters::new_allowing_insecure_parameters(P, elements, element_bytes).unwrap()
}

/// One element, one that is longer than a plaintext, and numbers that leave a last column or a last plaintext partly empty.
fn edges<const P: usize>(longest: usize) {
    let client = Client::<P>::new();
    client.fetch(1, 3);
    client.fetch(700, 5);
    client.fetch(1001, 288);
    let parameters = client.fetch(3, longest);
    assert!(parameters.groups() > 1, "{parameters:?}");
}

#[test]
fn no_element_is_lost_at_the_edges_with_spiral() {
    edges::<SPIRAL>(30_000);
}

#[test]
fn no_element_is_lost_at_the_edges_with_packing() {
    edges::<SPIRAL_PACK>(50_000);
}

#[test]
fn no_element_is_lost_at_the_edges_with_streams() {
    edges::<SPIRAL_STREAM>(30_000);
}

#[test]
fn no_element_is_lost_at_the_edges_with_packed_streams() {
    edges::<SPIRAL_STREAM_PACK>(90_000);
}

#[test]
fn no_element_is_lost_with_the_papers_modulus() {
    Client::<PAPER>::new().fetch(1001, 288);
    Client::<PAPER_PACK>::new().fetch(1001, 288);
    Client::<PAPER_STREAM>::new().fetch(1001, 288);
    Client::<PAPER_STREAM_PACK>::new().fetch(1001, 288);
    edges::<ONIONPIR_AS_PUBLISHED>(30_000);
}

#[test]
fn the_papers_modulus_needs_the_loud_door() {
    let refused = Some(Error::Security { bits: 113 });
    assert_eq!(Spiral::<PAPER>::parameters(1000, 288).err(), refused);
    assert_eq!(Spiral::<PAPER>::security_bits(&parameters::<PAPER>(1000, 288)), 113);
    assert_eq!(Spiral::<SPIRAL>::security_bits(&parameters::<SPIRAL>(1000, 288)), 137);
    // In a round, the door is a profile that says so, and no other one.
    let insecure = Ok(parameters::<PAPER>(1000, 288));
    assert_eq!(Spiral::<PAPER>::with_profile(1000, 288, &INSECURE_PROFILE), insecure);
    assert_eq!(Spiral::<PAPER>::with_profile(1000, 288, &[0; 16]).err(), refused);
    assert!(Spiral::<PAPER>::with_profile(1000, 288, &[1; 16]).is_err());
    assert!(Spiral::<SPIRAL>::with_profile(1000, 288, &INSECURE_PROFILE).is_err());
    assert_eq!(Spiral::<ONIONPIR_AS_PUBLISHED>::parameters(1000, 288).err(), refused);
    let own = Ok(parameters::<SPIRAL>(1000, 288));
    assert_eq!(Spiral::<SPIRAL>::with_profile(1000, 288, &[0; 16]), own);
}

/// From 2^12 to 2^20 elements of 256 bytes to 100 KB.
#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    fn check<const P: usize>() {
        for n in [1, 1 << 12, (1 << 12) + 1, 1 << 16, 1 << 18, 1 << 20] {
            for size in [1, 256, 288, 30_000, 100_000] {
                let parameters = parameters::<P>(n, size);
                assert!(Spiral::<P>::failure_log2(&parameters) <= -40.0, "{parameters:?}");
                assert!(Spiral::<P>::query_bytes(&parameters) <= MAXIMUM_QUERY_BYTES);
                assert!(
                    parameters.rows() * parameters.columns() >= parameters.plaintexts(),
                    "{parameters:?}"
                );
                let bytes = parameters.plaintext_bytes();
                assert!(
                    bytes * parameters.groups() >= size
                        && parameters.elements_per_plaintext() * size <= bytes.max(size)
                );
            }
        }
    }
    check::<SPIRAL>();
    check::<SPIRAL_PACK>();
    check::<SPIRAL_STREAM>();
    check::<SPIRAL_STREAM_PACK>();
    check::<PAPER>();
    check::<PAPER_PACK>();
    check::<PAPER_STREAM>();
    check::<PAPER_STREAM_PACK>();
    check::<ONIONPIR_AS_PUBLISHED>();
}

#[test]
fn databases_without_a_shape_are_refused() {
    for (n, size) in [(0, 288), (1, 0), (usize::MAX, 1), (usize::MAX, 2), (1 << 35, 31)] {
        assert!(matches!(Spiral::<SPIRAL>::parameters(n, size), Err(Error::Shape(_))), "{n} of {size}");
    }
    let parameters = parameters::<SPIRAL>(10, 288);
    assert!(matches!(Spiral::<SPIRAL>::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let key = Spiral::<SPIRAL>::client_key(&[7; 32]);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(Spiral::<SPIRAL>::queries(&key, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; Spiral::<SPIRAL>::answer_bytes(&parameters)];
    assert_eq!(Spiral::<SPIRAL>::extract(&parameters, &key, 10, &answer), Err(Error::Index));
    let other = Spiral::<SPIRAL_PACK>::client_key(&[7; 32]);
    assert!(Spiral::<SPIRAL>::extract(&parameters, &other, 1, &answer).is_err());
    assert!(Spiral::<SPIRAL>::queries(&other, &[(&parameters, 1)], &mut rng).is_err());
}

const INDEX: usize = 1057;

struct Example<const P: usize> {
    client: Client<P>,
    parameters: Parameters,
    database: Database,
    elements: Vec<u8>,
    encoded_keys: Vec<u8>,
    query: Vec<u8>,
    answer: Vec<u8>,
}

impl<const P: usize> Example<P> {
    fn new() -> Self {
        let (client, parameters) = (Client::<P>::new(), parameters::<P>(1100, 288));
        let elements: Vec<u8> = (0..316_800u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let database = Spiral::<P>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = Spiral::<P>::queries(&client.key, &[(&parameters, INDEX)], &mut rng).unwrap().remove(0);
        let answer = Spiral::<P>::answer(&database, &client.keys, &query).unwrap();
        let encoded_keys = Spiral::<P>::encode_public_keys(&client.key);
        Self { client, parameters, database, elements, encoded_keys, query, answer }
    }

    fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        Spiral::<P>::answer(&self.database, &self.client.keys, query)
    }

    fn extract(&self, answer: &[u8]) -> Result<Vec<u8>, Error> {
        Spiral::<P>::extract(&self.parameters, &self.client.key, INDEX, answer)
    }

    fn element(&self) -> &[u8] {
        &self.elements[INDEX * 288..(INDEX + 1) * 288]
    }
}

fn digests<const P: usize>() -> [String; 3] {
    let example = Example::<P>::new();
    assert_eq!(example.extract(&example.answer).unwrap(), example.element());
    [&example.encoded_keys, &example.query, &example.answer]
        .map(|bytes| Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn deployed_clients_and_servers_keep_understanding_each_other() {
    let all = [
        digests::<SPIRAL>(),
        digests::<SPIRAL_PACK>(),
        digests::<SPIRAL_STREAM>(),
        digests::<SPIRAL_STREAM_PACK>(),
        digests::<PAPER>(),
        digests::<PAPER_PACK>(),
        digests::<PAPER_STREAM>(),
        digests::<PAPER_STREAM_PACK>(),
        digests::<ONIONPIR_AS_PUBLISHED>(),
    ];
    let golden = include_str!("../vectors/spiral.txt").split_whitespace().collect::<Vec<_>>();
    assert_eq!(all.as_flattened(), golden);
}

#[test]
fn every_kernel_gives_the_same_bytes() {
    crate::passes_with_other_kernels("spiral::deployed_clients_and_servers_keep_understanding_each_other");
}

fn malformed<const P: usize>() {
    let example = Example::<P>::new();
    let sizes = |bytes: &[u8]| {
        let (longer, twice) = ([bytes, &[0]].concat(), [bytes, bytes].concat());
        let shorter = [0, 1, 3, 4, 35, 36, 37, bytes.len() / 2, bytes.len() - 1];
        let shorter = shorter.into_iter().filter(|size| *size < bytes.len());
        shorter.map(|size| bytes[..size].to_vec()).chain([longer, twice]).collect::<Vec<_>>()
    };
    for query in sizes(&example.query) {
        assert_eq!(example.answer(&query).err(), Some(Error::Malformed("query")), "{}", query.len());
    }
    for answer in sizes(&example.answer) {
        assert_eq!(example.extract(&answer).err(), Some(Error::Malformed("answer")), "{}", answer.len());
    }
    for keys in sizes(&example.encoded_keys) {
        let refused = Spiral::<P>::decode_public_keys(&keys).err();
        assert_eq!(refused, Some(Error::Malformed("public keys")), "{}", keys.len());
    }
    let flip = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    for bit in 0..32 {
        assert!(Spiral::<P>::decode_public_keys(&flip(&example.encoded_keys, bit)).is_err());
        assert!(example.answer(&flip(&example.query, bit)).is_err());
        assert!(example.extract(&flip(&example.answer, bit)).is_err());
    }
    // Residues that are not below their modulus: one without its lowest bits may be any.
    let mut query = example.query.clone();
    let dropped = [SPIRAL, SPIRAL_PACK].contains(&P);
    let place = if dropped { query.len() - 10..query.len() } else { 36..45 };
    if !dropped || example.parameters.folds() > 0 {
        query[place].fill(0xFF);
        assert_eq!(example.answer(&query).err(), Some(Error::Malformed("query")));
    }
    if example.encoded_keys.len() > 46 {
        let mut keys = example.encoded_keys.clone();
        keys[36..46].fill(0xFF);
        assert!(Spiral::<P>::decode_public_keys(&keys).is_err());
    }
    // One bad query leaves the others of its tile alone.
    let tile =
        [&example.query[..], &example.query[1..], &example.query].map(|query| (&example.client.keys, query));
    let answers = Spiral::<P>::answer_tile(&example.database, &tile);
    assert!(answers[1].is_err());
    assert!([&answers[0], &answers[2]].iter().all(|answer| answer.as_ref() == Ok(&example.answer)));
    // Garbage gives garbage of the right size.
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..3 {
        let bit = 32 + rng.next_u32() as usize % (example.query.len() * 8 - 32);
        if let Ok(answer) = example.answer(&flip(&example.query, bit)) {
            assert_eq!(example.extract(&answer).unwrap().len(), 288);
        }
        let bit = 32 + rng.next_u32() as usize % (example.answer.len() * 8 - 32);
        assert_eq!(example.extract(&flip(&example.answer, bit)).unwrap().len(), 288);
    }
    let other = Spiral::<P>::client_key(&[44; 32]);
    let element = Spiral::<P>::extract(&example.parameters, &other, INDEX, &example.answer).unwrap();
    assert_ne!(element, example.element());
}

/// Keys of all presets have one type.
#[test]
fn keys_of_another_preset_are_refused_without_a_panic() {
    fn check<const P: usize, const Q: usize>() {
        let (example, other) = (Example::<P>::new(), Client::<Q>::new());
        let answer = Spiral::<P>::answer(&example.database, &other.keys, &example.query);
        assert_eq!(answer, Err(Error::Malformed("public keys")), "{Q} at {P}");
    }
    check::<SPIRAL, SPIRAL_STREAM>();
    check::<SPIRAL, PAPER>();
    check::<SPIRAL_PACK, SPIRAL>();
    check::<SPIRAL_STREAM_PACK, SPIRAL_STREAM>();
}

#[test]
fn malformed_input_is_refused_without_a_panic() {
    malformed::<SPIRAL>();
    malformed::<SPIRAL_PACK>();
    malformed::<SPIRAL_STREAM>();
    malformed::<SPIRAL_STREAM_PACK>();
}

#[test]
fn malformed_input_is_refused_without_a_panic_with_the_papers_modulus() {
    malformed::<PAPER>();
    malformed::<PAPER_STREAM_PACK>();
    malformed::<ONIONPIR_AS_PUBLISHED>();
}

#[test]
fn queries_for_the_same_index_share_nothing() {
    let example = Example::<SPIRAL_STREAM>::new();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let items = [(&example.parameters, INDEX), (&example.parameters, INDEX)];
    let queries = Spiral::<SPIRAL_STREAM>::queries(&example.client.key, &items, &mut rng).unwrap();
    let ciphertexts = |query: &[u8]| query[36..].chunks(12_800).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_ne!(queries[0][4..36], queries[1][4..36]);
    let (first, second) = (ciphertexts(&queries[0]), ciphertexts(&queries[1]));
    assert!(first.iter().all(|ciphertext| !second.contains(ciphertext)));
    // Two encryptions of 0 under one stream of errors and one uniform polynomial would be equal.
    assert!((1..first.len()).all(|at| !first[..at].contains(&first[at])));
}
