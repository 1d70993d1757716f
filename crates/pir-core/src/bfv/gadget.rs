//! Gadget decomposition: residues as short vectors of small signed digits.

use crate::ring::{self, Digit, Modulus, Ntt};

/// `l` digits to the base `2^B`; the `r = bits(Q) - l B` lowest bits are dropped.
///
/// A residue with the representative `c` in `(-Q/2, Q/2)` is `sum_i d_i 2^(r + i B)`, i in [0, l), with digits `d_i` in
/// `[-2^(B-1), 2^(B-1)]` and an error in `[-2^(r-1), 2^(r-1)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gadget {
    /// l.
    pub digits: u32,
    /// B.
    pub base_bits: u32,
}

impl Gadget {
    /// r.
    #[must_use]
    pub fn dropped_bits(&self, modulus: &Modulus) -> u32 {
        modulus.bits().saturating_sub(self.digits * self.base_bits)
    }

    /// The weight `2^(r + i B)` of digit i.
    #[must_use]
    pub fn weight(&self, modulus: &Modulus, i: u32) -> u64 {
        1 << (self.dropped_bits(modulus) + i * self.base_bits)
    }

    /// The digits of a polynomial, given by its coefficients and left with any content: digit by digit, N slots each, in
    /// evaluation form.
    ///
    /// # Panics
    /// Unless there are N coefficients, and N slots for each digit.
    pub fn decompose(&self, ntt: &Ntt, coefficients: &mut [u64], digits: &mut [u64]) {
        let (modulus, degree) = (ntt.modulus(), ntt.degree());
        assert_eq!(coefficients.len(), degree, "N coefficients");
        assert_eq!(digits.len(), self.digits as usize * degree, "N slots for each digit");
        ring::centre(modulus, self.offset(modulus), coefficients);
        for (i, digit) in (0..).zip(digits.chunks_exact_mut(degree)) {
            ring::digit(self.digit(modulus, i), digit, coefficients);
            ntt.forward(digit);
        }
    }

    /// Whether the weights are below the modulus, and products with the digits few enough for one reduction.
    pub(super) fn is_fit_for(&self, modulus: &Modulus) -> bool {
        (1..=12).contains(&self.digits)
            && self.base_bits >= 2
            && self.digits * self.base_bits <= modulus.bits()
    }

    /// What makes all digits non-negative: half a base at each of them, and half of what is dropped.
    pub(crate) fn offset(&self, modulus: &Modulus) -> u64 {
        let halves = (0..self.digits).map(|i| self.weight(modulus, i) << (self.base_bits - 1));
        halves.sum::<u64>() + ((1 << self.dropped_bits(modulus)) >> 1)
    }

    /// Digit i of a centred residue plus [`Gadget::offset`]; congruent to the signed digit modulo Q and in `[0, 2 Q)`.
    pub(crate) fn digit(&self, modulus: &Modulus, i: u32) -> Digit {
        let mask = if i + 1 == self.digits { u64::MAX } else { (1 << self.base_bits) - 1 };
        let shift = self.dropped_bits(modulus) + i * self.base_bits;
        Digit { shift, mask, bias: modulus.value() - (1 << (self.base_bits - 1)) }
    }
}

/// `sum_d digits[d] (b_d, a_d)` for digits in evaluation form: with `b_d + a_d s` an encryption of `w_d x`, one of what the
/// digits make up times x. The digits stand one behind the other, at most 12 of N slots each, and so do `b_0, a_0, b_1,
/// ...`.
///
/// # Panics
/// If there are no digits, more than 12, or not two polynomials for each of them.
pub fn digit_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    let degree = out[0].len();
    assert!(out[1].len() == degree && degree > 0, "both halves");
    assert!(digits.len().is_multiple_of(degree), "N slots for each digit");
    assert!((1..=12).contains(&(digits.len() / degree)), "few enough products for one reduction");
    assert_eq!(keys.len(), 2 * digits.len(), "two polynomials for each digit");
    ring::key_products(modulus, out, digits, keys);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Gadget, digit_products};
    use crate::ring::{self, Modulus};

    /// Kernels read as many values as they are told to, and more than 12 products do not fit one reduction.
    #[test]
    fn products_of_other_numbers_of_digits_are_refused() {
        let modulus = Modulus::new(1_125_899_906_826_241).unwrap();
        let taken = |[one, other, digits, keys]: [usize; 4]| {
            let (mut one, mut other) = (vec![0; one], vec![0; other]);
            let (digits, keys) = (vec![1; digits], vec![1; keys]);
            let products = || digit_products(&modulus, [&mut one, &mut other], &digits, &keys);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(products)).is_ok()
        };
        assert!(taken([16, 16, 16, 32]) && taken([16, 16, 192, 384]));
        for lengths in [
            [16, 8, 16, 32],
            [0, 0, 0, 0],
            [16, 16, 0, 0],
            [16, 16, 208, 416],
            [16, 16, 24, 48],
            [16, 16, 16, 16],
            [16, 16, 16, 48],
        ] {
            assert!(!taken(lengths), "{lengths:?}");
        }
    }

    #[test]
    fn gadgets_are_fit_up_to_the_length_of_the_modulus() {
        let modulus = Modulus::new(1_125_899_906_826_241).unwrap();
        let fit = |(digits, base_bits)| Gadget { digits, base_bits }.is_fit_for(&modulus);
        assert_eq!([(1, 2), (12, 4), (5, 10), (1, 50), (10, 5)].map(fit), [true; 5]);
        assert_eq!([(0, 10), (13, 3), (1, 1), (1, 51), (3, 17)].map(fit), [false; 5]);
        // 49 of 50 bits, of which the lowest is dropped.
        let gadget = Gadget { digits: 7, base_bits: 7 };
        assert_eq!(gadget.dropped_bits(&modulus), 1);
        assert_eq!([0, 1, 6].map(|i| gadget.weight(&modulus, i)), [2, 1 << 8, 1 << 43]);
        assert_eq!(Gadget { digits: 4, base_bits: 13 }.dropped_bits(&modulus), 0);
    }

    proptest! {
        #[test]
        fn small_signed_digits_make_up_the_residue(value in any::<u64>(), digits in 1u32..=12, base_bits in 2u32..=17) {
            let modulus = Modulus::new(1_125_899_906_826_241).unwrap();
            let gadget = Gadget { digits, base_bits };
            if gadget.is_fit_for(&modulus) {
                let q = modulus.value();
                for value in [value % q, 0, 1, q / 2, q / 2 + 1, q - 1] {
                    let mut raised = [value];
                    ring::centre(&modulus, gadget.offset(&modulus), &mut raised);
                    let mut sum = 0i128;
                    for i in 0..digits {
                        let mut digit = [0];
                        ring::digit(gadget.digit(&modulus, i), &mut digit, &raised);
                        prop_assert!(digit[0] < 2 * q);
                        let digit = i128::from(digit[0]) - i128::from(q);
                        prop_assert!(digit.unsigned_abs() <= 1 << (base_bits - 1));
                        sum += digit * i128::from(gadget.weight(&modulus, i));
                    }
                    let error = i128::from(modulus.centre(value)) - sum;
                    prop_assert!(error.unsigned_abs() <= 1 << gadget.dropped_bits(&modulus) >> 1);
                }
            }
        }
    }
}
