//! Transforms of polynomials that lie side by side, one in each lane, so that no level exchanges lanes: three levels while they are read,
//! then the others of every eighth of the slots, which is 16 KB, in the first cache.

use core::arch::x86_64::{
    __m512i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_slli_epi32, _mm256_srai_epi32, _mm512_add_epi64,
    _mm512_cvtepi32_epi64, _mm512_setzero_si512,
};

use super::super::super::moves::radix_columns_by_rows;
use super::super::super::rows::{Lanes, PAIR_LIMB, Pairs};
use super::super::super::vector512::{load, reduce_by, splat, store};
use super::super::{multiply, radix_rows};
use super::{Factor, Field, OuterRoots, forward, forward_levels, forward_levels_behind, forward_roots};
use crate::ring::tables::{NttTables, SplitFactors};

/// Coefficients of the polynomials.
const DEGREE: usize = 2048;

/// An eighth of them.
const EIGHTH: usize = DEGREE / 8;

radix_columns_by_rows!(
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn radix_columns_by_rows
);

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(in super::super::super) fn radix_columns(
    tables: &NttTables,
    pairs: &[Pairs],
    factors: &SplitFactors,
    adds: bool,
    scratch: &mut [Lanes],
    out: &mut [[Lanes; 2]],
) {
    let (Ok(out), Some((values, _))) =
        (<&mut [_; DEGREE]>::try_from(&mut *out), scratch.split_first_chunk_mut())
    else {
        return radix_columns_by_rows(tables, pairs, factors, adds, scratch, out);
    };
    let columns = Columns::new(tables);
    for half in 0..2 {
        if pairs.len() <= DEGREE / 2 {
            columns.enter::<true>(pairs, half, values);
        } else {
            columns.enter::<false>(pairs, half, values);
        }
        for (number, eighth) in values.as_chunks_mut::<EIGHTH>().0.iter_mut().enumerate() {
            columns.within(eighth, number);
            let here = number * EIGHTH..(number + 1) * EIGHTH;
            let factors = [&factors.values[here.clone()], &factors.quotients[here.clone()]];
            columns.leave(eighth, number, factors, adds, half, &mut out[here]);
        }
    }
}

struct Columns<'a> {
    field: Field,
    /// From 1, 8 and 64 blocks on three levels, from 512 on two.
    roots: [OuterRoots<'a>; 4],
}

impl<'a> Columns<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(tables: &'a NttTables) -> Self {
        let roots = forward_roots(tables);
        let levels = [(1, 3), (8, 3), (64, 3), (512, 2)];
        Self {
            field: Field::new(tables.modulus()),
            roots: levels.map(|(blocks, levels)| OuterRoots::new(roots, blocks, levels)),
        }
    }

    /// The outermost three levels of eight of 16 polynomials, of which the coefficients behind the pairs are 0. If all in the second half
    /// are, the first level does nothing but to copy.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn enter<const HALF: bool>(&self, pairs: &[Pairs], half: usize, values: &mut [Lanes; DEGREE]) {
        let factors = self.roots[0].factors::<3>(0);
        for at in 0..EIGHTH {
            let mut x = [_mm512_setzero_si512(); 8];
            for (k, x) in x[..if HALF { 4 } else { 8 }].iter_mut().enumerate() {
                if let Some(pair) = pairs.get(at + k * EIGHTH) {
                    *x = coefficients(&pair.as_chunks::<16>().0[half], self.field.value);
                }
            }
            if HALF {
                let [a, b, c, d, ..] = x;
                x = [a, b, c, d, a, b, c, d];
                forward_levels_behind::<1, 3, false>(&self.field, &factors, &mut x);
            } else {
                forward_levels::<3, false>(&self.field, &factors, &mut x);
            }
            for (k, x) in x.into_iter().enumerate() {
                store(&mut values[at + k * EIGHTH], x);
            }
        }
    }

    /// The next six levels.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn within(&self, values: &mut [Lanes; EIGHTH], number: usize) {
        self.three::<32>(values, &self.roots[1].factors::<3>(number));
        for (block, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            self.three::<4>(values, &self.roots[2].factors::<3>(8 * number + block));
        }
    }

    /// Three levels of a block, of which an eighth is so many vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn three<const EIGHTH: usize>(&self, values: &mut [Lanes], factors: &[Factor; 8]) {
        let parts = values.as_chunks_mut::<EIGHTH>().0;
        for at in 0..EIGHTH {
            let mut x = [_mm512_setzero_si512(); 8];
            for (x, part) in x.iter_mut().zip(&*parts) {
                *x = load(&part[at]);
            }
            forward_levels::<3, false>(&self.field, factors, &mut x);
            for (x, part) in x.into_iter().zip(&mut *parts) {
                store(&mut part[at], x);
            }
        }
    }

    /// The last two levels, and what follows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn leave(
        &self,
        values: &[Lanes; EIGHTH],
        number: usize,
        [factors, quotients]: [&[u64]; 2],
        adds: bool,
        half: usize,
        out: &mut [[Lanes; 2]],
    ) {
        let fours = values.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<4>().0);
        let factors = factors.as_chunks::<4>().0.iter().zip(quotients.as_chunks::<4>().0);
        for (block, ((values, out), (factors, quotients))) in fours.zip(factors).enumerate() {
            let mut x = [_mm512_setzero_si512(); 8];
            for (x, value) in x.iter_mut().zip(values) {
                *x = load(value);
            }
            let roots = self.roots[3].factors::<2>(EIGHTH / 4 * number + block);
            forward_levels::<2, false>(&self.field, &roots, &mut x);
            for (k, out) in out.iter_mut().enumerate() {
                let factor = Factor::of(splat(factors[k]), splat(quotients[k]));
                let mut value = self.field.multiply(x[k], factor);
                if adds {
                    value = reduce_by(_mm512_add_epi64(value, load(&out[half])), self.field.value);
                }
                store(&mut out[half], value);
            }
        }
    }
}

/// `q + D0 + 2^13 D1`.
#[inline]
#[target_feature(enable = "avx512f")]
fn coefficients(pair: &[i16; 16], prime: __m512i) -> __m512i {
    // SAFETY: the reference covers the 32 bytes that are read.
    let words = unsafe { _mm256_loadu_si256(pair.as_ptr().cast()) };
    let even = _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(words));
    let odd = _mm256_slli_epi32::<{ PAIR_LIMB as i32 }>(_mm256_srai_epi32::<16>(words));
    _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm256_add_epi32(even, odd)), prime)
}
