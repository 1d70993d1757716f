//! Formats: fixed by golden files, and safe to parse.
//!
//! `SOTTO_BLESS=1 cargo test -p pir-core --test it encodings` rewrites the files under `tests/vectors/`; a change there is a
//! change of format, or of what clients derive from their seeds, and needs a new version.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use pir_core::ring::bits::BitWriter;
use pir_core::sealpir::{ClientKey, Database, Parameters, PublicKeys};
use pir_core::{Error, Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

struct Example {
    parameters: Parameters,
    key: ClientKey,
    encoded_keys: Vec<u8>,
    keys: PublicKeys,
    database: Database,
    elements: Vec<u8>,
    query: Vec<u8>,
    answer: Vec<u8>,
}

const INDEX: usize = 57;

impl Example {
    fn new(columns: usize) -> Self {
        let parameters = Parameters::with_columns(100, 288, columns).unwrap();
        let key = SealPir::client_key(&[42; 32]);
        let encoded_keys = SealPir::encode_public_keys(&key);
        let keys = SealPir::decode_public_keys(&encoded_keys).unwrap();
        let elements: Vec<u8> = (0..28_800u32).map(|i| ((i * i) >> 7) as u8).collect();
        let database = SealPir::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = SealPir::queries(&key, &[(&parameters, INDEX)], &mut rng).unwrap().remove(0);
        let answer = SealPir::answer(&database, &keys, &query).unwrap();
        Self { parameters, key, encoded_keys, keys, database, elements, query, answer }
    }

    fn extract(&self, answer: &[u8]) -> Result<Vec<u8>, Error> {
        SealPir::extract(&self.parameters, &self.key, INDEX, answer)
    }
}

static ONE: LazyLock<Example> = LazyLock::new(|| Example::new(1));
static TWO: LazyLock<Example> = LazyLock::new(|| Example::new(2));

fn assert_golden(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    if std::env::var_os("SOTTO_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, bytes).unwrap();
    }
    let golden = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(golden == bytes, "{name} differs from the golden file");
}

/// Hexadecimal SHA-256 and a newline.
fn digest(bytes: &[u8]) -> Vec<u8> {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}\n").into_bytes()
}

#[test]
fn deployed_clients_and_servers_keep_understanding_each_other() {
    assert_golden("public-keys.sha256", &digest(&ONE.encoded_keys));
    for (example, name) in [(&*ONE, "d1"), (&*TWO, "d2")] {
        assert_golden(&format!("query-{name}.bin"), &example.query);
        assert_golden(&format!("answer-{name}.sha256"), &digest(&example.answer));
        assert_eq!(
            example.extract(&example.answer).unwrap(),
            example.elements[INDEX * 288..(INDEX + 1) * 288]
        );
    }
}

#[test]
fn sizes_are_exactly_those_announced() {
    for example in [&*ONE, &*TWO] {
        assert_eq!(example.encoded_keys.len(), SealPir::public_keys_bytes());
        assert_eq!(example.query.len(), SealPir::query_bytes(&example.parameters));
        assert_eq!(example.answer.len(), SealPir::answer_bytes(&example.parameters));
    }
}

