//! Predicted noise. With the terms of [`pir_core::noise`], l digits to the base `2^B` without the r lowest bits in the
//! gadget of external products, and `n2` columns of which the number has k bits, the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | leaf of a row, mean over coefficients | Q | E, in log2 N levels |
//! | selector of a row: leaf switched to q | q | `U = E (q/Q)^2 + R` |
//! | column: first dimension, n1 rows | q | `n1 N U t^2/12` |
//! | the same lifted to Q | Q | `column (Q/q)^2 + R` |
//! | leaf of a value, mean over coefficients | Q | `V`, as E in h levels |
//! | the same times s | Q | `V W + 5 N 4^10/12 sigma^2` |
//! | a choice adds | Q | `X = l N 4^B/12 (V + times s) + 4^r/12 (1 + W)` |
//! | chosen, after k choices | Q | `lifted + k X` |
//! | answer of `b` bits | 2^b | `chosen (2^b/Q)^2 + R` |
//!
//! Digits count as independent and uniform: they are those of differences of ciphertexts, whose c1 is pseudorandom.
//!
//! The energy of the rows' selectors fluctuates as it does there, with the same eigenvalue m. That of an RGSW ciphertext is
//! at most `m' (1 + |s|^2)` where the largest of the values `|s(zeta)|^2` over the roots zeta of `X^N + 1` is meant, and m'
//! is m for the leaves of values: over secrets, `|s(zeta)|^2` exceeds `x W` with probability at most about `e^-x`, and there
//! are N roots.

use pir_core::bfv::Parameters as Bfv;
use pir_core::noise::{
    ENERGY_LOG2, energy_excess, error_variance, plaintext_variance, rounding_variance, stage_failure_log2,
    substitution,
};

use super::encoding::{ROW_DROPPED_BITS, VALUE_DROPPED_BITS};
use super::keys::CONVERSION;
use super::selectors::PRODUCT;
use super::shape::Parameters;

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// A selector of a row, mean over the coefficients, modulo q.
    pub row: f64,
    /// A column, modulo q.
    pub column: f64,
    /// A leaf of a value of a bit, mean over the coefficients, modulo Q.
    pub value: f64,
    /// The same times s, modulo Q.
    pub times_secret: f64,
    /// What a choice adds, modulo Q.
    pub choice: f64,
    /// After all choices, modulo Q.
    pub chosen: f64,
    /// In the answer, modulo `2^answer_bits`.
    pub answer: f64,
}

/// Predicts the noise on uniform plaintexts.
#[must_use]
pub fn stages(parameters: &Parameters) -> Stages {
    with_energy(parameters, 1.0, 1.0)
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
pub(super) fn failure_log2(parameters: &Parameters) -> f64 {
    let bfv = Bfv::s2048();
    let degree = bfv.degree() as f64;
    let (rows, values) = (Leaves::of_rows(parameters), Leaves::of_values(parameters));
    let row_factor = energy_excess(rows.largest() / (rows.count as f64 * degree * rows.mean()));
    let value_factor = if parameters.values() == 0 {
        1.0
    } else {
        let peak = (ENERGY_LOG2 + degree.log2()) * core::f64::consts::LN_2;
        let largest = values.largest() * (1.0 + peak * secret_weight());
        let mean = values.mean() + times_secret(values.mean());
        energy_excess(largest / (f64::from(PRODUCT.digits) * degree * mean))
    };
    let worst = with_energy(parameters, row_factor, value_factor);
    let coefficients = (degree * parameters.groups() as f64).log2();
    let answer = stage_failure_log2(bfv, parameters.answer_coefficient_bits(), worst.answer) + coefficients;
    // The energy of the rows, and that of the RGSW ciphertext of each bit.
    let energies = f64::from(1 + parameters.column_bits()) * (-ENERGY_LOG2).exp2();
    (answer.exp2() + energies).log2()
}

fn with_energy(parameters: &Parameters, row_factor: f64, value_factor: f64) -> Stages {
    let bfv = Bfv::s2048();
    let degree = bfv.degree() as f64;
    let [large, small] = [bfv.large(), bfv.small()].map(|ntt| ntt.modulus().value() as f64);
    let rounding = rounding_variance(bfv);
    let row = row_factor * Leaves::of_rows(parameters).mean() * (small / large).powi(2) + rounding;
    let column = parameters.rows() as f64 * degree * row * plaintext_variance(bfv);
    let value = Leaves::of_values(parameters).mean();
    let dropped = f64::from(2 * PRODUCT.dropped_bits(bfv.large().modulus())).exp2() / 12.0;
    let choice = value_factor * digits(PRODUCT.digits, PRODUCT.base_bits) * (value + times_secret(value))
        + dropped * (1.0 + secret_weight());
    let chosen = column * (large / small).powi(2) + rounding + f64::from(parameters.column_bits()) * choice;
    let modulus = f64::from(parameters.answer_coefficient_bits()).exp2();
    let answer = chosen * (modulus / large).powi(2) + rounding;
    Stages {
        row: row.sqrt(),
        column: column.sqrt(),
        value: value.sqrt(),
        times_secret: times_secret(value).sqrt(),
        choice: choice.sqrt(),
        chosen: chosen.sqrt(),
        answer: answer.sqrt(),
    }
}

/// `l N 4^B / 12`: the energy of l digits.
fn digits(count: u32, base_bits: u32) -> f64 {
    f64::from(count) * Bfv::s2048().degree() as f64 * f64::from(2 * base_bits).exp2() / 12.0
}

/// Of what a leaf of so much variance becomes.
fn times_secret(value: f64) -> f64 {
    value * secret_weight() + digits(CONVERSION.digits, CONVERSION.base_bits) * error_variance()
}

/// W.
fn secret_weight() -> f64 {
    12.0 * rounding_variance(Bfv::s2048()) - 1.0
}

/// The leaves that one ciphertext of a query is expanded to.
struct Leaves {
    count: usize,
    levels: u32,
    dropped_bits: u32,
}

impl Leaves {
    fn of_rows(parameters: &Parameters) -> Self {
        Self { count: parameters.rows(), levels: parameters.levels(), dropped_bits: ROW_DROPPED_BITS }
    }

    fn of_values(parameters: &Parameters) -> Self {
        let levels = parameters.value_levels();
        Self { count: parameters.values(), levels, dropped_bits: VALUE_DROPPED_BITS }
    }

    /// F.
    fn query(&self) -> f64 {
        error_variance() + f64::from(2 * self.dropped_bits).exp2() / 12.0
    }

    /// E.
    fn mean(&self) -> f64 {
        self.query() / f64::from(self.levels).exp2() + self.substitutions(|height| f64::from(height).exp2())
    }

    /// m.
    fn largest(&self) -> f64 {
        self.query()
            + self.substitutions(|height| {
                let both = if self.count > 1 << height { 2.0 } else { 1.0 };
                both * f64::from(2 * height).exp2()
            })
    }

    /// The variances that the levels add, weighted by the number of levels that follow.
    fn substitutions(&self, weight: impl Fn(u32) -> f64) -> f64 {
        (0..self.levels)
            .map(|level| weight(self.levels - 1 - level) * substitution(Bfv::s2048(), level as usize).powi(2))
            .sum()
    }
}
