//! Headers of the encodings. All fields are little-endian and packed as in [`pir_core::ring::bits`].
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 49, version, log2 N, bits of q P | a seed; then, key by key, the N slots of `b` |
//! | query | 50, version, bits of q P, bits of a value | a seed; then, ciphertext by ciphertext and prime by prime of q, the N slots of c0 |
//! | answer | 51, version, bits of a value, bits of a coefficient | group by group, the N coefficients of c0, then those of c1 |
//!
//! Keys are numbered rotation by rotation, by powers of two, digit by digit (one for each prime of q), and modulus by modulus
//! (the primes of q, then P). The uniform half of key i is `uniform(modulus, seed, i)`, in evaluation form; so is that of
//! polynomial i of a query. What is sent modulo a prime has as many bits as the prime.

use pir_core::Error;
use pir_core::ring::bits::{BitWriter, packed_bytes, unpack};
use pir_core::ring::{Evaluation, Ntt, Polynomial};

use super::lattice::{DEGREE, Lattice};
use super::shape::Parameters;

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of the seed of uniform halves.
pub(super) const SEED_BYTES: usize = 32;

/// Version of all three formats.
const VERSION: u8 = 1;

pub(super) fn keys_header<const Q: u32>() -> [u8; HEADER_BYTES] {
    [49, VERSION, DEGREE.ilog2() as u8, Lattice::of::<Q>().bits() as u8]
}

pub(super) fn query_header<const Q: u32>(parameters: &Parameters<Q>) -> [u8; HEADER_BYTES] {
    [50, VERSION, Lattice::of::<Q>().bits() as u8, parameters.value_bits() as u8]
}

pub(super) fn answer_header<const Q: u32>(parameters: &Parameters<Q>) -> [u8; HEADER_BYTES] {
    [51, VERSION, parameters.value_bits() as u8, parameters.answer_coefficient_bits() as u8]
}

/// Bytes of a polynomial modulo the prime of a ring.
pub(super) fn polynomial_bytes(ring: &Ntt) -> usize {
    packed_bytes(DEGREE, ring.modulus().bits())
}

pub(super) fn write_polynomial(ring: &Ntt, polynomial: &Polynomial<Evaluation>, out: &mut Vec<u8>) {
    let mut writer = BitWriter::new(out);
    polynomial.residues().iter().for_each(|value| writer.write(*value, ring.modulus().bits()));
    writer.finish();
}

/// Takes the bytes of a polynomial off the front.
///
/// # Errors
/// [`Error::Malformed`] if there are fewer, or a residue is not below the prime.
pub(super) fn read_polynomial(
    ring: &Ntt,
    bytes: &mut &[u8],
    what: &'static str,
) -> Result<Polynomial<Evaluation>, Error> {
    let (packed, rest) = bytes.split_at_checked(polynomial_bytes(ring)).ok_or(Error::Malformed(what))?;
    *bytes = rest;
    let mut polynomial = Polynomial::zero(DEGREE);
    unpack(ring.modulus().bits(), packed, polynomial.residues_mut());
    let valid = polynomial.residues().iter().all(|slot| *slot < ring.modulus().value());
    if valid { Ok(polynomial) } else { Err(Error::Malformed(what)) }
}
