//! The client's half: a request under a secret that is drawn for it alone, and what reads the answers.

use subtle::{ConditionallySelectable, ConstantTimeLess};
use zeroize::{Zeroize, Zeroizing};

use super::ring::{
    ANSWER_BITS, DEGREE, DROPPED_BITS, HINT_BITS, MODULUS_BITS, ORBIT, PLAINTEXT_BITS, QUERY_BITS,
    RADIX_BITS, Ring, Round, Whitening,
};
use super::shape::{Ending, Shape};
use crate::Error;
use crate::constant_time::{equal, public};
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{Coefficient, Evaluation, Polynomial, sampling};

/// What reads the answers to a request: the secret under which it was made, which serves no other one, and what was asked for.
pub struct Asked {
    shape: Shape,
    targets: Zeroizing<Vec<u64>>,
    secret: Polynomial<Evaluation>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// Streams of the secret seed of a request.
mod stream {
    pub(super) const SECRET: u64 = 0;
    pub(super) const STEP: u64 = 1;
    pub(super) const CONJUGATION: u64 = 2;
    /// And those behind it, one for each ciphertext.
    pub(super) const QUERY: u64 = 3;
}

/// Asks for element `targets[i]` of every bucket i, under a secret that is drawn from `own` for this request, whose keys are in the
/// request. Nothing else may be drawn from it.
///
/// Size and form do not depend on the targets, nor do branches and memory accesses.
///
/// # Errors
/// [`Error::Index`] if a target is not below the number of elements; [`Error::Shape`] if there are more buckets than there can be.
pub fn request(
    shape: &Shape,
    seed: &[u8; 32],
    targets: &[usize],
    own: &[u8; 32],
) -> Result<(Vec<u8>, Asked), Error> {
    if shape.ending() != Ending::Hint {
        return Err(Error::Shape("an arrangement without a hint"));
    }
    let bytes = shape.request_bytes(targets.len()).ok_or(Error::Shape("number of buckets"))?;
    let (ring, round) = (Ring::get(), Round::new(seed));
    let modulus = ring.modulus();
    let ternary = sampling::ternary(DEGREE, own, stream::SECRET);
    let secret = Polynomial::<Coefficient>::from_signed(modulus, &ternary).into_evaluation(&ring.ntt);

    let mut out = Vec::with_capacity(bytes);
    // `s(X^5)` has at place (h, i) what s has at (h, i + 1), `s(X^-1)` at (h, i) what s has at (1 - h, i).
    let stepped = |place: usize| place & ORBIT | ((place + 1) % ORBIT);
    write_key(&mut out, &secret, &round.step, &stepped, own, stream::STEP);
    let conjugated = |place: usize| place ^ ORBIT;
    write_key(&mut out, &secret, &round.conjugation, &conjugated, own, stream::CONJUGATION);

    masked_queries(&mut out, shape, &round, &secret, targets, (own, stream::QUERY))?;
    let targets = Zeroizing::new(targets.iter().map(|target| *target as u64).collect());
    Ok((out, Asked { shape: *shape, targets, secret }))
}

/// Writes a query for every bucket: one behind the other, and of each the coefficients that select its row. Errors are drawn from a
/// seed, beginning at a stream.
///
/// # Errors
/// [`Error::Index`] if a target is not below the number of elements.
pub(super) fn masked_queries(
    out: &mut Vec<u8>,
    shape: &Shape,
    round: &Round,
    secret: &Polynomial<Evaluation>,
    targets: &[usize],
    (own, first_stream): (&[u8; 32], u64),
) -> Result<(), Error> {
    let inside = |target: &usize| (*target as u64).ct_lt(&(shape.elements() as u64));
    let all = targets.iter().fold(subtle::Choice::from(1), |all, target| all & inside(target));
    if public(all.unwrap_u8()) == 0 {
        return Err(Error::Index);
    }
    let ring = Ring::get();
    let modulus = ring.modulus();
    let unit_buckets = shape.unit_buckets();
    for (unit, targets) in targets.chunks(unit_buckets).enumerate() {
        let ciphertexts: Vec<Zeroizing<Vec<u64>>> = (0..shape.ciphertexts())
            .map(|number| {
                let number = (unit * shape.ciphertexts() + number) as u64;
                masked(ring, secret, round.query(number), own, first_stream + number)
            })
            .collect();
        let coefficient = |at: usize| ciphertexts[at / DEGREE][at % DEGREE];
        for (bucket, target) in targets.iter().enumerate() {
            let (row, _) = shape.place(*target as u64);
            let mut values = Zeroizing::new(Vec::with_capacity(shape.positions()));
            for (position, at) in shape.coefficients(bucket).enumerate() {
                let here = equal(position, (row >> 1) as usize);
                let message = select_row(ring, row & 1);
                let message = u64::conditional_select(&0, &message, here);
                values.push(modulus.add(coefficient(at), message));
            }
            ring.to_query.apply_all(&mut values);
            let mut writer = BitWriter::new(out);
            values.iter().for_each(|value| writer.write(*value, QUERY_BITS));
            writer.finish();
        }
    }
    Ok(())
}

/// `round(q / t)` for an even row, `round(q / (t 2^13))` for an odd one.
fn select_row(ring: &Ring, odd: u64) -> u64 {
    let choice = subtle::Choice::from(odd as u8);
    u64::conditional_select(&ring.share(PLAINTEXT_BITS), &ring.share(PLAINTEXT_BITS + RADIX_BITS), choice)
}

/// `e - a s`, coefficients.
pub(super) fn masked(
    ring: &Ring,
    secret: &Polynomial<Evaluation>,
    mut a: Polynomial<Evaluation>,
    own: &[u8; 32],
    stream: u64,
) -> Zeroizing<Vec<u64>> {
    let modulus = ring.modulus();
    a.mul_assign(modulus, secret);
    let product = Zeroizing::new(a.into_coefficient(&ring.ntt));
    let mut sum = Polynomial::<Coefficient>::from_signed(modulus, &sampling::errors(DEGREE, own, stream));
    sum.sub_assign(modulus, &product);
    let values = Zeroizing::new(sum.residues().to_vec());
    sum.zeroize();
    values
}

/// `e - a s + 2^26 image(s)` by place, where the image has at a place what s has at `image(place)`.
fn write_key(
    out: &mut Vec<u8>,
    secret: &Polynomial<Evaluation>,
    a: &Polynomial<Evaluation>,
    image: &dyn Fn(usize) -> usize,
    own: &[u8; 32],
    stream: u64,
) {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let errors = sampling::errors(DEGREE, own, stream);
    let mut errors = Polynomial::<Coefficient>::from_signed(modulus, &errors).into_evaluation(&ring.ntt);
    let mut writer = BitWriter::new(out);
    let s = secret.residues();
    for (place, slot) in ring.other.iter().enumerate() {
        let product = modulus.mul(a.residues()[*slot], s[*slot]);
        let image = modulus.mul(s[ring.other[image(place)]], 1 << DROPPED_BITS);
        let value = modulus.add(modulus.sub(errors.residues()[*slot], product), image);
        writer.write(value, MODULUS_BITS);
    }
    writer.finish();
    errors.zeroize();
}

impl Asked {
    /// The shape that was asked under.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Reads the elements of a unit, whitened under a seed, out of its hint and answer, wanted or not; all of its columns are looked
    /// at.
    ///
    /// # Errors
    /// [`Error::Malformed`] if one of them is of another size.
    pub fn read(
        &self,
        whitening: &[u8; 32],
        unit: usize,
        hint: &[u8],
        answer: &[u8],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let shape = &self.shape;
        if hint.len() != shape.hint_bytes() || answer.len() != shape.answer_bytes() {
            return Err(Error::Malformed("size of a hint or an answer"));
        }
        let values = self.messages(hint, answer);
        let (whitening, first) = (Whitening::new(whitening), unit * shape.unit_buckets());
        let targets = self.targets.iter().enumerate().skip(first).take(shape.unit_buckets());
        let elements =
            targets.zip(values.chunks(shape.bucket_outputs())).map(|((bucket, target), values)| {
                let (_, column) = shape.place(*target);
                let mut chosen = Zeroizing::new(vec![0u64; shape.element_outputs()]);
                for (candidate, values) in values.chunks_exact(shape.element_outputs()).enumerate() {
                    let choice = equal(candidate, column as usize);
                    chosen
                        .iter_mut()
                        .zip(values)
                        .for_each(|(out, value)| out.conditional_assign(value, choice));
                }
                let mut bytes = Vec::with_capacity(chosen.len() * PLAINTEXT_BITS as usize / 8);
                let mut writer = BitWriter::new(&mut bytes);
                chosen.iter().for_each(|value| writer.write(*value, PLAINTEXT_BITS));
                writer.finish();
                whitening.apply(&mut bytes, bucket, *target as usize);
                bytes.truncate(shape.element_bytes());
                bytes
            });
        Ok(elements.collect())
    }

