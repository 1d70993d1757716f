//! The failure bound for keys that stay the same.
//!
//! With digits `d_i` that are fresh and uniform and key errors `e_i` that stay, the noise `sum_i d_i e_i` of a substitution
//! has a covariance whose eigenvalues are `4^B/12 sum_i |e_i(zeta)|^2`, for all roots zeta of `X^N + 1`; where low bits are
//! dropped, `4^r/12 |s(zeta)|^2` comes to it. Over keys, `|e_i(zeta)|^2 / (N sigma^2)` is at most exponentially
//! distributed, in the sense that its moment-generating function is at most that of an exponential variable: the
//! coefficients are strictly sub-Gaussian, and their weights make a circular variable. So a sum of l of them exceeds
//! `x l` with probability at most `exp(-l (x - 1 - ln x))`, and at most N/2 roots are not conjugate to each other.

use super::{Circuit, excess, failure_at, substitution};
use crate::bfv::Parameters;
use crate::ring::sampling;

/// Of a level's errors, and of the secret, a root exceeds what is assumed with a probability below 2 to the power of minus
/// this: with eleven levels and a secret, for less than 2^-46 of all keys.
const KEYS_LOG2: f64 = 50.0;

/// How many times its mean the largest eigenvalue of the noise of a substitution is at most, for all keys but a fraction of
/// 2^-46.
#[must_use]
pub fn key_spread(parameters: &Parameters, level: usize) -> f64 {
    let (gadget, degree) = (parameters.gadget(level), parameters.degree() as f64);
    let largest = |terms: f64| excess((KEYS_LOG2 * core::f64::consts::LN_2 + (degree / 2.0).ln()) / terms);
    let digits = f64::from(gadget.digits) * degree * f64::from(2 * gadget.base_bits).exp2() / 12.0;
    let errors = digits * sampling::error_deviation().powi(2) / substitution(parameters, level).powi(2);
    errors * largest(gadget.digits.into()) + (1.0 - errors) * largest(1.0)
}

/// [`super::failure_log2`] for noise whose largest eigenvalue at level j is `spread(j)` times its mean, with the energy
/// taken where that is best.
#[must_use]
pub fn failure_for_keys_log2(
    parameters: &Parameters,
    circuit: &Circuit,
    spread: impl Fn(usize) -> f64,
) -> f64 {
    let bounds =
        (160..480).map(|quarters| failure_at(parameters, circuit, f64::from(quarters) / 4.0, &spread));
    bounds.fold(0.0, f64::min)
}
