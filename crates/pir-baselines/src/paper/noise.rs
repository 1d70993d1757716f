//! Predicted noise, in absolute units of q. With l digits to the base 2^B of key switching, the variances are
//!
//! | stage | variance |
//! |---|---|
//! | query | `F = sigma^2` |
//! | a substitution adds | `V = l N 4^B/12 sigma^2` |
//! | selector after h levels, mean over coefficients | `E_h = 2^h F + (2^h - 1) V` |
//! | first dimension, n1 rows of h levels | `n1 N E_h t'^2/12` |
//! | second dimension, n2 columns of h levels | `n2 N E_h t'^2/12` |
//!
//! EXPAND doubles the message and the noise at every level, and the plaintext modulus t' takes the doubling of the message
//! back; nothing divides the noise. A coefficient is safe up to `q / (2 t')`. Energy and tails are treated as in
//! [`pir_core::noise`], with `m = 4^h F + 2 sum_j 4^(h-1-j) V`; that `2^h floor(q / (2^h t'))` is below `q / t'` costs at most
//! `2^h t' / 2` more. Plaintexts are whitened, which the paper does not do.

use pir_core::noise::{ENERGY_LOG2, energy_excess, tail_log2};
use pir_core::ring::sampling;

use super::format::decomposition;
use super::kernel::{DEGREE, Q};
use super::shape::Parameters;

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Selectors of each dimension, mean over the coefficients.
    pub selectors: [f64; 2],
    /// After each dimension.
    pub dimensions: [f64; 2],
    /// What a coefficient may be off without being decrypted wrongly, `q / (2 t')`.
    pub budget: f64,
}

/// Predicts the noise on uniform plaintexts.
#[must_use]
pub fn stages<const T: u32>(parameters: &Parameters<T>) -> Stages {
    let levels = parameters.levels();
    let selectors = levels.map(|levels| selector_variance::<T>(levels).sqrt());
    let counts = [parameters.rows(), parameters.columns()];
    let plaintext = f64::from(2 * parameters.plaintext_bits()).exp2() / 12.0;
    let dimension = |i: usize| selectors[i] * (counts[i] as f64 * DEGREE as f64 * plaintext).sqrt();
    let budget = Q as f64 / f64::from(parameters.plaintext_bits() + 1).exp2();
    Stages { selectors, dimensions: [dimension(0), dimension(1)], budget }
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
#[must_use]
pub(super) fn failure_log2<const T: u32>(parameters: &Parameters<T>) -> f64 {
    let stages = stages(parameters);
    let terms =
        parameters.selectors().zip(stages.dimensions).enumerate().map(|(i, ((count, levels), sd))| {
            let mean = count as f64 * DEGREE as f64 * selector_variance::<T>(levels);
            let excess = energy_excess(largest_eigenvalue::<T>(levels) / mean);
            let rounding = f64::from(levels + parameters.plaintext_bits() - 1).exp2();
            // The first dimension's result is one ciphertext, the second's are F.
            let ciphertexts = if i == 0 { 1 } else { parameters.expansion_factor() };
            let coefficients = ((ciphertexts * DEGREE) as f64).log2();
            let tail = tail_log2((stages.budget - rounding) / (sd * excess.sqrt()));
            (tail + coefficients).exp2() + (-ENERGY_LOG2).exp2()
        });
    terms.sum::<f64>().log2()
}

/// V.
pub(super) fn substitution_variance<const T: u32>() -> f64 {
    let (digits, base_bits) = decomposition::<T>();
    f64::from(digits) * DEGREE as f64 * f64::from(2 * base_bits).exp2() / 12.0 * error_variance()
}

/// E.
fn selector_variance<const T: u32>(levels: u32) -> f64 {
    let leaves = f64::from(levels).exp2();
    leaves * error_variance() + (leaves - 1.0) * substitution_variance::<T>()
}

/// m.
fn largest_eigenvalue<const T: u32>(levels: u32) -> f64 {
    let doubled = (0..levels).map(|height| f64::from(2 * height).exp2());
    f64::from(2 * levels).exp2() * error_variance()
        + 2.0 * doubled.sum::<f64>() * substitution_variance::<T>()
}

/// F.
fn error_variance() -> f64 {
    sampling::error_deviation().powi(2)
}
