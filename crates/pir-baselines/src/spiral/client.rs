//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use pir_core::Error;
use pir_core::constant_time::{equal, public};
use pir_core::expand::position;
use pir_core::ring::bits::{BitReader, BitWriter};
use pir_core::ring::{Polynomial, slots};
use rand_core::CryptoRng;
use subtle::ConditionallySelectable;
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{answer_header, query_header, write_coefficients, write_slots};
use super::keys::ClientKey;
use super::lattice::{DEGREE, zeros};
use super::server::{sent, whiten};
use super::shape::{Parameters, Place};

/// What a row that is selected encrypts: `round(Q / p)`.
pub(super) fn scale(parameters: &Parameters) -> u64 {
    let q = parameters.preset().lattice.key.modulus();
    (q + (1 << (parameters.plaintext_bits() - 1))) >> parameters.plaintext_bits()
}

/// What the ciphertext of a digit of a folding bit encrypts if the bit is set: the weight of the digit, scaled from q to Q.
pub(super) fn weight(parameters: &Parameters, digit: u32) -> u64 {
    let lattice = &parameters.preset().lattice;
    let weight = u128::from(lattice.data.weight(parameters.folding(), digit));
    let [from, to] = [&lattice.data, &lattice.key].map(|ring| u128::from(ring.modulus()));
    ((weight * to + from / 2) / from) as u64
}

/// All ones if a fold takes the second of two columns, and 0 otherwise.
fn if_second(place: &Place, fold: u32) -> u64 {
    ((place.column >> fold & 1) as u64).wrapping_neg()
}

/// All ones if that is the row.
fn if_row(place: &Place, row: usize) -> u64 {
    u64::conditional_select(&0, &u64::MAX, equal(row, place.row))
}

pub(super) fn query<R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if key.preset() != parameters.preset {
        return Err(Error::Shape("a key of another engine"));
    }
    let place = parameters.place(index)?;
    let (mut uniform_seed, mut error_seed) = ([0; 32], Zeroizing::new([0; 32]));
    rng.fill_bytes(&mut uniform_seed);
    rng.fill_bytes(&mut error_seed[..]);
    // Sent as it is, in place of the polynomials that it stands for.
    let uniform_seed = public(uniform_seed);
    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header(parameters));
    bytes.extend(uniform_seed);
    if parameters.preset().streams {
        upload(key, parameters, &place, [&uniform_seed, &error_seed], &mut bytes);
    } else {
        compress(key, parameters, &place, [&uniform_seed, &error_seed], &mut bytes);
    }
    Ok(bytes)
}

/// Two ciphertexts that are expanded: of the rows, and of the folding bits.
fn compress(
    key: &ClientKey,
    parameters: &Parameters,
    place: &Place,
    [uniform_seed, error_seed]: [&[u8; 32]; 2],
    bytes: &mut Vec<u8>,
) {
    let ring = &parameters.preset().lattice.key;
    let (words, digits) = (ring.words(), parameters.folding().digits);
    let trees =
        [(parameters.rows(), parameters.row_levels()), (parameters.bit_leaves(), parameters.bit_levels())];
    for (number, (leaves, levels)) in trees.into_iter().enumerate() {
        let mut ciphertext = zeros(2 * words);
        let (a, b) = ciphertext.residues_mut().split_at_mut(words);
        ring.uniform(uniform_seed, number as u64, a);
        for leaf in 0..leaves {
            let value = if number == 0 {
                scale(parameters) & if_row(place, leaf)
            } else {
                let (fold, digit) = (leaf as u32 / digits, leaf as u32 % digits);
                weight(parameters, digit) & if_second(place, fold)
            };
            ring.put(b, position(leaf, levels), value);
        }
        ring.forward(ciphertext.residues_mut());
        ClientKey::mask(&key.secrets()[..1], ring, error_seed, number as u64, ciphertext.residues_mut());
        let b = &mut ciphertext.residues_mut()[words..];
        ring.inverse(b);
        write_coefficients(ring, b, parameters.preset().dropped_bits[number], sent(leaves, levels), bytes);
        // What was sent less this is what was asked for.
        ciphertext.zeroize();
    }
}

