//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use super::database::whiten;
use super::encoding::{answer_header, query_header, strip_header};
use super::shape::{Parameters, QUERY_DROPPED_BITS, plaintext_bytes, query_coefficient_bits};
use crate::bfv::SecretKey;
use crate::constant_time::public;
use crate::expand::position;
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{Coefficient, Polynomial};
use crate::{Error, bfv};

/// Where an element lies.
struct Place {
    plaintext: usize,
    /// Which of the elements of its plaintext.
    slot: usize,
    row: usize,
    column: usize,
    part: usize,
}

impl Place {
    fn new(parameters: &Parameters, index: usize) -> Result<Self, Error> {
        // A client that asks for what does not exist says so: it gets no query.
        if public(index >= parameters.elements()) {
            return Err(Error::Index);
        }
        let (plaintext, slot) = divide(index, parameters.elements_per_plaintext());
        let (column, row) = divide(plaintext, parameters.rows());
        let (part, column) = divide(column, parameters.columns());
        Ok(Self { plaintext, slot, row, column, part })
    }
}

pub(super) fn query<R: CryptoRng>(
    secret: &SecretKey,
    parameters: &Parameters,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let place = Place::new(parameters, index)?;
    let bfv = bfv::Parameters::s2048();
    let (mut uniform_seed, mut error_seed) = ([0; 32], Zeroizing::new([0; 32]));
    rng.fill_bytes(&mut uniform_seed);
    rng.fill_bytes(&mut error_seed[..]);
    // Sent as it is, in place of the half that it stands for.
    let uniform_seed = public(uniform_seed);
    let encrypted = secret.encrypt(bfv, message(parameters, &place), uniform_seed, &error_seed);

    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header(parameters));
    bytes.extend(encrypted.seed);
    let mut writer = BitWriter::new(&mut bytes);
    for selector in 0..parameters.selectors() {
        let first = position(selector, parameters.levels());
        for coefficient in (first..bfv.degree()).step_by(1 << parameters.levels()) {
            writer
                .write(encrypted.c0.residues()[coefficient] >> QUERY_DROPPED_BITS, query_coefficient_bits());
        }
    }
    writer.finish();
    Ok(bytes)
}

/// `floor(Q / t)` at the selector of the row and, if d = 2, at that of the column; every selector's coefficient is
/// written.
fn message(parameters: &Parameters, place: &Place) -> Polynomial<Coefficient> {
    let bfv = bfv::Parameters::s2048();
    let mut message = Polynomial::zero(bfv.degree());
    for selector in 0..parameters.selectors() {
        let chosen = if selector < parameters.rows() {
            equal(selector, place.row)
        } else {
            equal(selector - parameters.rows(), place.column)
        };
        message.residues_mut()[position(selector, parameters.levels())] =
            u64::conditional_select(&0, &bfv.delta(), chosen);
    }
    message
}

pub(super) fn extract(
    secret: &SecretKey,
    parameters: &Parameters,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    let place = Place::new(parameters, index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(Error::Malformed("answer"));
    }
    let body = strip_header(answer, answer_header(parameters), Error::Malformed("answer"))?;
    let results = pick(parameters, place.part, body);
    Ok(extract_element(secret, parameters, parameters.dimensions(), [place.plaintext, place.slot], &results))
}

/// The results of one part, group by group, touching those of all parts.
fn pick(parameters: &Parameters, part: usize, body: &[u8]) -> Zeroizing<Vec<u8>> {
    let size = parameters.result_bytes();
    let mut picked = Zeroizing::new(vec![0; parameters.groups() * size]);
    let groups = body.chunks_exact(parameters.parts() * size);
    for (picked, results) in picked.chunks_exact_mut(size).zip(groups) {
        for (candidate, result) in results.chunks_exact(size).enumerate() {
            let choice = equal(candidate, part);
            picked.iter_mut().zip(result).for_each(|(out, byte)| out.conditional_assign(byte, choice));
        }
    }
    picked
}

