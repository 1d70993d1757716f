//! The second half of a pack's set-up: the walk along the automorphisms, whose digits are public.
//!
//! `sum over tau of A_tau tau(s)` is taken to `a' s`, one automorphism after the other: from `sigma^k(s)` to `sigma^(k-1)(s)`, where
//! `sigma` is `X -> X^5`, in one chain, and the same conjugated in another, whose end is taken from `s(X^-1)` to s. A step rounds the
//! public polynomial to one digit, multiplies it by the image of the key's public half, and adds the next mask. What it multiplies
//! the private half of the key with is the same digit: those are kept for all clients.

use super::ring::{DEGREE, DROPPED_BITS, ORBIT, Ring, Round};
use super::transform::{LANES, Transformed, VECTORS};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Aligned, Lanes, add, bit_reverse, copy_runs, multiply, orbit_crossings, orbit_step, reverse_bits,
    round_digits,
};

/// Steps of a chain.
pub(super) const STEPS: usize = ORBIT - 1;

/// Vectors from one block of places to the next where eight steps are kept: no power of two, so that they do not all meet the same
/// lines of a cache.
const KEPT_STRIDE: usize = LANES * STEP_VECTORS + 1;

/// Vectors of digits that a step has for eight places: of both halves in the first chain, then in the second.
const STEP_VECTORS: usize = 4;

/// Bytes of the digits of a pack.
pub(super) const PACK_BYTES: usize = VECTORS / 2 * STEPS * STEP_VECTORS * size_of::<Lanes>();

/// What packing needs of a pack, besides the database.
pub(super) struct Packing {
    /// The digits in the order in which packing reads them: block by block of 8 places of a half, step by step.
    pub(super) digits: PageVec<Lanes>,
    /// By place, minus the sum over all steps of the product of both chains' digits.
    pub(super) crossings: Vec<u64>,
    /// Of the conjugation, by place.
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
    eight: Aligned<Lanes>,
    /// Of both chains, in slots.
    sums: [Aligned<Lanes>; 2],
    digits: [Aligned<u64>; 2],
}

impl Packing {
    /// Walks both chains over the masks of a pack, eight steps at a time, so that what is written lies together.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room for the digits.
    pub(super) fn new(pool: &PagePool, round: &Round, masks: &Transformed) -> Result<Self, Error> {
        let (ring, modulus) = (Ring::get(), Ring::get().modulus());
        let images = Images::new(round.step.residues());
        let mut all = pool.vector::<Lanes>(VECTORS / 2 * STEPS * STEP_VECTORS)?;
        let scratch = pool.scratch::<Walk>();
        let mut walk = scratch.take();
        walk.kept.resize(VECTORS / 2 * KEPT_STRIDE, [0; LANES]);
        walk.eight.resize(LANES * VECTORS, [0; LANES]);
        walk.sums.iter_mut().for_each(|sums| sums.resize(VECTORS, [0; LANES]));
        walk.digits.iter_mut().for_each(|digits| digits.resize(DEGREE, 0));
        let mut crossings = vec![0; DEGREE];
        for least in (0..ORBIT).step_by(LANES).rev() {
            for chain in 0..2 {
                walk.eight_steps(ring, &images, masks, chain, least);
            }
            let first = least.max(1);
            let (many, from) = ((LANES - (first - least)) * STEP_VECTORS, (first - 1) * STEP_VECTORS);
            let kept = &walk.kept[(first - least) * STEP_VECTORS..];
            orbit_crossings(modulus, kept, KEPT_STRIDE, LANES - (first - least), &mut crossings);
            let place = |block: usize| block * STEPS * STEP_VECTORS + from;
            let places: [usize; VECTORS / 2] = core::array::from_fn(place);
            copy_runs(&mut all, &places, kept, KEPT_STRIDE, many);
        }
        let [first, last] = &mut walk.sums;
        let mut digits = last.as_flattened().to_vec();
        decompose(ring, &mut digits);
        let mut conjugation = vec![0; DEGREE];
        ring.reorder(&digits, &mut conjugation);
        multiply(modulus, &mut digits, round.conjugation.residues());
        let rest = first.as_flattened_mut();
        add(modulus, rest, &digits);
        let rest = rest.to_vec();
        scratch.put(walk);
        Ok(Self { digits: all, crossings, conjugation, rest })
    }
}

impl Walk {
    /// The steps from `sigma^(least + 7)(s)` down to `sigma^(least - 1)(s)`, of which the first adds up the masks of
    /// `sigma^(least + 7)`; the last sum is that of `sigma^least`, of which the digits are kept for the step that follows.
    fn eight_steps(&mut self, ring: &Ring, images: &Images, masks: &Transformed, chain: usize, least: usize) {
        let modulus = ring.modulus();
        masks.eight_masks(chain, least, &mut self.eight);
        let (sum, digits) = (&mut self.sums[chain], &mut self.digits[chain]);
        for (at, mask) in self.eight.chunks_exact(VECTORS).enumerate().rev() {
            reverse_bits(sum, [1, VECTORS / 2], 0, mask.as_flattened());
            let step = least + at;
            if step < STEPS {
                orbit_step(modulus, sum.as_flattened_mut(), digits, &images.0, chain == 1, step);
            } else {
                digits.copy_from_slice(sum.as_flattened());
            }
            if step > 0 {
                decompose(ring, digits);
                reverse_bits(&mut self.kept, [KEPT_STRIDE, 1], at * STEP_VECTORS + 2 * chain, digits);
            }
        }
    }
}

/// The digit of a polynomial, both in slots: every coefficient over 2^26, rounded, in `[-2^23, 2^23]`.
fn decompose(ring: &Ring, slots: &mut [u64]) {
    ring.ntt.inverse(slots);
    round_digits(ring.modulus(), DROPPED_BITS, slots);
    ring.ntt.forward(slots);
}
