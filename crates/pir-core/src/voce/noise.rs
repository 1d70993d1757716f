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
//! where a column is selected, besides,
//!
//! * the leaves of the trees of columns, each with `2^8 - 1` substitutions' noise and its share of the query's rounding, times
//!   the digits of what is selected from, and times the secret where these are the public half's;
//! * the switch from `s^2` to s, whose rounding meets `s^2`; the switches that separate buckets; rounding of the reply;
//!
//! and by bounded ones: rounding of the answer to 11 bits, of a reply to 12, and the other row that shares the query's
//! coefficient, whose message comes in 2^-13 times as large.

#[cfg(test)]
mod tests;

use super::ring::{
    ANSWER_BITS, COLUMN_BITS, DEGREE, DROPPED_BITS, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS, QUERY_BITS,
    RADIX_BITS, REPLY_BITS, REPLY_PUBLIC_BITS,
};
use super::select::{DIGIT_BITS, GADGET, SQUARE_DROPPED_BITS};
use super::shape::{DIGITS, Ending, LEVELS, Shape};
use crate::noise::{error_variance, tail_log2};

/// By how much a client's deviation may exceed that of the mean client: the norms of its secret and of its keys' errors are
/// drawn once. Six standard deviations of `sum of 2,048 squares` of a binomial with 42 bits, and of a ternary secret.
pub(super) const CLIENT: f64 = 1.10;

/// Deviations of the parts of the noise, in units of the modulus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// After the first dimension.
    pub first_dimension: f64,
    /// Of packing alone.
    pub packing: f64,
    /// Of the rounded hint, or packed ciphertext, alone.
    pub hint: f64,
    /// Of the query for columns and the trees that expand it.
    pub selection: f64,
    /// Of the switch from the secret's square.
    pub square: f64,
    /// Of the switches that separate buckets.
    pub separation: f64,
    /// Of the rounded public half of a reply.
    pub reply: f64,
}

impl Stages {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> f64 {
        let Self { first_dimension, packing, hint, selection, square, separation, reply } = *self;
        let all = [first_dimension, packing, hint, selection, square, separation, reply];
        all.iter().map(|deviation| deviation.powi(2)).sum::<f64>().sqrt()
    }
}

/// What the parts of the noise are for a mean client.
#[must_use]
pub fn stages(shape: &Shape) -> Stages {
    let power = |bits: u32| f64::from(bits).exp2();
    let (degree, positions) = (DEGREE as f64, shape.positions() as f64);
    let rounding = power(2 * (MODULUS_BITS - QUERY_BITS)) / 12.0 + error_variance();
    let coefficient = (power(2 * RADIX_BITS) + 1.0) * power(2 * PLAINTEXT_BITS) / 12.0;
    let secret = degree * 2.0 / 3.0;
    let errors = degree * error_variance();
    // A digit of so many bits times the errors of a key, and what is dropped times what the key is for.
    let switch = |bits: u32, dropped: u32, energy: f64| {
        (power(2 * bits) * errors + power(2 * dropped) * energy) / 12.0
    };
    let step = switch(MODULUS_BITS - DROPPED_BITS, DROPPED_BITS, secret);
    let rounded = |bits: u32, energy: f64| (power(2 * (MODULUS_BITS - bits)) / 12.0 * energy).sqrt();
    let of_all = Stages {
        first_dimension: (positions * coefficient * rounding).sqrt(),
        packing: ((DEGREE - 1) as f64 * step).sqrt(),
        hint: rounded(HINT_BITS, secret),
        selection: 0.0,
        square: 0.0,
        separation: 0.0,
        reply: 0.0,
    };
    match shape.ending() {
        Ending::Hint => of_all,
        Ending::Selected => {
            let dropped = MODULUS_BITS - GADGET.digits * GADGET.base_bits;
            let substitution = (f64::from(GADGET.digits) * power(2 * GADGET.base_bits) * errors
                + power(2 * dropped) * secret)
                / 12.0;
            let query = power(2 * (MODULUS_BITS - COLUMN_BITS)) / 12.0 + error_variance();
            // A level's noise grows twofold in each level that follows; the query's stays, at every 256th coefficient.
            let leaf = (power(LEVELS) - 1.0) * substitution + query / power(LEVELS);
            let leaves = (DIGITS * shape.columns()) as f64;
            let digit = power(2 * DIGIT_BITS) / 12.0;
            // Of pairs of coefficients, every product comes twice.
            let square = 2.0 * secret * secret;
            let group = shape.group() as f64;
            Stages {
                selection: (leaves * leaf * degree * digit * (1.0 + secret)).sqrt(),
                square: switch(MODULUS_BITS - SQUARE_DROPPED_BITS, SQUARE_DROPPED_BITS, square).sqrt(),
                separation: ((group * group - 1.0) / 3.0 * step).sqrt(),
                reply: rounded(REPLY_PUBLIC_BITS, secret),
                ..of_all
            }
        }
    }
}

/// How many standard deviations of the Gaussian parts the bounded ones leave.
#[must_use]
pub fn margin(shape: &Shape) -> f64 {
    let half_step = f64::from(MODULUS_BITS - PLAINTEXT_BITS - 1).exp2();
    let answer_bits = match shape.ending() {
        Ending::Hint => ANSWER_BITS,
        Ending::Selected => REPLY_BITS,
    };
    let rounded = f64::from(PLAINTEXT_BITS).exp2() / f64::from(answer_bits).exp2();
    let neighbour = f64::from(PLAINTEXT_BITS).exp2() / f64::from(RADIX_BITS).exp2();
    let free = 1.0 - rounded - neighbour;
    free * half_step / (CLIENT * stages(shape).total())
}

/// Upper bound on the probability that an element is read wrongly, as a logarithm to base 2: that of one coefficient times
/// their number.
#[must_use]
pub fn failure_log2(shape: &Shape) -> f64 {
    (tail_log2(margin(shape)) + (shape.element_outputs() as f64).log2()).min(0.0)
}
