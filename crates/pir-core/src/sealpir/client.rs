//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use rand_core::CryptoRng;
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use super::encoding::{answer_header, query_header, strip_header};
use super::format::QUERY_DROPPED_BITS;
use super::shape::{Parameters, query_coefficient_bits};
use crate::bfv::SecretKey;
use crate::constant_time::{divide, equal, public};
use crate::expand::position;
use crate::ring::bits::BitWriter;
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
    let place = [place.plaintext, place.slot];
    Ok(parameters.answer_form().extract(secret, parameters.packing(), place, &results))
}

/// The results of one part, group by group, touching those of all parts.
fn pick(parameters: &Parameters, part: usize, body: &[u8]) -> Zeroizing<Vec<u8>> {
    let size = parameters.answer_form().bytes();
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
