//! The first half of a pack's set-up: from the database to the masks that packing adds up.
//!
//! Output x at position i has coefficient `c = D0 + 2^13 D1`. With `d_x = sum over i of c X^-i`, the public mask of output x is
//! `a d_x`, and packing needs `(1/N) sum over x of X^x tau(a d_x)` for every automorphism tau. At place e, with `f = e tau`, that
//! is `sum over x of psi^(e x) (a d_x / N)(psi^f)`: a transform over i for every x, then one over x for every f.

use super::database::Bucket;
use super::ring::{DEGREE, RADIX_BITS, Ring};
use super::shape::{BLOCK, Shape};
use crate::ring::{Evaluation, Polynomial};

/// Words from one f to the next: not a power of two, so that walks along f do not all meet the same lines of a cache.
const STRIDE: usize = DEGREE + 24;

/// What a thread needs for the transforms of a pack: 34 MB, used again for the next.
#[derive(Default)]
pub(super) struct Transformed {
    /// At `f STRIDE + e`, both places: the value for place e and the automorphism that takes e to f.
    words: Vec<u64>,
    /// A polynomial for each output of a block.
    rows: Vec<Vec<u64>>,
    sum: Vec<u64>,
}

impl Transformed {
    /// The masks of pack `pack` of a unit of which the buckets are given; `a` is the public half of the unit's ciphertexts,
    /// divided by N.
    pub(super) fn fill(
        &mut self,
        shape: &Shape,
        buckets: &[Bucket],
        a: &[Polynomial<Evaluation>],
        pack: usize,
    ) {
        let ring = Ring::get();
        self.words.resize(STRIDE * DEGREE, 0);
        self.rows.resize(BLOCK, vec![0; DEGREE]);
        for x in (0..DEGREE).step_by(BLOCK) {
            let output = pack * DEGREE + x;
            let bucket = output / shape.bucket_outputs();
            for row in &mut self.rows {
                row.fill(0);
            }
            if let Some(content) = buckets.get(bucket) {
                let block = output % shape.bucket_outputs() / BLOCK;
                self.masks(ring, shape, content.block(shape.positions(), block), bucket, a);
            }
            for (slot, place) in ring.other.iter().enumerate() {
                let words = &mut self.words[place * STRIDE + x..][..BLOCK];
                words.iter_mut().zip(&self.rows).for_each(|(word, row)| *word = row[slot]);
            }
        }
        for f in 0..DEGREE {
            let words = &mut self.words[f * STRIDE..][..DEGREE];
            ring.ntt.forward(words);
            self.sum.clear();
            self.sum.extend_from_slice(words);
            ring.reorder(&self.sum, words);
        }
    }

    /// `a d_x / N` in slots for 16 outputs, into `self.rows`, which are 0.
    fn masks(
        &mut self,
        ring: &Ring,
        shape: &Shape,
        pairs: &[[i16; 2 * BLOCK]],
        bucket: usize,
        a: &[Polynomial<Evaluation>],
    ) {
        let modulus = ring.modulus();
        let coefficients = shape.coefficients(bucket);
        for ciphertext in coefficients.start / DEGREE..coefficients.end.div_ceil(DEGREE) {
            let here = ciphertext * DEGREE..(ciphertext + 1) * DEGREE;
            let first = coefficients.start.max(here.start);
            let last = coefficients.end.min(here.end);
            for (lane, row) in self.rows.iter_mut().enumerate() {
                self.sum.clear();
                self.sum.resize(DEGREE, 0);
                for at in first..last {
                    let pair = &pairs[at - coefficients.start];
                    let c = i64::from(pair[2 * lane]) + (i64::from(pair[2 * lane + 1]) << RADIX_BITS);
                    // `X^-i = -X^(N-i)`.
                    let i = at - here.start;
                    let (place, c) = if i == 0 { (0, c) } else { (DEGREE - i, -c) };
                    self.sum[place] = (c + (c >> 63 & modulus.value() as i64)) as u64;
                }
                ring.ntt.forward(&mut self.sum);
                for ((row, d), a) in row.iter_mut().zip(&self.sum).zip(a[ciphertext].residues()) {
                    *row = modulus.add(*row, modulus.mul(*d, *a));
                }
            }
        }
    }

    /// For the automorphism `X -> X^((-1)^s 5^k)`, the mask, in slots.
    pub(super) fn mask(&self, chain: usize, step: usize, out: &mut [u64]) {
        let half = DEGREE / 2;
        for (place, slot) in Ring::get().other.iter().enumerate() {
            let (h, i) = (place / half, place % half);
            let f = (h ^ chain) * half + (i + step) % half;
            out[*slot] = self.words[f * STRIDE + place];
        }
    }
}
