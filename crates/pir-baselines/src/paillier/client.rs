//! QUERY and EXTRACT.

use crypto_bigint::Uint;
use pir_core::Error;
use pir_core::constant_time::{equal, public};
use rand_core::CryptoRng;

use super::keys::ClientKey;
use super::{ANSWER, Parameters, QUERY, header};

pub(super) fn query<const MODULUS: usize, const SQUARE: usize, R: CryptoRng>(
    key: &ClientKey<MODULUS, SQUARE>,
    parameters: &Parameters<MODULUS>,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if public(index >= parameters.elements) {
        return Err(Error::Index);
    }
    let mut bytes = header::<MODULUS>(QUERY).to_vec();
    for element in 0..parameters.elements {
        let message = Uint::from_u8(equal(element, index).unwrap_u8());
        bytes.extend(key.public().encrypt(&message, rng).to_le_bytes().as_slice());
    }
    Ok(bytes)
}

pub(super) fn extract<const MODULUS: usize, const SQUARE: usize>(
    key: &ClientKey<MODULUS, SQUARE>,
    parameters: &Parameters<MODULUS>,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const WHAT: &str = "answer";
    if public(index >= parameters.elements) {
        return Err(Error::Index);
    }
    let chunk_bytes = Parameters::<MODULUS>::CHUNK_BYTES;
    let body = answer.strip_prefix(&header::<MODULUS>(ANSWER)).ok_or(Error::Malformed(WHAT))?;
    if body.len() != parameters.chunks() * Uint::<SQUARE>::BYTES {
        return Err(Error::Malformed(WHAT));
    }
    let mut element = Vec::with_capacity(parameters.chunks() * chunk_bytes);
    for ciphertext in body.chunks_exact(Uint::<SQUARE>::BYTES) {
        let message = key.decrypt(&key.public().read(ciphertext, WHAT)?);
        element.extend(&message.to_le_bytes().as_slice()[..chunk_bytes]);
    }
    element.truncate(parameters.element_bytes);
    Ok(element)
}
