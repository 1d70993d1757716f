//! QUERY and EXTRACT.

use crypto_bigint::U2048;
use pir_core::Error;
use pir_core::constant_time::{equal, public};
use rand_core::CryptoRng;

use super::keys::ClientKey;
use super::{ANSWER_HEADER, CHUNK_BYTES, CIPHERTEXT_BYTES, Paillier, Parameters, QUERY_HEADER};
use pir_core::Scheme;

pub(super) fn query<R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if public(index >= parameters.elements) {
        return Err(Error::Index);
    }
    let mut bytes = Vec::with_capacity(Paillier::query_bytes(parameters));
    bytes.extend(QUERY_HEADER);
    for element in 0..parameters.elements {
        let message = U2048::from_u8(equal(element, index).unwrap_u8());
        bytes.extend(key.public().encrypt(&message, rng).to_le_bytes().as_slice());
    }
    Ok(bytes)
}

pub(super) fn extract(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const WHAT: &str = "answer";
    if public(index >= parameters.elements) {
        return Err(Error::Index);
    }
    let body = answer.strip_prefix(&ANSWER_HEADER).ok_or(Error::Malformed(WHAT))?;
    if body.len() != parameters.chunks() * CIPHERTEXT_BYTES {
        return Err(Error::Malformed(WHAT));
    }
    let mut element = Vec::with_capacity(parameters.chunks() * CHUNK_BYTES);
    for ciphertext in body.chunks_exact(CIPHERTEXT_BYTES) {
        let message = key.decrypt(&key.public().read(ciphertext, WHAT)?);
        element.extend(&message.to_le_bytes().as_slice()[..CHUNK_BYTES]);
    }
    element.truncate(parameters.element_bytes);
    Ok(element)
}
