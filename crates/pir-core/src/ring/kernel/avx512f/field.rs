//! A prime and fixed factors as doubles.

use core::arch::x86_64::{
    __m512d, __m512i, _mm512_add_epi64, _mm512_add_pd, _mm512_castpd_si512, _mm512_castsi512_pd,
    _mm512_cvtepi64_pd, _mm512_cvtepu64_pd, _mm512_cvtpd_epi64, _mm512_fmadd_pd, _mm512_fmsub_pd,
    _mm512_fnmadd_pd, _mm512_min_epu64, _mm512_mul_pd, _mm512_mullo_epi64, _mm512_set1_pd, _mm512_sub_epi64,
    _mm512_sub_pd,
};

use super::super::rows::Lanes;
use super::super::vector512::{load, splat, store};
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::tables::SplitFactors;

/// Added and subtracted, it rounds a double below 2^51 in magnitude to the nearest integer.
pub(super) const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// A prime in every lane.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) integer: __m512i,
    pub(super) value: __m512d,
    pub(super) inverse: __m512d,
    pub(super) rounding: __m512d,
}

/// A fixed factor `w` and `w / q`, in every lane or lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) value: __m512d,
    pub(super) quotient: __m512d,
}

impl Factor {
    /// From the bits of doubles.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn of(value: __m512i, quotient: __m512i) -> Self {
        Self { value: _mm512_castsi512_pd(value), quotient: _mm512_castsi512_pd(quotient) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(modulus: &Modulus, factor: ShoupFactor) -> Self {
        let [value, quotient] = SplitFactors::double(modulus, factor.value);
        Self { value: _mm512_set1_pd(value), quotient: _mm512_set1_pd(quotient) }
    }
}

impl Field {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(modulus: &Modulus) -> Self {
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
    pub(super) fn rounded_product(&self, x: __m512d, y: __m512d) -> __m512d {
        _mm512_sub_pd(_mm512_fmadd_pd(x, y, self.rounding), self.rounding)
    }

    /// `x mod q` of magnitude at most `q/2` and a rounding error, for integers `x` below `2^51 q`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn reduce(&self, x: __m512d) -> __m512d {
        _mm512_fnmadd_pd(self.rounded_product(x, self.inverse), self.value, x)
    }

    /// `x w mod q` of magnitude below `0.76 q`, for integers `|x| < 2^52` and a factor of at most `q/2`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply(&self, x: __m512d, factor: Factor) -> __m512d {
        let [high, low] = self.multiply_parts(x, factor);
        _mm512_add_pd(high, low)
    }

    /// Two parts of that product.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply_parts(&self, x: __m512d, factor: Factor) -> [__m512d; 2] {
        let high = _mm512_mul_pd(x, factor.value);
        let low = _mm512_fmsub_pd(x, factor.value, high);
        let quotient = self.rounded_product(x, factor.quotient);
        [_mm512_fnmadd_pd(quotient, self.value, high), low]
    }

    /// `x y mod q` of magnitude below `0.9 q`, for residues.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn product(&self, x: __m512d, y: __m512d) -> __m512d {
        let high = _mm512_mul_pd(x, y);
        let low = _mm512_fmsub_pd(x, y, high);
        let quotient = self.rounded_product(high, self.inverse);
        _mm512_add_pd(_mm512_fnmadd_pd(quotient, self.value, high), low)
    }

    /// From magnitude below q to `[0, q)`, as integers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn residue(&self, x: __m512d) -> __m512i {
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
    pub(super) fn reduce_sum(&self, low: __m512i, estimate: __m512d) -> __m512i {
        let quotient = _mm512_cvtpd_epi64(_mm512_mul_pd(estimate, self.inverse));
        let rest = _mm512_sub_epi64(low, _mm512_mullo_epi64(quotient, self.integer));
        self.residue(self.reduce(_mm512_cvtepi64_pd(rest)))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn double(x: __m512i) -> __m512d {
    _mm512_cvtepu64_pd(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_double(values: &Lanes) -> __m512d {
    _mm512_castsi512_pd(load(values))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_double(values: &mut Lanes, lanes: __m512d) {
    store(values, _mm512_castpd_si512(lanes));
}
