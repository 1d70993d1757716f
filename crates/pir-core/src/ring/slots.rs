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

#[cfg(test)]
mod tests {
    use super::{
        Modulus, ShoupFactor, add_assign, key_products, mul_assign, scale_assign, split_halves, sub_assign,
        sum_of_products,
    };

    const Q: u64 = 68_719_230_977;

    fn modulus() -> Modulus {
        Modulus::new(Q).unwrap()
    }

    /// So many residues from a number on, near both ends of the range.
    fn residues(count: u64, first: u64) -> Vec<u64> {
        (0..count).map(|at| (first + at * at * 1_000_003_001) % Q).collect()
    }

    #[test]
    fn slots_are_added_subtracted_and_multiplied_one_by_one() {
        let (modulus, a, b) = (modulus(), residues(16, Q - 3), residues(16, 5));
        let done = |does: &dyn Fn(&mut [u64])| {
            let mut out = a.clone();
            does(&mut out);
            out
        };
        let expected = |of: &dyn Fn(u128, u128) -> u128| -> Vec<u64> {
            let pairs = a.iter().zip(&b);
            pairs.map(|(a, b)| (of((*a).into(), (*b).into()) % u128::from(Q)) as u64).collect()
        };
        assert_eq!(done(&|out| add_assign(&modulus, out, &b)), expected(&|a, b| a + b));
        assert_eq!(done(&|out| sub_assign(&modulus, out, &b)), expected(&|a, b| a + u128::from(Q) - b));
        assert_eq!(done(&|out| mul_assign(&modulus, out, &b)), expected(&|a, b| a * b));
        assert_eq!(done(&|out| scale_assign(&modulus, out, modulus.shoup(77))), expected(&|a, _| a * 77));
    }

    #[test]
    fn halves_are_sums_and_multiples_of_differences() {
        let (modulus, a, b) = (modulus(), residues(16, Q - 3), residues(16, 5));
        let factors: Vec<ShoupFactor> = residues(16, 9).iter().map(|factor| modulus.shoup(*factor)).collect();
        for each in [1, 8] {
            let factors = &factors[..16 / each];
            let (mut even, mut odd) = (a.clone(), vec![0; 16]);
            split_halves(&modulus, &mut even, &mut odd, &b, factors);
            for at in 0..16 {
                assert_eq!(even[at], modulus.add(a[at], b[at]));
                let difference = modulus.sub(a[at], b[at]);
                assert_eq!(odd[at], modulus.mul(difference, factors[at / each].value), "{at} of {each}");
            }
        }
    }

    #[test]
    fn sums_of_products_are_those_of_every_slot() {
        let modulus = modulus();
        let polynomials: Vec<Vec<u64>> = (0..24).map(|number| residues(16, Q - 1 - number)).collect();
        let terms: Vec<(&[u64], &[u64])> = polynomials.chunks(2).map(|two| (&*two[0], &*two[1])).collect();
        let (mut low, mut high, mut out) = (vec![0; 16], vec![0; 16], vec![0; 16]);
        sum_of_products(&modulus, &mut out, [&mut low, &mut high], &terms);
        let expected =
            |at: usize| terms.iter().fold(0, |sum, (a, b)| modulus.add(sum, modulus.mul(a[at], b[at])));
        assert!(out.iter().enumerate().all(|(at, value)| *value == expected(at)));
        assert_eq!([low, high].concat(), [0; 32]);

        let (digits, keys) = (residues(12 * 16, 3), residues(24 * 16, Q - 7));
        let (mut one, mut other) = (vec![0; 16], vec![0; 16]);
        key_products(&modulus, [&mut one, &mut other], &digits, &keys);
        for (half, found) in [one, other].into_iter().enumerate() {
            for (at, found) in found.into_iter().enumerate() {
                let product = |d: usize| modulus.mul(digits[16 * d + at], keys[16 * (2 * d + half) + at]);
                assert_eq!(found, (0..12).fold(0, |sum, d| modulus.add(sum, product(d))));
            }
        }
    }

    /// Kernels read and write as many values as they are told to.
    #[test]
    fn slices_of_different_lengths_are_refused() {
        let refused = |does: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(does)).is_err();
        let (modulus, factor) = (modulus(), modulus().shoup(1));
        let split = |[a, odd, b, factors]: [usize; 4]| {
            let (mut a, mut odd) = (vec![0; a], vec![0; odd]);
            split_halves(&modulus, &mut a, &mut odd, &vec![0; b], &vec![factor; factors]);
        };
        for lengths in [[16, 8, 16, 16], [16, 16, 8, 16], [16, 16, 16, 8], [16, 16, 16, 1]] {
            assert!(refused(&|| split(lengths)), "{lengths:?}");
        }
        let sum = |[out, low, high, a, b]: [usize; 5], terms: usize| {
            let (mut out, mut low, mut high) = (vec![0; out], vec![0; low], vec![0; high]);
            let (a, b) = (vec![0; a], vec![0; b]);
            sum_of_products(&modulus, &mut out, [&mut low, &mut high], &vec![(&*a, &*b); terms]);
        };
        sum([8; 5], 1 << 12);
        assert!(refused(&|| sum([8; 5], (1 << 12) + 1)));
        for other in 1..5 {
            let mut lengths = [8; 5];
            lengths[other] = 16;
            assert!(refused(&|| sum(lengths, 1)), "{lengths:?}");
        }
        let keys = |[one, other, digits, keys]: [usize; 4]| {
            let (mut one, mut other) = (vec![0; one], vec![0; other]);
            key_products(&modulus, [&mut one, &mut other], &vec![0; digits], &vec![0; keys]);
        };
        keys([8, 8, 96, 192]);
        for lengths in [[8, 16, 16, 32], [8, 8, 16, 16], [8, 8, 12, 24], [8, 8, 104, 208]] {
            assert!(refused(&|| keys(lengths)), "{lengths:?}");
        }
    }
}
