//! How much noise there is, and how likely it is that an element is read wrongly.
//!
//! In units of the modulus, a coefficient's phase differs from `q/t` times the message by Gaussian parts,
//!
//! * the first dimension: what rounding the query and its errors leave, `sqrt(P) 2^13 t / sqrt(12)` times
//!   `sqrt((q 2^-39)^2 / 12 + sigma^2)`, for P positions of two rows and coefficients that whitening makes uniform;
//! * packing: 2,047 steps, each of which adds a digit times the key's error, `2^24 / sqrt(12) sqrt(N) sigma`, and what was
//!   rounded off times the secret, `2^26 / sqrt(12) sqrt(2N/3)`;
//! * rounding of the hint to 18 bits, times the secret;
//!
//! and by bounded ones: rounding of the answer to 11 bits, and the other row that shares the query's coefficient, whose
//! message comes in 2^-13 times as large.

use super::ring::{
    ANSWER_BITS, DEGREE, DROPPED_BITS, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS, QUERY_BITS, RADIX_BITS,
};
use super::shape::Shape;
use crate::noise::{error_variance, tail_log2};

/// By how much a client's deviation may exceed that of the mean client: the norms of its secret and of its keys' errors are
/// drawn once. Six standard deviations of `sum of 2,048 squares` of a binomial with 42 bits, and of a ternary secret.
const CLIENT: f64 = 1.10;

/// Deviations of the parts of the noise, in units of the modulus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// After the first dimension.
    pub first_dimension: f64,
    /// Of packing alone.
    pub packing: f64,
    /// Of the rounded hint alone.
    pub hint: f64,
}

/// What the parts of the noise are for a mean client.
#[must_use]
pub fn stages(shape: &Shape) -> Stages {
    let power = |bits: u32| f64::from(bits).exp2();
    let (degree, positions) = (DEGREE as f64, shape.positions() as f64);
    let rounding = power(2 * (MODULUS_BITS - QUERY_BITS)) / 12.0 + error_variance();
    let coefficient = (power(2 * RADIX_BITS) + 1.0) * power(2 * PLAINTEXT_BITS) / 12.0;
    let secret = degree * 2.0 / 3.0;
    let digit = power(2 * (MODULUS_BITS - DROPPED_BITS)) / 12.0 * degree * error_variance();
    let step = digit + power(2 * DROPPED_BITS) / 12.0 * secret;
    Stages {
        first_dimension: (positions * coefficient * rounding).sqrt(),
        packing: ((DEGREE - 1) as f64 * step).sqrt(),
        hint: (power(2 * (MODULUS_BITS - HINT_BITS)) / 12.0 * secret).sqrt(),
    }
}

/// How many standard deviations of the Gaussian parts the bounded ones leave.
#[must_use]
pub fn margin(shape: &Shape) -> f64 {
    let Stages { first_dimension, packing, hint } = stages(shape);
    let half_step = f64::from(MODULUS_BITS - PLAINTEXT_BITS - 1).exp2();
    let rounded = f64::from(PLAINTEXT_BITS).exp2() / f64::from(ANSWER_BITS).exp2();
    let neighbour = f64::from(PLAINTEXT_BITS).exp2() / f64::from(RADIX_BITS).exp2();
    let free = 1.0 - rounded - neighbour;
    free * half_step / (CLIENT * (first_dimension.powi(2) + packing.powi(2) + hint.powi(2)).sqrt())
}

/// Upper bound on the probability that an element is read wrongly, as a logarithm to base 2: that of one coefficient times
/// their number.
#[must_use]
pub fn failure_log2(shape: &Shape) -> f64 {
    (tail_log2(margin(shape)) + (shape.element_outputs() as f64).log2()).min(0.0)
}
