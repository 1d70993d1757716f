//! Transforms on doubles.

use crate::ring::modulus::Modulus;
use crate::ring::ntt::{Ntt, SplitFactors};

/// 2^52: adding it puts an integer below 2^52 into the low bits of a double.
const SHIFTER: f64 = 4_503_599_627_370_496.0;

/// A prime and its inverse.
#[derive(Clone, Copy)]
struct Field {
    value: f64,
    inverse: f64,
}

impl Field {
    fn new(modulus: &Modulus) -> Self {
        Self { value: modulus.value() as f64, inverse: 1.0 / modulus.value() as f64 }
    }

    /// `x mod q` of magnitude at most `q/2` and a rounding error, for `|x| < 2^53`.
    #[inline(always)]
    fn reduce(self, x: f64) -> f64 {
        (-(x * self.inverse).round_ties_even()).mul_add(self.value, x)
    }

    /// `x w mod q` of magnitude below `0.6 q`, for `|x| <= 4 q` and a factor `w` of at most `q/2`.
    ///
    /// With `b = round(x w/q)`, `x w - b q = (h - b q) + l`: `h - b q` is below 2^52 in magnitude and exact.
    #[inline(always)]
    fn multiply(self, x: f64, factor: [f64; 2]) -> f64 {
        let high = x * factor[0];
        let low = x.mul_add(factor[0], -high);
        let quotient = (x * factor[1]).round_ties_even();
        (-quotient).mul_add(self.value, high) + low
    }

    /// From magnitude below `4q` to `[0, q)`.
    #[inline(always)]
    fn canonical(self, x: f64) -> u64 {
        let x = self.reduce(x);
        // Without a branch: the sign, spread over all bits, chooses q or 0. Adding 0 turns -0 into 0.
        let x = x + 0.0;
        let negative = (x.to_bits() as i64 >> 63) as u64;
        let x = x + f64::from_bits(self.value.to_bits() & negative);
        (x + SHIFTER).to_bits() ^ SHIFTER.to_bits()
    }
}

/// The double of an integer below 2^52.
#[inline(always)]
fn double(x: u64) -> f64 {
    f64::from_bits(x | SHIFTER.to_bits()) - SHIFTER
}

/// Cooley-Tukey, one level per pass; x is reduced at every level, so that values stay below `1.2 q`.
#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn forward(ntt: &Ntt, values: &mut [u64]) {
    let (field, roots) = (Field::new(ntt.modulus()), ntt.forward_doubles());
    for value in values.iter_mut() {
        *value = field.reduce(double(*value)).to_bits();
    }
    let mut blocks = 1;
    while blocks < values.len() {
        let half = values.len() / (2 * blocks);
        for (i, block) in values.chunks_exact_mut(2 * half).enumerate() {
            let factor = roots.doubles(blocks + i);
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (field.reduce(f64::from_bits(*x)), field.multiply(f64::from_bits(*y), factor));
                (*x, *y) = ((a + b).to_bits(), (a - b).to_bits());
            }
        }
        blocks *= 2;
    }
    for value in values {
        *value = field.canonical(f64::from_bits(*value));
    }
}

/// Gentleman-Sande, one level per pass; values stay below `0.6 q`.
#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn inverse(ntt: &Ntt, values: &mut [u64]) {
    let (field, roots) = (Field::new(ntt.modulus()), ntt.inverse_doubles());
    for value in values.iter_mut() {
        *value = field.reduce(double(*value)).to_bits();
    }
    let mut blocks = values.len() / 2;
    while blocks > 0 {
        let half = values.len() / (2 * blocks);
        for (i, block) in values.chunks_exact_mut(2 * half).enumerate() {
            let factor = roots.doubles(blocks + i);
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (f64::from_bits(*x), f64::from_bits(*y));
                (*x, *y) = (field.reduce(a + b).to_bits(), field.multiply(a - b, factor).to_bits());
            }
        }
        blocks /= 2;
    }
    let scale = SplitFactors::double(ntt.modulus(), ntt.inverse_last()[0].value);
    for value in values {
        *value = field.canonical(field.multiply(f64::from_bits(*value), scale));
    }
}
