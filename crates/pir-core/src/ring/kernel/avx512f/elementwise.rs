//! Operations slot by slot. Lengths that are not multiples of eight (only tests have them) end
//! in the portable twin.

use core::arch::x86_64::{
    __m512i, _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpgt_epu64_mask,
    _mm512_cvtepi64_pd, _mm512_cvtepu8_epi64, _mm512_mask_sub_epi64, _mm512_mul_epu32,
    _mm512_permutexvar_epi64, _mm512_sllv_epi64, _mm512_srav_epi64, _mm512_srli_epi64, _mm512_srlv_epi64,
    _mm512_sub_epi64,
};

use super::super::portable;
use super::super::rows::Lanes;
use super::super::vector512::{load, reduce_by, splat, store};
use super::field::{Factor, Field, double};
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::tables::{Digit, VectorSource};

/// The three operations that end in a type `Rescale`, for any features.
macro_rules! rescaling {
    ($features:literal) => {
        #[target_feature(enable = $features)]
        pub(in super::super) fn rescale(multiplier: u64, target: u64, a: &mut [u64]) {
            let (a, rest) = a.as_chunks_mut();
            let rescale = Rescale::new(multiplier, target);
            for x in a {
                store(x, rescale.apply(load(x)));
            }
            portable::rescale(multiplier, target, rest);
        }

        #[target_feature(enable = $features)]
        pub(in super::super) fn rescale_sum(
            modulus: &Modulus,
            multiplier: u64,
            target: u64,
            a: &mut [u64],
            b: &[u64],
        ) {
            let (prime, rescale) = (splat(modulus.value()), Rescale::new(multiplier, target));
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
            for (x, y) in a.iter_mut().zip(b) {
                let sum = reduce_by(_mm512_add_epi64(load(x), load(y)), prime);
                store(x, rescale.apply(sum));
            }
            portable::rescale_sum(modulus, multiplier, target, a_rest, b_rest);
        }

        #[target_feature(enable = $features)]
        pub(in super::super) fn rescale_difference(
            modulus: &Modulus,
            multiplier: u64,
            target: u64,
            out: &mut [u64],
            a: &[u64],
            b: &[u64],
        ) {
            let (prime, rescale) = (splat(modulus.value()), Rescale::new(multiplier, target));
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
            let (out, out_rest) = out.as_chunks_mut();
            for ((out, x), y) in out.iter_mut().zip(a).zip(b) {
                let difference = _mm512_sub_epi64(_mm512_add_epi64(load(x), prime), load(y));
                store(out, rescale.apply(reduce_by(difference, prime)));
            }
            portable::rescale_difference(modulus, multiplier, target, out_rest, a_rest, b_rest);
        }
    };
}

pub(in super::super) use rescaling;

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let field = Field::new(modulus);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        store(x, field.residue(field.product(double(load(x)), double(load(y)))));
    }
    portable::multiply(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    let field = Field::new(modulus);
    let (a, rest) = a.as_chunks_mut();
    let lanes = Factor::splat(modulus, factor);
    for x in a {
        store(x, field.residue(field.multiply(double(load(x)), lanes)));
    }
    portable::scale(modulus, rest, factor);
}

/// Dense factors come only with the first levels of a tree, which have few nodes.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn halves(
    modulus: &Modulus,
    a: &mut [u64],
    odd: &mut [u64],
    b: &[u64],
    factors: &[ShoupFactor],
) {
    if factors.len() == a.len() || !a.len().is_multiple_of(8) {
        return portable::halves(modulus, a, odd, b, factors);
    }
    let field = Field::new(modulus);
    let (a, odd, b) = (a.as_chunks_mut().0, odd.as_chunks_mut().0, b.as_chunks().0);
    for (((x, odd), y), factor) in a.iter_mut().zip(odd).zip(b).zip(factors) {
        let (left, right): (_, _) = (load(x), load(y));
        let difference = _mm512_cvtepi64_pd(_mm512_sub_epi64(left, right));
        let product = field.multiply(difference, Factor::splat(modulus, *factor));
        let odd: &mut Lanes = odd;
        store(odd, field.residue(product));
        store(x, reduce_by(_mm512_add_epi64(left, right), field.integer));
    }
}

/// Schoolbook products of 32-bit halves: with `x = x0 + 2^32 x1` and `M = M0 + 2^32 M1`, nothing overflows 64 bits.
struct Rescale {
    parts: [__m512i; 2],
    low_half: __m512i,
    half: __m512i,
    limit: __m512i,
}

impl Rescale {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(multiplier: u64, target: u64) -> Self {
        Self {
            parts: [splat(multiplier & u64::from(u32::MAX)), splat(multiplier >> 32)],
            low_half: splat(u64::from(u32::MAX)),
            half: splat(1 << 31),
            limit: splat(target),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn apply(&self, x0: __m512i) -> __m512i {
        let [low_part, high_part] = self.parts;
        let x1 = _mm512_srli_epi64::<32>(x0);
        let low = _mm512_srli_epi64::<32>(_mm512_mul_epu32(x0, low_part));
        let middle = _mm512_add_epi64(_mm512_mul_epu32(x0, high_part), low);
        let other = _mm512_add_epi64(_mm512_mul_epu32(x1, low_part), _mm512_and_si512(middle, self.low_half));
        let carry = _mm512_srli_epi64::<32>(_mm512_add_epi64(other, self.half));
        let high = _mm512_add_epi64(_mm512_mul_epu32(x1, high_part), _mm512_srli_epi64::<32>(middle));
        reduce_by(_mm512_add_epi64(high, carry), self.limit)
    }
}

rescaling!("avx512f");

#[target_feature(enable = "avx512f")]
pub(in super::super) fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]) {
    portable::substitute(modulus, out, source, sources);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let value = splat(modulus.value());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        store(x, reduce_by(_mm512_add_epi64(load(x), load(y)), value));
    }
    portable::add(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let value = splat(modulus.value());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        store(x, reduce_by(_mm512_sub_epi64(_mm512_add_epi64(load(x), value), load(y)), value));
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
