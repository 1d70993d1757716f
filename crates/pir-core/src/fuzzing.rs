//! What a client and a server of the engine read from each other, with any bytes. The tests here and the crate `fuzz/` call
//! these functions. Each takes the bytes as they are, and once more as changes to a genuine encoding: five bytes for each,
//! the place and what to put there.

use std::sync::LazyLock;

use rand_core::SeedableRng;

use crate::bfv::{self, GaloisKeys};
use crate::sealpir::{ClientKey, Database, Parameters, PublicKeys};
use crate::{NoOp, Scheme, SealPir};

pub use voce::fuzz_voce;

const ELEMENT_BYTES: usize = 288;
const ELEMENTS: usize = 100;
const HEADER_BYTES: usize = 4;

struct Example {
    parameters: Parameters,
    key: ClientKey,
    encoded_keys: Vec<u8>,
    keys: PublicKeys,
    database: Database,
    query: Vec<u8>,
    answer: Vec<u8>,
}

/// With one dimension and with two.
static EXAMPLES: LazyLock<Vec<Example>> = LazyLock::new(|| [1, 2].into_iter().filter_map(example).collect());

fn example(columns: usize) -> Option<Example> {
    let parameters = Parameters::with_columns(ELEMENTS, ELEMENT_BYTES, columns).ok()?;
    let key = SealPir::client_key(&[42; 32]);
    let encoded_keys = SealPir::encode_public_keys(&key);
    let keys = SealPir::decode_public_keys(&encoded_keys).ok()?;
    let database = SealPir::setup(&parameters, &[9; ELEMENTS * ELEMENT_BYTES]).ok()?;
    let mut rng = rand_chacha::ChaCha20Rng::from_seed([43; 32]);
    let query = SealPir::queries(&key, &[(&parameters, 57)], &mut rng).ok()?.pop()?;
    let answer = SealPir::answer(&database, &keys, &query).ok()?;
    Some(Example { parameters, key, encoded_keys, keys, database, query, answer })
}

fn changed(genuine: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = genuine.to_vec();
    for [a, b, c, d, value] in changes.as_chunks::<5>().0 {
        let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
        bytes[at] = *value;
    }
    bytes
}

/// A client's public keys. Keys that are taken answer a query, whatever they are.
pub fn fuzz_public_keys(bytes: &[u8]) {
    for example in EXAMPLES.iter() {
        for encoded in [bytes, &changed(&example.encoded_keys, bytes)] {
            let Ok(keys) = SealPir::decode_public_keys(encoded) else { continue };
            let parameters = bfv::Parameters::s2048();
            let again = GaloisKeys::decode(parameters, &encoded[HEADER_BYTES..]);
            assert!(again.is_ok_and(|keys| keys.encode(parameters) == encoded[HEADER_BYTES..]));
            let answer = SealPir::answer(&example.database, &keys, &example.query);
            assert!(answer.is_ok_and(|answer| answer.len() == example.answer.len()));
        }
    }
    let _ = NoOp::decode_public_keys(bytes);
}

/// A query, answered alone and beside one that is in order.
pub fn fuzz_query(bytes: &[u8]) {
    for example in EXAMPLES.iter() {
        for query in [bytes, &changed(&example.query, bytes)] {
            let alone = SealPir::answer(&example.database, &example.keys, query);
            // Only what is not the genuine query may be refused.
            let size = |answer: &Vec<u8>| answer.len() == example.answer.len();
            assert!(alone.as_ref().map_or(query != example.query, size));
            let both = [(&example.keys, query), (&example.keys, &example.query[..])];
            let mut both = SealPir::answer_tile(&example.database, &both);
            assert!(both.pop().is_some_and(|genuine| genuine.as_ref() == Ok(&example.answer)));
            assert!(both.pop().is_some_and(|other| other == alone));
        }
    }
    let parameters = NoOp::parameters(ELEMENTS, ELEMENT_BYTES);
    let database = parameters.and_then(|parameters| NoOp::setup(&parameters, &[9; ELEMENTS * ELEMENT_BYTES]));
    if let (Ok(database), Ok(keys)) = (database, NoOp::decode_public_keys(&[0; 8])) {
        let answer = NoOp::answer(&database, &keys, bytes);
        assert!(answer.map_or(true, |answer| answer.len() == ELEMENT_BYTES));
    }
}

/// An answer: an element of the right size comes out of it, or an error.
pub fn fuzz_answer(bytes: &[u8]) {
    for example in EXAMPLES.iter() {
        for answer in [bytes, &changed(&example.answer, bytes)] {
            let element = SealPir::extract(&example.parameters, &example.key, 57, answer);
            assert!(element.map_or(true, |element| element.len() == ELEMENT_BYTES));
        }
    }
}

/// Sizes that a manifest announces: there are parameters for them, of sizes that fit to each other, or an error.
pub fn fuzz_parameters(bytes: &[u8]) {
    let Some(&[a, b, c, d, e, f]) = bytes.first_chunk::<6>() else { return };
    let elements = u32::from_le_bytes([a, b, c, d]) as usize;
    let element_bytes = usize::from(u16::from_le_bytes([e, f]));
    if let Ok(parameters) = SealPir::parameters(elements, element_bytes) {
        assert!(parameters.elements() == elements && parameters.element_bytes() == element_bytes);
        assert!(SealPir::query_bytes(&parameters) <= crate::sealpir::MAXIMUM_QUERY_BYTES);
        assert!(SealPir::answer_bytes(&parameters) >= element_bytes);
        assert!(SealPir::failure_log2(&parameters) <= -40.0);
    }
}

/// Valid encodings to begin with, but the public keys, which are large.
#[must_use]
pub fn valid() -> Vec<Vec<u8>> {
    let mut valid: Vec<Vec<u8>> =
        EXAMPLES.iter().flat_map(|example| [example.query.clone(), example.answer.clone()]).collect();
    // A residue that is too large, and sizes of databases.
    valid.push([[36, 0, 0, 0, 0xff], [37, 0, 0, 0, 0xff], [42, 0, 0, 0, 0xff]].concat());
    valid.extend(voce::valid());
    valid.extend([vec![100, 0, 0, 0, 32, 1], vec![0, 0, 16, 0, 32, 1], vec![1, 0, 0, 0, 1, 0]]);
    valid
}

#[cfg(test)]
mod tests;
mod voce;
