//! Predicted noise at every stage of an answer, and the bound on decoding failures that follows.
//!
//! Standard deviations are in absolute units of the modulus of their stage. With degree N, L ciphertext primes `q_i`,
//! special prime P, error deviation sigma, and `w` the squared norm of the secret (taken one standard deviation above
//! its mean 2N/3, which costs more than averaging the tail over all keys), the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | fresh | q | `sigma^2` |
//! | one substitution adds | q | `V = sum_i (N/12) (q_i sigma / P)^2 + (1 + w)/12` |
//! | leaf of EXPAND, h levels, mean over coefficients | q | `E = sigma^2 / 2^h + (2^h - 1) V` |
//! | the same, coefficients divisible by 2^h | q | `sigma^2 + (4^h - 1)/3 V` |
//! | first dimension, n1 rows | q | `n1 N E t^2/12` |
//! | switched to `q_0` | `q_0` | `first / q_1^2 + (1 + w)/12` |
//! | second dimension, n2 columns | q | `n2 N E 2^(2*18)/12` |
//! | answer of `b` bits | 2^b | `(2^b/q)^2 (last dimension) + (1 + w)/12 (1 + (2^b/q_0)^2)` |
//!
//! The doubling of a coefficient divisible by 2^h at every level concentrates a third of a leaf's energy in `N / 2^h`
//! coefficients, so the energy that a whole inner product collects fluctuates; the failure bound takes it at a value it
//! exceeds with probability 2^-[`ENERGY_LOG2`] (Chernoff's bound of the chi-squared distribution). The plaintexts are
//! whitened ([`crate::sealpir`]), so their coefficients count as uniform in `[-t/2, t/2)` whatever the database holds.
//! Tails are taken as Gaussian and united over all coefficients.

use crate::bfv::Parameters;
use crate::ring::{Modulus, sampling};

/// Shapes with a higher failure bound are refused.
pub const MAXIMUM_FAILURE_LOG2: f64 = -40.0;

/// The energy of the selectors exceeds the value assumed with a probability below 2 to the power of minus this.
pub const ENERGY_LOG2: f64 = 46.0;

/// Width of the chunks that the second dimension works on, bits (its plaintext modulus is 2 to this power).
pub const CHUNK_BITS: u32 = 18;

/// What the noise of an answer depends on besides the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circuit {
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
    /// A fresh query, modulo q.
    pub fresh: f64,
    /// What one substitution adds, modulo q.
    pub substitution: f64,
    /// Leaves of EXPAND, mean over the coefficients, modulo q.
    pub expanded: f64,
    /// Leaves of EXPAND, at coefficients divisible by 2^h, modulo q.
    pub expanded_peak: f64,
    /// After the first dimension, modulo q.
    pub first: f64,
    /// After the switch to `q_0`.
    pub switched: f64,
    /// After the second dimension, modulo q; 0 if there is none.
    pub second: f64,
    /// In the answer, modulo `2^answer_bits`.
    pub answer: f64,
}

