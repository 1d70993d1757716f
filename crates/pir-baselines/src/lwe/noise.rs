//! How wrong an inner product of entries with the errors of a query can be.
//!
//! Entries are plaintexts modulo `p = 2^b`, centred: in `[-p/2, p/2)`. Of `m` of them and errors of deviation sigma, the sum
//! of products is subgaussian of at most `sigma sqrt(m) p/2`, whatever the entries are, and the message, a multiple of
//! `q/p`, is read rightly as long as it stays below `q/(2p)` (paper, Theorem C.1):
//!
//! `P(wrong) <= 2 exp(-(q/(2p))^2 / (2 sigma^2 m (p/2)^2))`.

use super::sampling::DEVIATION;

/// log2 of the modulus q.
pub(crate) const MODULUS_BITS: u32 = 32;

/// Deviation of the sum of `terms` products of errors with entries of so many bits, if these are uniform.
pub(crate) fn deviation(terms: usize, bits: u32) -> f64 {
    // Of integers in [-p/2, p/2): they lean to one side by a half.
    let energy = (f64::from(2 * bits).exp2() + 2.0) / 12.0;
    DEVIATION * (terms as f64 * energy).sqrt()
}

/// Upper bound on that deviation for any entries.
pub(crate) fn largest_deviation(terms: usize, bits: u32) -> f64 {
    DEVIATION * (terms as f64).sqrt() * f64::from(bits - 1).exp2()
}

/// What a sum may differ by from a multiple of q/p and still be read rightly.
pub(crate) fn margin(bits: u32) -> f64 {
    f64::from(MODULUS_BITS - 1 - bits).exp2()
}

/// Upper bound on the probability that one such sum is read wrongly, as a logarithm to base 2.
pub(crate) fn failure_log2(terms: usize, bits: u32) -> f64 {
    let distance = margin(bits) / largest_deviation(terms, bits);
    1.0 - distance * distance / 2.0 * core::f64::consts::LOG2_E
}
