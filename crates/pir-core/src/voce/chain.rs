//! The second half of a pack's set-up: the walk along the automorphisms, whose digits are public.
//!
//! `sum over tau of A_tau tau(s)` is taken to `a' s`, one automorphism after the other: from `sigma^k(s)` to `sigma^(k-1)(s)`, where
//! `sigma` is `X -> X^5`, in one chain, and the same conjugated in another, whose end is taken from `s(X^-1)` to s. A step rounds the
//! public polynomial to one digit, multiplies it by the image of the key's public half, and adds the next mask. What it multiplies
//! the private half of the key with is the same digit: those are kept for all clients.

use super::ring::{DEGREE, DROPPED_BITS, LANES, ORBIT, Ring, Round};
use super::transform::{Transformed, VECTORS};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Aligned, Lanes, OrbitWalk, add, bit_reverse, copy_runs, multiply, orbit_crossings, round_digits,
};

/// Blocks of eight places in a half.
const BLOCKS: usize = ORBIT / LANES;

/// Steps of a chain.
pub(super) const STEPS: usize = ORBIT - 1;

/// Vectors from one block of places to the next where eight steps are kept: no power of two, so that they do not all meet the same
/// lines of a cache.
const KEPT_STRIDE: usize = LANES * STEP_VECTORS + 1;

/// Vectors of digits that a step has for eight places: of both halves in the first chain, then in the second.
const STEP_VECTORS: usize = 4;

/// Vectors of the digits that are kept for a block: of steps there is one more, of which all digits are zero.
const BLOCK_VECTORS: usize = ORBIT * STEP_VECTORS;

/// Bytes of the digits of a pack.
pub(super) const PACK_BYTES: usize = BLOCKS * BLOCK_VECTORS * size_of::<Lanes>();

/// What packing needs of a pack, besides the database.
pub(super) struct Packing {
    /// The digits in the order in which packing reads them: block by block of 8 places of a half that are N/16 apart, and within it
    /// row by row of the key, steps that are N/16 apart one behind the other; each in the lanes of the key's places that it meets.
    pub(super) digits: PageVec<Lanes>,
    /// Woven, minus the sum over all steps of the product of both chains' digits.
    pub(super) crossings: Vec<u64>,
    /// Of the conjugation, woven.
    pub(super) conjugation: Vec<u64>,
    /// What is left of all masks, in slots: the factor of s.
    pub(super) rest: Vec<u64>,
}

/// The images of a key's public half under all powers of sigma, as vectors that a step reads whole: vector `t` of a half has in
/// lane l the value of place `t + 128 br(l)`.
struct Images(Aligned<Lanes>);

impl Images {
    fn new(slots: &[u64]) -> Self {
        let ring = Ring::get();
        let place = |half: usize, i: usize| slots[ring.other[half * ORBIT + i % ORBIT]];
        let vector = |half: usize, t: usize| {
            core::array::from_fn(|lane| place(half, t + ORBIT / LANES * bit_reverse(lane, LANES.ilog2())))
        };
        Self((0..DEGREE).map(|at| vector(at / ORBIT, at % ORBIT)).collect())
    }
}

/// What a walk needs beside what it reads and makes.
#[derive(Default)]
struct Walk {
    /// For each block of places, eight steps.
    kept: Aligned<Lanes>,
    /// Of both chains, in slots.
    sums: [Aligned<u64>; 2],
}

impl Packing {
    /// Walks both chains over the masks of a pack, eight steps at a time, so that their digits are multiplied while they are close by.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room for the digits.
    pub(super) fn new(pool: &PagePool, round: &Round, masks: &Transformed) -> Result<Self, Error> {
        let (ring, modulus) = (Ring::get(), Ring::get().modulus());
        let images = Images::new(round.step.residues());
        let mut all = pool.vector::<Lanes>(BLOCKS * BLOCK_VECTORS)?;
        let scratch = pool.scratch::<Walk>();
        let mut walk = scratch.take();
        walk.kept.resize(BLOCKS * KEPT_STRIDE, [0; LANES]);
        for (chain, sum) in walk.sums.iter_mut().enumerate() {
            sum.resize(DEGREE, 0);
            sum.copy_from_slice(masks.masks(chain)[STEPS * VECTORS..].as_flattened());
        }
        let mut crossings = vec![0; DEGREE];
        for least in (0..ORBIT).step_by(LANES).rev() {
            let steps = least.max(1)..least + LANES;
            for (chain, sum) in walk.sums.iter_mut().enumerate() {
                let of_chain = OrbitWalk {
                    shift: DROPPED_BITS,
                    steps: steps.clone(),
                    images: &images.0,
                    masks: masks.masks(chain),
                    second: chain == 1,
                    stride: KEPT_STRIDE,
                };
                ring.ntt.orbit_walk(&of_chain, sum, &mut walk.kept);
            }
            orbit_crossings(modulus, &walk.kept, KEPT_STRIDE, steps.len(), &mut crossings);
            for (at, step) in steps.enumerate() {
                let places: [_; BLOCKS] = core::array::from_fn(|block| kept_at(block, step - 1));
                copy_runs(&mut all, &places, &walk.kept[STEP_VECTORS * at..], KEPT_STRIDE, STEP_VECTORS);
            }
        }
        for block in 0..BLOCKS {
            // Memory that was another pack's has its digits.
            all[kept_at(block, STEPS)[0]..][..STEP_VECTORS].fill([0; LANES]);
        }
        let [first, last] = &walk.sums;
        let mut digits = last.to_vec();
        decompose(ring, &mut digits);
        let mut conjugation = vec![0; DEGREE];
        ring.weave(&digits, &mut conjugation);
        multiply(modulus, &mut digits, round.conjugation.residues());
        let mut rest = first.to_vec();
        add(modulus, &mut rest, &digits);
        scratch.put(walk);
        Ok(Self { digits: all, crossings, conjugation, rest })
    }
}

/// Where the digits of a step, from zero on, are kept for a block, and by how many lanes they are moved.
fn kept_at(block: usize, step: usize) -> [usize; 2] {
    let (row, steps) = (block + step % BLOCKS, step / BLOCKS);
    [block * BLOCK_VECTORS + STEP_VECTORS * (row % BLOCKS * LANES + steps), (row / BLOCKS + steps) % LANES]
}

/// The digit of a polynomial, both in slots: every coefficient over 2^26, rounded, in `[-2^23, 2^23]`.
fn decompose(ring: &Ring, slots: &mut [u64]) {
    ring.ntt.inverse(slots);
    round_digits(ring.modulus(), DROPPED_BITS, slots);
    ring.ntt.forward(slots);
}
