//! Headers and fields of the encodings. All fields are little-endian and packed as in [`pir_core::ring::bits`].
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 54, version, preset, log2 N | a seed; then, column by column, every `b`: its slots, prime by prime |
//! | query | 55, version, preset, log2 p | a seed; then the rows, and the folding bits |
//! | answer | 56, version, preset, log2 p | group by group, column by column of the matrix: every `b` in coefficients of the shorter length; then, column by column, every a in those of the longer one |
//!
//! What is expanded is sent as the coefficients that its leaves depend on, leaf by leaf, without their lowest bits: a leaf of a
//! tree of h levels depends on all that are congruent to its position modulo 2^h. What is uploaded directly is sent as slots.
//! The a of ciphertext or column number i is polynomial i of the stream of the seed; those of the folding bits follow those
//! of the rows.

use pir_core::Error;
use pir_core::ring::bits::{BitReader, BitWriter, packed_bytes, unpack};

use super::lattice::{DEGREE, Ring};
use super::shape::Parameters;

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of the seed of uniform polynomials.
pub(super) const SEED_BYTES: usize = 32;

/// Version of all three formats.
const VERSION: u8 = 1;

pub(super) fn keys_header(preset: usize) -> [u8; HEADER_BYTES] {
    [54, VERSION, preset as u8, DEGREE.ilog2() as u8]
}

pub(super) fn query_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [55, VERSION, parameters.preset as u8, parameters.plaintext_bits() as u8]
}

pub(super) fn answer_header(parameters: &Parameters) -> [u8; HEADER_BYTES] {
    [56, VERSION, parameters.preset as u8, parameters.plaintext_bits() as u8]
}

/// Appends the slots of a polynomial.
pub(super) fn write_slots(ring: &Ring, polynomial: &[u64], out: &mut Vec<u8>) {
    for (prime, part) in ring.primes().iter().zip(polynomial.chunks_exact(DEGREE)) {
        let mut writer = BitWriter::new(out);
        part.iter().for_each(|value| writer.write(*value, prime.modulus().bits()));
        writer.finish();
    }
}

/// Takes the slots of a polynomial off the front.
///
/// # Errors
/// [`Error::Malformed`] if there are fewer bytes, or a residue is not below its prime.
pub(super) fn read_slots(
    ring: &Ring,
    bytes: &mut &[u8],
    what: &'static str,
    polynomial: &mut [u64],
) -> Result<(), Error> {
    for (prime, part) in ring.primes().iter().zip(polynomial.chunks_exact_mut(DEGREE)) {
        let width = prime.modulus().bits();
        let (packed, rest) =
            bytes.split_at_checked(packed_bytes(DEGREE, width)).ok_or(Error::Malformed(what))?;
        *bytes = rest;
        unpack(width, packed, part);
        if !part.iter().all(|slot| *slot < prime.modulus().value()) {
            return Err(Error::Malformed(what));
        }
    }
    Ok(())
}

/// Appends the given coefficients of a polynomial, without their lowest bits.
pub(super) fn write_coefficients(
    ring: &Ring,
    polynomial: &[u64],
    dropped_bits: u32,
    places: impl Iterator<Item = usize>,
    out: &mut Vec<u8>,
) {
    let width = ring.bits() - dropped_bits;
    let mut writer = BitWriter::new(out);
    places.for_each(|at| writer.write(ring.compose(polynomial, at) >> dropped_bits, width));
    writer.finish();
}

/// Puts the given coefficients into a polynomial, in the middle of what they may be.
///
/// # Errors
/// [`Error::Malformed`] if one is not below q.
pub(super) fn read_coefficients(
    ring: &Ring,
    bytes: &[u8],
    dropped_bits: u32,
    places: impl Iterator<Item = usize>,
    polynomial: &mut [u64],
) -> Result<(), Error> {
    let mut reader = BitReader::new(bytes);
    for at in places {
        let value = reader.read(ring.bits() - dropped_bits) << dropped_bits;
        if value >= ring.modulus() {
            return Err(Error::Malformed("query"));
        }
        let middle = (value + (1 << dropped_bits >> 1)).min(ring.modulus() - 1);
        ring.put(polynomial, at, middle);
    }
    if reader.is_finished() { Ok(()) } else { Err(Error::Malformed("query")) }
}