/// Too short and too long variants.
fn wrong_sizes(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let longer = bytes.iter().copied().chain([0]).collect();
    let twice = [bytes, bytes].concat();
    [0, 1, 3, 4, 35, 36, 37, bytes.len() / 2, bytes.len() - 1]
        .into_iter()
        .map(|size| bytes[..size].to_vec())
        .chain([longer, twice])
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn truncated_and_oversized_encodings_are_refused() {
    for example in [&*ONE, &*TWO] {
        for query in wrong_sizes(&example.query) {
            assert!(SealPir::answer(&example.database, &example.keys, &query).is_err(), "{}", query.len());
        }
        for answer in wrong_sizes(&example.answer) {
            assert!(example.extract(&answer).is_err(), "{}", answer.len());
        }
    }
    for keys in wrong_sizes(&ONE.encoded_keys) {
        assert!(SealPir::decode_public_keys(&keys).is_err(), "{}", keys.len());
    }
}

#[test]
fn a_flipped_header_bit_is_refused() {
    for bit in 0..32 {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        assert!(SealPir::decode_public_keys(&flip(&ONE.encoded_keys)).is_err());
        assert!(SealPir::answer(&ONE.database, &ONE.keys, &flip(&ONE.query)).is_err());
        assert!(ONE.extract(&flip(&ONE.answer)).is_err());
    }
}

#[test]
fn every_field_of_a_query_is_accepted_and_every_padding_but_zero_refused() {
    for example in [&*ONE, &*TWO] {
        let body = (example.query.len() - 36) * 8;
        let fields = 30 * example.parameters.selectors();
        assert!((1..8).contains(&(body - fields)), "an example with padding");
        for field in [0, 1, (1 << 30) - 1] {
            let mut query = example.query[..36].to_vec();
            let mut writer = BitWriter::new(&mut query);
            (0..example.parameters.selectors()).for_each(|_| writer.write(field, 30));
            writer.finish();
            let answer = SealPir::answer(&example.database, &example.keys, &query).unwrap();
            assert_eq!(answer.len(), example.answer.len());
        }
        for bit in fields..body {
            let mut query = example.query.clone();
            query[36 + bit / 8] |= 1 << (bit % 8);
            assert!(SealPir::answer(&example.database, &example.keys, &query).is_err(), "{bit}");
        }
    }
}

#[test]
fn residues_that_are_not_below_their_prime_are_refused() {
    // Keys are 12,800 bytes each: 2,048 residues of 50 bits.
    for start in [36, 36 + 12_800 - 7, 36 + 12_800, 36 + 30 * 12_800, ONE.encoded_keys.len() - 7] {
        let mut keys = ONE.encoded_keys.clone();
        keys[start..start + 7].fill(0xFF);
        assert!(SealPir::decode_public_keys(&keys).is_err(), "{start}");
    }
    let q: u64 = 1_125_899_906_826_241;
    for (value, valid) in [(q - 1, true), (q, false), (q + 1, false), ((1 << 50) - 1, false)] {
        let mut keys = ONE.encoded_keys.clone();
        let word = u64::from_le_bytes(keys[36..44].try_into().unwrap());
        keys[36..44].copy_from_slice(&(word >> 50 << 50 | value).to_le_bytes());
        assert_eq!(SealPir::decode_public_keys(&keys).is_ok(), valid, "{value}");
    }
}

#[test]
fn a_flipped_bit_anywhere_never_panics_and_garbles_or_is_refused() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for example in [&*ONE, &*TWO] {
        let right = example.elements[INDEX * 288..(INDEX + 1) * 288].to_vec();
        for _ in 0..12 {
            let bit = 32 + rng.next_u32() as usize % (example.query.len() * 8 - 32);
            let mut query = example.query.clone();
            query[bit / 8] ^= 1 << (bit % 8);
            if let Ok(answer) = SealPir::answer(&example.database, &example.keys, &query) {
                assert_eq!(answer.len(), example.answer.len());
                assert_eq!(example.extract(&answer).unwrap().len(), right.len());
            }
            let bit = 32 + rng.next_u32() as usize % (example.answer.len() * 8 - 32);
            let mut answer = example.answer.clone();
            answer[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(example.extract(&answer).unwrap().len(), right.len());
        }
        let mut noise = vec![0; example.answer.len()];
        rng.fill_bytes(&mut noise);
        noise[..4].copy_from_slice(&example.answer[..4]);
        assert_ne!(example.extract(&noise).unwrap(), right);
        noise[4..].fill(0xFF);
        assert_ne!(example.extract(&noise).unwrap(), right);
    }
    for _ in 0..8 {
        let bit = 32 + rng.next_u32() as usize % (ONE.encoded_keys.len() * 8 - 32);
        let mut keys = ONE.encoded_keys.clone();
        keys[bit / 8] ^= 1 << (bit % 8);
        let _ = SealPir::decode_public_keys(&keys);
    }
}

#[test]
fn queries_for_the_same_index_share_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let items = [(&ONE.parameters, INDEX), (&ONE.parameters, INDEX)];
    let queries = SealPir::queries(&ONE.key, &items, &mut rng).unwrap();
    assert_ne!(queries[0][4..36], queries[1][4..36]);
    assert_ne!(queries[0][36..], queries[1][36..]);
}

#[test]
fn another_clients_key_reads_nothing() {
    let other = SealPir::client_key(&[44; 32]);
    let element = SealPir::extract(&ONE.parameters, &other, INDEX, &ONE.answer).unwrap();
    assert_ne!(element, ONE.elements[INDEX * 288..(INDEX + 1) * 288]);
}
