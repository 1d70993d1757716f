//! The first half of a pack's set-up: from the database to the masks that packing adds up.
//!
//! Output x at position i has coefficient `c = D0 + 2^13 D1`. With `d_x = sum over i of c X^-i`, the public mask of output x is
//! `a d_x`, and packing needs `(1/N) sum over x of X^x tau(a d_x)` for every automorphism tau. At place e, with `f = e tau`, that
//! is `sum over x of psi^(e x) (a d_x / N)(psi^f)`: a transform over i for every x, then one over x for every f. The first is made of
//! `d_x(X^-1)`, whose coefficients stand in the order of positions, and has its values at `psi^-f`.

use super::database::Bucket;
use super::ring::{DEGREE, LANES, ORBIT, Ring};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Aligned, Evaluation, Lanes, Polynomial, add, gather_columns, multiply, orbit_masks, radix_rows,
};

/// Vectors of a polynomial.
pub(super) const VECTORS: usize = DEGREE / LANES;

/// Vectors from one f to the next: no power of two, so that walks along them do not all meet the same lines of a cache. The same for
/// words from one row to the next.
const OUTER_STRIDE: usize = VECTORS + 3;
const ROW_STRIDE: usize = DEGREE + LANES;

/// What a thread needs for the transforms of a pack: 68 MB.
pub(super) struct Transformed {
    /// At slot f, all x: `(a d_x / N)(psi^-f)`.
    outer: PageVec<Lanes>,
    /// For the automorphisms `X -> X^((-1)^c 5^k)`, chain c by chain and k by k, the masks in slots.
    masks: PageVec<Lanes>,
}

/// What is left by one thread for the next pack.
#[derive(Default)]
struct Buffers {
    /// A polynomial for each output of a block, of each piece of which outputs take turns.
    rows: Aligned<u64>,
    /// The same for what another ciphertext adds.
    more: Aligned<u64>,
}

/// Of which a pack is made.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) shape: &'a Shape,
    pub(super) buckets: &'a [Bucket],
    /// The public half of the unit's ciphertexts, divided by N, under `X -> X^-1`.
    pub(super) a: &'a [Polynomial<Evaluation>],
}

impl Transformed {
    /// The masks of pack `pack` of a unit.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room for them.
    pub(super) fn new(pool: &PagePool, content: Content<'_>, pack: usize) -> Result<Self, Error> {
        let mut new =
            Self { outer: pool.vector(OUTER_STRIDE * DEGREE)?, masks: pool.vector(DEGREE * VECTORS)? };
        let scratch = pool.scratch::<Buffers>();
        let mut buffers = scratch.take();
        new.over_positions(&mut buffers, content, pack);
        new.over_outputs(&mut buffers);
        scratch.put(buffers);
        Ok(new)
    }

    fn over_positions(&mut self, buffers: &mut Buffers, content: Content<'_>, pack: usize) {
        let shape = content.shape;
        let (columns, pieces) = (shape.interleaved_columns(), shape.interleaved_pieces());
        let many = BLOCK * pieces;
        buffers.rows.resize(many * ROW_STRIDE, 0);
        buffers.more.resize(BLOCK * ROW_STRIDE, 0);
        for x in (0..DEGREE).step_by(many) {
            for (part, rows) in buffers.rows.chunks_exact_mut(BLOCK * ROW_STRIDE).enumerate() {
                let (bucket, output) = shape.source(pack, x + part * columns);
                content.mask_outputs(bucket, output / BLOCK, rows, &mut buffers.more);
            }
            // Where the row of an output is: fields of columns, and of pieces, take turns.
            let row = |at: usize| {
                let (field, column) = (at / (columns * pieces), at % (columns * pieces));
                let (part, lane) = (column / columns, field * columns + column % columns);
                &buffers.rows[(part * BLOCK + lane) * ROW_STRIDE..][..DEGREE]
            };
            for eight in (0..many).step_by(LANES) {
                let rows = core::array::from_fn(|lane| row(eight + lane));
                gather_columns(&mut self.outer, OUTER_STRIDE, (x + eight) / LANES, rows);
            }
        }
    }

    /// Eight neighbouring slots f at a time: their places are as far apart as those of neighbouring slots e.
    fn over_outputs(&mut self, buffers: &mut Buffers) {
        let ring = Ring::get();
        buffers.rows.resize(LANES * ROW_STRIDE, 0);
        for first in (0..DEGREE).step_by(LANES) {
            for (slot, row) in (first..).zip(buffers.rows.chunks_exact_mut(ROW_STRIDE)) {
                // What was made at `psi^-f` is that of the other half.
                let outer = &self.outer[(slot ^ ORBIT) * OUTER_STRIDE..][..VECTORS];
                row[..DEGREE].copy_from_slice(outer.as_flattened());
                ring.ntt.forward(&mut row[..DEGREE]);
            }
            let rows = core::array::from_fn(|row| &buffers.rows[row * ROW_STRIDE..][..DEGREE]);
            orbit_masks(&mut self.masks, rows, first / ORBIT, first % ORBIT / LANES);
        }
    }

    /// The masks of a chain, see [`Transformed`].
    pub(super) fn masks(&self, chain: usize) -> &[Lanes] {
        &self.masks[chain * ORBIT * VECTORS..][..ORBIT * VECTORS]
    }
}

impl Content<'_> {
    /// `a d_x / N` under `X -> X^-1`, in slots, for a block of outputs of a bucket, row by row; 0 if there is no such bucket.
    fn mask_outputs(&self, bucket: usize, block: usize, rows: &mut [u64], more: &mut [u64]) {
        let (ring, positions) = (Ring::get(), self.shape.positions());
        let modulus = ring.modulus();
        let Some(content) = self.buckets.get(bucket) else { return rows.fill(0) };
        let coefficients = self.shape.coefficients(bucket);
        let of_bucket = coefficients.start / DEGREE..coefficients.end.div_ceil(DEGREE);
        for ciphertext in of_bucket.clone() {
            let here = ciphertext * DEGREE..(ciphertext + 1) * DEGREE;
            let first = coefficients.start.max(here.start);
            let last = coefficients.end.min(here.end);
            let pairs =
                &content.block(positions, block)[first - coefficients.start..last - coefficients.start];
            let begins = ciphertext == of_bucket.start;
            let target = if begins { &mut *rows } else { &mut *more };
            // Places that no bucket, or another one, has.
            let mut places = target.chunks_exact_mut(ROW_STRIDE).map(|row| {
                row[..first - here.start].fill(0);
                row[last - here.start..DEGREE].fill(0);
                &mut row[first - here.start..last - here.start]
            });
            let places: [&mut [u64]; BLOCK] = core::array::from_fn(|_| places.next().unwrap_or_default());
            radix_rows(modulus, pairs, places);
            for row in target.chunks_exact_mut(ROW_STRIDE) {
                ring.ntt.forward(&mut row[..DEGREE]);
                multiply(modulus, &mut row[..DEGREE], self.a[ciphertext].residues());
            }
            if !begins {
                for (row, more) in rows.chunks_exact_mut(ROW_STRIDE).zip(more.chunks_exact(ROW_STRIDE)) {
                    add(modulus, &mut row[..DEGREE], &more[..DEGREE]);
                }
            }
        }
    }
}
