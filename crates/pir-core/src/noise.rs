//! Predicted noise at every stage of an answer, and the bound on decoding failures that follows.
//!
//! Standard deviations are in absolute units of the modulus of their stage. With degree N, the gadget of level j of `l`
//! digits to the base `2^B` without the `r` lowest bits, error deviation sigma, h levels of EXPAND, `u` bits dropped from
//! the coefficients of a query, and `W` the squared norm of the secret (taken one standard deviation above its mean
//! 2N/3, which costs more than averaging the tail over all keys), the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | query, at the coefficients sent | Q | `F = sigma^2 + 4^u/12` |
//! | substitution at level j adds | Q | `V_j = l N 4^B/12 sigma^2 + 4^r/12 W` |
//! | leaf of EXPAND, mean over coefficients | Q | `E = F / 2^h + sum_j 2^(h-1-j) V_j` |
//! | the same, coefficients divisible by 2^h | Q | `F + sum_j 4^(h-1-j) V_j` |
//! | selector of a row: leaf switched to q | q | `U = E (q/Q)^2 + R`, `R = (1 + W)/12` |
//! | first dimension, n1 rows | q | `n1 N U t^2/12` |
//! | switched to t^2 | t^2 | `first (t^2/q)^2 + R` |
//! | second dimension, n2 columns | Q | `n2 N E t^2/12` |
//! | answer of `b` bits | 2^b | `last (2^b/q)^2 + R`, with Q for q if d = 2 |
//!
//! The noise of level j reaches the leaves doubled up to `h-1-j` times, so the energy that a whole inner product collects
//! fluctuates. It is a quadratic form in Gaussian variables of mean `T = n N E`, and with `m` at least its largest
//! eigenvalue it exceeds `y T` with probability at most `exp(-(T/m)/2 (y - 1 - ln y))` (Chernoff). Levels may add up at
//! one coordinate, and the noise of a substitution reaches both subtrees where a query of S selectors uses both, so
//! `m = F + sum_j (1 + [S > 2^(h-1-j)]) 4^(h-1-j) V_j` would be one if the noise of a substitution were white. The failure
//! bound takes the energy at the `y` for which that probability is 2^-[`ENERGY_LOG2`]. Plaintexts are whitened
//! ([`crate::packing`]), so their coefficients count as uniform in `[-t/2, t/2)` whatever the database holds. Tails are
//! taken as Gaussian and united over all coefficients.
//!
//! It is not white: the errors in a client's keys stay the same as long as the keys do, and colour it. Shapes follow from
//! the bound as it is, [`failure_log2`]; that they keep what it promises is shown by another one, [`failure_for_keys_log2`],
//! in which m is what it is for all keys but a fraction of 2^-46.

mod fixed_keys;
#[cfg(test)]
mod tests;

pub use fixed_keys::{failure_for_keys_log2, key_spread};

use crate::bfv::Parameters;
use crate::ring::sampling;

/// Shapes with a higher failure bound are refused.
pub const MAXIMUM_FAILURE_LOG2: f64 = -40.0;

/// The energy of the selectors exceeds the value assumed with a probability below 2 to the power of minus this.
pub const ENERGY_LOG2: f64 = 46.0;

/// What the noise of an answer depends on besides the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Low bits that are not sent of the coefficients of a query.
    pub query_dropped_bits: u32,
    /// Levels h of EXPAND.
    pub levels: u32,
    /// Rows n1: selectors of the first dimension.
    pub rows: usize,
    /// Columns n2: selectors of the second dimension, or 1 if there is none.
    pub columns: usize,
    /// Plaintexts that one element spans, hence first-dimension results per answer.
    pub groups: usize,
    /// Bits of each coefficient of the answer.
    pub answer_bits: u32,
}

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// A query, at the coefficients sent, modulo Q.
    pub query: f64,
    /// Leaves of EXPAND, mean over the coefficients, modulo Q.
    pub expanded: f64,
    /// Leaves of EXPAND, at coefficients divisible by 2^h, modulo Q.
    pub expanded_peak: f64,
    /// Selectors of rows, mean over the coefficients, modulo q.
    pub selector: f64,
    /// After the first dimension, modulo q.
    pub first: f64,
    /// After the switch to `t^2`; 0 if there is one dimension.
    pub switched: f64,
    /// After the second dimension, modulo Q; 0 if there is none.
    pub second: f64,
    /// In the answer, modulo `2^answer_bits`.
    pub answer: f64,
}

