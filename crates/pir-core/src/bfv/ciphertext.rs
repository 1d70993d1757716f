//! Ciphertexts and what can be done to them without a key.

use crate::ring::{Coefficient, Evaluation, Form, Modulus, Ntt, Polynomial};

/// `(c0, c1)` with `c0 + c1 s` the phase.
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
    pub fn zero(degree: usize) -> Self {
        Self { c0: Polynomial::zero(degree), c1: Polynomial::zero(degree) }
    }

    /// Adds another ciphertext: messages and noise add.
    pub fn add_assign(&mut self, modulus: &Modulus, other: &Self) {
        self.c0.add_assign(modulus, &other.c0);
        self.c1.add_assign(modulus, &other.c1);
    }

    /// Multiplies the phase, message and noise alike, by `2^-exponent` modulo the prime.
    pub fn divide_by_power_of_two(&mut self, modulus: &Modulus, exponent: u32) {
        let factor = modulus.shoup(modulus.inverse(modulus.pow_vartime(2, u64::from(exponent))));
        self.c0.scale(modulus, factor);
        self.c1.scale(modulus, factor);
    }
}

impl Ciphertext<Coefficient> {
    /// Transforms to evaluation form.
    #[must_use]
    pub fn into_evaluation(self, ntt: &Ntt) -> Ciphertext<Evaluation> {
        Ciphertext { c0: self.c0.into_evaluation(ntt), c1: self.c1.into_evaluation(ntt) }
    }
}

impl Ciphertext<Evaluation> {
    /// Transforms to coefficient form.
    #[must_use]
    pub fn into_coefficient(self, ntt: &Ntt) -> Ciphertext<Coefficient> {
        Ciphertext { c0: self.c0.into_coefficient(ntt), c1: self.c1.into_coefficient(ntt) }
    }

    /// Multiplies by a plaintext with small coefficients: noise grows by at most the sum of their magnitudes.
    pub fn mul_plaintext(&mut self, modulus: &Modulus, plaintext: &Polynomial<Evaluation>) {
        self.c0.mul_assign(modulus, plaintext);
        self.c1.mul_assign(modulus, plaintext);
    }
}
