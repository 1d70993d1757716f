//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use pir_core::Error;
use pir_core::constant_time::{equal, public};
use pir_core::ring::bits::{BitReader, BitWriter};
use pir_core::ring::{Coefficient, Evaluation, Polynomial, sampling};
use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable};
use zeroize::{Zeroize, Zeroizing};

use super::batching::{Batching, slot};
use super::encoding::{answer_header, query_header, write_polynomial};
use super::keys::{ClientKey, from_signed};
use super::lattice::{DEGREE, Lattice, PLACES, ROTATIONS};
use super::server::whiten;
use super::shape::Parameters;

/// The ciphertext of a query that selects an element, and the place.
fn locate<const Q: u32>(parameters: &Parameters<Q>, index: usize) -> Result<[usize; 2], Error> {
    // A client that asks for what does not exist says so: it gets no query.
    if public(index >= parameters.elements()) {
        return Err(Error::Index);
    }
    Ok([index >> ROTATIONS, index & (PLACES - 1)])
}

/// `round(q m / t)` modulo each prime of q, for the coefficients of m modulo t.
///
/// With r what is left of `q m` modulo t, centred, that is `(q m - r) / t`: `-r / t` modulo a prime of q.
pub(super) fn scaled(
    lattice: &Lattice,
    batching: &Batching,
    message: &[u64],
) -> Vec<Polynomial<Coefficient>> {
    let t = batching.modulus();
    let q = lattice.modulo(t);
    let parts = lattice.data().iter().map(|ring| {
        let modulus = ring.modulus();
        let factor = modulus.shoup(modulus.neg(modulus.inverse(t.value())));
        let remainder = |m: &u64| modulus.from_signed(t.centre(t.mul(*m, q)));
        Polynomial::from_residues(message.iter().map(|m| modulus.mul_shoup(remainder(m), factor)))
    });
    parts.collect()
}

pub(super) fn query<const Q: u32, R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters<Q>,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let [row, place] = locate(parameters, index)?;
    let (lattice, batching) = (Lattice::of::<Q>(), parameters.batching());
    let (mut uniform_seed, mut error_seed) = ([0; 32], Zeroizing::new([0; 32]));
    rng.fill_bytes(&mut uniform_seed);
    rng.fill_bytes(&mut error_seed[..]);
    // Sent as it is, in place of the halves that it stands for.
    let uniform_seed = public(uniform_seed);

    // 1 at the place, in both rows.
    let mut values = Zeroizing::new(vec![0; DEGREE]);
    for candidate in 0..PLACES {
        let value = u64::conditional_select(&0, &1, equal(candidate, place));
        (values[slot(0, candidate)], values[slot(1, candidate)]) = (value, value);
    }
    batching.encode(&mut values);
    let parts = scaled(lattice, batching, &values).into_iter().zip(lattice.data());
    let mut message: Vec<Polynomial<Evaluation>> =
        parts.map(|(part, ring)| part.into_evaluation(ring)).collect();

    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header(parameters));
    bytes.extend(uniform_seed);
    let mut stream = 0;
    for candidate in 0..parameters.rows() {
        let errors = sampling::errors(DEGREE, &error_seed, candidate as u64);
        // All ones for the ciphertext that selects.
        let mask = u64::conditional_select(&0, &u64::MAX, equal(candidate, row));
        for ((ring, secret), message) in lattice.data().iter().zip(key.secret()).zip(&message) {
            let mut c0 = from_signed(ring, &errors);
            let mut product: Polynomial<Evaluation> = sampling::uniform(ring, &uniform_seed, stream);
            product.mul_assign(ring.modulus(), secret);
            c0.sub_assign(ring.modulus(), &product);
            for (slot, message) in c0.residues_mut().iter_mut().zip(message.residues()) {
                *slot = ring.modulus().add(*slot, message & mask);
            }
            write_polynomial(ring, &c0, &mut bytes);
            product.zeroize();
            // What was sent less this is what was asked for.
            c0.zeroize();
            stream += 1;
        }
    }
    message.iter_mut().for_each(Zeroize::zeroize);
    Ok(bytes)
}

pub(super) fn extract<const Q: u32>(
    key: &ClientKey,
    parameters: &Parameters<Q>,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const MALFORMED: Error = Error::Malformed("answer");
    let [_, place] = locate(parameters, index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(MALFORMED);
    }
    let body = answer.strip_prefix(&answer_header(parameters)).ok_or(MALFORMED)?;
    let mut bytes = Vec::with_capacity(parameters.padded_bytes());
    let mut writer = BitWriter::new(&mut bytes);
    for group in body.chunks_exact(parameters.group_bytes()) {
        let mut values = decrypt(key, parameters, group);
        parameters.batching().decode(&mut values);
        for row in 0..2 {
            let values = Zeroizing::new(downwards(&values, row, place));
            values[..parameters.columns()]
                .iter()
                .for_each(|value| writer.write(*value, parameters.value_bits()));
        }
    }
    writer.finish();
    bytes.truncate(parameters.element_bytes());
    whiten(&mut bytes, index);
    Ok(bytes)
}

/// `round(t phase / 2^bits) mod t`, coefficient by coefficient.
fn decrypt<const Q: u32>(key: &ClientKey, parameters: &Parameters<Q>, group: &[u8]) -> Zeroizing<Vec<u64>> {
    let bits = parameters.answer_coefficient_bits();
    let t = parameters.batching().modulus();
    let mut reader = BitReader::new(group);
    let mut half = || (0..DEGREE).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let (c0, c1) = (half(), half());
    let mut message = key.phase(Lattice::of::<Q>(), [&c0, &c1], bits);
    for value in message.iter_mut() {
        // At most t.
        *value = t.reduce_once((*value * t.value() + (1 << (bits - 1))) >> bits);
    }
    message
}

/// The values of a row from a secret place on, downwards and, at the first one, on from the last.
fn downwards(values: &[u64], row: usize, place: usize) -> Vec<u64> {
    let mut turned: Vec<u64> = (0..PLACES).map(|i| values[slot(row, (PLACES - i) % PLACES)]).collect();
    // Up by each bit of the place in turn.
    for k in 0..ROTATIONS {
        let choice = Choice::from((place >> k & 1) as u8);
        let moved = |i: usize| turned[(i + PLACES - (1 << k)) % PLACES];
        let next = (0..PLACES).map(|i| u64::conditional_select(&turned[i], &moved(i), choice)).collect();
        Zeroizing::new(core::mem::replace(&mut turned, next));
    }
    turned
}
