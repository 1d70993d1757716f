//! A walk along automorphisms, of polynomials of 2,048 coefficients, with four passes over memory for each step: three of the eight
//! outer levels of both transforms, then rounding between the two outermost ones, three again, and all levels within 64
//! slots together with what happens in slots.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_cvtsi32_si128, _mm512_add_epi64, _mm512_cmplt_epu64_mask,
    _mm512_mask_sub_epi64, _mm512_permutexvar_epi64, _mm512_setzero_si512, _mm512_sra_epi64,
};

use super::super::super::moves::{self, REVERSED, next_sum, orbit_walk_by_steps};
use super::super::super::rows::{Lanes, OrbitWalk};
use super::super::super::vector512::{fetch, lanes, load, splat, store};
use super::super::prime::{high, low};
use super::super::round_digits;
use super::{
    Factor, Field, InnerRoots, OuterRoots, PLAIN, forward, forward_inside_registers, forward_levels,
    forward_pass, forward_roots, inverse, inverse_inside_registers, inverse_last, inverse_levels,
    inverse_pass, inverse_roots,
};
use crate::ring::tables::{NttTables, SplitFactors, bit_reverse};

/// Coefficients of the polynomials.
const DEGREE: usize = 2048;

/// Places of an orbit.
const ORBIT: usize = DEGREE / 2;

/// Groups of 64 slots in an orbit.
const GROUPS: usize = ORBIT / 64;

orbit_walk_by_steps!(
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn orbit_walk_by_steps
);

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super::super) fn orbit_walk(
    tables: &NttTables,
    walk: &OrbitWalk<'_>,
    sum: &mut [u64],
    kept: &mut [Lanes],
) {
    if tables.degree() != DEGREE {
        return orbit_walk_by_steps(tables, walk, sum, kept);
    }
    let passes = Passes::new(tables);
    let values = sum.as_chunks_mut().0;
    passes.leave_slots(values);
    for (at, step) in walk.steps.clone().enumerate().rev() {
        passes.round(values, walk.shift);
        passes.in_slots(values, walk, kept, [at, step]);
    }
}

