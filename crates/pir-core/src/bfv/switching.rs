//! Modulus switching: to a smaller prime or to a power of two.

use super::ciphertext::Ciphertext;
use super::parameters::Parameters;
use crate::ring::{Coefficient, Evaluation, Rescale};

impl Ciphertext<Coefficient> {
    /// Switches both halves: an additive error of at most `(1 + |s|_1) / 2` in units of the new modulus.
    pub fn rescale(&mut self, rescale: Rescale) {
        rescale.apply_all(self.c0.residues_mut());
        rescale.apply_all(self.c1.residues_mut());
    }
}

impl Ciphertext<Evaluation> {
    /// Switches both halves from Q to q.
    pub(crate) fn switch(&mut self, parameters: &Parameters) {
        let rescale = parameters.to_small();
        for half in [&mut self.c0, &mut self.c1] {
            parameters.large().inverse(half.residues_mut());
            rescale.apply_all(half.residues_mut());
            parameters.small().forward(half.residues_mut());
        }
    }
}
