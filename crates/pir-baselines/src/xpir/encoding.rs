//! Headers of the encodings. All fields are little-endian and packed as in [`pir_core::ring::bits`].
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 17, version, log2 N, d | none: there is nothing to switch keys for |
//! | query | 18, version, d, bits of q | seed of all c1; then, selector by selector, the N slots of c0 |
//! | answer | 19, version, d, bits | for every group and ciphertext, the N coefficients of c0, then those of c1 |
//!
//! The c1 of selector i is `uniform(q, seed, i)` in evaluation form, and c0 is sent in that form, too: the server
//! transforms neither. A query numbers the selectors of the rows first, then those of the columns, then those of the
//! planes. The ciphertexts of an answer carry, for every chunk of the second dimension's result if d = 3, the chunks of
//! the last dimension.

use pir_core::bfv;

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of the seed of a query's uniform halves.
pub(super) const SEED_BYTES: usize = 32;

/// Version of all three formats.
const VERSION: u8 = 1;

pub(super) fn keys_header<const D: usize>() -> [u8; HEADER_BYTES] {
    [17, VERSION, bfv::Parameters::s2048().degree().ilog2() as u8, D as u8]
}

pub(super) fn query_header<const D: usize>() -> [u8; HEADER_BYTES] {
    [18, VERSION, D as u8, bfv::Parameters::s2048().small().modulus().bits() as u8]
}

pub(super) fn answer_header<const D: usize>(bits: u32) -> [u8; HEADER_BYTES] {
    [19, VERSION, D as u8, bits as u8]
}