/// Standard deviation that a substitution at a level of EXPAND adds, modulo Q.
#[must_use]
pub fn substitution(parameters: &Parameters, level: usize) -> f64 {
    let (gadget, degree) = (parameters.gadget(level), parameters.degree() as f64);
    let digits = f64::from(gadget.digits) * degree * f64::from(2 * gadget.base_bits).exp2() / 12.0;
    let dropped = gadget.dropped_bits(parameters.large().modulus());
    let rounding = if dropped == 0 { 0.0 } else { f64::from(2 * dropped).exp2() / 12.0 };
    (digits * sampling::error_deviation().powi(2) + rounding * secret_weight(parameters)).sqrt()
}

/// Predicts the noise of a circuit on uniform plaintexts.
#[must_use]
pub fn stages(parameters: &Parameters, circuit: &Circuit) -> Stages {
    with_energy(parameters, circuit, 1.0, 1.0)
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2, for noise
/// that is white. Shapes are chosen by it, so it is part of the protocol.
#[must_use]
pub fn failure_log2(parameters: &Parameters, circuit: &Circuit) -> f64 {
    failure_at(parameters, circuit, ENERGY_LOG2, &|_| 1.0)
}

/// The bound, with the energy taken at a probability of 2 to the power of minus `energy_log2`, and `V_j` in m multiplied
/// by `spread(j)`.
fn failure_at(
    parameters: &Parameters,
    circuit: &Circuit,
    energy_log2: f64,
    spread: &dyn Fn(usize) -> f64,
) -> f64 {
    let factor = |n: usize| energy_factor(parameters, circuit, n, energy_log2, spread);
    let [first, second] = [circuit.rows, circuit.columns].map(factor);
    let worst = with_energy(parameters, circuit, first, second);
    let coefficients = (parameters.degree() * circuit.groups) as f64;
    let stage = |modulus_bits: u32, deviation: f64, coefficients: f64| {
        stage_failure_log2(parameters, modulus_bits, deviation) + coefficients.log2()
    };
    let terms = if circuit.columns == 1 {
        [
            stage(circuit.answer_bits, worst.answer, coefficients),
            -energy_log2,
            f64::NEG_INFINITY,
            f64::NEG_INFINITY,
        ]
    } else {
        let answer = stage(circuit.answer_bits, worst.answer, 4.0 * coefficients);
        let inner = stage(2 * parameters.plaintext_bits(), worst.switched, coefficients);
        [answer, inner, -energy_log2, -energy_log2]
    };
    terms.iter().map(|term| term.exp2()).sum::<f64>().log2()
}

/// For one coefficient modulo a power of two: it is safe up to half a step of the plaintext.
#[must_use]
pub fn stage_failure_log2(parameters: &Parameters, modulus_bits: u32, deviation: f64) -> f64 {
    let margin = f64::from(modulus_bits) - f64::from(parameters.plaintext_bits()) - 1.0;
    tail_log2(margin.exp2() / deviation)
}

fn with_energy(parameters: &Parameters, circuit: &Circuit, first_factor: f64, second_factor: f64) -> Stages {
    let degree = parameters.degree() as f64;
    let [large, small] = [parameters.large(), parameters.small()].map(|ntt| ntt.modulus().value() as f64);
    let rounding = rounding_variance(parameters);
    let query = query_variance(circuit);
    let substitutions =
        |growth: f64| -> f64 { weighted_substitutions(parameters, circuit.levels, growth).sum() };
    let expanded = query / f64::from(circuit.levels).exp2() + substitutions(2.0);
    let expanded_peak = query + substitutions(4.0);
    let selector = |factor: f64| factor * expanded * (small / large).powi(2) + rounding;
    let plaintext = plaintext_variance(parameters);
    let first = circuit.rows as f64 * degree * selector(first_factor) * plaintext;
    let (switched, second, last) = if circuit.columns == 1 {
        (0.0, 0.0, first / small.powi(2))
    } else {
        let target = f64::from(2 * parameters.plaintext_bits()).exp2();
        let second = circuit.columns as f64 * degree * second_factor * expanded * plaintext;
        (first * (target / small).powi(2) + rounding, second, second / large.powi(2))
    };
    let answer = last * f64::from(2 * circuit.answer_bits).exp2() + rounding;
    Stages {
        query: query.sqrt(),
        expanded: expanded.sqrt(),
        expanded_peak: expanded_peak.sqrt(),
        selector: selector(1.0).sqrt(),
        first: first.sqrt(),
        switched: switched.sqrt(),
        second: second.sqrt(),
        answer: answer.sqrt(),
    }
}

/// F.
fn query_variance(circuit: &Circuit) -> f64 {
    let dropped = f64::from(2 * circuit.query_dropped_bits).exp2() / 12.0;
    error_variance() + if circuit.query_dropped_bits == 0 { 0.0 } else { dropped }
}

/// sigma^2.
#[must_use]
pub fn error_variance() -> f64 {
    sampling::error_deviation().powi(2)
}

/// R: what a switch adds.
#[must_use]
pub fn rounding_variance(parameters: &Parameters) -> f64 {
    (1.0 + secret_weight(parameters)) / 12.0
}

/// Of the coefficients of a whitened plaintext, t^2/12.
#[must_use]
pub fn plaintext_variance(parameters: &Parameters) -> f64 {
    f64::from(2 * parameters.plaintext_bits()).exp2() / 12.0
}

/// W.
fn secret_weight(parameters: &Parameters) -> f64 {
    let degree = parameters.degree() as f64;
    degree * 2.0 / 3.0 + (degree * 2.0 / 9.0).sqrt()
}

/// `growth^(h-1-j) V_j` for every level j.
fn weighted_substitutions(parameters: &Parameters, levels: u32, growth: f64) -> impl Iterator<Item = f64> {
    (0..levels as usize).map(move |level| {
        growth.powi(levels as i32 - 1 - level as i32) * substitution(parameters, level).powi(2)
    })
}

/// y for the energy of `selectors` leaves.
fn energy_factor(
    parameters: &Parameters,
    circuit: &Circuit,
    selectors: usize,
    energy_log2: f64,
    spread: &dyn Fn(usize) -> f64,
) -> f64 {
    let mean = stages(parameters, circuit).expanded.powi(2);
    let total = selectors as f64 * parameters.degree() as f64 * mean;
    let in_query = if circuit.columns == 1 { circuit.rows } else { circuit.rows + circuit.columns };
    let substitutions = weighted_substitutions(parameters, circuit.levels, 4.0).enumerate();
    let largest = query_variance(circuit)
        + substitutions
            .map(|(level, energy)| {
                let energy = energy * spread(level);
                let height = circuit.levels - 1 - level as u32;
                if in_query > 1 << height { 2.0 * energy } else { energy }
            })
            .sum::<f64>();
    energy_excess_at(largest / total, energy_log2)
}

/// y, for the largest eigenvalue m as a share of T.
#[must_use]
pub fn energy_excess(share: f64) -> f64 {
    energy_excess_at(share, ENERGY_LOG2)
}

fn energy_excess_at(share: f64, energy_log2: f64) -> f64 {
    excess(2.0 * energy_log2 * core::f64::consts::LN_2 * share)
}

/// The solution above 1 of `y - 1 - ln y = needed`, from above.
fn excess(needed: f64) -> f64 {
    let (mut low, mut high) = (1.0, 2.0 * needed + 4.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if middle - 1.0 - middle.ln() < needed { low = middle } else { high = middle }
    }
    high
}

/// `log2 P(|X| > x)` for a standard Gaussian, from above: `2 exp(-x^2/2) / (x sqrt(2 pi))`.
#[must_use]
pub fn tail_log2(x: f64) -> f64 {
    let bound =
        1.0 - x * x / 2.0 * core::f64::consts::LOG2_E - (x * (2.0 * core::f64::consts::PI).sqrt()).log2();
    bound.min(0.0)
}
