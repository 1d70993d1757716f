//! AVX2 and FMA: four residues to a register, wide products by doubles. What is not here is the portable code, compiled
//! for these features.
//!
//! The product of two integers of magnitude below 2^53 is the exact sum of two doubles, `h = a b` rounded and `l = a b - h`
//! by a fused multiply-add. With `n` an integer near `a b / q`, `a b - n q = (h - n q) + l` is an integer below 2^53 in
//! magnitude, so that every step is exact and the results are those of the other kernels.
//!
//! Every `unsafe` block here reads or writes memory behind a reference to an array of at least the size that is moved.

mod elementwise;
mod ntt;
mod product;

use core::arch::x86_64::{
    __m256d, __m256i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_add_pd, _mm256_blendv_pd,
    _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_fmsub_pd, _mm256_fnmadd_pd, _mm256_loadu_si256,
    _mm256_mul_pd, _mm256_or_si256, _mm256_round_pd, _mm256_set1_pd, _mm256_storeu_si256, _mm256_sub_pd,
    _mm256_xor_si256,
};

pub(super) use elementwise::{key_products, multiply, scale};
pub(super) use ntt::{forward, inverse};
pub(super) use product::{arrange, row_products};

use super::super::modulus::{Modulus, ShoupFactor};
use super::{Digit, portable};
use crate::ring::automorphism::VectorSource;

/// What a register holds.
type Four = [u64; 4];

/// Whether this machine can run the functions of this module.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2")
}

/// 2^52: adding it puts an integer below 2^52 into the low bits of a double.
const SHIFTER: f64 = 4_503_599_627_370_496.0;

#[inline]
#[target_feature(enable = "avx2")]
fn load(values: &Four) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read, and an unaligned load has no other demand.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(values: &mut Four, lanes: __m256i) {
    // SAFETY: the exclusive reference covers the 32 bytes that are written; an unaligned store has no other demand.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), lanes) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_double(values: &Four) -> __m256d {
    _mm256_castsi256_pd(load(values))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_double(values: &mut Four, lanes: __m256d) {
    store(values, _mm256_castpd_si256(lanes));
}

/// The doubles of integers below 2^52.
#[inline]
#[target_feature(enable = "avx2")]
fn double(x: __m256i) -> __m256d {
    let shifter = _mm256_set1_pd(SHIFTER);
    _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, _mm256_castpd_si256(shifter))), shifter)
}

/// A fixed factor `w` and `w / q`, in every lane or lane by lane.
#[derive(Clone, Copy)]
struct Factor {
    value: __m256d,
    quotient: __m256d,
}

impl Factor {
    /// The same in all lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn splat([value, quotient]: [f64; 2]) -> Self {
        Self { value: _mm256_set1_pd(value), quotient: _mm256_set1_pd(quotient) }
    }
}

/// A prime in every lane.
#[derive(Clone, Copy)]
struct Field {
    value: __m256d,
    inverse: __m256d,
}

impl Field {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(modulus: &Modulus) -> Self {
        let value = modulus.value() as f64;
        Self { value: _mm256_set1_pd(value), inverse: _mm256_set1_pd(1.0 / value) }
    }

