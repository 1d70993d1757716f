//! Transforms on doubles.
//!
//! With `LAZY`, nothing is reduced between the first and the last level: forward, values start below `4q` and grow by
//! less than `q` per level; inverse, they start below `2q` and double. Without it, they are reduced to `q/2` in magnitude
//! wherever a multiplication could meet more than `3.5q` forward (every second pass) or `4q` in the inverse (every pass).
//! What is multiplied has to be below 2^52.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm512_add_pd, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_permutex2var_epi64,
    _mm512_permutexvar_epi64, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_sub_pd,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use super::super::moves::radix_columns_by_rows;
use super::super::portable;
use super::super::rows::{Lanes, Pairs};
use super::super::vector512::{fetch, lanes, load, splat, store};
use super::elementwise::multiply;
use super::field::{Factor, Field, double};
use super::moves::radix_rows;
use super::passes::{LEAST_DEGREE, passes};
use crate::ring::tables::{NttTables, SplitFactors};

passes!("avx512f,avx512dq", 2);

radix_columns_by_rows!(
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(in super::super) fn radix_columns
);

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn forward(tables: &NttTables, values: &mut [u64]) {
    forward_fetching(tables, values, &[]);
}

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn forward_fetching(tables: &NttTables, values: &mut [u64], ahead: &[Lanes]) {
    if values.len() < LEAST_DEGREE {
        return portable::forward(tables, values);
    }
    if (4 + u64::from(values.len().ilog2())) * tables.modulus().value() <= 1 << 51 {
        forward_passes::<true>(tables, values.as_chunks_mut().0, ahead);
    } else {
        forward_passes::<false>(tables, values.as_chunks_mut().0, ahead);
    }
}

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn inverse(tables: &NttTables, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::inverse(tables, values);
    }
    if tables.modulus().bits() + 1 + values.len().ilog2() <= 51 {
        inverse_passes::<true>(tables, values.as_chunks_mut().0);
    } else {
        inverse_passes::<false>(tables, values.as_chunks_mut().0);
    }
}

fn forward_roots(tables: &NttTables) -> &SplitFactors {
    tables.forward_doubles()
}

fn inverse_roots(tables: &NttTables) -> &SplitFactors {
    tables.inverse_doubles()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn inverse_last(tables: &NttTables) -> [Factor; 2] {
    let [scale, scaled_root] = tables.inverse_last();
    [Factor::splat(tables.modulus(), scale), Factor::splat(tables.modulus(), scaled_root)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn enter_forward<const LAZY: bool>(field: &Field, x: __m512i) -> __m512i {
    let x = double(x);
    _mm512_castpd_si512(if LAZY { x } else { field.reduce(x) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn enter_inverse<const LAZY: bool>(field: &Field, x: __m512i) -> __m512i {
    enter_forward::<LAZY>(field, x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn between<const LAZY: bool>(field: &Field, x: __m512i) -> __m512i {
    if LAZY { x } else { _mm512_castpd_si512(field.reduce(_mm512_castsi512_pd(x))) }
}

/// To integers in `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn leave_forward<const LAZY: bool>(field: &Field, x: __m512i) -> __m512i {
    field.residue(field.reduce(_mm512_castsi512_pd(x)))
}

/// `(x, y) -> (x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn forward_butterfly<const LAZY: bool>(
    field: &Field,
    x: __m512i,
    y: __m512i,
    factor: Factor,
) -> (__m512i, __m512i) {
    // The low part is there first.
    let (x, [high, low]) = (_mm512_castsi512_pd(x), field.multiply_parts(_mm512_castsi512_pd(y), factor));
    let (sum, difference) = (_mm512_add_pd(x, low), _mm512_sub_pd(x, low));
    (_mm512_castpd_si512(_mm512_add_pd(sum, high)), _mm512_castpd_si512(_mm512_sub_pd(difference, high)))
}

/// Doubles are signed and need no bound.
#[inline]
#[target_feature(enable = "avx512f")]
fn bound_after<const LAZY: bool>(_: &Field, _: u32) -> __m512i {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn next_bound<const LAZY: bool>(bound: __m512i) -> __m512i {
    bound
}

/// `(x, y) -> (x + y, (x - y) w)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn inverse_butterfly<const LAZY: bool>(
    field: &Field,
    x: __m512i,
    y: __m512i,
    factor: Factor,
    _: __m512i,
) -> (__m512i, __m512i) {
    let (x, y) = (_mm512_castsi512_pd(x), _mm512_castsi512_pd(y));
    let product = field.multiply(_mm512_sub_pd(x, y), factor);
    (_mm512_castpd_si512(_mm512_add_pd(x, y)), _mm512_castpd_si512(product))
}

/// The last level, to integers in `[0, q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn last_inverse_butterfly(
    field: &Field,
    x: __m512i,
    y: __m512i,
    [scale, scaled_root]: [Factor; 2],
    _: __m512i,
) -> (__m512i, __m512i) {
    let (x, y) = (_mm512_castsi512_pd(x), _mm512_castsi512_pd(y));
    (
        field.residue(field.multiply(_mm512_add_pd(x, y), scale)),
        field.residue(field.multiply(_mm512_sub_pd(x, y), scaled_root)),
    )
}
