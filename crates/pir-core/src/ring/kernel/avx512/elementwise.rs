//! Operations slot by slot. Lengths that are not multiples of eight (only tests have them) end in the portable twin.

use core::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_add_epi64, _mm512_cvtepu32_epi64, _mm512_i64gather_epi64,
    _mm512_mask_sub_epi64, _mm512_min_epu64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64,
    _mm512_sub_epi64, _mm512_test_epi64_mask,
};

use super::super::avx512f::rescaling;
use super::super::portable;
use super::super::rows::Lanes;
use super::super::vector512::{load, reduce_by, splat, store};
use super::prime::{Factor, Prime, high, low};
use crate::ring::modulus::{Modulus, ShoupFactor};

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let prime = Prime::new(modulus);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    let zero = _mm512_setzero_si512();
    for (x, y) in a.iter_mut().zip(b) {
        let (left, right) = (load(x), load(y));
        store(x, prime.reduce_sums::<false>(low(zero, left, right), high(zero, left, right)));
    }
    portable::multiply(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    let prime = Prime::new(modulus);
    let (a, rest) = a.as_chunks_mut();
    let lanes = Factor::splat(factor);
    for x in a {
        store(x, prime.multiply(load(x), lanes));
    }
    portable::scale(modulus, rest, factor);
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn halves(
    modulus: &Modulus,
    a: &mut [u64],
    odd: &mut [u64],
    b: &[u64],
    factors: &[ShoupFactor],
) {
    let prime = Prime::new(modulus);
    let sparse = factors.len() < a.len();
    let (a, odd, b) = (a.as_chunks_mut().0, odd.as_chunks_mut().0, b.as_chunks().0);
    let slots = a.iter_mut().zip(odd).zip(b);
    if sparse {
        for (((x, odd), y), factor) in slots.zip(factors) {
            halves_of(&prime, x, odd, y, Factor::splat(*factor));
        }
    } else {
        for (((x, odd), y), factors) in slots.zip(factors.as_chunks().0) {
            halves_of(&prime, x, odd, y, Factor::load(factors));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn halves_of(prime: &Prime, x: &mut Lanes, odd: &mut Lanes, y: &Lanes, factor: Factor) {
    let (left, right) = (load(x), load(y));
    store(odd, prime.multiply(difference(prime, left, right), factor));
    store(x, reduce_by(_mm512_add_epi64(left, right), prime.value));
}

/// `x - y + q`, in `(0, 2q)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn difference(prime: &Prime, x: __m512i, y: __m512i) -> __m512i {
    _mm512_sub_epi64(_mm512_add_epi64(x, prime.value), y)
}

/// With `M = M0 + 2^52 M1`, the sum is `low(x M0) + 2^52 (high(x M0) + low(x M1) + 2^11) + 2^104 high(x M1)`, and its
/// first part carries nothing.
struct Rescale {
    parts: [__m512i; 2],
    rounding: __m512i,
    limit: __m512i,
}

impl Rescale {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(multiplier: u64, target: u64) -> Self {
        Self {
            parts: [splat(multiplier & ((1 << 52) - 1)), splat(multiplier >> 52)],
            rounding: splat(1 << 11),
            limit: splat(target),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn apply(&self, value: __m512i) -> __m512i {
        let [low_part, high_part] = self.parts;
        let middle = low(high(self.rounding, value, low_part), value, high_part);
        let top = high(_mm512_setzero_si512(), value, high_part);
        let sum = _mm512_add_epi64(_mm512_srli_epi64::<12>(middle), _mm512_slli_epi64::<40>(top));
        reduce_by(sum, self.limit)
    }
}

rescaling!("avx512f,avx512ifma");

/// Gathers eight coefficients at a time.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]) {
    let ((out, out_rest), (indices, indices_rest)) = (out.as_chunks_mut::<8>(), sources.as_chunks::<8>());
    let prime = splat(modulus.value());
    let last = splat(source.len() as u64 - 1);
    for (out, from) in out.iter_mut().zip(indices) {
        // SAFETY: the reference covers the 32 bytes that are read.
        let from = _mm512_cvtepu32_epi64(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) });
        let index = _mm512_min_epu64(_mm512_srli_epi64::<1>(from), last);
        // SAFETY: no index is above that of the last of the source's words.
        let x = unsafe { _mm512_i64gather_epi64::<8>(index, source.as_ptr().cast()) };
        let negated = _mm512_test_epi64_mask(from, splat(1));
        store(out, reduce_by(_mm512_mask_sub_epi64(x, negated, prime, x), prime));
    }
    portable::substitute(modulus, out_rest, source, indices_rest);
}
