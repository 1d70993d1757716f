//! The second half of a pack's set-up: the walk along the automorphisms, whose digits are public.
//!
//! `sum over tau of A_tau tau(s)` is taken to `a' s`, one automorphism after the other: from `sigma^k(s)` to `sigma^(k-1)(s)`, where
//! `sigma` is `X -> X^5`, in one chain, and the same conjugated in another, whose end is taken from `s(X^-1)` to s. A step rounds the
//! public polynomial to one digit, multiplies it by the image of the key's public half, and adds the next mask. What it multiplies
//! the private half of the key with is the same digit: those are kept for all clients.

use super::ring::{DEGREE, DROPPED_BITS, ORBIT, Ring, Round};
use super::transform::Transformed;
use crate::ring::{Modulus, bit_reverse};

/// Words of a vector.
const LANES: usize = 8;

/// The digits of a pack, in the order in which packing reads them: block by block of 8 places i, step by step, four vectors: of
/// both halves in the first chain, then in the second.
pub(super) type Digits = Vec<[u64; 4 * LANES]>;

/// Steps of a chain.
pub(super) const STEPS: usize = ORBIT - 1;

/// What packing needs of a pack, besides the database.
#[derive(Default)]
pub(super) struct Packing {
    pub(super) digits: Digits,
    /// Of the conjugation, by place.
    pub(super) conjugation: Vec<u64>,
    /// What is left of all masks, in slots: the factor of s.
    pub(super) rest: Vec<u64>,
}

/// The images of a key's public half under all powers of sigma, as vectors that a step reads whole: vector `t` of a half has in
/// lane l the value of place `t + 128 br(l)`.
struct Images(Vec<[u64; LANES]>);

impl Images {
    fn new(slots: &[u64]) -> Self {
        let ring = Ring::get();
        let place = |half: usize, i: usize| slots[ring.other[half * ORBIT + i % ORBIT]];
        let vector = |half: usize, t: usize| {
            core::array::from_fn(|lane| place(half, t + ORBIT / LANES * bit_reverse(lane, LANES.ilog2())))
        };
        Self((0..DEGREE).map(|at| vector(at / ORBIT, at % ORBIT)).collect())
    }

    /// `sums += digits * sigma^power(key)` in slots, the key conjugated in the second chain.
    fn add_products(&self, modulus: &Modulus, sums: &mut [u64], digits: &[u64], chain: usize, power: usize) {
        let vectors = ORBIT / LANES;
        let (sums, digits) = (sums.as_chunks_mut::<LANES>().0, digits.as_chunks::<LANES>().0);
        for (at, (sums, digits)) in sums.iter_mut().zip(digits).enumerate() {
            let (half, vector) = (at / vectors, at % vectors);
            let t = (bit_reverse(vector, vectors.ilog2()) + power) % ORBIT;
            let key = &self.0[(half ^ chain) * ORBIT + t];
            for ((sum, digit), key) in sums.iter_mut().zip(digits).zip(key) {
                *sum = modulus.add(*sum, modulus.mul(*digit, *key));
            }
        }
    }
}

impl Packing {
    /// Walks both chains over the masks of a pack.
    pub(super) fn fill(&mut self, round: &Round, masks: &Transformed) {
        let ring = Ring::get();
        let images = Images::new(round.step.residues());
        self.digits.resize(ORBIT / LANES * STEPS, [0; 4 * LANES]);
        let mut sums = [vec![0; DEGREE], vec![0; DEGREE]];
        let (mut mask, mut digits) = (vec![0; DEGREE], vec![0; DEGREE]);
        for (chain, sum) in sums.iter_mut().enumerate() {
            masks.mask(chain, STEPS, sum);
            for step in (1..=STEPS).rev() {
                decompose(ring, sum, &mut digits);
                self.keep(ring, chain, step, &digits);
                masks.mask(chain, step - 1, &mut mask);
                core::mem::swap(sum, &mut mask);
                images.add_products(ring.modulus(), sum, &digits, chain, step - 1);
            }
        }
        let [rest, last] = sums;
        decompose(ring, &last, &mut digits);
        self.rest = rest;
        for ((rest, digit), key) in self.rest.iter_mut().zip(&digits).zip(round.conjugation.residues()) {
            *rest = ring.modulus().add(*rest, ring.modulus().mul(*digit, *key));
        }
        self.conjugation.resize(DEGREE, 0);
        ring.reorder(&digits, &mut self.conjugation);
    }

    /// Puts the digits of a step where packing reads them.
    fn keep(&mut self, ring: &Ring, chain: usize, step: usize, digits: &[u64]) {
        for (half, places) in ring.other.chunks_exact(ORBIT).enumerate() {
            for (block, slots) in places.chunks_exact(LANES).enumerate() {
                let kept = &mut self.digits[block * STEPS + step - 1][(2 * chain + half) * LANES..][..LANES];
                kept.iter_mut().zip(slots).for_each(|(kept, slot)| *kept = digits[*slot]);
            }
        }
    }
}

/// The digit of a polynomial, both in slots: every coefficient over 2^26, rounded, in `[-2^23, 2^23]`.
fn decompose(ring: &Ring, slots: &[u64], digits: &mut [u64]) {
    digits.copy_from_slice(slots);
    ring.ntt.inverse(digits);
    let modulus = ring.modulus();
    for digit in digits.iter_mut() {
        let rounded = (modulus.centre(*digit) + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS;
        *digit = (rounded + (rounded >> 63 & modulus.value() as i64)) as u64;
    }
    ring.ntt.forward(digits);
}
