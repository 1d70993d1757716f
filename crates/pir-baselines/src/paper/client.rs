//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use pir_core::Error;
use pir_core::bfv::Ciphertext;
use pir_core::constant_time::{divide, equal};
use pir_core::ring::bits::BitWriter;
use pir_core::ring::{Coefficient, Polynomial};
use rand_core::CryptoRng;
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use super::encoding::{answer_header, query_header, read_ciphertexts, write_ciphertext};
use super::kernel::{self, DEGREE, Q, reduce};
use super::keys::ClientKey;
use super::server::whiten;
use super::shape::Parameters;

/// Where an element lies.
struct Place {
    plaintext: usize,
    /// Which of the elements of its plaintext.
    slot: usize,
    row: usize,
    column: usize,
}

impl Place {
    fn new<const T: u32>(parameters: &Parameters<T>, index: usize) -> Result<Self, Error> {
        if index >= parameters.elements() {
            return Err(Error::Index);
        }
        let (plaintext, slot) = divide(index, parameters.elements_per_plaintext());
        let (column, row) = divide(plaintext, parameters.rows());
        Ok(Self { plaintext, slot, row, column })
    }
}

pub(super) fn query<const T: u32, R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters<T>,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let place = Place::new(parameters, index)?;
    let mut error_seed = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut error_seed[..]);
    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header(parameters));
    let dimensions = parameters.selectors().zip([place.row, place.column]);
    for (((selectors, levels), chosen), stream) in dimensions.zip(0..) {
        // floor(q / t) at X^i, where t = 2^levels t'.
        let delta = Q >> (parameters.plaintext_bits() + levels);
        let mut message = Polynomial::zero(DEGREE);
        for (selector, coefficient) in message.residues_mut().iter_mut().take(selectors).enumerate() {
            *coefficient = u64::conditional_select(&0, &delta, equal(selector, chosen));
        }
        let mut uniform_seed = [0; 32];
        rng.fill_bytes(&mut uniform_seed);
        let uniform = kernel::uniform(&uniform_seed, 0);
        write_ciphertext(&key.encrypt(&message, uniform, &error_seed, stream), &mut bytes);
    }
    Ok(bytes)
}

pub(super) fn extract<const T: u32>(
    key: &ClientKey,
    parameters: &Parameters<T>,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const MALFORMED: Error = Error::Malformed("answer");
    let place = Place::new(parameters, index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(MALFORMED);
    }
    let body = answer.strip_prefix(&answer_header(parameters)).ok_or(MALFORMED)?;
    let ciphertexts = read_ciphertexts(body).ok_or(MALFORMED)?;
    let bits = parameters.plaintext_bits();
    let coefficients = match &ciphertexts[..] {
        [only] if parameters.dimensions() == 1 => key.decrypt(only, bits),
        chunks => {
            let chunks: Vec<_> = chunks.iter().map(|chunk| key.decrypt(chunk, bits)).collect();
            key.decrypt(&join(&chunks, bits), bits)
        }
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(parameters.plaintext_bytes()));
    let mut writer = BitWriter::new(&mut bytes);
    coefficients.iter().for_each(|coefficient| writer.write(*coefficient, bits));
    writer.finish();
    whiten(&mut bytes, place.plaintext);
    let size = parameters.element_bytes();
    let mut element = vec![0; size];
    let candidates = bytes.chunks_exact(size).take(parameters.elements_per_plaintext());
    for (candidate, bytes) in candidates.enumerate() {
        let choice = equal(candidate, place.slot);
        element.iter_mut().zip(bytes).for_each(|(out, byte)| out.conditional_assign(byte, choice));
    }
    Ok(element)
}

/// The ciphertext that the chunks are those of, c0's first and the lowest first.
fn join(chunks: &[Zeroizing<Vec<u64>>], bits: u32) -> Ciphertext<Coefficient> {
    let half = |chunks: &[Zeroizing<Vec<u64>>]| {
        Polynomial::from_residues((0..DEGREE).map(|i| {
            let parts = chunks.iter().rev().map(|chunk| u128::from(chunk[i]));
            reduce(parts.fold(0, |value, part| value << bits | part))
        }))
    };
    let (c0, c1) = chunks.split_at(chunks.len() / 2);
    Ciphertext { c0: half(c0), c1: half(c1) }
}
