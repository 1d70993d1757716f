//! Transforms: radix-8 passes over whole vectors, the three levels of distance 4, 2 and 1 inside registers.
//!
//! With `LAZY`, no value is reduced between the first and the last level. Forward, values start below `4q` and grow by
//! `2q` per level; inverse, they start below `2q` and double. While the bound stays below 2^52, words have to be right
//! modulo 2^52 only, since multiplication reads no more, and one butterfly is 6 instructions, 3 of them multiplications.
//! Without it (the longest primes), values stay below `4q` and `2q`, at 9 and 9 instructions.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_permutex2var_epi64, _mm512_permutexvar_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_sub_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use super::{Factor, Lanes, Prime, lanes, load, reduce_by, splat, store};
use crate::ring::ntt::{Ntt, SplitFactors};

/// Least degree with a pass over whole vectors before the levels inside them, which take two vectors at a time.
const LEAST_DEGREE: usize = 64;

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn forward(ntt: &Ntt, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return super::super::portable::forward(ntt, values);
    }
    // 4q + 2q * 15 < 2^52.
    if ntt.modulus().bits() <= 46 {
        forward_passes::<true>(ntt, values.as_chunks_mut().0);
    } else {
        forward_passes::<false>(ntt, values.as_chunks_mut().0);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn inverse(ntt: &Ntt, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return super::super::portable::inverse(ntt, values);
    }
    // 2q * 2^levels <= 2^52.
    if ntt.modulus().bits() + 1 + values.len().ilog2() <= 52 {
        inverse_passes::<true>(ntt, values.as_chunks_mut().0);
    } else {
        inverse_passes::<false>(ntt, values.as_chunks_mut().0);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_passes<const LAZY: bool>(ntt: &Ntt, values: &mut [Lanes]) {
    let (prime, roots) = (Prime::new(ntt.modulus()), ntt.forward_split());
    let levels = (8 * values.len()).ilog2();
    let mut blocks = 1;
    match levels % 3 {
        1 => forward_pass::<1, LAZY>(&prime, roots, values, &mut blocks),
        2 => forward_pass::<2, LAZY>(&prime, roots, values, &mut blocks),
        _ => {}
    }
    while blocks < values.len() {
        forward_pass::<3, LAZY>(&prime, roots, values, &mut blocks);
    }
    for (i, pair) in values.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        forward_inside::<LAZY>(&prime, roots, pair, 2 * i, blocks);
    }
}

/// `LEVELS` levels over whole vectors, from `blocks` blocks to `2^LEVELS` times as many.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_pass<const LEVELS: usize, const LAZY: bool>(
    prime: &Prime,
    roots: &SplitFactors,
    values: &mut [Lanes],
    blocks: &mut usize,
) {
    let width = 1 << LEVELS;
    for (i, block) in values.chunks_exact_mut(values.len() / *blocks).enumerate() {
        let factors = pass_factors::<LEVELS>(roots, *blocks, i);
        let stride = block.len() / width;
        for position in 0..stride {
            let mut x = [_mm512_setzero_si512(); 8];
            for k in 0..width {
                x[k] = load(&block[k * stride + position]);
            }
            for level in 0..LEVELS {
                let half = width >> (level + 1);
                for sub in 0..1 << level {
                    for j in 2 * sub * half..(2 * sub + 1) * half {
                        (x[j], x[j + half]) =
                            forward_butterfly::<LAZY>(prime, x[j], x[j + half], factors[(1 << level) + sub]);
                    }
                }
            }
            for k in 0..width {
                store(&mut block[k * stride + position], x[k]);
            }
        }
    }
    *blocks *= width;
}

/// The factors of block `i` of `blocks` at `LEVELS` successive levels, level `l` at indices `2^l ..`.
#[inline]
#[target_feature(enable = "avx512f")]
fn pass_factors<const LEVELS: usize>(roots: &SplitFactors, blocks: usize, i: usize) -> [Factor; 8] {
    let zero = _mm512_setzero_si512();
    let mut factors = [Factor { value: zero, quotient: zero }; 8];
    for level in 0..LEVELS {
        for sub in 0..1 << level {
            let root = ((blocks + i) << level) + sub;
            factors[(1 << level) + sub] =
                Factor { value: splat(roots.values[root]), quotient: splat(roots.quotients[root]) };
        }
    }
    factors
}

/// `(x, y) -> (x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_butterfly<const LAZY: bool>(
    prime: &Prime,
    x: __m512i,
    y: __m512i,
    factor: Factor,
) -> (__m512i, __m512i) {
    if LAZY {
        let sum = prime.multiply_add(x, y, factor);
        let twice = _mm512_add_epi64(_mm512_add_epi64(x, x), prime.twice);
        (sum, _mm512_sub_epi64(twice, sum))
    } else {
        let x = reduce_by(x, prime.twice);
        let product = prime.multiply_lazy(y, factor);
        (_mm512_add_epi64(x, product), _mm512_sub_epi64(_mm512_add_epi64(x, prime.twice), product))
    }
}