/// Predicts the noise of a circuit on uniform plaintexts.
#[must_use]
pub fn stages(parameters: &Parameters, circuit: &Circuit) -> Stages {
    with_energy(parameters, circuit, 1.0, 1.0)
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
#[must_use]
pub fn failure_log2(parameters: &Parameters, circuit: &Circuit) -> f64 {
    let worst = with_energy(
        parameters,
        circuit,
        energy_factor(parameters, circuit, circuit.rows),
        energy_factor(parameters, circuit, circuit.columns),
    );
    let coefficients = (parameters.degree() * circuit.groups) as f64;
    let answer = |plaintext_bits: u32, ciphertexts: f64| {
        let margin = f64::from(circuit.answer_bits) - f64::from(plaintext_bits) - 1.0;
        tail_log2(margin.exp2() / worst.answer) + (coefficients * ciphertexts).log2()
    };
    let terms = if circuit.columns == 1 {
        [answer(parameters.plaintext_bits(), 1.0), -ENERGY_LOG2, f64::NEG_INFINITY, f64::NEG_INFINITY]
    } else {
        let q0 = parameters.first_modulus().value() as f64;
        let margin = q0 / f64::from(parameters.plaintext_bits() + 1).exp2();
        let inner = tail_log2(margin / worst.switched) + coefficients.log2();
        [answer(CHUNK_BITS, 4.0), inner, -ENERGY_LOG2, -ENERGY_LOG2]
    };
    terms.iter().map(|term| term.exp2()).sum::<f64>().log2()
}

fn with_energy(parameters: &Parameters, circuit: &Circuit, first_factor: f64, second_factor: f64) -> Stages {
    let degree = parameters.degree() as f64;
    let sigma = sampling::error_deviation();
    let value = |modulus: &Modulus| modulus.value() as f64;
    let q: f64 = parameters.ciphertext_basis().moduli().map(value).product();
    let q0 = value(parameters.first_modulus());
    let special = parameters.key_basis().moduli().last().map_or(1.0, value);
    let weight = degree * 2.0 / 3.0 + (degree * 2.0 / 9.0).sqrt();
    let rounding = (1.0 + weight) / 12.0;

    let digits: f64 =
        parameters.ciphertext_basis().moduli().map(|prime| (value(prime) / special).powi(2)).sum();
    let substitution = digits * degree / 12.0 * sigma.powi(2) + rounding;
    let leaves = f64::from(circuit.levels).exp2();
    let expanded = sigma.powi(2) / leaves + (leaves - 1.0) * substitution;
    let expanded_peak = sigma.powi(2) + (leaves * leaves - 1.0) / 3.0 * substitution;
    let plaintext = f64::from(2 * parameters.plaintext_bits()).exp2() / 12.0;
    let first = first_factor * circuit.rows as f64 * degree * expanded * plaintext;
    let switched = first / (q / q0).powi(2) + if q > q0 { rounding } else { 0.0 };
    let second = if circuit.columns == 1 {
        0.0
    } else {
        second_factor * circuit.columns as f64 * degree * expanded * f64::from(2 * CHUNK_BITS).exp2() / 12.0
    };
    let last = if circuit.columns == 1 { first } else { second };
    let target = f64::from(circuit.answer_bits).exp2();
    let answer = last * (target / q).powi(2) + rounding * (1.0 + (target / q0).powi(2));
    Stages {
        fresh: sigma,
        substitution: substitution.sqrt(),
        expanded: expanded.sqrt(),
        expanded_peak: expanded_peak.sqrt(),
        first: first.sqrt(),
        switched: switched.sqrt(),
        second: second.sqrt(),
        answer: answer.sqrt(),
    }
}

/// The factor by which the energy of `selectors` leaves exceeds its mean at most: a third of it is chi-squared with
/// `k = selectors N / 2^h` degrees of freedom, and `P(chi^2 > k y) <= exp(-k/2 (y - 1 - ln y))`.
fn energy_factor(parameters: &Parameters, circuit: &Circuit, selectors: usize) -> f64 {
    let freedom = selectors as f64 * parameters.degree() as f64 / f64::from(circuit.levels).exp2();
    let needed = 2.0 * ENERGY_LOG2 * core::f64::consts::LN_2 / freedom;
    let (mut low, mut high) = (1.0, 2.0 * needed + 4.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if middle - 1.0 - middle.ln() < needed { low = middle } else { high = middle }
    }
    // The remaining two thirds are spread over at least twice as many coefficients; the same factor bounds them.
    high
}

/// `log2 P(|X| > x)` for a standard Gaussian, from above: `2 exp(-x^2/2) / (x sqrt(2 pi))`.
fn tail_log2(x: f64) -> f64 {
    let bound =
        1.0 - x * x / 2.0 * core::f64::consts::LOG2_E - (x * (2.0 * core::f64::consts::PI).sqrt()).log2();
    bound.min(0.0)
}
