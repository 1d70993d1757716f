//! The client's half: a secret for some rounds, its keys, requests, and what reads the replies.

use std::collections::BTreeSet;

use subtle::ConditionallySelectable;
use zeroize::{Zeroize, Zeroizing};

use super::DIGIT_BITS;
use super::common::key_seed;
use super::keys;
use super::server::Rows;
use crate::Error;
use crate::constant_time::equal;
use crate::ring::bits::{BitReader, BitWriter, packed_bytes};
use crate::ring::{Coefficient, Evaluation, Polynomial, bit_reverse, sampling};
use crate::voce::client::{masked, masked_queries};
use crate::voce::ring::{
    COLUMN_BITS, DEGREE, HINT_BITS, PLAINTEXT_BITS, REPLY_BITS, REPLY_PUBLIC_BITS, Ring, Round, Whitening,
};
use crate::voce::shape::{Ending, LEVELS, Shape};

/// Streams of a secret's seed: the secret, and its keys' errors from here on.
mod stream {
    pub(super) const SECRET: u64 = 0;
    pub(super) const KEYS: u64 = 1;
    /// Of a request's own seed: those of queries start at 0.
    pub(super) const COLUMNS: u64 = 1 << 32;
}

/// A secret, and the seeds of rounds under which it has asked: under each of them it asks once.
pub struct Secret {
    seed: Zeroizing<[u8; 32]>,
    secret: Polynomial<Evaluation>,
    asked: BTreeSet<[u8; 32]>,
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl Secret {
    /// The secret of a seed, from which nothing else is drawn.
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Self {
        let ring = Ring::get();
        let ternary = sampling::ternary(DEGREE, seed, stream::SECRET);
        let secret = Polynomial::<Coefficient>::from_signed(ring.modulus(), &ternary);
        Self {
            seed: Zeroizing::new(*seed),
            secret: secret.into_evaluation(&ring.ntt),
            asked: BTreeSet::new(),
        }
    }

    /// What the server needs to answer; always the same bytes.
    #[must_use]
    pub fn public_keys(&self) -> Vec<u8> {
        keys::write(&self.secret, &self.seed, stream::KEYS)
    }

    /// Asks for element `targets[i]` of every bucket i; `own` is drawn for this request alone.
    ///
    /// Size and form do not depend on the targets, nor do branches and memory accesses.
    ///
    /// # Errors
    /// [`Error::Repeated`] if it has asked under this seed before: two requests under one secret and one seed would give the
    /// difference of what was asked for; [`Error::Index`] if a target is not below the number of elements; [`Error::Shape`] if
    /// there are more buckets than there can be, or the arrangement is one with a hint.
    pub fn request(
        &mut self,
        shape: &Shape,
        seed: &[u8; 32],
        targets: &[usize],
        own: &[u8; 32],
    ) -> Result<(Vec<u8>, Asked), Error> {
        if shape.ending() != Ending::Selected {
            return Err(Error::Shape("an arrangement with a hint"));
        }
        let bytes = shape.request_bytes(targets.len()).ok_or(Error::Shape("number of buckets"))?;
        let round = Round::with_keys(seed, &key_seed());
        if !self.asked.insert(*seed) {
            return Err(Error::Repeated);
        }
        let mut out = Vec::with_capacity(bytes);
        masked_queries(&mut out, shape, &round, &self.secret, targets, (own, 0))?;
        for (unit, targets) in targets.chunks(shape.unit_buckets()).enumerate() {
            self.ask_columns(&mut out, shape, &round, unit, targets, own);
        }
        let targets = Zeroizing::new(targets.iter().map(|target| *target as u64).collect());
        Ok((out, Asked { shape: *shape, targets, secret: self.secret.clone() }))
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> &[u64] {
        self.secret.residues()
    }

    pub(super) fn ask_columns(
        &self,
        out: &mut Vec<u8>,
        shape: &Shape,
        round: &Round,
        unit: usize,
        targets: &[usize],
        own: &[u8; 32],
    ) {
        let (ring, rows) = (Ring::get(), Rows::new(shape));
        let modulus = ring.modulus();
        let leaves = targets.len() * shape.leaves();
        let first = shape.column_ciphertexts_before(unit);
        for ciphertext in 0..shape.column_ciphertexts(targets.len()) {
            let number = (first + ciphertext) as u64;
            let mut values = masked(ring, &self.secret, round.column(number), own, stream::COLUMNS + number);
            let here = ciphertext << LEVELS;
            for leaf in here..leaves.min(here + (1 << LEVELS)) {
                let (bucket, first_column, digit) = rows.meaning(leaf / rows.columns);
                let column = first_column + leaf % rows.columns;
                let (_, wanted) = shape.place(targets[bucket] as u64);
                // `2^6j q / 2^18`, rounded.
                let weight = ring.share(HINT_BITS - digit as u32 * DIGIT_BITS);
                let weight = u64::conditional_select(&0, &weight, equal(column, wanted as usize));
                let place = &mut values[bit_reverse(leaf - here, LEVELS)];
                *place = modulus.add(*place, weight);
            }
            ring.to_column.apply_all(&mut values);
            let mut writer = BitWriter::new(out);
            values.iter().for_each(|value| writer.write(*value, COLUMN_BITS));
            writer.finish();
        }
    }
}

/// What reads the replies to a request.
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

impl Asked {
    /// The elements that a unit's answer holds, bucket by bucket, which were whitened under a seed.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is of another size.
    pub fn read(&self, whitening: &[u8; 32], unit: usize, answer: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let shape = &self.shape;
        if answer.len() != shape.answer_bytes() {
            return Err(Error::Malformed("size of an answer"));
        }
        let whitening = Whitening::new(whitening);
        let first = unit * shape.unit_buckets();
        let targets = self.targets.iter().enumerate().skip(first).take(shape.unit_buckets());
        let replies: Vec<_> =
            answer.chunks_exact(shape.reply_bytes()).map(|reply| self.messages(reply)).collect();
        let (outputs, group) = (shape.element_outputs(), shape.group());
        let elements = targets.enumerate().map(|(at, (bucket, target))| {
            let fields = &replies[at / group][at % group * outputs..][..outputs];
            let mut bytes = Vec::with_capacity(outputs * PLAINTEXT_BITS as usize / 8);
            let mut writer = BitWriter::new(&mut bytes);
            fields.iter().for_each(|field| writer.write(*field, PLAINTEXT_BITS));
            writer.finish();
            whitening.apply(&mut bytes, bucket, *target as usize);
            bytes.truncate(shape.element_bytes());
            bytes
        });
        Ok(elements.collect())
    }

    /// The fields of the buckets that share a reply, `[0, t)`, before whitening is taken off.
    fn messages(&self, reply: &[u8]) -> Zeroizing<Vec<u64>> {
        let ring = Ring::get();
        let modulus = ring.modulus();
        let (public, private) = reply.split_at(packed_bytes(DEGREE, REPLY_PUBLIC_BITS));
        let (mut public, mut private) = (BitReader::new(public), BitReader::new(private));
        let a = (0..DEGREE).map(|_| ring.raise(public.read(REPLY_PUBLIC_BITS), REPLY_PUBLIC_BITS));
        let mut product = Polynomial::<Coefficient>::from_residues(a).into_evaluation(&ring.ntt);
        product.mul_assign(modulus, &self.secret);
        let mut phase = product.into_coefficient(&ring.ntt);
        let (outputs, group) = (self.shape.element_outputs(), self.shape.group());
        let buckets = self.shape.unit_buckets().min(group);
        let mut fields = Zeroizing::new(Vec::with_capacity(buckets * outputs));
        for bucket in 0..buckets {
            for phase in phase.residues().iter().skip(bucket).step_by(group) {
                fields.push(modulus.add(*phase, ring.raise(private.read(REPLY_BITS), REPLY_BITS)));
            }
        }
        phase.zeroize();
        ring.to_plaintext.apply_all(&mut fields);
        // `D + t/2` was a field of the element.
        let half = 1 << (PLAINTEXT_BITS - 1);
        fields.iter_mut().for_each(|field| *field = (*field + half) & ((1 << PLAINTEXT_BITS) - 1));
        fields
    }
}
