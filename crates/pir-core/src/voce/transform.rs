//! The first half of a pack's set-up: from the database to the masks that packing adds up.
//!
//! Output x at position i has coefficient `c = D0 + 2^13 D1`. With `d_x = sum over i of c X^-i`, the public mask of output x is
//! `a d_x`, and packing needs `(1/N) sum over x of X^x tau(a d_x)` for every automorphism tau. At place e, with `f = e tau`, that
//! is `sum over x of psi^(e x) (a d_x / N)(psi^f)`: a transform over i for every x, then one over x for every f.

use super::database::Bucket;
use super::ring::{DEGREE, ORBIT, RADIX_BITS, Ring};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Evaluation, Lanes, Pairs, Polynomial, add, diagonals, gather_columns, multiply, reverse_bits,
};

/// Words of a vector.
pub(super) const LANES: usize = 8;

/// Vectors of a polynomial.
pub(super) const VECTORS: usize = DEGREE / LANES;

/// Vectors from one f to the next, and from one block of places e to the next: no powers of two, so that walks along them do not
/// all meet the same lines of a cache.
const OUTER_STRIDE: usize = VECTORS + 3;
const MASK_STRIDE: usize = DEGREE + 3;

/// What a thread needs for the transforms of a pack: 68 MB.
pub(super) struct Transformed {
    /// At slot f, all x: `(a d_x / N)(psi^f)`; then its transform over x.
    outer: PageVec<Lanes>,
    /// At `e/8 * MASK_STRIDE + f`, places both: for eight e the value for the automorphism that takes e to f.
    masks: PageVec<Lanes>,
    /// A polynomial for each output of a block.
    rows: Vec<Vec<u64>>,
    product: Vec<u64>,
    /// For each block of places e, eight f.
    eight: Vec<Lanes>,
}

impl Transformed {
    /// The masks of pack `pack` of a unit of which the buckets are given; `a` is the public half of the unit's ciphertexts,
    /// divided by N.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room for them.
    pub(super) fn new(
        pool: &PagePool,
        shape: &Shape,
        buckets: &[Bucket],
        a: &[Polynomial<Evaluation>],
        pack: usize,
    ) -> Result<Self, Error> {
        let mut new = Self {
            outer: pool.vector(OUTER_STRIDE * DEGREE)?,
            masks: pool.vector(MASK_STRIDE * VECTORS)?,
            rows: vec![vec![0; DEGREE]; BLOCK],
            product: Vec::new(),
            eight: vec![[0; LANES]; LANES * VECTORS],
        };
        new.fill(shape, buckets, a, pack);
        Ok(new)
    }

    fn fill(&mut self, shape: &Shape, buckets: &[Bucket], a: &[Polynomial<Evaluation>], pack: usize) {
        let ring = Ring::get();
        for x in (0..DEGREE).step_by(BLOCK) {
            for row in 0..BLOCK {
                self.rows[row].fill(0);
                let (bucket, output) = shape.source(pack, x + row);
                if let Some(content) = buckets.get(bucket) {
                    let pairs = content.block(shape.positions(), output / BLOCK);
                    self.mask_output(ring, shape, row, (pairs, output % BLOCK), bucket, a);
                }
            }
            for (part, rows) in self.rows.as_chunks::<LANES>().0.iter().enumerate() {
                let rows = rows.each_ref().map(Vec::as_slice);
                gather_columns(&mut self.outer, OUTER_STRIDE, x / LANES + part, rows);
            }
        }
        // Eight f at a time, so that what is written lies together.
        for (f, slots) in (0..DEGREE).step_by(LANES).zip(ring.other.as_chunks::<LANES>().0) {
            for (at, slot) in slots.iter().enumerate() {
                let row = self.outer[slot * OUTER_STRIDE..][..VECTORS].as_flattened_mut();
                ring.ntt.forward(row);
                reverse_bits(&mut self.eight, [LANES, VECTORS / 2 * LANES], at, row);
            }
            for (block, eight) in self.eight.as_chunks::<LANES>().0.iter().enumerate() {
                self.masks[block * MASK_STRIDE + f..][..LANES].copy_from_slice(eight);
            }
        }
    }

    /// `a d_x / N` in slots for an output, a lane of a block, into a row, which is 0.
    fn mask_output(
        &mut self,
        ring: &Ring,
        shape: &Shape,
        row: usize,
        (pairs, lane): (&[Pairs], usize),
        bucket: usize,
        a: &[Polynomial<Evaluation>],
    ) {
        let modulus = ring.modulus();
        let coefficients = shape.coefficients(bucket);
        let of_bucket = coefficients.start / DEGREE..coefficients.end.div_ceil(DEGREE);
        for (ciphertext, a) in a.iter().enumerate().skip(of_bucket.start).take(of_bucket.len()) {
            let here = ciphertext * DEGREE..(ciphertext + 1) * DEGREE;
            let first = coefficients.start.max(here.start);
            let last = coefficients.end.min(here.end);
            self.product.clear();
            self.product.resize(DEGREE, 0);
            for at in first..last {
                let pair = &pairs[at - coefficients.start];
                let c = i64::from(pair[2 * lane]) + (i64::from(pair[2 * lane + 1]) << RADIX_BITS);
                // `X^-i = -X^(N-i)`.
                let i = at - here.start;
                let (place, c) = if i == 0 { (0, c) } else { (DEGREE - i, -c) };
                self.product[place] = (c + (c >> 63 & modulus.value() as i64)) as u64;
            }
            ring.ntt.forward(&mut self.product);
            multiply(modulus, &mut self.product, a.residues());
            add(modulus, &mut self.rows[row], &self.product);
        }
    }

    /// For the automorphisms `X -> X^((-1)^s 5^k)`, where s tells the chain and k counts eight steps up from a multiple of 8,
    /// the masks by place, one behind the other.
    pub(super) fn eight_masks(&self, chain: usize, step: usize, out: &mut [Lanes]) {
        debug_assert!(step.is_multiple_of(LANES) && step < ORBIT && out.len() == LANES * VECTORS);
        diagonals(out, &self.masks, MASK_STRIDE, chain == 1, step);
    }
}
