//! The substitutions `p(X) -> p(X^k)`, k odd (paper Appendix A.1).

use super::kernel;
use super::modulus::Modulus;
use super::polynomial::{Coefficient, Evaluation, Polynomial};
use super::tables::{SlotOrder, VectorSource};

/// The substitution of `X^k` for X in degree N, with its permutation of the evaluation slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automorphism {
    degree: usize,
    /// `p(X^k)` has in slot `i` what `p(X)` has in slot `slots[i]`.
    slots: Vec<u32>,
    /// The same eight slots at a time; empty if some eight slots do not come from one aligned group of eight. Up to
    /// `X^(N/2^j + 1)` with `j <= log2 N - 3`, they do.
    vectors: Vec<VectorSource>,
    /// `p(X^k)` has as coefficient `i` coefficient `coefficients[i] / 2` of `p(X)`, negated if that is odd.
    coefficients: Vec<u32>,
}

impl Automorphism {
    /// The substitution for an odd `exponent`, reduced modulo 2N.
    ///
    /// # Panics
    /// If the exponent is even or the degree is not a power of two up to 2^30.
    #[must_use]
    pub fn new(degree: usize, exponent: usize) -> Self {
        Self::with_slots(degree, exponent, SlotOrder::BitReversed)
    }

    /// The same for slots in the order of [`super::Ntt::in_orbit_order`].
    ///
    /// # Panics
    /// As for [`Automorphism::new`].
    #[must_use]
    pub fn in_orbit_order(degree: usize, exponent: usize) -> Self {
        Self::with_slots(degree, exponent, SlotOrder::Orbit)
    }

    fn with_slots(degree: usize, exponent: usize, order: SlotOrder) -> Self {
        assert!(exponent % 2 == 1 && degree.is_power_of_two() && degree <= 1 << 30, "odd exponent");
        let exponent = exponent % (2 * degree);
        // A slot holds the value at psi^e; p(X^k) there is p at psi^(e k).
        let points: Vec<usize> = (0..degree).map(|slot| order.exponent(degree, slot)).collect();
        let mut slot_of = vec![0; 2 * degree];
        points.iter().zip(0..).for_each(|(point, slot)| slot_of[*point] = slot);
        let slots: Vec<u32> = points.iter().map(|point| slot_of[point * exponent % (2 * degree)]).collect();
        let vectors =
            slots.as_chunks().0.iter().map(VectorSource::new).collect::<Option<_>>().unwrap_or_default();
        let mut coefficients = vec![0; degree];
        for m in 0..degree {
            let power = m * exponent % (2 * degree);
            coefficients[power % degree] = (2 * m + power / degree) as u32;
        }
        Self { degree, slots, vectors, coefficients }
    }

    /// Applies it in evaluation form.
    #[must_use]
    pub fn evaluation(&self, polynomial: &Polynomial<Evaluation>) -> Polynomial<Evaluation> {
        let mut out = Polynomial::zero(self.degree);
        self.slots_into(polynomial.residues(), out.residues_mut());
        out
    }

    /// Applies it to the slots of an evaluation form.
    ///
    /// # Panics
    /// Unless there are N slots in both.
    pub fn slots_into(&self, source: &[u64], out: &mut [u64]) {
        assert!(source.len() == self.degree && out.len() == self.degree, "N slots");
        kernel::permute(out, source, &self.slots, &self.vectors);
    }

    /// The same for so many neighbouring slots as `out` has room for, where every such block of slots is permuted in itself
    /// and in the same way.
    pub(crate) fn block_into(&self, source: &[u64], out: &mut [u64]) {
        let vectors = self.vectors.get(..out.len() / 8).unwrap_or_default();
        kernel::permute(out, source, &self.slots[..source.len()], vectors);
    }

    /// Slot by slot and eight slots at a time.
    #[cfg(test)]
    pub(super) fn tables(&self) -> (&[u32], &[VectorSource]) {
        (&self.slots, &self.vectors)
    }

    /// Where each coefficient comes from.
    #[cfg(test)]
    pub(super) fn coefficient_table(&self) -> &[u32] {
        &self.coefficients
    }

    /// Applies it in coefficient form: coefficient `m` moves to `k m mod N`, negated when `k m mod 2N >= N`.
    #[must_use]
    pub fn coefficient(
        &self,
        modulus: &Modulus,
        polynomial: &Polynomial<Coefficient>,
    ) -> Polynomial<Coefficient> {
        let mut out = Polynomial::zero(self.degree);
        self.coefficients_into(modulus, polynomial.residues(), out.residues_mut());
        out
    }

    /// Applies it to coefficients.
    pub(crate) fn coefficients_into(&self, modulus: &Modulus, source: &[u64], out: &mut [u64]) {
        assert_eq!(source.len(), self.degree, "one value per coefficient");
        kernel::substitute(modulus, out, source, &self.coefficients);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::Automorphism;
    use crate::ring::{Coefficient, Modulus, Ntt, Polynomial, sampling};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn both_forms_of_a_substitution_agree(seed in any::<[u8; 32]>(), half in 0usize..128, log2 in 3u32..7) {
            let degree = 1 << log2;
            let ntt = Ntt::new(Modulus::new(68_719_230_977).unwrap(), degree).unwrap();
            let polynomial: Polynomial<Coefficient> = sampling::uniform(&ntt, &seed, 0);
            let substitution = Automorphism::new(degree, 2 * half + 1);
            let direct = substitution.coefficient(ntt.modulus(), &polynomial);
            let permuted = substitution.evaluation(&polynomial.clone().into_evaluation(&ntt));
            prop_assert_eq!(permuted.into_coefficient(&ntt), direct.clone());
            let orbit = Ntt::in_orbit_order(*ntt.modulus(), degree).unwrap();
            let substitution = Automorphism::in_orbit_order(degree, 2 * half + 1);
            let permuted = substitution.evaluation(&polynomial.into_evaluation(&orbit));
            prop_assert_eq!(permuted.into_coefficient(&orbit), direct);
        }
    }

    #[test]
    fn the_order_two_substitution_negates_odd_coefficients() {
        let modulus = Modulus::new(65537).unwrap();
        let polynomial = Polynomial::from_signed(&modulus, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let expected = Polynomial::from_signed(&modulus, &[1, -2, 3, -4, 5, -6, 7, -8]);
        assert_eq!(Automorphism::new(8, 9).coefficient(&modulus, &polynomial), expected);
    }

    #[test]
    #[should_panic(expected = "odd exponent")]
    fn even_exponents_are_refused() {
        let _ = Automorphism::new(8, 2);
    }

    #[test]
    #[should_panic(expected = "odd exponent")]
    fn degrees_that_are_no_powers_of_two_are_refused() {
        let _ = Automorphism::new(12, 3);
    }

    #[test]
    fn exponents_count_modulo_twice_the_degree() {
        assert_eq!(Automorphism::new(8, 19), Automorphism::new(8, 3));
        assert_ne!(Automorphism::new(8, 11), Automorphism::new(8, 3));
    }

    fn slots_into(source: usize, out: usize) {
        Automorphism::new(8, 3).slots_into(&vec![0; source], &mut vec![0; out]);
    }

    #[test]
    #[should_panic(expected = "N slots")]
    fn sources_of_another_degree_are_refused() {
        slots_into(16, 8);
    }

    #[test]
    #[should_panic(expected = "N slots")]
    fn room_of_another_degree_is_refused() {
        slots_into(8, 16);
    }
}
