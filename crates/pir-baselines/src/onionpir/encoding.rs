//! Headers of the encodings. All fields are little-endian and packed as in [`pir_core::ring::bits`].
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 65, version, log2 N, digits of the key for `s^2` | the keys of [`pir_core::bfv::GaloisKeys::encode`]; a seed; then, digit by digit, the N slots of `b` |
//! | query | 66, version, bits of a column's number, h | a seed; for every row i the coefficient `position(i, log2 N)` of c0 without its 20 lowest bits; then, if there are bits, a seed, and for value i and `m < N/2^h` the coefficient `position(i, h) + m 2^h` of c0 without its 16 lowest bits |
//! | answer | 67, version, bits of a column's number, bits of a coefficient | group by group, the N coefficients of c0, then those of c1 |
//!
//! c1 of a query is `uniform(Q, seed, 0)` in coefficients. Value `l k + i` is that of bit k and weight i. The uniform half
//! of digit i of the key is `uniform(Q, seed, i)` in evaluation form.

use pir_core::bfv;

use super::keys::CONVERSION;
use super::shape::Parameters;

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of the seed of a uniform half.
pub(super) const SEED_BYTES: usize = 32;

/// Low bits that are not sent of the coefficients of rows.
pub(super) const ROW_DROPPED_BITS: u32 = 20;

/// Low bits that are not sent of the coefficients of the values of bits.
pub(super) const VALUE_DROPPED_BITS: u32 = 16;

/// Version of all three formats.
const VERSION: u8 = 1;

pub(super) fn keys_header() -> [u8; HEADER_BYTES] {
    [65, VERSION, bfv::Parameters::s2048().degree().ilog2() as u8, CONVERSION.digits as u8]
}

pub(super) fn query_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [66, VERSION, parameters.column_bits() as u8, parameters.value_levels() as u8]
}

pub(super) fn answer_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [67, VERSION, parameters.column_bits() as u8, parameters.answer_coefficient_bits() as u8]
}
