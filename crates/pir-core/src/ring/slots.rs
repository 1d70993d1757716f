//! Slot by slot, on polynomials that stand one behind the other in a slice: the loops of the kernel in use, for engines that
//! keep several polynomials together. All operands are residues below the prime.

use super::kernel;
use super::modulus::{Modulus, ShoupFactor};

/// `a[i] = a[i] + b[i] mod q`.
///
/// # Panics
/// If there are not as many values in both.
pub fn add_assign(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    assert_eq!(a.len(), b.len(), "one value for each slot");
    kernel::add(modulus, a, b);
}

/// `a[i] = a[i] - b[i] mod q`.
///
/// # Panics
/// If there are not as many values in both.
pub fn sub_assign(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    assert_eq!(a.len(), b.len(), "one value for each slot");
    kernel::subtract(modulus, a, b);
}

/// `a[i] = a[i] * b[i] mod q`.
///
/// # Panics
/// If there are not as many values in both.
pub fn mul_assign(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    assert_eq!(a.len(), b.len(), "one value for each slot");
    kernel::multiply(modulus, a, b);
}

/// `a[i] = a[i] * factor mod q`.
pub fn scale_assign(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    kernel::scale(modulus, a, factor);
}

/// `odd[i] = (a[i] - b[i]) * factors[i] mod q`, then `a[i] = a[i] + b[i] mod q`; with an eighth as many factors,
/// `factors[i / 8]`.
///
/// # Panics
/// If there are not as many values in all, or neither as many factors nor an eighth of them.
pub fn split_halves(modulus: &Modulus, a: &mut [u64], odd: &mut [u64], b: &[u64], factors: &[ShoupFactor]) {
    assert!(a.len() == b.len() && a.len() == odd.len(), "one value for each slot");
    assert!(factors.len() == a.len() || 8 * factors.len() == a.len(), "a factor for each slot, or for eight");
    kernel::halves(modulus, a, odd, b, factors);
}

/// `out[i] = sum over the terms (a, b) of a[i] * b[i] mod q`, for at most 2^12 terms; `sums` are zeros, and are left so.
///
/// # Panics
/// If there are not as many values in all, or too many terms.
pub fn sum_of_products(
    modulus: &Modulus,
    out: &mut [u64],
    sums: [&mut [u64]; 2],
    terms: &[(&[u64], &[u64])],
) {
    assert!(terms.len() <= 1 << 12, "products for one reduction");
    assert!(
        terms.iter().all(|(a, b)| a.len() == out.len() && b.len() == out.len()),
        "one value for each slot"
    );
    let [low, high] = sums;
    assert!(low.len() == out.len() && high.len() == out.len(), "a sum for each slot");
    kernel::multiply_accumulate(modulus, [&mut *low, &mut *high], terms);
    kernel::reduce(modulus, out, [low, high]);
}

/// `out[h][i] = sum over the digits d of digits[d N + i] * keys[(2 d + h) N + i] mod q`, N slots each, for at most 12 digits,
/// which may be below 2q.
///
/// # Panics
/// If there are not as many slots for all digits and both results, or too many digits.
pub fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    let degree = out[0].len();
    assert!(out[1].len() == degree && keys.len() == 2 * digits.len(), "two keys for each digit");
    assert!(digits.len().is_multiple_of(degree) && digits.len() <= 12 * degree, "at most 12 digits");
    kernel::key_products(modulus, out, digits, keys);
}
