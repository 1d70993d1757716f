//! The first half of a pack's set-up: from the database to the masks that packing adds up.
//!
//! Output x at position i has coefficient `c = D0 + 2^13 D1`. With `d_x = sum over i of c X^-i`, the public mask of output x is
//! `a d_x`, and packing needs `(1/N) sum over x of X^x tau(a d_x)` for every automorphism tau. At place e, with `f = e tau`, that
//! is `sum over x of psi^(e x) (a d_x / N)(psi^f)`: a transform over i for every x, then one over x for every f. The first is made of
//! `d_x(X^-1)`, whose coefficients stand in the order of positions, and has its values at `psi^-f`.

use super::database::Bucket;
use super::ring::{DEGREE, ORBIT, Ring};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Aligned, Evaluation, Lanes, Polynomial, add, copy_runs, diagonals, gather_columns, multiply, radix_rows,
    reverse_bits,
};

/// Words of a vector.
pub(super) const LANES: usize = 8;

/// Vectors of a polynomial.
pub(super) const VECTORS: usize = DEGREE / LANES;

/// Vectors from one f to the next: no power of two, so that walks along them do not all meet the same lines of a cache. The same for
/// words from one row to the next, and vectors of eight f.
const OUTER_STRIDE: usize = VECTORS + 3;
const ROW_STRIDE: usize = DEGREE + LANES;
const EIGHT_STRIDE: usize = LANES + 1;

/// What a thread needs for the transforms of a pack: 68 MB.
pub(super) struct Transformed {
    /// At slot f, all x: `(a d_x / N)(psi^-f)`.
    outer: PageVec<Lanes>,
    /// For eight places e and one f the values for the automorphisms that take e to f, in the order in which packing reads them:
    /// see [`masks_at`].
    masks: PageVec<Lanes>,
}

/// Where the eight masks of a block of eight places `e` and eight `f` begin, f from `8 group` of a half on. They lie chain by chain,
/// and then by the number of the eight steps between them, so that these are read from end to end.
fn masks_at(block: usize, half: usize, group: usize) -> usize {
    let (blocks, groups) = (VECTORS / 2, ORBIT / LANES);
    let chain = (block / blocks) ^ half;
    let steps = (group + groups - block % blocks) % groups;
    eight_at(chain, steps) + LANES * block
}

/// Where the masks of eight steps of a chain begin, of all blocks.
fn eight_at(chain: usize, steps: usize) -> usize {
    (chain * ORBIT / LANES + steps) * LANES * VECTORS
}

/// What is left by one thread for the next pack.
#[derive(Default)]
struct Buffers {
    /// A polynomial for each output of a block, of each piece of which outputs take turns.
    rows: Aligned<u64>,
    /// The same for what another ciphertext adds.
    more: Aligned<u64>,
    row: Aligned<u64>,
    /// For each block of places e, eight f.
    eight: Aligned<Lanes>,
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

    /// Eight f at a time, so that what is written lies together.
    fn over_outputs(&mut self, buffers: &mut Buffers) {
        let ring = Ring::get();
        let Buffers { row, eight, .. } = buffers;
        row.resize(DEGREE, 0);
        eight.resize(EIGHT_STRIDE * VECTORS, [0; LANES]);
        for (f, slots) in (0..DEGREE).step_by(LANES).zip(ring.other.as_chunks::<LANES>().0) {
            for (at, slot) in slots.iter().enumerate() {
                row.copy_from_slice(self.outer[(slot ^ ORBIT) * OUTER_STRIDE..][..VECTORS].as_flattened());
                ring.ntt.forward(row);
                reverse_bits(eight, [EIGHT_STRIDE, VECTORS / 2 * EIGHT_STRIDE], at, row);
            }
            let (half, group) = (f / ORBIT, f % ORBIT / LANES);
            let places: [usize; VECTORS] = core::array::from_fn(|block| masks_at(block, half, group));
            copy_runs(&mut self.masks, &places, eight, EIGHT_STRIDE, LANES);
        }
    }

    /// For the automorphisms `X -> X^((-1)^s 5^k)`, where s tells the chain and k counts eight steps up from a multiple of 8,
    /// the masks by place, one behind the other.
    pub(super) fn eight_masks(&self, chain: usize, step: usize, out: &mut [Lanes]) {
        debug_assert!(step.is_multiple_of(LANES) && step < ORBIT && out.len() == LANES * VECTORS);
        let steps = step / LANES;
        let rows = [steps, (steps + 1) % (ORBIT / LANES)]
            .map(|steps| &self.masks[eight_at(chain, steps)..][..LANES * VECTORS]);
        diagonals(out, rows);
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
