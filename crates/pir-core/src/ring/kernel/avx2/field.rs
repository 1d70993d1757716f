//! A prime and fixed factors as doubles, four to a register.

use core::arch::x86_64::{
    __m256d, __m256i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_add_pd, _mm256_blendv_pd,
    _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_fmsub_pd, _mm256_fnmadd_pd, _mm256_loadu_si256,
    _mm256_mul_pd, _mm256_or_si256, _mm256_round_pd, _mm256_set1_pd, _mm256_storeu_si256, _mm256_sub_pd,
    _mm256_xor_si256,
};

use super::super::each;
use crate::ring::modulus::Modulus;

/// What a register holds.
pub(super) type Four = [u64; 4];

/// 2^52: adding it puts an integer below 2^52 into the low bits of a double.
pub(super) const SHIFTER: f64 = 4_503_599_627_370_496.0;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(values: &Four) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read, and an unaligned load has no other demand.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store(values: &mut Four, lanes: __m256i) {
    // SAFETY: the exclusive reference covers the 32 bytes that are written; an unaligned store has no other demand.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), lanes) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_double(values: &Four) -> __m256d {
    _mm256_castsi256_pd(load(values))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_double(values: &mut Four, lanes: __m256d) {
    store(values, _mm256_castpd_si256(lanes));
}

/// The doubles of integers below 2^52.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn double(x: __m256i) -> __m256d {
    let shifter = _mm256_set1_pd(SHIFTER);
    _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, _mm256_castpd_si256(shifter))), shifter)
}

/// A fixed factor `w` and `w / q`, in every lane or lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) value: __m256d,
    pub(super) quotient: __m256d,
}

impl Factor {
    /// The same in all lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn splat([value, quotient]: [f64; 2]) -> Self {
        Self { value: _mm256_set1_pd(value), quotient: _mm256_set1_pd(quotient) }
    }
}

/// A prime in every lane.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) value: __m256d,
    pub(super) inverse: __m256d,
}

impl Field {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(modulus: &Modulus) -> Self {
        let value = modulus.value() as f64;
        Self { value: _mm256_set1_pd(value), inverse: _mm256_set1_pd(1.0 / value) }
    }

    /// `x mod q` of magnitude at most `q/2` and a rounding error of 1/16 of it, for integers `x` below `2^48 q`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn reduce(&self, x: __m256d) -> __m256d {
        _mm256_fnmadd_pd(round(_mm256_mul_pd(x, self.inverse)), self.value, x)
    }

    /// [`Self::reduce`] for all.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn reduce_each<const K: usize>(&self, x: [__m256d; K]) -> [__m256d; K] {
        let quotients = x.map(|x| _mm256_mul_pd(x, self.inverse)).map(|quotient| round(quotient));
        each(|i| _mm256_fnmadd_pd(quotients[i], self.value, x[i]))
    }

    /// `x w mod q` of magnitude below q, for integers `|x| < 2^53` and factors below `q/2`; step by step for all, since one
    /// after the other they would wait for themselves.
    ///
    /// `w / q` is below 1/2 and off by 2^-55 at most, the product with it below 2^52 and rounded by 2^-2 at most: the
    /// quotient is off by less than 1/2 before it is rounded.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply<const K: usize>(&self, x: [__m256d; K], factors: [Factor; K]) -> [__m256d; K] {
        let high: [_; K] = each(|i| _mm256_mul_pd(x[i], factors[i].value));
        let quotients: [_; K] = each(|i| _mm256_mul_pd(x[i], factors[i].quotient));
        let low: [_; K] = each(|i| _mm256_fmsub_pd(x[i], factors[i].value, high[i]));
        let quotients = quotients.map(|quotient| round(quotient));
        let high: [_; K] = each(|i| _mm256_fnmadd_pd(quotients[i], self.value, high[i]));
        each(|i| _mm256_add_pd(high[i], low[i]))
    }

    /// Two parts of `x y mod q`, of magnitude below `0.9 q` together, for residues: the quotient, below 2^50, comes out of
    /// three roundings by 2^-53 of it each.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn product_parts(&self, x: __m256d, y: __m256d) -> [__m256d; 2] {
        let high = _mm256_mul_pd(x, y);
        let low = _mm256_fmsub_pd(x, y, high);
        let quotient = round(_mm256_mul_pd(high, self.inverse));
        [_mm256_fnmadd_pd(quotient, self.value, high), low]
    }

    /// `-x w mod q`, like [`Self::multiply`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_negated<const K: usize>(
        &self,
        x: [__m256d; K],
        factors: [Factor; K],
    ) -> [__m256d; K] {
        let high: [_; K] = each(|i| _mm256_mul_pd(x[i], factors[i].value));
        let quotients: [_; K] = each(|i| _mm256_mul_pd(x[i], factors[i].quotient));
        let low: [_; K] = each(|i| _mm256_fnmadd_pd(x[i], factors[i].value, high[i]));
        let quotients = quotients.map(|quotient| round(quotient));
        let high: [_; K] = each(|i| _mm256_fmsub_pd(quotients[i], self.value, high[i]));
        each(|i| _mm256_add_pd(high[i], low[i]))
    }

    /// From magnitude below q to `[0, q)`, as integers. Zero comes without a sign: no step before makes a negative one.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn residue(&self, x: __m256d) -> __m256i {
        let shifter = _mm256_set1_pd(SHIFTER);
        let (plain, raised) =
            (_mm256_add_pd(x, shifter), _mm256_add_pd(x, _mm256_add_pd(self.value, shifter)));
        let chosen = _mm256_blendv_pd(plain, raised, x);
        _mm256_xor_si256(_mm256_castpd_si256(chosen), _mm256_castpd_si256(shifter))
    }
}

/// To the nearest integers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn round(x: __m256d) -> __m256d {
    _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}
