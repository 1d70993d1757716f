//! Modulus switching: q to `q_0` exactly in residues, then `q_0` to a power of two.

use super::ciphertext::Ciphertext;
use super::parameters::Parameters;
use crate::ring::{self, Coefficient, Modulus, Polynomial};

impl Ciphertext<Coefficient> {
    /// Switches from q to `q_0`: `c -> round(c / q_1)`, an additive error of at most `(1 + |s|_1) / 2`.
    #[must_use]
    pub fn switch_to_first(&self, parameters: &Parameters) -> Self {
        Self { c0: switch(parameters, &self.c0), c1: switch(parameters, &self.c1) }
    }
}

/// `round(c / q_1) = (c - centre(c mod q_1)) / q_1 mod q_0`.
fn switch(parameters: &Parameters, polynomial: &Polynomial<Coefficient>) -> Polynomial<Coefficient> {
    let mut quotient = polynomial.channel(0).to_vec();
    if parameters.ciphertext_basis().transforms().len() == 2 {
        switch_in_place(parameters, &mut quotient, polynomial.channel(1));
    }
    Polynomial::from_residues(parameters.first_basis(), quotient)
}

/// The same on slices: `first` holds the residues modulo `q_0` and receives the quotient, `second` those modulo `q_1`.
pub(crate) fn switch_in_place(parameters: &Parameters, first: &mut [u64], second: &[u64]) {
    if let (Some(inverse), [q0, q1]) =
        (parameters.second_inverse(), parameters.ciphertext_basis().transforms())
    {
        ring::switch(q1.modulus(), q0.modulus(), first, second, inverse);
    }
}

/// The map `x -> round(2^bits x / q) mod 2^bits` on `[0, q)`.
///
/// Computed as `floor((x M + 2^63) / 2^64)` with `M = round(2^(64 + bits) / q)`; the result differs from the exact
/// quotient by at most `1/2 + q / 2^65`. No division, no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescale {
    multiplier: u64,
    bits: u32,
}

impl Rescale {
    /// For a modulus and a target below it.
    ///
    /// # Panics
    /// If `2^bits` is above `q / 2`, where the multiplier would not fit a word.
    #[must_use]
    pub fn new(modulus: &Modulus, bits: u32) -> Self {
        assert!(bits < modulus.bits(), "a target modulus below q / 2 or so");
        let q = u128::from(modulus.value());
        Self { multiplier: (((1u128 << (64 + bits)) + q / 2) / q) as u64, bits }
    }

    /// Replaces every value by its image.
    pub fn apply_all(&self, values: &mut [u64]) {
        ring::rescale(self.multiplier, self.bits, values);
    }

    /// The image of `x`.
    #[inline]
    #[must_use]
    pub fn apply(&self, x: u64) -> u64 {
        let scaled = u128::from(x) * u128::from(self.multiplier) + (1 << 63);
        (scaled >> 64) as u64 & ((1 << self.bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::Rescale;
    use crate::bfv::{Ciphertext, Parameters};
    use crate::ring::{Coefficient, Polynomial, sampling};

    proptest! {
        #[test]
        fn rescaling_rounds_to_the_nearest(x in any::<u64>(), bits in 1u32..36) {
            let modulus = Parameters::s4096().first_modulus();
            let q = u128::from(modulus.value());
            let x = x % modulus.value();
            let scaled = u128::from(x) << bits;
            let (exact, distance) = ((scaled + q / 2) / q, (scaled + q / 2) % q);
            // Off the ties, where the fixed-point multiplier may round either way, the result is exact.
            if (2..q - 2).contains(&distance) {
                prop_assert_eq!(u128::from(Rescale::new(modulus, bits).apply(x)), exact % (1 << bits));
            }
        }

        #[test]
        fn switching_to_one_prime_divides_exactly(seed in any::<[u8; 32]>()) {
            let parameters = Parameters::s4096();
            let basis = parameters.ciphertext_basis();
            let c0: Polynomial<Coefficient> = sampling::uniform(basis, &seed, 0);
            let c1: Polynomial<Coefficient> = sampling::uniform(basis, &seed, 1);
            let before = Ciphertext { c0, c1 };
            let after = before.switch_to_first(parameters);
            let q: Vec<u128> = basis.moduli().map(|modulus| u128::from(modulus.value())).collect();
            for i in (0..parameters.degree()).step_by(97) {
                let value = after.c0.channel(0)[i];
                // |q_1 value - c| <= q_1 / 2 modulo q, checked residue by residue: the difference is small and the same.
                let scaled = u128::from(value) * q[1] % parameters.modulus();
                let remainder = (scaled % q[0] + q[0] - u128::from(before.c0.channel(0)[i])) % q[0];
                let centred = if remainder > q[0] / 2 { remainder as i128 - q[0] as i128 } else { remainder as i128 };
                prop_assert!(centred.unsigned_abs() <= q[1] / 2);
                let other = (q[1] as i128 - i128::from(before.c0.channel(1)[i]) - centred).rem_euclid(q[1] as i128);
                prop_assert_eq!(other, 0);
            }
        }
    }
}
