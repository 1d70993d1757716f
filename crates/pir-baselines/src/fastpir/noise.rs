//! Predicted noise. With L primes `q_i` of q, W a bound on the weight of the secret and R = (1 + W)/12 as in
//! [`pir_core::noise`], r ciphertexts in a query and c columns, the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | query | q | `E = sigma^2 + 1/12` |
//! | a rotation adds | q | `V = sum_i N q_i^2/12 sigma^2 / P^2 + R` |
//! | column: sum of r products | q | `r N E t^2/12` |
//! | combined: c columns, c - 1 rotations | q | `c (r N E t^2/12) + (c - 1) V` |
//! | switched to the first prime, if there are two | q_1 | `combined (q_1/q)^2 + R` |
//! | answer of `b` bits | 2^b | `switched (2^b/q_1)^2 + R` |
//!
//! The message is `round(q m / t)`, whose rounding is the 1/12: a product with a plaintext is then one modulo t without a term
//! for the remainder of q. Plaintexts are whitened: values are uniform in `[0, 2^bits)`, and their polynomials' coefficients,
//! each a sum over all N of them, count as uniform modulo t. Given the errors of a query, what the columns add is independent,
//! so that combining c columns takes c times the variance.
//!
//! A query's energy is a sum over r N independent errors, of which `m = E` is the largest eigenvalue; energy, tails and their
//! union are taken as in [`pir_core::noise`], over the N coefficients of each group: one wrong coefficient may spoil all
//! values. A coefficient is safe up to `2^b / (2 t)`.

use pir_core::noise::{ENERGY_LOG2, energy_excess, error_variance, tail_log2};

use super::lattice::{DEGREE, Lattice};
use super::shape::Parameters;

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// A ciphertext of a query, modulo q.
    pub query: f64,
    /// What a rotation adds, modulo q.
    pub rotation: f64,
    /// A column, modulo q.
    pub column: f64,
    /// All columns together, modulo q.
    pub combined: f64,
    /// In the answer, modulo `2^answer_bits`.
    pub answer: f64,
    /// What a coefficient of the answer may be off without being decrypted wrongly, `2^answer_bits / (2 t)`.
    pub budget: f64,
}

/// Predicts the noise on uniform plaintexts.
#[must_use]
pub fn stages<const Q: u32>(parameters: &Parameters<Q>) -> Stages {
    with_energy(parameters, 1.0)
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
pub(super) fn failure_log2<const Q: u32>(parameters: &Parameters<Q>) -> f64 {
    let excess = energy_excess(1.0 / (parameters.rows() * DEGREE) as f64);
    let worst = with_energy(parameters, excess);
    let coefficients = ((DEGREE * parameters.groups()) as f64).log2();
    let tail = tail_log2(worst.budget / worst.answer) + coefficients;
    (tail.exp2() + (-ENERGY_LOG2).exp2()).log2()
}

fn with_energy<const Q: u32>(parameters: &Parameters<Q>, factor: f64) -> Stages {
    let lattice = Lattice::of::<Q>();
    let prime = |ring: &pir_core::ring::Ntt| ring.modulus().value() as f64;
    let (degree, t) = (DEGREE as f64, parameters.plaintext_modulus() as f64);
    let rounding = rounding_variance();
    let query = error_variance() + 1.0 / 12.0;
    let digits: f64 = lattice.data().iter().map(|ring| degree * prime(ring).powi(2) / 12.0).sum();
    let rotation = digits * error_variance() / prime(lattice.special()).powi(2) + rounding;
    let column = parameters.rows() as f64 * degree * factor * query * t * t / 12.0;
    let columns = parameters.columns() as f64;
    let combined = columns * column + (columns - 1.0) * rotation;
    let further: f64 = lattice.data()[1..].iter().map(prime).product();
    let switched = if lattice.data().len() > 1 { combined / further.powi(2) + rounding } else { combined };
    let modulus = f64::from(parameters.answer_coefficient_bits()).exp2();
    let answer = switched * (modulus / prime(lattice.last())).powi(2) + rounding;
    Stages {
        query: query.sqrt(),
        rotation: rotation.sqrt(),
        column: column.sqrt(),
        combined: combined.sqrt(),
        answer: answer.sqrt(),
        budget: modulus / (2.0 * t),
    }
}

/// R, with W two standard deviations of the square root above the mean as in [`pir_core::noise`].
fn rounding_variance() -> f64 {
    let degree = DEGREE as f64;
    (1.0 + degree * 2.0 / 3.0 + (degree * 2.0 / 9.0).sqrt()) / 12.0
}
