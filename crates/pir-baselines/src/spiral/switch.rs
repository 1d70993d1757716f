//! Key switching and external products: sums of the digits of something times the columns of a key.
//!
//! A *column* has a first polynomial a and further ones `b_1 ..`; its *phase* is `b_j + a s_j` for every j. A scalar Regev
//! ciphertext is a column with one `b`; a matrix Regev ciphertext is n columns with n of them.

use pir_core::bfv::Gadget;
use pir_core::ring::slots;

use super::lattice::{DEGREE, Ring, Sums, Words, zeros};

/// Digits that [`slots::key_products`] takes.
const KERNEL_DIGITS: usize = 12;

/// One column of a key for each digit.
#[derive(Clone)]
pub(super) struct Switch {
    digits: usize,
    /// Polynomials of a column, `1 + n`.
    outputs: usize,
    /// Prime by prime and pair by pair of outputs, digit by digit both of them; an output without another alone.
    keys: Vec<Words>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) sums: Sums,
    /// A polynomial.
    pub(super) polynomial: Option<Words>,
    /// Digits.
    pub(super) digits: Option<Words>,
    /// A column.
    pub(super) column: Option<Words>,
}

/// So many words of a buffer, which keep any content.
pub(super) fn room(buffer: &mut Option<Words>, words: usize) -> &mut [u64] {
    if buffer.as_ref().is_none_or(|buffer| buffer.residues().len() < words) {
        *buffer = Some(zeros(words));
    }
    buffer.as_mut().map_or(&mut [], |buffer| &mut buffer.residues_mut()[..words])
}

impl Switch {
    /// Of columns, polynomial by polynomial, of which the first `outputs` are taken.
    pub(super) fn new<'a>(
        ring: &Ring,
        columns: impl ExactSizeIterator<Item = &'a [u64]>,
        outputs: usize,
    ) -> Self {
        let (digits, primes, words) = (columns.len(), ring.primes().len(), ring.words());
        let width = |pair: usize| (outputs - 2 * pair).min(2);
        let pairs = outputs.div_ceil(2);
        let mut keys: Vec<Words> =
            (0..primes).flat_map(|_| (0..pairs).map(|pair| zeros(width(pair) * digits * DEGREE))).collect();
        for (digit, column) in columns.enumerate() {
            for output in 0..outputs {
                for prime in 0..primes {
                    let source = &column[output * words + prime * DEGREE..][..DEGREE];
                    let at = (width(output / 2) * digit + output % 2) * DEGREE;
                    keys[prime * pairs + output / 2].residues_mut()[at..at + DEGREE].copy_from_slice(source);
                }
            }
        }
        Self { digits, outputs, keys }
    }

    /// Digits that are multiplied.
    pub(super) fn digits(&self) -> usize {
        self.digits
    }

    /// A column, polynomial by polynomial.
    #[cfg(test)]
    pub(super) fn column(&self, ring: &Ring, digit: usize) -> Words {
        let (words, pairs) = (ring.words(), self.outputs.div_ceil(2));
        let mut column = zeros(self.outputs * words);
        for (output, prime) in (0..self.outputs).flat_map(|o| (0..ring.primes().len()).map(move |p| (o, p))) {
            let width = (self.outputs - output / 2 * 2).min(2);
            let at = (width * digit + output % 2) * DEGREE;
            let source = &self.keys[prime * pairs + output / 2].residues()[at..at + DEGREE];
            column.residues_mut()[output * words + prime * DEGREE..][..DEGREE].copy_from_slice(source);
        }
        column
    }

    /// The sum of digits, prime by prime, times their columns, polynomial by polynomial.
    pub(super) fn apply(&self, ring: &Ring, sums: &mut Sums, digits: &[u64], out: &mut [u64]) {
        let (words, pairs) = (ring.words(), self.outputs.div_ceil(2));
        for (prime, (ring, digits)) in
            ring.primes().iter().zip(digits.chunks_exact(self.digits * DEGREE)).enumerate()
        {
            let modulus = ring.modulus();
            for pair in 0..pairs {
                let keys = self.keys[prime * pairs + pair].residues();
                let (first, second) = out[2 * pair * words..].split_at_mut(words);
                let first = &mut first[prime * DEGREE..][..DEGREE];
                let both = 2 * pair + 1 < self.outputs;
                if both && self.digits <= KERNEL_DIGITS {
                    let second = &mut second[prime * DEGREE..][..DEGREE];
                    slots::key_products(modulus, [first, second], digits, keys);
                    continue;
                }
                let step = 1 + usize::from(both);
                let terms = |half: usize| -> Vec<(&[u64], &[u64])> {
                    let keys = keys.chunks_exact(DEGREE).skip(half).step_by(step);
                    digits.chunks_exact(DEGREE).zip(keys).collect()
                };
                sums.sum(modulus, first, &terms(0));
                if both {
                    sums.sum(modulus, &mut second[prime * DEGREE..][..DEGREE], &terms(1));
                }
            }
        }
    }

    /// [`Switch::apply`] to the digits of a polynomial, given by its evaluations.
    pub(super) fn switch(
        &self,
        ring: &Ring,
        gadget: Gadget,
        scratch: &mut Scratch,
        source: &[u64],
        out: &mut [u64],
    ) {
        decompose(ring, gadget, scratch, source);
        self.apply_decomposed(ring, scratch, out);
    }

    /// [`Switch::apply`] to what [`decompose`] left.
    pub(super) fn apply_decomposed(&self, ring: &Ring, scratch: &mut Scratch, out: &mut [u64]) {
        let Scratch { sums, digits, .. } = scratch;
        self.apply(ring, sums, room(digits, self.digits * ring.words()), out);
    }
}

/// Leaves the digits of a polynomial, given by its evaluations, in the scratch.
pub(super) fn decompose(ring: &Ring, gadget: Gadget, scratch: &mut Scratch, source: &[u64]) {
    let Scratch { polynomial, digits, .. } = scratch;
    let count = gadget.digits as usize;
    let polynomial = room(polynomial, ring.words());
    polynomial.copy_from_slice(source);
    ring.inverse(polynomial);
    ring.decompose(gadget, polynomial, room(digits, count * ring.words()), [0, count]);
}