    /// `x mod q` of magnitude at most `q/2` and a rounding error of 1/16 of it, for integers `x` below `2^48 q`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn reduce(&self, x: __m256d) -> __m256d {
        _mm256_fnmadd_pd(round(_mm256_mul_pd(x, self.inverse)), self.value, x)
    }

    /// [`Self::reduce`] for all.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn reduce_each<const K: usize>(&self, x: [__m256d; K]) -> [__m256d; K] {
        let quotients = x.map(|x| _mm256_mul_pd(x, self.inverse)).map(|quotient| round(quotient));
        core::array::from_fn(|i| _mm256_fnmadd_pd(quotients[i], self.value, x[i]))
    }

    /// `x w mod q` of magnitude below q, for integers `|x| < 2^53` and factors below `q/2`; step by step for all, since one
    /// after the other they would wait for themselves.
    ///
    /// `w / q` is below 1/2 and off by 2^-55 at most, the product with it below 2^52 and rounded by 2^-2 at most: the
    /// quotient is off by less than 1/2 before it is rounded.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn multiply<const K: usize>(&self, x: [__m256d; K], factors: [Factor; K]) -> [__m256d; K] {
        let high: [_; K] = core::array::from_fn(|i| _mm256_mul_pd(x[i], factors[i].value));
        let quotients: [_; K] = core::array::from_fn(|i| _mm256_mul_pd(x[i], factors[i].quotient));
        let low: [_; K] = core::array::from_fn(|i| _mm256_fmsub_pd(x[i], factors[i].value, high[i]));
        let quotients = quotients.map(|quotient| round(quotient));
        let high: [_; K] = core::array::from_fn(|i| _mm256_fnmadd_pd(quotients[i], self.value, high[i]));
        core::array::from_fn(|i| _mm256_add_pd(high[i], low[i]))
    }

    /// Two parts of `x y mod q`, of magnitude below `0.9 q` together, for residues: the quotient, below 2^50, comes out of
    /// three roundings by 2^-53 of it each.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn product_parts(&self, x: __m256d, y: __m256d) -> [__m256d; 2] {
        let high = _mm256_mul_pd(x, y);
        let low = _mm256_fmsub_pd(x, y, high);
        let quotient = round(_mm256_mul_pd(high, self.inverse));
        [_mm256_fnmadd_pd(quotient, self.value, high), low]
    }

    /// `-x w mod q`, like [`Self::multiply`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn multiply_negated<const K: usize>(&self, x: [__m256d; K], factors: [Factor; K]) -> [__m256d; K] {
        let high: [_; K] = core::array::from_fn(|i| _mm256_mul_pd(x[i], factors[i].value));
        let quotients: [_; K] = core::array::from_fn(|i| _mm256_mul_pd(x[i], factors[i].quotient));
        let low: [_; K] = core::array::from_fn(|i| _mm256_fnmadd_pd(x[i], factors[i].value, high[i]));
        let quotients = quotients.map(|quotient| round(quotient));
        let high: [_; K] = core::array::from_fn(|i| _mm256_fmsub_pd(quotients[i], self.value, high[i]));
        core::array::from_fn(|i| _mm256_add_pd(high[i], low[i]))
    }

    /// From magnitude below q to `[0, q)`, as integers. Zero comes without a sign: no step before makes a negative one.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn residue(&self, x: __m256d) -> __m256i {
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
fn round(x: __m256d) -> __m256d {
    _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// The portable functions, with the instructions of this module.
macro_rules! portable {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(
            #[target_feature(enable = "avx2,fma,bmi2")]
            pub(super) fn $name($($argument: $type),*) {
                portable::$name($($argument),*);
            }
        )*
    };
}

portable! {
    fn multiply_accumulate(modulus: &Modulus, sums: [&mut [u64]; 2], terms: &[(&[u64], &[u64])]);
    fn reduce(modulus: &Modulus, out: &mut [u64], sums: [&mut [u64]; 2]);
    fn halves(modulus: &Modulus, a: &mut [u64], odd: &mut [u64], b: &[u64], factors: &[ShoupFactor]);
    fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]);
    fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]);
    fn centre(modulus: &Modulus, offset: u64, a: &mut [u64]);
    fn digit(digit: Digit, out: &mut [u64], a: &[u64]);
    fn rescale(multiplier: u64, target: u64, a: &mut [u64]);
    fn rescale_sum(modulus: &Modulus, multiplier: u64, target: u64, a: &mut [u64], b: &[u64]);
    fn rescale_difference(
        modulus: &Modulus,
        multiplier: u64,
        target: u64,
        out: &mut [u64],
        a: &[u64],
        b: &[u64],
    );
    fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]);
    fn chunk(modulus: &Modulus, shift: u32, bits: u32, out: &mut [u64], a: &[u64]);
    fn permute(out: &mut [u64], source: &[u64], slots: &[u32], vectors: &[VectorSource]);
    fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]);
    fn unpack(width: usize, packed: &[u8], out: &mut [u64]);
}