    #[cfg(test)]
    pub(super) fn secret(&self) -> &Polynomial<Evaluation> {
        &self.secret
    }

    /// The messages of all outputs of a unit, `[0, t)`, before whitening is taken off.
    fn messages(&self, hint: &[u8], answer: &[u8]) -> Zeroizing<Vec<u64>> {
        let ring = Ring::get();
        let modulus = ring.modulus();
        let raise = |value, bits| ring.raise(value, bits);
        let (mut hint, mut answer) = (BitReader::new(hint), BitReader::new(answer));
        let mut messages = Zeroizing::new(Vec::with_capacity(self.shape.packs() * DEGREE));
        for _ in 0..self.shape.packs() {
            let rest = (0..DEGREE).map(|_| raise(hint.read(HINT_BITS), HINT_BITS));
            let mut rest = Polynomial::<Coefficient>::from_residues(rest).into_evaluation(&ring.ntt);
            rest.mul_assign(modulus, &self.secret);
            let mut phase = rest.into_coefficient(&ring.ntt);
            for value in phase.residues_mut() {
                *value = modulus.add(*value, raise(answer.read(ANSWER_BITS), ANSWER_BITS));
            }
            ring.to_plaintext.apply_all(phase.residues_mut());
            // `D + t/2` was a field of the element.
            let half = 1 << (PLAINTEXT_BITS - 1);
            let fields = phase.residues().iter().map(|value| (value + half) & ((1 << PLAINTEXT_BITS) - 1));
            messages.extend(fields);
            phase.zeroize();
        }
        messages
    }
}