/// Ciphertexts of the rows, and scalar ciphertexts or the columns of the folding bits.
fn upload(
    key: &ClientKey,
    parameters: &Parameters,
    place: &Place,
    [uniform_seed, error_seed]: [&[u8; 32]; 2],
    bytes: &mut Vec<u8>,
) {
    let (ring, width) = (&parameters.preset().lattice.key, parameters.width());
    let (words, digits) = (ring.words(), parameters.folding().digits);
    let (mut number, mut stream) = (0, 0);
    // A column: the value times 1, or times the secret of the row, in those of its rows that `holds` tells, or 0 under the mask.
    let mut send = |height: usize, holds: &dyn Fn(usize) -> Option<bool>, value: u64, mask: u64| {
        let mut column = zeros((1 + height) * words);
        let (a, b) = column.residues_mut().split_at_mut(words);
        ring.uniform(uniform_seed, number, a);
        for (row, b) in b.chunks_exact_mut(words).enumerate() {
            let Some(times_secret) = holds(row) else { continue };
            let mut one = zeros(words);
            (0..words).for_each(|at| one.residues_mut()[at] = 1);
            b.copy_from_slice(if times_secret { key.secrets()[row].residues() } else { one.residues() });
            ring.scale(b, value);
            b.iter_mut().for_each(|slot| *slot &= mask);
        }
        ClientKey::mask(key.secrets(), ring, error_seed, stream, column.residues_mut());
        for b in column.residues()[words..].chunks_exact(words) {
            write_slots(ring, b, bytes);
        }
        column.zeroize();
        number += 1;
        stream += height as u64;
    };
    for row in 0..parameters.rows() {
        send(1, &|_| Some(false), scale(parameters), if_row(place, row));
    }
    for fold in 0..parameters.folds() {
        let second = if_second(place, fold);
        if parameters.preset().converts(width) {
            (0..digits).for_each(|digit| send(1, &|_| Some(false), weight(parameters, digit), second));
            continue;
        }
        for source in 0..=width {
            // Digits of a take the secrets, those of b a row of their own.
            let holds = |row: usize| match source {
                0 => Some(true),
                _ => (row + 1 == source).then_some(false),
            };
            (0..digits).for_each(|digit| send(width, &holds, weight(parameters, digit), second));
        }
    }
}

pub(super) fn extract(
    key: &ClientKey,
    parameters: &Parameters,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const MALFORMED: Error = Error::Malformed("answer");
    if key.preset() != parameters.preset {
        return Err(Error::Shape("a key of another engine"));
    }
    let place = parameters.place(index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(MALFORMED);
    }
    let body = answer.strip_prefix(&answer_header(parameters)).ok_or(MALFORMED)?;
    let mut element = Vec::with_capacity(parameters.element_bytes());
    for (group, matrix) in body.chunks_exact(parameters.group_bytes()).enumerate() {
        let mut plaintext = Zeroizing::new(Vec::with_capacity(parameters.plaintext_bytes()));
        for (number, values) in decrypt(key, parameters, matrix).iter().enumerate() {
            let mut bytes = Vec::with_capacity(parameters.polynomial_bytes());
            let mut writer = BitWriter::new(&mut bytes);
            values.iter().for_each(|value| writer.write(*value, parameters.plaintext_bits()));
            writer.finish();
            whiten(parameters, &mut bytes, place.plaintext, [group, number]);
            plaintext.extend_from_slice(&bytes);
            bytes.zeroize();
        }
        parameters.select(&plaintext, group, place.slot, &mut element);
    }
    Ok(element)
}

/// The coefficients of the polynomials of a matrix, column by column: `round(p phase / 2^bits) mod p`.
fn decrypt(key: &ClientKey, parameters: &Parameters, matrix: &[u8]) -> Vec<Zeroizing<Vec<u64>>> {
    let dropped = parameters.answer_bits()[1] - parameters.plaintext_bits();
    let mask = (1 << parameters.plaintext_bits()) - 1;
    let mut phases = phases(key, parameters, matrix);
    for value in phases.iter_mut().flat_map(|phase| phase.iter_mut()) {
        *value = (*value + (1 << dropped >> 1)) >> dropped & mask;
    }
    phases
}

/// `b_j + a s_j` modulo `2^bits` for the b bits of the longer part of an answer, column by column.
pub(super) fn phases(key: &ClientKey, parameters: &Parameters, matrix: &[u8]) -> Vec<Zeroizing<Vec<u64>>> {
    let ([short, long], dimension) = (parameters.answer_bits(), parameters.dimension());
    let (exact, mask) = (&parameters.preset().lattice.exact, (1 << long) - 1);
    // |a s| <= 2^(long - 1) N over the integers: exact modulo a prime of 50 bits.
    assert!(long + DEGREE.ilog2() < exact.modulus().bits(), "coefficients far below the prime");
    let (with_message, others) = matrix.split_at(parameters.polynomials() * DEGREE * short as usize / 8);
    let polynomials = |bytes: &[u8], bits: u32| -> Vec<Vec<u64>> {
        let each = DEGREE * bits as usize / 8;
        let read = |bytes: &[u8]| {
            let mut reader = BitReader::new(bytes);
            (0..DEGREE).map(|_| reader.read(bits)).collect()
        };
        bytes.chunks_exact(each).map(read).collect()
    };
    let columns = polynomials(others, long);
    let mut phases = Vec::with_capacity(parameters.polynomials());
    for (column, b) in columns.iter().zip(polynomials(with_message, short).chunks_exact(dimension)) {
        let centred: Vec<i64> =
            column.iter().map(|value| ((value << (64 - long)) as i64) >> (64 - long)).collect();
        let a = Polynomial::from_signed(exact.modulus(), &centred).into_evaluation(exact);
        for (b, secret) in b.iter().zip(key.exact_secrets()) {
            let mut product = a.clone();
            slots::mul_assign(exact.modulus(), product.residues_mut(), secret.residues());
            let mut product = product.into_coefficient(exact);
            let values = product.residues().iter().zip(b).map(|(product, b)| {
                (exact.modulus().centre(*product) as u64).wrapping_add(b << (long - short)) & mask
            });
            phases.push(Zeroizing::new(values.collect()));
            product.zeroize();
        }
    }
    phases
}
