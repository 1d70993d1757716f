//! A prime and fixed factors as 52-bit integers.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_permutex2var_epi64, _mm512_setzero_si512, _mm512_srli_epi64,
};

use super::super::vector512::{lanes, reduce_by, splat};
use crate::ring::modulus::{Modulus, ShoupFactor};

/// A factor and its quotient, in every lane or lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) value: __m512i,
    pub(super) quotient: __m512i,
}

/// A prime in every lane.
#[derive(Clone, Copy)]
pub(super) struct Prime {
    /// q.
    pub(super) value: __m512i,
    /// 2q.
    pub(super) twice: __m512i,
    /// `2^52 - q`.
    pub(super) negative: __m512i,
    /// `2^52 - 1`.
    pub(super) mask: __m512i,
    /// 1, 2^52 and 2^104.
    pub(super) powers: [Factor; 3],
}

/// `acc + low 52 bits of a b`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn low(acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_madd52lo_epu64(acc, a, b)
}

/// `acc + high 52 bits of a b`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn high(acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_madd52hi_epu64(acc, a, b)
}

impl Factor {
    pub(super) fn of(value: __m512i, quotient: __m512i) -> Self {
        Self { value, quotient }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(factor: ShoupFactor) -> Self {
        Self { value: splat(factor.value), quotient: splat(factor.quotient >> 12) }
    }

    /// Eight factors from their array of pairs.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load(factors: &[ShoupFactor; 8]) -> Self {
        // SAFETY: a factor is two words (`repr(C)`), so the reference covers the 128 bytes that are read.
        let (low, high) = unsafe {
            let words = factors.as_ptr().cast::<u64>();
            (_mm512_loadu_si512(words.cast()), _mm512_loadu_si512(words.add(8).cast()))
        };
        Self {
            value: _mm512_permutex2var_epi64(low, lanes([0, 2, 4, 6, 8, 10, 12, 14]), high),
            quotient: _mm512_srli_epi64::<12>(_mm512_permutex2var_epi64(
                low,
                lanes([1, 3, 5, 7, 9, 11, 13, 15]),
                high,
            )),
        }
    }
}

impl Prime {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(modulus: &Modulus) -> Self {
        let value = modulus.value();
        let [one, fold, fold_twice] = modulus.powers();
        Self {
            value: splat(value),
            twice: splat(2 * value),
            negative: splat((1 << 52) - value),
            mask: splat((1 << 52) - 1),
            powers: [Factor::splat(one), Factor::splat(fold), Factor::splat(fold_twice)],
        }
    }

    /// `acc + x w mod q` modulo 2^52, where the product is in `[0, 2q)`, for `x < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply_add(&self, acc: __m512i, x: __m512i, factor: Factor) -> __m512i {
        let quotient = high(_mm512_setzero_si512(), x, factor.quotient);
        low(low(acc, x, factor.value), quotient, self.negative)
    }

    /// `x w mod q` in `[0, 2q)`, for `x < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply_lazy(&self, x: __m512i, factor: Factor) -> __m512i {
        _mm512_and_si512(self.multiply_add(_mm512_setzero_si512(), x, factor), self.mask)
    }

    /// `x w mod q`, for `x < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply(&self, x: __m512i, factor: Factor) -> __m512i {
        reduce_by(self.multiply_lazy(x, factor), self.value)
    }

    /// `x mod q`, for `x < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn reduce(&self, x: __m512i) -> __m512i {
        let quotient = high(_mm512_setzero_si512(), x, self.powers[0].quotient);
        reduce_by(_mm512_and_si512(low(x, quotient, self.negative), self.mask), self.value)
    }

    /// `sum0 + 2^52 sum1 mod q`, for any `sum0`, and `sum1 < 2^52 - 2^12`; with `WIDE`, `sum1 < 2^64 - 2^12`.
    ///
    /// The carry of `sum0` goes to `sum1`; each 52-bit part is then multiplied by its power of 2^52 into `[0, 2q)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn reduce_sums<const WIDE: bool>(&self, sum0: __m512i, sum1: __m512i) -> __m512i {
        let [one, fold, fold_twice] = self.powers;
        let sum1 = _mm512_add_epi64(sum1, _mm512_srli_epi64::<52>(sum0));
        let first = _mm512_and_si512(sum0, self.mask);
        let quotient = high(high(_mm512_setzero_si512(), sum1, fold.quotient), first, one.quotient);
        let rest = low(low(first, sum1, fold.value), quotient, self.negative);
        let mut rest = reduce_by(_mm512_and_si512(rest, self.mask), self.twice);
        if WIDE {
            let top = self.multiply_lazy(_mm512_srli_epi64::<52>(sum1), fold_twice);
            rest = reduce_by(_mm512_add_epi64(rest, top), self.twice);
        }
        reduce_by(rest, self.value)
    }
}
