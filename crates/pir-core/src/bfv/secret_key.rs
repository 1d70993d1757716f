//! The secret key: encryption, decryption, and measurement of noise.

use core::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::ciphertext::Ciphertext;
use super::parameters::Parameters;
use super::seed::derive;
use crate::ring::{Coefficient, Evaluation, Ntt, Polynomial, sampling};

/// A ternary secret `s`. Wiped on drop, not comparable, not printable.
///
/// Methods must be given the parameters the key was derived under.
pub struct SecretKey {
    /// `s` modulo Q.
    evaluation: Polynomial<Evaluation>,
}

/// A fresh ciphertext whose uniform half is the expansion of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeededCiphertext {
    /// `c1 = uniform(Q, seed, 0)` in coefficient form.
    pub seed: [u8; 32],
    /// The other half.
    pub c0: Polynomial<Coefficient>,
}

/// Distance of a phase from the expected one, in absolute units of the modulus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Root of the mean square over all coefficients.
    pub deviation: f64,
    /// Largest magnitude.
    pub maximum: f64,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").finish_non_exhaustive()
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.evaluation.zeroize();
    }
}

impl SecretKey {
    /// Derives the key from a client's seed, always the same one.
    #[must_use]
    pub fn derive(parameters: &Parameters, seed: &[u8; 32]) -> Self {
        let seed = derive(parameters, "secret key", seed);
        let ternary = sampling::ternary(parameters.degree(), &seed, 0);
        let ntt = parameters.large();
        Self { evaluation: Polynomial::from_signed(ntt.modulus(), &ternary).into_evaluation(ntt) }
    }

    /// `s` modulo Q.
    pub(super) fn evaluation(&self) -> &Polynomial<Evaluation> {
        &self.evaluation
    }

    /// Encrypts: `c0 = message + e - c1 s`, where `message` is already scaled and `c1` is the expansion of
    /// `uniform_seed`. The errors come from `error_seed`, which must be secret and used once.
    #[must_use]
    pub fn encrypt(
        &self,
        parameters: &Parameters,
        mut message: Polynomial<Coefficient>,
        uniform_seed: [u8; 32],
        error_seed: &[u8; 32],
    ) -> SeededCiphertext {
        let (ntt, modulus) = (parameters.large(), parameters.large().modulus());
        let c1: Polynomial<Coefficient> = sampling::uniform(ntt, &uniform_seed, 0);
        let mut errors =
            Polynomial::from_signed(modulus, &sampling::errors(parameters.degree(), error_seed, 0));
        message.add_assign(modulus, &errors);
        let mut product = self.product(parameters, c1);
        message.sub_assign(modulus, &product);
        product.zeroize();
        errors.zeroize();
        SeededCiphertext { seed: uniform_seed, c0: message }
    }

    /// Decrypts a pair of polynomials modulo `2^bits`: `round(t phase / 2^bits) mod t`.
    ///
    /// # Panics
    /// Unless there are N coefficients in each, `t < 2^bits`, and `2^bits N < Q`.
    #[must_use]
    pub fn decrypt(&self, parameters: &Parameters, c0: &[u64], c1: &[u64], bits: u32) -> Zeroizing<Vec<u64>> {
        let dropped = bits.checked_sub(parameters.plaintext_bits() + 1);
        let rounding = 1 << dropped.expect("a plaintext modulus below the ciphertext's");
        let mut message = self.phase_power_of_two(parameters, c0, c1, bits);
        for value in message.iter_mut() {
            *value = ((*value + rounding) & low_bits(bits)) >> (bits - parameters.plaintext_bits());
        }
        message
    }

    /// `c0 + c1 s mod 2^bits`, in `[0, 2^bits)`.
    ///
    /// # Panics
    /// Unless there are N coefficients in each, and `2^bits N < Q`.
    #[must_use]
    pub fn phase_power_of_two(
        &self,
        parameters: &Parameters,
        c0: &[u64],
        c1: &[u64],
        bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        let modulus = parameters.large().modulus();
        // |c1 s| <= 2^(bits - 1) N over the integers: exact modulo Q.
        assert!(bits + parameters.degree().ilog2() < modulus.bits(), "coefficients far shorter than Q");
        assert_eq!(c0.len(), parameters.degree(), "N coefficients");
        // The inner ciphertext of a nested one is as secret as what was asked for.
        let centred: Zeroizing<Vec<i64>> =
            Zeroizing::new(c1.iter().map(|value| ((value << (64 - bits)) as i64) >> (64 - bits)).collect());
        let mut product = self.product(parameters, Polynomial::from_signed(modulus, &centred));
        let phase = product
            .residues()
            .iter()
            .zip(c0)
            .map(|(product, c0)| (modulus.centre(*product) as u64).wrapping_add(*c0) & low_bits(bits));
        let phase = phase.collect();
        product.zeroize();
        Zeroizing::new(phase)
    }

