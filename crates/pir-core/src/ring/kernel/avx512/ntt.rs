//! Transforms by integer multiply-add.
//!
//! With `LAZY`, no value is reduced between the first and the last level. Forward, values start below `4q` and grow by
//! `2q` per level; inverse, they start below `2q` and double. While the bound stays below 2^52, words have to be right
//! modulo 2^52 only, since multiplication reads no more, and one butterfly is 6 instructions, 3 of them multiplications.
//! Without it (the longest primes), values stay below `4q` and `2q`, at 9 and 9 instructions.

mod columns;
mod orbit;

use core::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm512_add_epi64, _mm512_permutex2var_epi64, _mm512_permutexvar_epi64,
    _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_sub_epi64, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64,
};

use super::super::avx512f::{LEAST_DEGREE, passes};
use super::super::portable;
use super::super::rows::Lanes;
use super::super::vector512::{fetch, lanes, load, reduce_by, splat, store};
use super::prime::{Factor, Prime as Field};
use crate::ring::tables::{NttTables, SplitFactors};

pub(in super::super) use columns::radix_columns;
pub(in super::super) use orbit::orbit_walk;

passes!("avx512f,avx512ifma", 3);

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn forward(tables: &NttTables, values: &mut [u64]) {
    forward_fetching(tables, values, &[]);
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn forward_fetching(tables: &NttTables, values: &mut [u64], ahead: &[Lanes]) {
    if values.len() < LEAST_DEGREE {
        return portable::forward(tables, values);
    }
    // 4q + 2q * levels <= 2^52.
    if (4 + 2 * u64::from(values.len().ilog2())) * tables.modulus().value() <= 1 << 52 {
        forward_passes::<true>(tables, values.as_chunks_mut().0, ahead);
    } else {
        forward_passes::<false>(tables, values.as_chunks_mut().0, ahead);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn inverse(tables: &NttTables, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::inverse(tables, values);
    }
    // 2q * 2^levels <= 2^52.
    if tables.modulus().bits() + 1 + values.len().ilog2() <= 52 {
        inverse_passes::<true>(tables, values.as_chunks_mut().0);
    } else {
        inverse_passes::<false>(tables, values.as_chunks_mut().0);
    }
}

fn forward_roots(tables: &NttTables) -> &SplitFactors {
    tables.forward_split()
}

fn inverse_roots(tables: &NttTables) -> &SplitFactors {
    tables.inverse_split()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn inverse_last(tables: &NttTables) -> [Factor; 2] {
    let [scale, scaled_root] = tables.inverse_last();
    [Factor::splat(scale), Factor::splat(scaled_root)]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn enter_forward<const LAZY: bool>(_: &Field, x: __m512i) -> __m512i {
    x
}

#[inline]
#[target_feature(enable = "avx512f")]
fn enter_inverse<const LAZY: bool>(_: &Field, x: __m512i) -> __m512i {
    x
}

#[inline]
#[target_feature(enable = "avx512f")]
fn between<const LAZY: bool>(_: &Field, x: __m512i) -> __m512i {
    x
}

/// To `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn leave_forward<const LAZY: bool>(field: &Field, x: __m512i) -> __m512i {
    if LAZY { field.reduce(x) } else { reduce_by(reduce_by(x, field.twice), field.value) }
}

/// `(x, y) -> (x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_butterfly<const LAZY: bool>(
    field: &Field,
    x: __m512i,
    y: __m512i,
    factor: Factor,
) -> (__m512i, __m512i) {
    if LAZY {
        let sum = field.multiply_add(x, y, factor);
        let twice = _mm512_add_epi64(_mm512_add_epi64(x, x), field.twice);
        (sum, _mm512_sub_epi64(twice, sum))
    } else {
        let x = reduce_by(x, field.twice);
        let product = field.multiply_lazy(y, factor);
        (_mm512_add_epi64(x, product), _mm512_sub_epi64(_mm512_add_epi64(x, field.twice), product))
    }
}

/// `2q`, or `2q 2^done`: the bound of all values after `done` levels.
#[inline]
#[target_feature(enable = "avx512f")]
fn bound_after<const LAZY: bool>(field: &Field, done: u32) -> __m512i {
    let mut bound = field.twice;
    if LAZY {
        for _ in 0..done {
            bound = _mm512_add_epi64(bound, bound);
        }
    }
    bound
}

#[inline]
#[target_feature(enable = "avx512f")]
fn next_bound<const LAZY: bool>(bound: __m512i) -> __m512i {
    if LAZY { _mm512_add_epi64(bound, bound) } else { bound }
}

/// `(x, y) -> (x + y, (x - y) w)`, in below `bound`, out below twice that, or `2q` without `LAZY`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_butterfly<const LAZY: bool>(
    field: &Field,
    x: __m512i,
    y: __m512i,
    factor: Factor,
    bound: __m512i,
) -> (__m512i, __m512i) {
    let sum = _mm512_add_epi64(x, y);
    let difference = _mm512_sub_epi64(_mm512_add_epi64(x, bound), y);
    if LAZY {
        (sum, field.multiply_add(_mm512_setzero_si512(), difference, factor))
    } else {
        (reduce_by(sum, field.twice), field.multiply_lazy(difference, factor))
    }
}

/// The last level, to `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn last_inverse_butterfly(
    field: &Field,
    x: __m512i,
    y: __m512i,
    [scale, scaled_root]: [Factor; 2],
    bound: __m512i,
) -> (__m512i, __m512i) {
    let difference = _mm512_sub_epi64(_mm512_add_epi64(x, bound), y);
    (field.multiply(_mm512_add_epi64(x, y), scale), field.multiply(difference, scaled_root))
}
