//! How much noise there is, and how likely it is that an element is read wrongly: [`crate::lwe`]'s bound for an inner product
//! of m errors with a row, which holds for any database, times the d digits of an element.

use crate::lwe;

/// What the noise of an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Columns m of the matrix.
    pub columns: usize,
    /// Bits b of a digit.
    pub plaintext_bits: u32,
    /// Digits d of an element.
    pub digits: usize,
}

/// Standard deviations, in units of 1 modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Of a word of a query.
    pub query: f64,
    /// Of a word of the answer, once the mask is gone, if digits are uniform.
    pub answer: f64,
    /// The same for the worst database there is.
    pub worst: f64,
    /// Half a step of the message: what the noise may come up to.
    pub margin: f64,
}

impl Noise {
    /// Predicts the noise.
    #[must_use]
    pub fn stages(&self) -> Stages {
        let Self { columns, plaintext_bits, .. } = *self;
        Stages {
            query: lwe::DEVIATION,
            answer: lwe::deviation(columns, plaintext_bits),
            worst: lwe::largest_deviation(columns, plaintext_bits),
            margin: lwe::margin(plaintext_bits),
        }
    }

    /// Upper bound on the probability that an element is read wrongly, as a logarithm to base 2.
    #[must_use]
    pub fn failure_log2(&self) -> f64 {
        lwe::failure_log2(self.columns, self.plaintext_bits) + (self.digits as f64).log2()
    }
}