    /// How far the phase of a ciphertext over the given ring, that of Q or of q, is from `expected`.
    #[must_use]
    pub fn noise(
        &self,
        parameters: &Parameters,
        ntt: &Ntt,
        ciphertext: &Ciphertext<Coefficient>,
        expected: &Polynomial<Coefficient>,
    ) -> Measurement {
        let mut phase = self.phase(parameters, ntt, ciphertext);
        phase.sub_assign(ntt.modulus(), expected);
        Measurement::of(phase.residues().iter().map(|noise| ntt.modulus().centre(*noise) as f64))
    }

    /// `c0 + c1 s` over the given ring, that of Q or of q.
    #[must_use]
    pub fn phase(
        &self,
        parameters: &Parameters,
        ntt: &Ntt,
        ciphertext: &Ciphertext<Coefficient>,
    ) -> Polynomial<Coefficient> {
        let mut product = self.over(parameters, ntt);
        product.mul_assign(ntt.modulus(), &ciphertext.c1.clone().into_evaluation(ntt));
        let mut phase = product.into_coefficient(ntt);
        phase.add_assign(ntt.modulus(), &ciphertext.c0);
        phase
    }

    /// `s` over the given ring, that of Q or of q. It is as secret as the key: to be wiped.
    #[must_use]
    pub fn over(&self, parameters: &Parameters, ntt: &Ntt) -> Polynomial<Evaluation> {
        let mut secret = self.evaluation.clone().into_coefficient(parameters.large());
        let modulus = parameters.large().modulus();
        for value in secret.residues_mut() {
            *value = ntt.modulus().from_signed(modulus.centre(*value));
        }
        secret.into_evaluation(ntt)
    }

    /// `s * polynomial` modulo Q.
    fn product(
        &self,
        parameters: &Parameters,
        polynomial: Polynomial<Coefficient>,
    ) -> Polynomial<Coefficient> {
        let ntt = parameters.large();
        let mut product = polynomial.into_evaluation(ntt);
        product.mul_assign(ntt.modulus(), &self.evaluation);
        product.into_coefficient(ntt)
    }
}

impl Measurement {
    /// Of a sequence of noise values.
    pub fn of(noise: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut squares, mut maximum) = (0u32, 0.0, 0.0f64);
        for value in noise {
            count += 1;
            squares += value * value;
            maximum = maximum.max(value.abs());
        }
        Self { deviation: (squares / f64::from(count.max(1))).sqrt(), maximum }
    }
}

fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::{Measurement, SecretKey};
    use crate::bfv::Parameters;

    /// The noise that tests measure is compared with what is predicted.
    #[test]
    fn deviations_are_roots_of_mean_squares() {
        let measured = Measurement::of([3.0, -5.0, 1.0, -1.0].into_iter());
        assert_eq!(measured, Measurement { deviation: 3.0, maximum: 5.0 });
        assert_eq!(Measurement::of([].into_iter()), Measurement { deviation: 0.0, maximum: 0.0 });
    }

    fn decrypt(bits: u32, [c0, c1]: [usize; 2]) {
        let parameters = Parameters::s2048();
        let key = SecretKey::derive(parameters, &[1; 32]);
        let message = key.decrypt(parameters, &vec![0; c0], &vec![0; c1], bits);
        assert_eq!(message[..], vec![0; 2048]);
    }

    /// With 2,048 coefficients a phase is below `2^bits 2^11`, which must be less than half of Q.
    #[test]
    fn moduli_between_that_of_the_plaintext_and_what_is_exact_modulo_the_prime_are_taken() {
        decrypt(10, [2048; 2]);
        decrypt(38, [2048; 2]);
    }

    #[test]
    #[should_panic(expected = "coefficients far shorter than Q")]
    fn a_phase_that_is_not_exact_modulo_the_prime_is_not_computed() {
        decrypt(39, [2048; 2]);
    }

    #[test]
    #[should_panic(expected = "a plaintext modulus below the ciphertext's")]
    fn a_plaintext_as_long_as_its_ciphertext_is_not_decrypted() {
        decrypt(9, [2048; 2]);
    }
}
