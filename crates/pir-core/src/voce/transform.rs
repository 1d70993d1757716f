//! The first half of a pack's set-up: from the database to the masks that packing adds up.
//!
//! Output x at position i has coefficient `c = D0 + 2^13 D1`. With `d_x = sum over i of c X^-i`, the public mask of output x is
//! `a d_x`, and packing needs `(1/N) sum over x of X^x tau(a d_x)` for every automorphism tau. At place e, with `f = e tau`, that
//! is `sum over x of psi^(e x) (a d_x / N)(psi^f)`: a transform over i for every x, then one over x for every f. The first is made of
//! `d_x(X^-1)`, whose coefficients stand in the order of positions, and has its values at `psi^-f`.

use core::ops::Range;

use super::database::Bucket;
use super::ring::{DEGREE, LANES, ORBIT, Ring};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Aligned, Evaluation, Lanes, Polynomial, SplitFactors, multiply, orbit_masks, weave_columns,
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
    /// Of each piece of which outputs take turns, a block of them at every slot.
    columns: Aligned<[Lanes; BLOCK / LANES]>,
    scratch: Aligned<Lanes>,
    /// Eight polynomials.
    rows: Aligned<u64>,
}

/// Of which a pack is made.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) shape: &'a Shape,
    pub(super) buckets: &'a [Bucket],
    /// Of each bucket.
    pub(super) parts: &'a [Vec<Part>],
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
        buffers.columns.resize(pieces * DEGREE, [[0; LANES]; BLOCK / LANES]);
        buffers.scratch.resize(BLOCK / LANES * DEGREE, [0; LANES]);
        for x in (0..DEGREE).step_by(BLOCK * pieces) {
            for (part, out) in buffers.columns.chunks_exact_mut(DEGREE).enumerate() {
                let (bucket, output) = shape.source(pack, x + part * columns);
                content.mask_outputs(bucket, output / BLOCK, &mut buffers.scratch, out);
            }
            // Fields of columns, and of pieces, take turns.
            weave_columns(&mut self.outer, OUTER_STRIDE, x / LANES, &buffers.columns, pieces, columns);
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
                let next = self.outer.get(((slot + 1) ^ ORBIT) * OUTER_STRIDE..).unwrap_or_default();
                ring.ntt.forward_fetching(&mut row[..DEGREE], &next[..next.len().min(VECTORS)]);
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
    /// `a d_x / N` under `X -> X^-1`, in slots, for a block of outputs of a bucket; 0 if there is no such bucket.
    fn mask_outputs(
        &self,
        bucket: usize,
        block: usize,
        scratch: &mut [Lanes],
        out: &mut [[Lanes; BLOCK / LANES]],
    ) {
        let Some((content, parts)) = self.buckets.get(bucket).zip(self.parts.get(bucket)) else {
            return out.fill([[0; LANES]; BLOCK / LANES]);
        };
        let (ntt, pairs) = (&Ring::get().ntt, content.block(self.shape.positions(), block));
        for (number, part) in parts.iter().enumerate() {
            ntt.radix_columns(&pairs[part.positions.clone()], &part.factors, number > 0, scratch, out);
        }
    }
}

/// The positions of a bucket whose coefficients are in one ciphertext.
pub(super) struct Part {
    positions: Range<usize>,
    /// The ciphertext's public half over N, under `X -> X^-1`, times the power of X at which the first of them stands.
    factors: SplitFactors,
}

impl Part {
    /// Those of a bucket, from the public halves of all ciphertexts of the unit.
    pub(super) fn all(shape: &Shape, halves: &[Polynomial<Evaluation>], bucket: usize) -> Vec<Self> {
        let ring = Ring::get();
        let modulus = ring.modulus();
        let over = modulus.shoup(modulus.inverse(DEGREE as u64));
        let coefficients = shape.coefficients(bucket);
        let part = |ciphertext: usize| {
            let first = coefficients.start.max(ciphertext * DEGREE);
            let last = coefficients.end.min((ciphertext + 1) * DEGREE);
            let mut factors = halves[ciphertext].clone();
            factors.scale(modulus, over);
            let (one, other) = factors.residues_mut().split_at_mut(ORBIT);
            one.swap_with_slice(other);
            let mut power = vec![0; DEGREE];
            power[first % DEGREE] = 1;
            ring.ntt.forward(&mut power);
            multiply(modulus, &mut power, factors.residues());
            Self {
                positions: first - coefficients.start..last - coefficients.start,
                factors: SplitFactors::of_residues(modulus, &power),
            }
        };
        (coefficients.start / DEGREE..coefficients.end.div_ceil(DEGREE)).map(part).collect()
    }
}
