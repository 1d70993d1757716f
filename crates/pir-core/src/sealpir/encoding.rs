//! Headers of the encodings. All fields are little-endian and packed as in [`crate::ring::bits`].
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 1, version, log2 N, 0 | seed, then the `b` halves ([`crate::bfv::GaloisKeys::encode`]) |
//! | query | 2, version, d, h | seed of c1; then for every selector i and `m < N/2^h` the coefficient `r_i + m 2^h` of c0 without its 20 lowest bits |
//! | profile | none | columns n2 and parts, two bytes each; levels h, bits of a coefficient of the answer; zeros |
//! | answer | 3, version, d, bits | for every group, part and ciphertext, the N coefficients of c0, then those of c1 |

use super::format::HEADER_BYTES;
use super::shape::Parameters;
use crate::scheme::PROFILE_BYTES;
use crate::{Error, bfv};

/// Version of all three formats.
const VERSION: u8 = 3;

pub(super) fn keys_header() -> [u8; HEADER_BYTES] {
    [1, VERSION, bfv::Parameters::s2048().degree().ilog2() as u8, 0]
}

pub(super) fn query_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [2, VERSION, parameters.dimensions() as u8, parameters.levels() as u8]
}

pub(super) fn answer_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [3, VERSION, parameters.dimensions() as u8, parameters.answer_coefficient_bits() as u8]
}

/// The body behind exactly this header.
pub(super) fn strip_header(bytes: &[u8], header: [u8; HEADER_BYTES], error: Error) -> Result<&[u8], Error> {
    bytes.strip_prefix(&header).ok_or(error)
}

/// What a server announces of its arrangement.
pub(super) fn profile(parameters: &Parameters) -> [u8; PROFILE_BYTES] {
    // There are at most N columns in all, and a coefficient has 64 bits.
    let [columns, parts] =
        [parameters.columns(), parameters.parts()].map(|number| (number as u16).to_le_bytes());
    let mut bytes = [0; PROFILE_BYTES];
    bytes[..2].copy_from_slice(&columns);
    bytes[2..4].copy_from_slice(&parts);
    bytes[4] = parameters.levels() as u8;
    bytes[5] = parameters.answer_coefficient_bits() as u8;
    bytes
}

/// The arrangement that is announced, if it is admissible.
pub(super) fn parameters_of(
    elements: usize,
    element_bytes: usize,
    profile: &[u8; PROFILE_BYTES],
) -> Result<Parameters, Error> {
    let [c0, c1, p0, p1, levels, bits, rest @ ..] = *profile;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Error::Shape("a profile that the engine does not know"));
    }
    let columns = [[c0, c1], [p0, p1]].map(|number| usize::from(u16::from_le_bytes(number)));
    Parameters::announced(elements, element_bytes, columns, levels.into(), bits.into())
}
