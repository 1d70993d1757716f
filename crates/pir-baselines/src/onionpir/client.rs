//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use pir_core::constant_time::{divide, equal, public};
use pir_core::expand::position;
use pir_core::ring::bits::BitWriter;
use pir_core::ring::{Coefficient, Polynomial};
use pir_core::{Error, bfv};
use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable};
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{ROW_DROPPED_BITS, VALUE_DROPPED_BITS, answer_header, query_header};
use super::keys::ClientKey;
use super::selectors::PRODUCT;
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
    fn new(parameters: &Parameters, index: usize) -> Result<Self, Error> {
        // A client that asks for what does not exist says so: it gets no query.
        if public(index >= parameters.elements()) {
            return Err(Error::Index);
        }
        let (plaintext, slot) = divide(index, parameters.packing().elements_per_plaintext());
        let (column, row) = divide(plaintext, parameters.rows());
        Ok(Self { plaintext, slot, row, column })
    }
}

pub(super) fn query<R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let place = Place::new(parameters, index)?;
    let bfv = bfv::Parameters::s2048();
    let modulus = bfv.large().modulus();
    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header(parameters));
    let row = |row: usize| u64::conditional_select(&0, &bfv.delta(), equal(row, place.row));
    encrypt(key, (0..parameters.rows()).map(row), parameters.levels(), ROW_DROPPED_BITS, rng, &mut bytes);
    if parameters.values() > 0 {
        let values = (0..parameters.column_bits()).flat_map(|k| {
            let bit = Choice::from((place.column >> k & 1) as u8);
            (0..PRODUCT.digits).map(move |i| u64::conditional_select(&0, &PRODUCT.weight(modulus, i), bit))
        });
        encrypt(key, values, parameters.value_levels(), VALUE_DROPPED_BITS, rng, &mut bytes);
    }
    Ok(bytes)
}

/// Appends a seeded ciphertext that expands to these values, as constants.
fn encrypt<R: CryptoRng>(
    key: &ClientKey,
    values: impl Iterator<Item = u64> + Clone,
    levels: u32,
    dropped: u32,
    rng: &mut R,
    bytes: &mut Vec<u8>,
) {
    let bfv = bfv::Parameters::s2048();
    let (mut uniform_seed, mut error_seed) = ([0; 32], Zeroizing::new([0; 32]));
    rng.fill_bytes(&mut uniform_seed);
    rng.fill_bytes(&mut error_seed[..]);
    // Sent as it is, in place of the half that it stands for.
    let uniform_seed = public(uniform_seed);
    let mut message: Polynomial<Coefficient> = Polynomial::zero(bfv.degree());
    for (leaf, value) in values.clone().enumerate() {
        message.residues_mut()[position(leaf, levels)] = value;
    }
    let mut encrypted = key.secret().encrypt(bfv, message, uniform_seed, &error_seed);
    bytes.extend(encrypted.seed);
    let mut writer = BitWriter::new(bytes);
    for (leaf, _) in values.enumerate() {
        for coefficient in (position(leaf, levels)..bfv.degree()).step_by(1 << levels) {
            let value = encrypted.c0.residues()[coefficient] >> dropped;
            writer.write(value, bfv.large().modulus().bits() - dropped);
        }
    }
    writer.finish();
    encrypted.c0.zeroize();
}

pub(super) fn extract(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const MALFORMED: Error = Error::Malformed("answer");
    let Place { plaintext, slot, .. } = Place::new(parameters, index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(MALFORMED);
    }
    let body = answer.strip_prefix(&answer_header(parameters)).ok_or(MALFORMED)?;
    Ok(parameters.answer_form().extract(key.secret(), parameters.packing(), [plaintext, slot], body))
}
