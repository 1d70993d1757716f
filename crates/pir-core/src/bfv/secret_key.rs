//! The secret key: encryption, decryption, and measurement of noise.

use core::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::ciphertext::Ciphertext;
use super::parameters::Parameters;
use super::seed::derive;
use crate::ring::{Basis, Coefficient, Evaluation, Polynomial, sampling};

/// A ternary secret `s`. Wiped on drop, not comparable, not printable.
///
/// Methods must be given the parameters the key was derived under.
pub struct SecretKey {
    /// `s` modulo every prime of the key basis.
    evaluation: Polynomial<Evaluation>,
}

/// A fresh ciphertext whose uniform half is the expansion of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeededCiphertext {
    /// `c1 = uniform(ciphertext basis, seed, 0)` in coefficient form.
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
        let basis = parameters.key_basis();
        Self { evaluation: Polynomial::from_signed(basis, &ternary).into_evaluation(basis) }
    }

    /// `s` over the key basis.
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
        let basis = parameters.ciphertext_basis();
        let c1: Polynomial<Coefficient> = sampling::uniform(basis, &uniform_seed, 0);
        let mut errors =
            Polynomial::from_signed(basis, &sampling::errors(parameters.degree(), error_seed, 0));
        message.add_assign(basis, &errors);
        let mut product = self.product(basis, &c1);
        message.sub_assign(basis, &product);
        product.zeroize();
        errors.zeroize();
        SeededCiphertext { seed: uniform_seed, c0: message }
    }

    /// Decrypts a ciphertext over the ciphertext basis to N coefficients modulo `2^plaintext_bits`.
    ///
    /// It first switches to `q_0`, so the phase may be off by `q_0 / 2^(plaintext_bits + 1)` less the switching error.
    #[must_use]
    pub fn decrypt(
        &self,
        parameters: &Parameters,
        ciphertext: &Ciphertext<Coefficient>,
        plaintext_bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        self.decrypt_first(parameters, &ciphertext.switch_to_first(parameters), plaintext_bits)
    }

    /// Decrypts a ciphertext over `q_0` alone: `round(2^plaintext_bits phase / q_0) mod 2^plaintext_bits`.
    #[must_use]
    pub fn decrypt_first(
        &self,
        parameters: &Parameters,
        ciphertext: &Ciphertext<Coefficient>,
        plaintext_bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        let mut phase = self.phase(parameters.first_basis(), ciphertext);
        let rescale = parameters.rescale_first(plaintext_bits);
        let message = phase.channel(0).iter().map(|value| rescale.apply(*value)).collect();
        phase.zeroize();
        Zeroizing::new(message)
    }

    /// Decrypts a pair of polynomials modulo `2^bits`: `round(2^plaintext_bits phase / 2^bits) mod 2^plaintext_bits`.
    ///
    /// # Panics
    /// Unless there are N coefficients in each and `plaintext_bits < bits <= 40`.
    #[must_use]
    pub fn decrypt_power_of_two(
        &self,
        parameters: &Parameters,
        c0: &[u64],
        c1: &[u64],
        bits: u32,
        plaintext_bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        assert!(plaintext_bits < bits, "a plaintext modulus below the ciphertext's");
        let mut message = self.phase_power_of_two(parameters, c0, c1, bits);
        let rounding = 1 << (bits - plaintext_bits - 1);
        for value in message.iter_mut() {
            *value = ((*value + rounding) & low_bits(bits)) >> (bits - plaintext_bits);
        }
        message
    }

    /// `c0 + c1 s mod 2^bits`, in `[0, 2^bits)`.
    ///
    /// # Panics
    /// Unless there are N coefficients in each and `bits <= 40`.
    #[must_use]
    pub fn phase_power_of_two(
        &self,
        parameters: &Parameters,
        c0: &[u64],
        c1: &[u64],
        bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        assert!(bits <= 40 && c0.len() == parameters.degree(), "N coefficients of at most 40 bits");
        // |c1 s| < 2^(bits - 1) N over the integers: exact modulo two primes.
        let basis = parameters.key_basis().prefix(2);
        let centred: Vec<i64> =
            c1.iter().map(|value| ((value << (64 - bits)) as i64) >> (64 - bits)).collect();
        let mut product = self.product(&basis, &Polynomial::from_signed(&basis, &centred));
        let lifted = centred_integers(&basis, &product);
        product.zeroize();
        let sums =
            lifted.iter().zip(c0).map(|(product, c0)| (*product as u64).wrapping_add(*c0) & low_bits(bits));
        Zeroizing::new(sums.collect())
    }

    /// `c0 + c1 s` of a ciphertext over `basis`, a prefix of the key basis.
    #[must_use]
    pub fn phase(&self, basis: &Basis, ciphertext: &Ciphertext<Coefficient>) -> Polynomial<Coefficient> {
        let mut phase = self.product(basis, &ciphertext.c1);
        phase.add_assign(basis, &ciphertext.c0);
        phase
    }

    /// How far the phase of a ciphertext over `basis`, of one or two primes, is from `expected`.
    #[must_use]
    pub fn noise(
        &self,
        basis: &Basis,
        ciphertext: &Ciphertext<Coefficient>,
        expected: &Polynomial<Coefficient>,
    ) -> Measurement {
        let mut phase = self.phase(basis, ciphertext);
        phase.sub_assign(basis, expected);
        Measurement::of(centred_integers(basis, &phase).iter().map(|noise| *noise as f64))
    }

    /// `s * polynomial` over a prefix of the key basis.
    fn product(&self, basis: &Basis, polynomial: &Polynomial<Coefficient>) -> Polynomial<Coefficient> {
        let mut product = polynomial.clone().into_evaluation(basis);
        product.mul_assign(basis, &self.evaluation);
        product.into_coefficient(basis)
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

/// The representatives in `(-q/2, q/2)` of a polynomial over one or two primes (Garner), without a branch.
fn centred_integers(basis: &Basis, polynomial: &Polynomial<Coefficient>) -> Zeroizing<Vec<i128>> {
    let transforms = basis.transforms();
    let first = *transforms[0].modulus();
    let integers = if let Some(second) = transforms.get(1).map(|ntt| *ntt.modulus()) {
        let inverse = second.shoup(second.inverse(first.value() % second.value()));
        let product = i128::from(first.value()) * i128::from(second.value());
        polynomial
            .channel(0)
            .iter()
            .zip(polynomial.channel(1))
            .map(|(x, y)| {
                let difference = second.sub(*y, second.reduce(u128::from(*x)));
                let value = i128::from(*x)
                    + i128::from(first.value()) * i128::from(second.mul_shoup(difference, inverse));
                value - (product & ((product / 2 - value) >> 127))
            })
            .collect()
    } else {
        polynomial.channel(0).iter().map(|x| i128::from(first.centre(*x))).collect()
    };
    Zeroizing::new(integers)
}