/// The last three levels of two vectors a, b, blocks `first` and `first + 1` of `blocks`, and the reduction to `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_inside<const LAZY: bool>(
    prime: &Prime,
    roots: &SplitFactors,
    [a, b]: &mut [Lanes; 2],
    first: usize,
    blocks: usize,
) {
    let block = blocks + first;
    // a0..3 b0..3 against a4..7 b4..7.
    let (x, y) = (load(a), load(b));
    let (x, y) = (_mm512_shuffle_i64x2::<0x44>(x, y), _mm512_shuffle_i64x2::<0xEE>(x, y));
    let (x, y) = forward_butterfly::<LAZY>(prime, x, y, two_factors(roots, block));
    // a0 a1 a4 a5 b0 b1 b4 b5 against a2 a3 a6 a7 b2 b3 b6 b7.
    let (x, y) = (
        _mm512_permutex2var_epi64(x, lanes([0, 1, 8, 9, 4, 5, 12, 13]), y),
        _mm512_permutex2var_epi64(x, lanes([2, 3, 10, 11, 6, 7, 14, 15]), y),
    );
    let (x, y) = forward_butterfly::<LAZY>(prime, x, y, four_factors(roots, block));
    // Even against odd.
    let (x, y) = (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    let (x, y) = forward_butterfly::<LAZY>(prime, x, y, eight_factors(roots, block));
    let (x, y) = if LAZY {
        (prime.reduce(x), prime.reduce(y))
    } else {
        (reduce_by(reduce_by(x, prime.twice), prime.value), reduce_by(reduce_by(y, prime.twice), prime.value))
    };
    store(a, _mm512_permutex2var_epi64(x, lanes([0, 8, 1, 9, 2, 10, 3, 11]), y));
    store(b, _mm512_permutex2var_epi64(x, lanes([4, 12, 5, 13, 6, 14, 7, 15]), y));
}

/// Two roots of two neighbouring vectors at distance 4, spread over the lanes of their blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn two_factors(roots: &SplitFactors, block: usize) -> Factor {
    let order = lanes([0, 0, 0, 0, 1, 1, 1, 1]);
    Factor {
        value: _mm512_permutexvar_epi64(order, load_from(&roots.values, block)),
        quotient: _mm512_permutexvar_epi64(order, load_from(&roots.quotients, block)),
    }
}

/// Four roots at distance 2.
#[inline]
#[target_feature(enable = "avx512f")]
fn four_factors(roots: &SplitFactors, block: usize) -> Factor {
    let order = lanes([0, 0, 1, 1, 2, 2, 3, 3]);
    Factor {
        value: _mm512_permutexvar_epi64(order, load_from(&roots.values, 2 * block)),
        quotient: _mm512_permutexvar_epi64(order, load_from(&roots.quotients, 2 * block)),
    }
}

/// Eight roots at distance 1.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight_factors(roots: &SplitFactors, block: usize) -> Factor {
    Factor { value: load_from(&roots.values, 4 * block), quotient: load_from(&roots.quotients, 4 * block) }
}

/// Eight words from `start`. The tables end with the eight roots of the last two vectors, and shorter groups lie further
/// to the front.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_from(roots: &[u64], start: usize) -> __m512i {
    load(roots[start..].first_chunk().unwrap_or(&[0; 8]))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_passes<const LAZY: bool>(ntt: &Ntt, values: &mut [Lanes]) {
    let (prime, roots) = (Prime::new(ntt.modulus()), ntt.inverse_split());
    let last = ntt.inverse_last();
    let last = [Factor::splat(last[0]), Factor::splat(last[1])];
    let levels = (8 * values.len()).ilog2();
    let mut blocks = values.len();
    for (i, pair) in values.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        inverse_inside::<LAZY>(&prime, roots, pair, 2 * i, blocks);
    }
    let mut done = 3;
    while levels - done > 3 {
        inverse_pass::<3, LAZY, false>(&prime, roots, values, &mut blocks, &mut done, last);
    }
    match levels - done {
        1 => inverse_pass::<1, LAZY, true>(&prime, roots, values, &mut blocks, &mut done, last),
        2 => inverse_pass::<2, LAZY, true>(&prime, roots, values, &mut blocks, &mut done, last),
        _ => inverse_pass::<3, LAZY, true>(&prime, roots, values, &mut blocks, &mut done, last),
    }
}

