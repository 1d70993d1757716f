//! Encodings. All fields are little-endian; residues have 60 bits and are packed as in [`pir_core::ring::bits`], each as two
//! fields of 30, the lower first.
//!
//! | encoding | header | body |
//! |---|---|---|
//! | public keys | 33, version, log2 N, log2 t | for every level of EXPAND and every digit, the slots of `b`, then those of `a` |
//! | query | 34, version, d, log2 t' | for every dimension the coefficients of c0, then those of c1 |
//! | answer | 35, version, d, log2 t' | for every ciphertext the coefficients of c0, then those of c1 |
//!
//! As in the paper, nothing is compressed by a seed.

use pir_core::bfv::Ciphertext;
use pir_core::ring::bits::{BitReader, BitWriter};
use pir_core::ring::{Form, Polynomial};

use super::format::{HEADER_BYTES, POLYNOMIAL_BYTES, VERSION};
use super::kernel::{DEGREE, Q, Q_BITS};
use super::shape::Parameters;

/// Half the bits of a residue.
const HALF_BITS: u32 = Q_BITS / 2;

pub(super) fn keys_header<const T: u32>() -> [u8; HEADER_BYTES] {
    [33, VERSION, DEGREE.ilog2() as u8, T as u8]
}

pub(super) fn query_header<const T: u32>(parameters: &Parameters<T>) -> [u8; HEADER_BYTES] {
    [34, VERSION, parameters.dimensions() as u8, parameters.plaintext_bits() as u8]
}

pub(super) fn answer_header<const T: u32>(parameters: &Parameters<T>) -> [u8; HEADER_BYTES] {
    [35, VERSION, parameters.dimensions() as u8, parameters.plaintext_bits() as u8]
}

/// Appends both halves of a ciphertext.
pub(super) fn write_ciphertext<F: Form>(ciphertext: &Ciphertext<F>, out: &mut Vec<u8>) {
    for half in [&ciphertext.c0, &ciphertext.c1] {
        let mut writer = BitWriter::new(out);
        for value in half.residues() {
            writer.write(*value, HALF_BITS);
            writer.write(value >> HALF_BITS, HALF_BITS);
        }
        writer.finish();
    }
}

/// The ciphertexts in bytes that are as many as they take; `None` if a residue is not below q.
pub(super) fn read_ciphertexts<F: Form>(bytes: &[u8]) -> Option<Vec<Ciphertext<F>>> {
    let (ciphertexts, rest) = bytes.as_chunks::<{ 2 * POLYNOMIAL_BYTES }>();
    let ciphertexts = ciphertexts.iter().map(|bytes| {
        let (c0, c1) = bytes.split_at(POLYNOMIAL_BYTES);
        Some(Ciphertext { c0: read_polynomial(c0)?, c1: read_polynomial(c1)? })
    });
    if rest.is_empty() { ciphertexts.collect() } else { None }
}

fn read_polynomial<F: Form>(bytes: &[u8]) -> Option<Polynomial<F>> {
    let mut reader = BitReader::new(bytes);
    let residues = (0..DEGREE).map(|_| reader.read(HALF_BITS) | reader.read(HALF_BITS) << HALF_BITS);
    let polynomial = Polynomial::from_residues(residues);
    polynomial.residues().iter().all(|value| *value < Q).then_some(polynomial)
}
