//! Switching residues to a smaller modulus.

use super::kernel;
use super::modulus::Modulus;

/// The map `x -> round(p x / q) mod p` on `[0, q)`.
///
/// Computed as `floor((x M + 2^63) / 2^64)` with `M = round(2^64 p / q)`; the result differs from the exact quotient by
/// at most `1/2 + q / 2^65`. No division, no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescale {
    multiplier: u64,
    target: u64,
}

impl Rescale {
    /// For a modulus and a target below it.
    ///
    /// # Panics
    /// If the target is above `q / 2`.
    #[must_use]
    pub fn new(modulus: &Modulus, target: u64) -> Self {
        assert!(target <= modulus.value() / 2, "a target of at most half the modulus");
        let q = u128::from(modulus.value());
        Self { multiplier: (((u128::from(target) << 64) + q / 2) / q) as u64, target }
    }

    /// Replaces every `a` by the image of `a + b`.
    pub(crate) fn apply_to_sums(&self, modulus: &Modulus, a: &mut [u64], b: &[u64]) {
        kernel::rescale_sum(modulus, self.multiplier, self.target, a, b);
    }

    /// Writes the images of `a - b`.
    pub(crate) fn apply_to_differences(&self, modulus: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        kernel::rescale_difference(modulus, self.multiplier, self.target, out, a, b);
    }

    /// Replaces every value by its image.
    pub fn apply_all(&self, values: &mut [u64]) {
        kernel::rescale(self.multiplier, self.target, values);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::Rescale;
    use crate::ring::modulus::Modulus;

    proptest! {
        #[test]
        fn rescaling_rounds_to_the_nearest(x in any::<u64>(), bits in 1u32..35) {
            let [large, small] = [1_125_899_906_826_241, 68_719_230_977].map(|prime| Modulus::new(prime).unwrap());
            for (modulus, target) in [(&small, 1 << bits), (&large, small.value()), (&large, 1 << bits)] {
                let q = u128::from(modulus.value());
                for x in [x % modulus.value(), modulus.value() - 1 - x % 1024, x % 1024] {
                    let scaled = u128::from(x) * u128::from(target);
                    let (exact, distance) = ((scaled + q / 2) / q, (scaled + q / 2) % q);
                    // Off the ties, where the fixed-point multiplier may round either way, the result is exact.
                    if (q >> 12..q - (q >> 12)).contains(&distance) {
                        let mut values = [x];
                        Rescale::new(modulus, target).apply_all(&mut values);
                        prop_assert_eq!(u128::from(values[0]), exact % u128::from(target));
                    }
                }
            }
        }
    }
}
