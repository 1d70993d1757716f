//! What a client and a server read from each other, with any bytes. The tests here and the crate `fuzz/` call
//! [`fuzz_spiral`], as those of [`pir_core`] do with what the product reads.

use std::sync::LazyLock;

use pir_core::Scheme;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::{
    AS_PUBLISHED, ClientKey, Database, ONIONPIR_AS_PUBLISHED, Parameters, PublicKeys, SPIRAL, SPIRAL_PACK,
    SPIRAL_STREAM, SPIRAL_STREAM_PACK, Spiral,
};
use crate::fuzzing::changed;

const ELEMENTS: usize = 700;
const ELEMENT_BYTES: usize = 5;
const INDEX: usize = 657;

const PAPER: usize = SPIRAL + AS_PUBLISHED;

struct Example<const P: usize> {
    parameters: Parameters,
    key: ClientKey,
    encoded_keys: Vec<u8>,
    keys: PublicKeys,
    database: Database,
    query: Vec<u8>,
    answer: Vec<u8>,
}

static PLAIN: LazyLock<Option<Example<SPIRAL>>> = LazyLock::new(Example::new);
static PACKED: LazyLock<Option<Example<SPIRAL_PACK>>> = LazyLock::new(Example::new);
static STREAMED: LazyLock<Option<Example<SPIRAL_STREAM>>> = LazyLock::new(Example::new);
static BOTH: LazyLock<Option<Example<SPIRAL_STREAM_PACK>>> = LazyLock::new(Example::new);
static PUBLISHED: LazyLock<Option<Example<PAPER>>> = LazyLock::new(Example::new);
static ONION: LazyLock<Option<Example<ONIONPIR_AS_PUBLISHED>>> = LazyLock::new(Example::new);

impl<const P: usize> Example<P> {
    fn new() -> Option<Self> {
        let parameters = Parameters::new_allowing_insecure_parameters(P, ELEMENTS, ELEMENT_BYTES).ok()?;
        let key = Spiral::<P>::client_key(&[42; 32]);
        let encoded_keys = Spiral::<P>::encode_public_keys(&key);
        let keys = Spiral::<P>::decode_public_keys(&encoded_keys).ok()?;
        let database = Spiral::<P>::setup(&parameters, &[9; ELEMENTS * ELEMENT_BYTES]).ok()?;
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let query = Spiral::<P>::queries(&key, &[(&parameters, INDEX)], &mut rng).ok()?.pop()?;
        let answer = Spiral::<P>::answer(&database, &keys, &query).ok()?;
        Some(Self { parameters, key, encoded_keys, keys, database, query, answer })
    }

    /// The bytes as they are, and as changes to each genuine encoding.
    fn read(&self, bytes: &[u8]) {
        for keys in [bytes, &changed(&self.encoded_keys, bytes)] {
            let Ok(decoded) = Spiral::<P>::decode_public_keys(keys) else { continue };
            let answer = Spiral::<P>::answer(&self.database, &decoded, &self.query);
            assert!(answer.is_ok_and(|answer| answer.len() == self.answer.len()));
        }
        for query in [bytes, &changed(&self.query, bytes)] {
            let alone = Spiral::<P>::answer(&self.database, &self.keys, query);
            // Only what is not the genuine query may be refused.
            let size = |answer: &Vec<u8>| answer.len() == self.answer.len();
            assert!(alone.as_ref().map_or(query != self.query, size));
            let both = [(&self.keys, query), (&self.keys, &self.query[..])];
            let mut both = Spiral::<P>::answer_tile(&self.database, &both);
            assert!(both.pop().is_some_and(|genuine| genuine.as_ref() == Ok(&self.answer)));
            assert!(both.pop().is_some_and(|other| other == alone));
        }
        for answer in [bytes, &changed(&self.answer, bytes)] {
            let element = Spiral::<P>::extract(&self.parameters, &self.key, INDEX, answer);
            assert!(element.map_or(true, |element| element.len() == ELEMENT_BYTES));
        }
    }
}

/// Public keys, queries and answers; and a number and a size of elements, for which there are parameters of sizes that fit to
/// each other, or an error.
pub fn fuzz_spiral(bytes: &[u8]) {
    if let Some(example) = &*PLAIN {
        example.read(bytes);
    }
    if let Some(example) = &*PACKED {
        example.read(bytes);
    }
    if let Some(example) = &*STREAMED {
        example.read(bytes);
    }
    if let Some(example) = &*BOTH {
        example.read(bytes);
    }
    if let Some(example) = &*PUBLISHED {
        example.read(bytes);
    }
    if let Some(example) = &*ONION {
        example.read(bytes);
    }
    let Some(&[a, b, c, d, e, f, preset]) = bytes.first_chunk::<7>() else { return };
    let elements = u32::from_le_bytes([a, b, c, d]) as usize;
    let element_bytes = usize::from(u16::from_le_bytes([e, f]));
    let preset = usize::from(preset) % 9;
    if let Ok(parameters) = Parameters::new_allowing_insecure_parameters(preset, elements, element_bytes) {
        assert!(parameters.elements() == elements && parameters.element_bytes() == element_bytes);
        assert!(parameters.query_bytes() <= super::MAXIMUM_QUERY_BYTES);
        assert!(parameters.answer_bytes() >= element_bytes);
        assert!(parameters.rows() * parameters.columns() >= parameters.plaintexts());
        assert!(super::noise::failure_log2(&parameters) <= -40.0);
    }
}

#[cfg(test)]
mod tests;
