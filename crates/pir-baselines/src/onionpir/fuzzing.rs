//! What a client and a server read from each other, with any bytes. The tests here and the crate `fuzz/` call
//! [`fuzz_onionpir`].

use std::sync::LazyLock;

use pir_core::Scheme;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::{ClientKey, Database, OnionPir, Parameters, PublicKeys};
use crate::fuzzing::changed;

/// Three rows of four columns.
const ELEMENTS: usize = 90;
const ELEMENT_BYTES: usize = 288;
const COLUMNS: usize = 4;
const INDEX: usize = 77;

struct Example {
    parameters: Parameters,
    key: ClientKey,
    encoded_keys: Vec<u8>,
    keys: PublicKeys,
    database: Database,
    query: Vec<u8>,
    answer: Vec<u8>,
}

static EXAMPLE: LazyLock<Option<Example>> = LazyLock::new(Example::new);

impl Example {
    fn new() -> Option<Self> {
        let parameters = Parameters::with_columns(ELEMENTS, ELEMENT_BYTES, COLUMNS).ok()?;
        let key = OnionPir::client_key(&[42; 32]);
        let encoded_keys = OnionPir::encode_public_keys(&key);
        let keys = OnionPir::decode_public_keys(&encoded_keys).ok()?;
        let database = OnionPir::setup(&parameters, &[9; ELEMENTS * ELEMENT_BYTES]).ok()?;
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = OnionPir::queries(&key, &[(&parameters, INDEX)], &mut rng).ok()?.pop()?;
        let answer = OnionPir::answer(&database, &keys, &query).ok()?;
        Some(Self { parameters, key, encoded_keys, keys, database, query, answer })
    }

    /// The bytes as they are, and as changes to each genuine encoding.
    fn read(&self, bytes: &[u8]) {
        for keys in [bytes, &changed(&self.encoded_keys, bytes)] {
            let Ok(decoded) = OnionPir::decode_public_keys(keys) else { continue };
            assert!(decoded.encode() == *keys);
            let answer = OnionPir::answer(&self.database, &decoded, &self.query);
            assert!(answer.is_ok_and(|answer| answer.len() == self.answer.len()));
        }
        for query in [bytes, &changed(&self.query, bytes)] {
            let alone = OnionPir::answer(&self.database, &self.keys, query);
            // Only what is not the genuine query may be refused.
            let size = |answer: &Vec<u8>| answer.len() == self.answer.len();
            assert!(alone.as_ref().map_or(query != self.query, size));
            let both = [(&self.keys, query), (&self.keys, &self.query[..])];
            let mut both = OnionPir::answer_tile(&self.database, &both);
            assert!(both.pop().is_some_and(|genuine| genuine.as_ref() == Ok(&self.answer)));
            assert!(both.pop().is_some_and(|other| other == alone));
        }
        for answer in [bytes, &changed(&self.answer, bytes)] {
            let element = OnionPir::extract(&self.parameters, &self.key, INDEX, answer);
            assert!(element.map_or(true, |element| element.len() == ELEMENT_BYTES));
        }
    }
}

/// Public keys, queries and answers; and a number and a size of elements, for which there are parameters of sizes that fit
/// to each other, or an error.
pub fn fuzz_onionpir(bytes: &[u8]) {
    if let Some(example) = &*EXAMPLE {
        example.read(bytes);
    }
    let Some(&[a, b, c, d, e, f]) = bytes.first_chunk::<6>() else { return };
    let elements = u32::from_le_bytes([a, b, c, d]) as usize;
    let element_bytes = usize::from(u16::from_le_bytes([e, f]));
    if let Ok(parameters) = OnionPir::parameters(elements, element_bytes) {
        assert!(parameters.elements() == elements && parameters.element_bytes() == element_bytes);
        assert!(OnionPir::query_bytes(&parameters) <= super::MAXIMUM_QUERY_BYTES);
        assert!(OnionPir::answer_bytes(&parameters) >= element_bytes);
        assert!(OnionPir::failure_log2(&parameters) <= -40.0);
    }
}

#[cfg(test)]
mod tests;
