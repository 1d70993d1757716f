//! An engine without any privacy: the query *is* the index. It keeps tests of the layers above fast.
//!
//! Servers and clients must refuse it outside tests; [`Scheme::security_bits`] is 0 so that they can.
//!
//! Formats: query = index as little-endian `u64` followed by 8 zero bytes; answer = the element's bytes;
//! public keys = the first 8 bytes of SHA-256("sotto noop public keys" || seed).

use core::fmt;

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Error, PagePool, Scheme};

/// Bytes of an encoded query: the index and as many zero bytes.
pub const QUERY_BYTES: usize = 16;
/// Bytes of the encoded public keys.
pub const PUBLIC_KEYS_BYTES: usize = 8;

const INDEX_BYTES: usize = 8;

/// The engine without privacy.
#[derive(Clone, Copy, Debug)]
pub struct NoOp;

/// Shape of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    elements: usize,
    element_bytes: usize,
    bytes: usize,
}

/// The elements as they came.
pub struct Database {
    parameters: Parameters,
    bytes: Vec<u8>,
}

/// A client's key; it protects nothing.
pub struct ClientKey {
    public: PublicKeys,
}

/// What a client uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKeys {
    bytes: [u8; PUBLIC_KEYS_BYTES],
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Scheme for NoOp {
    const NAME: &'static str = "noop-no-privacy";

    type Parameters = Parameters;
    type Database = Database;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        let bytes = elements.checked_mul(element_bytes).ok_or(Error::Shape("database too large"))?;
        Ok(Parameters { elements, element_bytes, bytes })
    }

    fn security_bits(_: &Parameters) -> u32 {
        0
    }

    fn failure_log2(_: &Parameters) -> f64 {
        f64::NEG_INFINITY
    }

    fn elements(parameters: &Parameters) -> usize {
        parameters.elements
    }

    fn query_bytes(_: &Parameters) -> usize {
        QUERY_BYTES
    }

    fn answer_bytes(parameters: &Parameters) -> usize {
        parameters.element_bytes
    }

    fn public_keys_bytes() -> usize {
        PUBLIC_KEYS_BYTES
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        let digest = Zeroizing::new(<[u8; 32]>::from(
            Sha256::new_with_prefix("sotto noop public keys").chain_update(seed).finalize(),
        ));
        let mut bytes = [0; PUBLIC_KEYS_BYTES];
        bytes.copy_from_slice(&digest[..PUBLIC_KEYS_BYTES]);
        ClientKey { public: PublicKeys { bytes } }
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public.bytes.to_vec()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys, Error> {
        let bytes = bytes.try_into().map_err(|_| Error::Malformed("public keys"))?;
        Ok(PublicKeys { bytes })
    }

    fn setup_in(_: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Database, Error> {
        if elements.len() != parameters.bytes {
            return Err(Error::Shape("size of the database"));
        }
        Ok(Database { parameters: *parameters, bytes: elements.to_vec() })
    }

    fn database_bytes(database: &Database) -> usize {
        database.bytes.len()
    }

    fn queries<R: CryptoRng>(
        _: &ClientKey,
        items: &[(&Parameters, usize)],
        _: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items
            .iter()
            .map(|(parameters, index)| {
                if *index >= parameters.elements {
                    return Err(Error::Index);
                }
                let mut query = vec![0; QUERY_BYTES];
                query[..INDEX_BYTES].copy_from_slice(&(*index as u64).to_le_bytes());
                Ok(query)
            })
            .collect()
    }

    fn answer(database: &Database, _: &PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let query: &[u8; QUERY_BYTES] = query.try_into().map_err(|_| Error::Malformed("query"))?;
        let (index, padding) = query.split_at(INDEX_BYTES);
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Error::Malformed("query"));
        }
        let index = index.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte));
        let index = usize::try_from(index).map_err(|_| Error::Malformed("query"))?;
        if index >= database.parameters.elements {
            return Err(Error::Malformed("query"));
        }
        let start = index * database.parameters.element_bytes;
        Ok(database.bytes[start..start + database.parameters.element_bytes].to_vec())
    }

    fn extract(
        parameters: &Parameters,
        _: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        if index >= parameters.elements {
            return Err(Error::Index);
        }
        if answer.len() != parameters.element_bytes {
            return Err(Error::Malformed("answer"));
        }
        Ok(answer.to_vec())
    }
}
