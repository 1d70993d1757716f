//! The noise of answers to selectors that are sent one by one, encrypted modulo the small prime ([`super::Xpir`]).
//!
//! With the terms of [`pir_core::noise`], dimension i of d having `n_i` selectors, the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | selector | q | `sigma^2` |
//! | dimension i | q | `v_i = n_i N sigma^2 t^2/12` |
//! | switched to t^2, for i < d | t^2 | `v_i (t^2/q)^2 + R` |
//! | answer of `b` bits | 2^b | `v_d (2^b/q)^2 + R` |
//!
//! The errors are independent and no less concentrated than Gaussian ones (sums of fair signs), so the largest
//! eigenvalue of the energy of `n` selectors is `m = sigma^2`, of a mean of `T = n N sigma^2`. In a third dimension and
//! beyond, the ciphertexts that are multiplied may be equal if the database repeats itself: errors then add up before
//! they meet a plaintext, and the share `m / T` is that of one selector.

use pir_core::bfv::Parameters;
use pir_core::noise::{
    ENERGY_LOG2, energy_excess, error_variance, plaintext_variance, rounding_variance, stage_failure_log2,
};

/// What the noise of an answer to fresh selectors depends on besides the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshCircuit<const D: usize> {
    /// The number of each dimension's selectors.
    pub selectors: [usize; D],
    /// Plaintexts that one element spans, hence first-dimension results per answer.
    pub groups: usize,
    /// Bits of each coefficient of the answer.
    pub answer_bits: u32,
}

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreshStages<const D: usize> {
    /// A selector, modulo q.
    pub selector: f64,
    /// After each dimension, modulo q.
    pub dimensions: [f64; D],
    /// The same after the switch to `t^2`; it is not made after the last one.
    pub switched: [f64; D],
    /// In the answer, modulo `2^answer_bits`.
    pub answer: f64,
}

impl<const D: usize> FreshCircuit<D> {
    /// Predicts the noise on uniform plaintexts.
    #[must_use]
    pub fn stages(&self, parameters: &Parameters) -> FreshStages<D> {
        self.with_energy(parameters, [1.0; D])
    }

    /// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
    #[must_use]
    pub fn failure_log2(&self, parameters: &Parameters) -> f64 {
        let degree = parameters.degree();
        let factors = core::array::from_fn(|i| {
            let independent = if i < 2 { self.selectors[i] } else { 1 };
            energy_excess(1.0 / (independent * degree) as f64)
        });
        let worst = self.with_energy(parameters, factors);
        let coefficients = ((degree * self.groups) as f64).log2();
        let terms = worst.switched.iter().enumerate().map(|(i, switched)| {
            let (bits, deviation) = if i + 1 == D {
                (self.answer_bits, worst.answer)
            } else {
                (2 * parameters.plaintext_bits(), *switched)
            };
            // Four chunks for every ciphertext of the dimension before.
            let failure = stage_failure_log2(parameters, bits, deviation) + coefficients + 2.0 * i as f64;
            failure.exp2() + (-ENERGY_LOG2).exp2()
        });
        terms.sum::<f64>().log2()
    }

    fn with_energy(&self, parameters: &Parameters, factors: [f64; D]) -> FreshStages<D> {
        let degree = parameters.degree() as f64;
        let q = parameters.small().modulus().value() as f64;
        let rounding = rounding_variance(parameters);
        let dimensions: [f64; D] = core::array::from_fn(|i| {
            let energy = factors[i] * self.selectors[i] as f64 * degree * error_variance();
            energy * plaintext_variance(parameters)
        });
        let switch = |variance: f64, bits: u32| variance * (f64::from(bits).exp2() / q).powi(2) + rounding;
        let last = dimensions.last().copied().unwrap_or_default();
        FreshStages {
            selector: error_variance().sqrt(),
            dimensions: dimensions.map(f64::sqrt),
            switched: dimensions.map(|variance| switch(variance, 2 * parameters.plaintext_bits()).sqrt()),
            answer: switch(last, self.answer_bits).sqrt(),
        }
    }
}
