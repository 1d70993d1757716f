//! AVX-512 without integer multiply-add, as on servers before Ice Lake: eight residues to a register, wide products by
//! doubles. What needs no wide product serves [`super::avx512`] as well.
//!
//! The product of two integers below 2^52 and 2^50 is the exact sum of two doubles, `h = a b` rounded and `l = a b - h`
//! by a fused multiply-add. With `b` the nearest integer to `a b / q`, `a b - b q = (h - b q) + l` is an integer below 2^53
//! in magnitude, so that every step is exact and the results are those of the other kernels. Adding and subtracting
//! 1.5 * 2^52 rounds a double below 2^51 to the nearest integer.
//!
//! Every `unsafe` block here reads or writes memory behind a reference to an array of the size that is moved.

mod elementwise;
mod ntt;
mod passes;
mod product;

use core::arch::x86_64::{
    __m512d, __m512i, _mm512_add_epi64, _mm512_add_pd, _mm512_castpd_si512, _mm512_castsi512_pd,
    _mm512_cvtepi64_pd, _mm512_cvtepu64_pd, _mm512_cvtpd_epi64, _mm512_fmadd_pd, _mm512_fmsub_pd,
    _mm512_fnmadd_pd, _mm512_loadu_si512, _mm512_min_epu64, _mm512_mul_pd, _mm512_mullo_epi64,
    _mm512_set_epi64, _mm512_set1_epi64, _mm512_set1_pd, _mm512_storeu_si512, _mm512_sub_epi64,
    _mm512_sub_pd,
};

pub(super) use elementwise::{
    add, centre, chunk, digit, halves, multiply, permute, rescale, rescale_difference, rescale_sum,
    rescaling, scale, substitute, subtract,
};
pub(super) use ntt::{forward, inverse};
pub(super) use passes::{LEAST_DEGREE, passes};
pub(super) use product::{arrange, key_products, multiply_accumulate, pack, reduce, row_products, unpack};

use super::Lanes;
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::ntt::SplitFactors;

/// Whether this machine can run the functions of this module.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
}

/// Added and subtracted, it rounds a double below 2^51 in magnitude to the nearest integer.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(values: &Lanes) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read, and an unaligned load has no other demand.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(values: &mut Lanes, lanes: __m512i) {
    // SAFETY: the exclusive reference covers the 64 bytes that are written; an unaligned store has no other demand.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), lanes) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(value: u64) -> __m512i {
    _mm512_set1_epi64(value as i64)
}

/// Lane `i` gets `lanes[i]`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes([a, b, c, d, e, f, g, h]: [i64; 8]) -> __m512i {
    _mm512_set_epi64(h, g, f, e, d, c, b, a)
}

/// `x` or `x - bound`, whichever is in `[0, bound)`, for `x < 2 bound`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn reduce_by(x: __m512i, bound: __m512i) -> __m512i {
    _mm512_min_epu64(x, _mm512_sub_epi64(x, bound))
}

/// A prime in every lane.
#[derive(Clone, Copy)]
struct Field {
    integer: __m512i,
    value: __m512d,
    inverse: __m512d,
    rounding: __m512d,
}

/// A fixed factor `w` and `w / q`, in every lane or lane by lane.
#[derive(Clone, Copy)]
struct Factor {
    value: __m512d,
    quotient: __m512d,
}

impl Factor {
    /// From the bits of doubles.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of(value: __m512i, quotient: __m512i) -> Self {
        Self { value: _mm512_castsi512_pd(value), quotient: _mm512_castsi512_pd(quotient) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn splat(modulus: &Modulus, factor: ShoupFactor) -> Self {
        let [value, quotient] = SplitFactors::double(modulus, factor.value);
        Self { value: _mm512_set1_pd(value), quotient: _mm512_set1_pd(quotient) }
    }
}

impl Field {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(modulus: &Modulus) -> Self {
        let value = modulus.value() as f64;
        Self {
            integer: splat(modulus.value()),
            value: _mm512_set1_pd(value),
            inverse: _mm512_set1_pd(1.0 / value),
            rounding: _mm512_set1_pd(ROUNDING),
        }
    }

    /// The integer nearest to `x y`, for a product below 2^51 in magnitude.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rounded_product(&self, x: __m512d, y: __m512d) -> __m512d {
        _mm512_sub_pd(_mm512_fmadd_pd(x, y, self.rounding), self.rounding)
    }

    /// `x mod q` of magnitude at most `q/2` and a rounding error, for integers `x` below `2^51 q`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn reduce(&self, x: __m512d) -> __m512d {
        _mm512_fnmadd_pd(self.rounded_product(x, self.inverse), self.value, x)
    }

    /// `x w mod q` of magnitude below `0.76 q`, for integers `|x| < 2^52` and a factor of at most `q/2`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn multiply(&self, x: __m512d, factor: Factor) -> __m512d {
        let [high, low] = self.multiply_parts(x, factor);
        _mm512_add_pd(high, low)
    }

    /// Two parts of that product.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn multiply_parts(&self, x: __m512d, factor: Factor) -> [__m512d; 2] {
        let high = _mm512_mul_pd(x, factor.value);
        let low = _mm512_fmsub_pd(x, factor.value, high);
        let quotient = self.rounded_product(x, factor.quotient);
        [_mm512_fnmadd_pd(quotient, self.value, high), low]
    }

    /// `x y mod q` of magnitude below `0.9 q`, for residues.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn product(&self, x: __m512d, y: __m512d) -> __m512d {
        let high = _mm512_mul_pd(x, y);
        let low = _mm512_fmsub_pd(x, y, high);
        let quotient = self.rounded_product(high, self.inverse);
        _mm512_add_pd(_mm512_fnmadd_pd(quotient, self.value, high), low)
    }

    /// From magnitude below q to `[0, q)`, as integers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn residue(&self, x: __m512d) -> __m512i {
        let x = _mm512_cvtpd_epi64(x);
        _mm512_min_epu64(x, _mm512_add_epi64(x, self.integer))
    }

    /// `sum mod q` in `[0, q)`, where `low` is the sum modulo 2^64 and `estimate` its double, if what is left after the
    /// estimated quotient, times q, is taken away is below 2^53.
    ///
    /// For eight products of 50 bits, rounding moves the quotient by less than `2^1.43` and its own by 2: less than 2^52.3
    /// is left. For 2^12 products of 40 bits it is less than 2^51.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn reduce_sum(&self, low: __m512i, estimate: __m512d) -> __m512i {
        let quotient = _mm512_cvtpd_epi64(_mm512_mul_pd(estimate, self.inverse));
        let rest = _mm512_sub_epi64(low, _mm512_mullo_epi64(quotient, self.integer));
        self.residue(self.reduce(_mm512_cvtepi64_pd(rest)))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn double(x: __m512i) -> __m512d {
    _mm512_cvtepu64_pd(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_double(values: &Lanes) -> __m512d {
    _mm512_castsi512_pd(load(values))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_double(values: &mut Lanes, lanes: __m512d) {
    store(values, _mm512_castpd_si512(lanes));
}
