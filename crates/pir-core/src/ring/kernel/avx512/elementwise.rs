//! Operations slot by slot. Lengths that are not multiples of eight (only tests have them) end in the portable twin.

use core::arch::x86_64::{
    __m512i, _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpgt_epu64_mask,
    _mm512_cvtepu8_epi64, _mm512_mask_sub_epi64, _mm512_permutexvar_epi64, _mm512_setzero_si512,
    _mm512_slli_epi64, _mm512_sllv_epi64, _mm512_srav_epi64, _mm512_srli_epi64, _mm512_srlv_epi64,
    _mm512_sub_epi64,
};

use super::super::{Digit, portable};
use super::{Factor, Lanes, Prime, high, load, low, reduce_by, splat, store};
use crate::ring::automorphism::VectorSource;
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

#[target_feature(enable = "avx512f")]
pub(in super::super) fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let prime = Prime::new(modulus);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        store(x, reduce_by(_mm512_add_epi64(load(x), load(y)), prime.value));
    }
    portable::add(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let prime = Prime::new(modulus);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        store(x, reduce_by(difference(&prime, load(x), load(y)), prime.value));
    }
    portable::subtract(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn centre(modulus: &Modulus, offset: u64, a: &mut [u64]) {
    let (a, rest) = a.as_chunks_mut();
    let (half, value, raise) = (splat(modulus.value() >> 1), splat(modulus.value()), splat(offset));
    for x in a {
        let residue = load(x);
        let above = _mm512_cmpgt_epu64_mask(residue, half);
        let raised = _mm512_add_epi64(residue, raise);
        store(x, _mm512_mask_sub_epi64(raised, above, raised, value));
    }
    portable::centre(modulus, offset, rest);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn digit(digit: Digit, out: &mut [u64], a: &[u64]) {
    let ((out, out_rest), (a, a_rest)) = (out.as_chunks_mut(), a.as_chunks());
    let (shift, mask, bias) = (splat(u64::from(digit.shift)), splat(digit.mask), splat(digit.bias));
    for (value, x) in out.iter_mut().zip(a) {
        let field = _mm512_and_si512(_mm512_srlv_epi64(load(x), shift), mask);
        store(value, _mm512_add_epi64(field, bias));
    }
    portable::digit(digit, out_rest, a_rest);
}

/// Whole vectors move, with a permutation inside each.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn permute(out: &mut [u64], source: &[u64], slots: &[u32], vectors: &[VectorSource]) {
    let (source_vectors, _) = source.as_chunks::<8>();
    let (out_vectors, rest) = out.as_chunks_mut::<8>();
    if vectors.len() != out_vectors.len() || !rest.is_empty() {
        return portable::permute(out, source, slots, vectors);
    }
    for (value, vector) in out_vectors.iter_mut().zip(vectors) {
        let spread = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(vector.lanes)));
        store(value, _mm512_permutexvar_epi64(spread, load(&source_vectors[vector.index as usize])));
    }
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

#[target_feature(enable = "avx512f")]
pub(in super::super) fn chunk(modulus: &Modulus, shift: u32, bits: u32, out: &mut [u64], a: &[u64]) {
    let ((out, out_rest), (a, a_rest)) = (out.as_chunks_mut(), a.as_chunks());
    let (left, right) = (splat(u64::from(64 - bits - shift)), splat(u64::from(64 - bits)));
    let value = splat(modulus.value());
    for (out, x) in out.iter_mut().zip(a) {
        let centred = _mm512_srav_epi64(_mm512_sllv_epi64(load(x), left), right);
        store(out, _mm512_add_epi64(centred, value));
    }
    portable::chunk(modulus, shift, bits, out_rest, a_rest);
}