/// `LEVELS` levels over whole vectors; `done` levels come before. The `LAST` pass ends with a factor of `N^-1`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_pass<const LEVELS: usize, const LAZY: bool, const LAST: bool>(
    prime: &Prime,
    roots: &SplitFactors,
    values: &mut [Lanes],
    blocks: &mut usize,
    done: &mut u32,
    last: [Factor; 2],
) {
    let width = 1 << LEVELS;
    *blocks /= width;
    for (i, block) in values.chunks_exact_mut(values.len() / *blocks).enumerate() {
        let factors = pass_factors::<LEVELS>(roots, *blocks, i);
        let stride = block.len() / width;
        for position in 0..stride {
            let mut x = [_mm512_setzero_si512(); 8];
            for k in 0..width {
                x[k] = load(&block[k * stride + position]);
            }
            let mut bound = splat_bound::<LAZY>(prime, *done);
            for level in (0..LEVELS).rev() {
                let half = width >> (level + 1);
                for sub in 0..1 << level {
                    for j in 2 * sub * half..(2 * sub + 1) * half {
                        (x[j], x[j + half]) = if LAST && level == 0 {
                            last_inverse_butterfly(prime, x[j], x[j + half], last, bound)
                        } else {
                            let factor = factors[(1 << level) + sub];
                            inverse_butterfly::<LAZY>(prime, x[j], x[j + half], factor, bound)
                        };
                    }
                }
                bound = if LAZY { _mm512_add_epi64(bound, bound) } else { bound };
            }
            for k in 0..width {
                store(&mut block[k * stride + position], x[k]);
            }
        }
    }
    *done += LEVELS as u32;
}

/// `2q`, or `2q 2^done`: the bound of all values after `done` levels.
#[inline]
#[target_feature(enable = "avx512f")]
fn splat_bound<const LAZY: bool>(prime: &Prime, done: u32) -> __m512i {
    let mut bound = prime.twice;
    if LAZY {
        for _ in 0..done {
            bound = _mm512_add_epi64(bound, bound);
        }
    }
    bound
}

/// `(x, y) -> (x + y, (x - y) w)`, in below `bound`, out below twice that, or `2q` without `LAZY`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_butterfly<const LAZY: bool>(
    prime: &Prime,
    x: __m512i,
    y: __m512i,
    factor: Factor,
    bound: __m512i,
) -> (__m512i, __m512i) {
    let sum = _mm512_add_epi64(x, y);
    let difference = _mm512_sub_epi64(_mm512_add_epi64(x, bound), y);
    if LAZY {
        (sum, prime.multiply_add(_mm512_setzero_si512(), difference, factor))
    } else {
        (reduce_by(sum, prime.twice), prime.multiply_lazy(difference, factor))
    }
}

/// The last level, to `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn last_inverse_butterfly(
    prime: &Prime,
    x: __m512i,
    y: __m512i,
    [scale, scaled_root]: [Factor; 2],
    bound: __m512i,
) -> (__m512i, __m512i) {
    let difference = _mm512_sub_epi64(_mm512_add_epi64(x, bound), y);
    (prime.multiply(_mm512_add_epi64(x, y), scale), prime.multiply(difference, scaled_root))
}

/// The first three levels of the inverse; the mirror image of [`forward_inside`].
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_inside<const LAZY: bool>(
    prime: &Prime,
    roots: &SplitFactors,
    [a, b]: &mut [Lanes; 2],
    first: usize,
    blocks: usize,
) {
    let block = blocks + first;
    let (x, y) = (load(a), load(b));
    let (x, y) = (
        _mm512_permutex2var_epi64(x, lanes([0, 2, 4, 6, 8, 10, 12, 14]), y),
        _mm512_permutex2var_epi64(x, lanes([1, 3, 5, 7, 9, 11, 13, 15]), y),
    );
    let (x, y) =
        inverse_butterfly::<LAZY>(prime, x, y, eight_factors(roots, block), splat_bound::<LAZY>(prime, 0));
    let (x, y) = (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    let (x, y) =
        inverse_butterfly::<LAZY>(prime, x, y, four_factors(roots, block), splat_bound::<LAZY>(prime, 1));
    let (x, y) = (
        _mm512_permutex2var_epi64(x, lanes([0, 1, 8, 9, 4, 5, 12, 13]), y),
        _mm512_permutex2var_epi64(x, lanes([2, 3, 10, 11, 6, 7, 14, 15]), y),
    );
    let (x, y) =
        inverse_butterfly::<LAZY>(prime, x, y, two_factors(roots, block), splat_bound::<LAZY>(prime, 2));
    store(a, _mm512_shuffle_i64x2::<0x44>(x, y));
    store(b, _mm512_shuffle_i64x2::<0xEE>(x, y));
}
