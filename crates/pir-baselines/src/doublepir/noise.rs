//! How much noise there is, and how likely it is that an element is read wrongly: the bound for an inner product of errors
//! with a row (SimplePIR's, paper Theorem C.1) at both levels, which holds for any database.
//!
//! The second level gives back words of the first exactly or not at all, so that no noise of it is left in the first.

use crate::lwe;

/// What the noise of an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Errors of a query of each level: columns m of the matrix, rows l of a block.
    pub errors: [usize; 2],
    /// Bits of a digit of each level.
    pub plaintext_bits: [u32; 2],
    /// Digits that are read at each level.
    pub digits: [usize; 2],
}

/// Standard deviations of each level, in units of 1 modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Of a word of a query.
    pub query: f64,
    /// Of a word of an answer, once the mask is gone, if digits are uniform.
    pub answer: [f64; 2],
    /// The same for the worst database there is.
    pub worst: [f64; 2],
    /// Half a step of the message: what the noise may come up to.
    pub margin: [f64; 2],
}

impl Noise {
    /// Predicts the noise.
    #[must_use]
    pub fn stages(&self) -> Stages {
        let each = |of: fn(usize, u32) -> f64| {
            [0, 1].map(|level| of(self.errors[level], self.plaintext_bits[level]))
        };
        Stages {
            query: lwe::DEVIATION,
            answer: each(lwe::deviation),
            worst: each(lwe::largest_deviation),
            margin: self.plaintext_bits.map(lwe::margin),
        }
    }

    /// Upper bound on the probability that an element is read wrongly, as a logarithm to base 2.
    #[must_use]
    pub fn failure_log2(&self) -> f64 {
        let level = |level: usize| {
            let one = lwe::failure_log2(self.errors[level], self.plaintext_bits[level]);
            one + (self.digits[level] as f64).log2()
        };
        // The powers themselves may be too small for a number.
        let (first, second) = (level(0), level(1));
        first.max(second) + (-(first - second).abs()).exp2().ln_1p() * core::f64::consts::LOG2_E
    }
}
