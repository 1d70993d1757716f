//! Ciphertexts and what can be done to them without a key.

use super::parameters::Parameters;
use crate::ring::{Basis, Coefficient, Evaluation, Form, Polynomial, ShoupFactor};

/// `(c0, c1)` with `c0 + c1 s` the phase; over the ciphertext basis unless a method says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphertext<F: Form> {
    /// The part that carries the message.
    pub c0: Polynomial<F>,
    /// The part that multiplies the secret.
    pub c1: Polynomial<F>,
}

impl<F: Form> Ciphertext<F> {
    /// The ciphertext (0, 0), an encryption of 0 under every key.
    #[must_use]
    pub fn zero(basis: &Basis) -> Self {
        Self { c0: Polynomial::zero(basis), c1: Polynomial::zero(basis) }
    }

    /// Adds another ciphertext: messages and noise add.
    pub fn add_assign(&mut self, parameters: &Parameters, other: &Self) {
        self.c0.add_assign(parameters.ciphertext_basis(), &other.c0);
        self.c1.add_assign(parameters.ciphertext_basis(), &other.c1);
    }

    /// Multiplies the phase, message and noise alike, by `2^-exponent mod q`.
    pub fn divide_by_power_of_two(&mut self, parameters: &Parameters, exponent: u32) {
        let basis = parameters.ciphertext_basis();
        let factors: Vec<ShoupFactor> =
            basis.moduli().map(|q| q.shoup(q.inverse(q.pow_vartime(2, u64::from(exponent))))).collect();
        self.c0.scale(basis, &factors);
        self.c1.scale(basis, &factors);
    }
}

impl Ciphertext<Coefficient> {
    /// Transforms to evaluation form.
    #[must_use]
    pub fn into_evaluation(self, basis: &Basis) -> Ciphertext<Evaluation> {
        Ciphertext { c0: self.c0.into_evaluation(basis), c1: self.c1.into_evaluation(basis) }
    }
}

impl Ciphertext<Evaluation> {
    /// Transforms to coefficient form.
    #[must_use]
    pub fn into_coefficient(self, basis: &Basis) -> Ciphertext<Coefficient> {
        Ciphertext { c0: self.c0.into_coefficient(basis), c1: self.c1.into_coefficient(basis) }
    }

    /// Multiplies by a plaintext with small coefficients: noise grows by at most the sum of their magnitudes.
    pub fn mul_plaintext(&mut self, parameters: &Parameters, plaintext: &Polynomial<Evaluation>) {
        self.c0.mul_assign(parameters.ciphertext_basis(), plaintext);
        self.c1.mul_assign(parameters.ciphertext_basis(), plaintext);
    }
}