/// Decrypts an answer of the given number of dimensions without its header, and picks the element of a slot of a
/// plaintext.
pub(crate) fn extract_element(
    secret: &SecretKey,
    parameters: &Parameters,
    dimensions: usize,
    [plaintext, slot]: [usize; 2],
    body: &[u8],
) -> Vec<u8> {
    let mut reader = BitReader::new(body);
    let mut element = Vec::with_capacity(parameters.element_bytes());
    for group in 0..parameters.groups() {
        let coefficients = decrypt_nested(secret, parameters, dimensions, &mut reader);
        let mut bytes = Zeroizing::new(Vec::with_capacity(plaintext_bytes()));
        let mut writer = BitWriter::new(&mut bytes);
        let bits = bfv::Parameters::s2048().plaintext_bits();
        coefficients.iter().for_each(|coefficient| writer.write(*coefficient, bits));
        writer.finish();
        whiten(parameters, &mut bytes, group, plaintext);
        select(&bytes, parameters, group, slot, &mut element);
    }
    element
}

/// Reads and decrypts one ciphertext of the answer.
fn decrypt(secret: &SecretKey, parameters: &Parameters, reader: &mut BitReader<'_>) -> Zeroizing<Vec<u64>> {
    let bfv = bfv::Parameters::s2048();
    let bits = parameters.answer_coefficient_bits();
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let (c0, c1) = (half(), half());
    secret.decrypt(bfv, &c0, &c1, bits)
}

/// Reads and decrypts a ciphertext of the answer or, with more dimensions than one, what carries the four chunks of a
/// ciphertext modulo `t^2`, and decrypts that.
fn decrypt_nested(
    secret: &SecretKey,
    parameters: &Parameters,
    dimensions: usize,
    reader: &mut BitReader<'_>,
) -> Zeroizing<Vec<u64>> {
    if dimensions == 1 {
        return decrypt(secret, parameters, reader);
    }
    let bfv = bfv::Parameters::s2048();
    let mut half = || {
        let low = decrypt_nested(secret, parameters, dimensions - 1, reader);
        let high = decrypt_nested(secret, parameters, dimensions - 1, reader);
        low.iter()
            .zip(high.iter())
            .map(|(low, high)| low | high << bfv.plaintext_bits())
            .collect::<Vec<u64>>()
    };
    // They tell the column.
    let (c0, c1) = (Zeroizing::new(half()), Zeroizing::new(half()));
    secret.decrypt(bfv, &c0, &c1, 2 * bfv.plaintext_bits())
}

/// Appends the bytes of slot `slot`, touching those of all slots.
fn select(bytes: &[u8], parameters: &Parameters, group: usize, slot: usize, element: &mut Vec<u8>) {
    let size = parameters.bytes_in_group(group);
    let mut chosen = Zeroizing::new(vec![0; size]);
    for (candidate, bytes) in bytes.chunks_exact(size).take(parameters.elements_per_plaintext()).enumerate() {
        let choice = equal(candidate, slot);
        chosen.iter_mut().zip(bytes).for_each(|(out, byte)| out.conditional_assign(byte, choice));
    }
    element.extend_from_slice(&chosen);
}

pub(crate) fn equal(a: usize, b: usize) -> Choice {
    (a as u64).ct_eq(&(b as u64))
}

/// Quotient and remainder by long division, a bit at a time; `divisor` is public and not 0.
pub(crate) fn divide(dividend: usize, divisor: usize) -> (usize, usize) {
    let (dividend, divisor) = (dividend as u64, divisor as u64);
    let (mut quotient, mut remainder) = (0u64, 0u64);
    for bit in (0..u64::BITS).rev() {
        remainder = remainder << 1 | (dividend >> bit & 1);
        // A mask made here by hand was compiled to a branch in one of three places; this one is opaque.
        let fits = Choice::from(((remainder.wrapping_sub(divisor) >> 63) ^ 1) as u8);
        remainder.conditional_assign(&remainder.wrapping_sub(divisor), fits);
        quotient |= u64::from(fits.unwrap_u8()) << bit;
    }
    (quotient as usize, remainder as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::divide;

    proptest! {
        #[test]
        fn long_division_is_division(dividend in 0usize..1 << 40, divisor in 1usize..1 << 20) {
            prop_assert_eq!(divide(dividend, divisor), (dividend / divisor, dividend % divisor));
        }
    }
}