/// Roots of both transforms.
struct Passes<'a> {
    field: Field,
    /// `floor(q / 2)`.
    half: u64,
    roots: [&'a SplitFactors; 2],
    /// Of the two outermost levels.
    outermost: [[Factor; 8]; 2],
    last: [Factor; 2],
    /// Of the levels within 64 slots.
    within: [OuterRoots<'a>; 2],
    inner: [InnerRoots<'a>; 2],
}

impl<'a> Passes<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(tables: &'a NttTables) -> Self {
        let roots = [forward_roots(tables), inverse_roots(tables)];
        let outermost = [OuterRoots::new(roots[0], 1, 2), OuterRoots::new(roots[1], 1, 2)];
        Self {
            field: Field::new(tables.modulus()),
            half: tables.modulus().value() / 2,
            roots,
            outermost: [outermost[0].factors::<2>(0), outermost[1].factors::<2>(0)],
            last: inverse_last(tables),
            within: roots.map(|roots| OuterRoots::new(roots, 2 * GROUPS, 3)),
            inner: roots.map(|roots| InnerRoots::new(roots, DEGREE / 8)),
        }
    }

    /// The innermost levels of the inverse.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn leave_slots(&self, values: &mut [Lanes]) {
        for (group, vectors) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut x = load_all(vectors);
            self.inverse_within::<1>(&mut x, group);
            store_all(vectors, &x);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn inverse_within<const CALLER: u8>(&self, x: &mut [__m512i; 8], group: usize) {
        inverse_inside_registers::<false, CALLER>(&self.field, &self.inner[1], x, group);
        let factors = self.within[1].factors::<3>(group);
        inverse_levels::<3, false, false>(&self.field, &factors, self.last, self.field.twice, x);
    }

    /// The outer levels of both transforms, and between them digits of the coefficients.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn round(&self, values: &mut [Lanes], shift: u32) {
        let (mut blocks, mut done) = (2 * GROUPS, 6);
        inverse_pass::<3, false, false>(
            &self.field,
            self.roots[1],
            values,
            &mut blocks,
            &mut done,
            self.last,
        );
        let half = splat(self.half);
        let (rounding, count) = (splat(1 << (shift - 1)), _mm_cvtsi32_si128(shift as i32));
        let (first, second) = values.split_at_mut(DEGREE / 16);
        let ((a, b), (c, d)) = (first.split_at_mut(DEGREE / 32), second.split_at_mut(DEGREE / 32));
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            let mut x = [_mm512_setzero_si512(); 8];
            (x[0], x[1], x[2], x[3]) = (load(a), load(b), load(c), load(d));
            let bound = self.field.twice;
            inverse_levels::<2, false, true>(&self.field, &self.outermost[1], self.last, bound, &mut x);
            for x in &mut x[..4] {
                let above = _mm512_cmplt_epu64_mask(half, *x);
                let centred = _mm512_mask_sub_epi64(*x, above, *x, self.field.value);
                let digit = _mm512_sra_epi64(_mm512_add_epi64(centred, rounding), count);
                *x = _mm512_add_epi64(digit, self.field.value);
            }
            forward_levels::<2, false>(&self.field, &self.outermost[0], &mut x);
            store(a, x[0]);
            store(b, x[1]);
            store(c, x[2]);
            store(d, x[3]);
        }
        let mut blocks = 4;
        forward_pass::<3, false, PLAIN>(&self.field, self.roots[0], values, &mut blocks);
    }

    /// The innermost levels of both transforms, and between them what follows digits; after the last step there are slots.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn in_slots(
        &self,
        values: &mut [Lanes],
        walk: &OrbitWalk<'_>,
        kept: &mut [Lanes],
        [at, step]: [usize; 2],
    ) {
        let (zero, by_place) = (_mm512_setzero_si512(), lanes(REVERSED.map(|lane| lane as i64)));
        let masks = walk.masks_of(step, DEGREE).as_chunks::<8>().0;
        let halves = walk.images.split_at(ORBIT);
        for (group, (vectors, masks)) in values.as_chunks_mut::<8>().0.iter_mut().zip(masks).enumerate() {
            let half = group / GROUPS;
            let images = if (half == 1) == walk.second { halves.0 } else { halves.1 };
            let first = bit_reverse(group % GROUPS, GROUPS.ilog2());
            // While this step is computed, the next one's masks shall come.
            for ahead in walk.masks_of(step.max(2) - 1, DEGREE)[8 * group..][..8].iter() {
                fetch::<_MM_HINT_T0>(ahead.as_ptr().cast());
            }
            let mut x = load_all(vectors);
            forward_levels::<3, false>(&self.field, &self.within[0].factors::<3>(group), &mut x);
            forward_inside_registers::<false, 1>(&self.field, &self.inner[0], &mut x, group);
            for (vector, (x, mask)) in x.iter_mut().zip(masks).enumerate() {
                let block = first + GROUPS * REVERSED[vector];
                let place = &mut kept[block * walk.stride + 4 * at + walk.first_vector() + half];
                store(place, _mm512_permutexvar_epi64(by_place, *x));
                let image = load(&images[(block + step - 1) % ORBIT]);
                let sum = low(load(mask), *x, image);
                *x = self.field.reduce_sums::<false>(sum, high(zero, *x, image));
            }
            if at > 0 {
                self.inverse_within::<2>(&mut x, group);
            }
            store_all(vectors, &x);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_all(vectors: &[Lanes; 8]) -> [__m512i; 8] {
    let mut x = [_mm512_setzero_si512(); 8];
    for (x, vector) in x.iter_mut().zip(vectors) {
        *x = load(vector);
    }
    x
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_all(vectors: &mut [Lanes; 8], x: &[__m512i; 8]) {
    for (vector, x) in vectors.iter_mut().zip(x) {
        store(vector, *x);
    }
}
