//! Operations slot by slot. Lengths that are not multiples of eight (only tests have them) end in the portable twin.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_sub_epi64,
};

use super::super::avx512f::{load, reduce_by, splat, store};
use super::super::portable;
use super::{Factor, Lanes, Prime, high, low};
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
#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn rescale(multiplier: u64, target: u64, a: &mut [u64]) {
    let (a, rest) = a.as_chunks_mut();
    let (low_part, high_part) = (splat(multiplier & ((1 << 52) - 1)), splat(multiplier >> 52));
    let (rounding, limit) = (splat(1 << 11), splat(target));
    for x in a {
        let value = load(x);
        let middle = low(high(rounding, value, low_part), value, high_part);
        let top = high(_mm512_setzero_si512(), value, high_part);
        let sum = _mm512_add_epi64(_mm512_srli_epi64::<12>(middle), _mm512_slli_epi64::<40>(top));
        store(x, reduce_by(sum, limit));
    }
    portable::rescale(multiplier, target, rest);
}
