//! Operations slot by slot. Lengths that are not multiples of four (only tests have them) end in the portable twin.

use core::arch::x86_64::{_mm256_add_pd, _mm256_setzero_pd};

use super::super::portable;
use super::super::rows::OrbitWalk;
use super::field::{Factor, Field, Four, double, load, store};
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::tables::SplitFactors;

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    let field = Field::new(modulus);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut(), b.as_chunks());
    for (x, y) in a.iter_mut().zip(b) {
        let [high, low] = field.product_parts(double(load(x)), double(load(y)));
        store(x, field.residue(_mm256_add_pd(high, low)));
    }
    portable::multiply(modulus, a_rest, b_rest);
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    let field = Field::new(modulus);
    let splat = Factor::splat(SplitFactors::double(modulus, factor.value));
    let (a, rest) = a.as_chunks_mut();
    for x in a {
        let [product] = field.multiply([double(load(x))], [splat]);
        store(x, field.residue(product));
    }
    portable::scale(modulus, rest, factor);
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(super) fn next_sum(modulus: &Modulus, walk: &OrbitWalk<'_>, step: usize, digits: &mut [u64]) {
    let field = Field::new(modulus);
    let masks = walk.masks_of(step, digits.len());
    for ((vector, digits), masks) in digits.as_chunks_mut::<8>().0.iter_mut().enumerate().zip(masks) {
        let image = walk.image(step, vector).as_chunks().0;
        let digits = digits.as_chunks_mut().0.iter_mut();
        for ((digit, image), mask) in digits.zip(image).zip(masks.as_chunks().0) {
            let [high, low] = field.product_parts(double(load(digit)), double(load(image)));
            let sum = _mm256_add_pd(_mm256_add_pd(high, low), double(load(mask)));
            store(digit, field.residue(field.reduce(sum)));
        }
    }
}

/// With at most eight digits, whose products add up to less than 2^53.
#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    key_products_by_digits!(4, modulus, out, digits, keys);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn key_products_of<const DIGITS: usize>(
    modulus: &Modulus,
    [out0, out1]: [&mut [u64]; 2],
    digits: &[u64],
    keys: &[u64],
) {
    let (field, degree) = (Field::new(modulus), out0.len());
    let mut vectors: [&[Four]; DIGITS] = [&[]; DIGITS];
    let mut pairs: [[&[Four]; 2]; DIGITS] = [[&[]; 2]; DIGITS];
    for i in 0..DIGITS {
        vectors[i] = digits[i * degree..(i + 1) * degree].as_chunks().0;
        let (b, a) = keys[2 * i * degree..2 * (i + 1) * degree].split_at(degree);
        pairs[i] = [b.as_chunks().0, a.as_chunks().0];
    }
    let outs = out0.as_chunks_mut::<4>().0.iter_mut().zip(out1.as_chunks_mut::<4>().0);
    for (v, (out0, out1)) in outs.enumerate() {
        let mut sums = [_mm256_setzero_pd(); 2];
        for i in 0..DIGITS {
            let digit = double(load(&vectors[i][v]));
            for half in 0..2 {
                let [high, low] = field.product_parts(digit, double(load(&pairs[i][half][v])));
                sums[half] = _mm256_add_pd(sums[half], _mm256_add_pd(high, low));
            }
        }
        store(out0, field.residue(field.reduce(sums[0])));
        store(out1, field.residue(field.reduce(sums[1])));
    }
}
