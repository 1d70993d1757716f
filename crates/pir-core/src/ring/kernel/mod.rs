//! The one place where a back end is chosen, once per process; each operation below dispatches once per polynomial.
//!
//! All back ends give identical results, bit for bit. `SOTTO_KERNEL` forces one by its name; a name that this build or
//! this machine does not offer is ignored ([`Backend::active`] says what runs, so that a caller can report it).

mod portable;

use std::sync::OnceLock;

use super::modulus::{Modulus, ShoupFactor};
use super::ntt::Ntt;

/// Environment variable that forces a back end by its [`Backend::name`].
pub const KERNEL_VARIABLE: &str = "SOTTO_KERNEL";

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Plain Rust.
    Portable,
}

impl Backend {
    /// The back ends this machine can run, best first.
    pub const AVAILABLE: [Self; 1] = [Self::Portable];

    /// The back end in use in this process.
    #[must_use]
    pub fn active() -> Self {
        static ACTIVE: OnceLock<Backend> = OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let wanted = std::env::var(KERNEL_VARIABLE).unwrap_or_default();
            Self::AVAILABLE.into_iter().find(|backend| backend.name() == wanted).unwrap_or(Self::AVAILABLE[0])
        })
    }

    /// Its name in the environment variable, reports and benches.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
        }
    }
}

pub(super) fn forward(ntt: &Ntt, values: &mut [u64]) {
    match Backend::active() {
        Backend::Portable => portable::forward(ntt, values),
    }
}

pub(super) fn inverse(ntt: &Ntt, values: &mut [u64]) {
    match Backend::active() {
        Backend::Portable => portable::inverse(ntt, values),
    }
}

/// `sums[i] += sum over the terms (a, b) of a[i] * b[i]`, unreduced.
pub(crate) fn multiply_accumulate(sums: &mut [u128], terms: &[(&[u64], &[u64])]) {
    match Backend::active() {
        Backend::Portable => portable::multiply_accumulate(sums, terms),
    }
}

/// `out[i] = sums[i] mod q`, and `sums[i] = 0`; each sum below `2^(63 + bits)`.
pub(crate) fn reduce(modulus: &Modulus, out: &mut [u64], sums: &mut [u128]) {
    match Backend::active() {
        Backend::Portable => portable::reduce(modulus, out, sums),
    }
}

/// `a[i] = a[i] * b[i] mod q`.
pub(crate) fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    match Backend::active() {
        Backend::Portable => portable::multiply(modulus, a, b),
    }
}

/// `a[i] = a[i] * factor mod q`.
pub(crate) fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    match Backend::active() {
        Backend::Portable => portable::scale(modulus, a, factor),
    }
}

/// `a[i] = (a[i] - b[i]) * factor mod q`.
pub(crate) fn subtract_scale(modulus: &Modulus, a: &mut [u64], b: &[u64], factor: ShoupFactor) {
    match Backend::active() {
        Backend::Portable => portable::subtract_scale(modulus, a, b, factor),
    }
}

/// `out[i] = (a[i] - b[i]) * factors[i] mod q`.
pub(crate) fn subtract_multiply(
    modulus: &Modulus,
    out: &mut [u64],
    a: &[u64],
    b: &[u64],
    factors: &[ShoupFactor],
) {
    match Backend::active() {
        Backend::Portable => portable::subtract_multiply(modulus, out, a, b, factors),
    }
}

/// `a[i] = a[i] + b[i] mod q`.
pub(crate) fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    match Backend::active() {
        Backend::Portable => portable::add(modulus, a, b),
    }
}

/// `a[i] = a[i] - b[i] mod q`.
pub(crate) fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    match Backend::active() {
        Backend::Portable => portable::subtract(modulus, a, b),
    }
}

/// `out[i] = sum over the terms (a, b) of a[i] * b[i] mod q`, at most 2^13 terms.
pub(crate) fn inner_product(modulus: &Modulus, out: &mut [u64], terms: &[(&[u64], &[u64])]) {
    match Backend::active() {
        Backend::Portable => portable::inner_product(modulus, out, terms),
    }
}

/// `out[i] = centre(a[i]) + 2 to`, where `centre` takes residues modulo `from` to `(-from/2, from/2)`.
///
/// With `from <= 4 to` the result is in `[0, 4 to)`, fit for a forward transform.
pub(crate) fn lift(from: &Modulus, to: &Modulus, out: &mut [u64], a: &[u64]) {
    match Backend::active() {
        Backend::Portable => portable::lift(from, to, out, a),
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Backend, inner_product, lift, multiply_accumulate, reduce};
    use crate::ring::modulus::Modulus;

    const PRIMES: [u64; 3] = [65537, 68_719_230_977, 1_125_899_906_826_241];

    #[test]
    fn accumulated_products_are_exact_for_every_number_of_terms_and_at_the_largest_residues() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for modulus in PRIMES.map(|prime| Modulus::new(prime).unwrap()) {
            for count in 0..=9 {
                let mut vector = |extreme: bool| -> Vec<u64> {
                    let top = modulus.value() - 1;
                    (0..16).map(|_| if extreme { top } else { rng.next_u64() % modulus.value() }).collect()
                };
                let vectors: Vec<_> = (0..count).map(|i| (vector(i % 2 == 0), vector(i % 3 == 0))).collect();
                let terms: Vec<(&[u64], &[u64])> = vectors.iter().map(|(a, b)| (&a[..], &b[..])).collect();
                let expected: Vec<u64> = (0..16)
                    .map(|i| terms.iter().fold(0, |sum, (a, b)| modulus.add(sum, modulus.mul(a[i], b[i]))))
                    .collect();
                let (mut sums, mut out) = (vec![0; 16], vec![0; 16]);
                multiply_accumulate(&mut sums, &terms);
                reduce(&modulus, &mut out, &mut sums);
                assert_eq!(out, expected);
                assert!(sums.iter().all(|sum| *sum == 0));
                inner_product(&modulus, &mut out, &terms);
                assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn lifted_residues_are_fit_for_a_forward_transform() {
        let (from, to) = (Modulus::new(137_438_822_401).unwrap(), Modulus::new(68_718_428_161).unwrap());
        let half = from.value() / 2;
        let values = [0, 1, half - 1, half, half + 1, half + 2, from.value() - 1];
        let mut out = [0; 7];
        lift(&from, &to, &mut out, &values);
        for (value, lifted) in values.into_iter().zip(out) {
            assert!(lifted < 4 * to.value());
            assert_eq!(to.reduce(u128::from(lifted)), to.from_signed(from.centre(value)));
        }
    }

    #[test]
    fn back_ends_have_distinct_names_and_an_unknown_one_is_not_fatal() {
        let names: Vec<_> = Backend::AVAILABLE.into_iter().map(Backend::name).collect();
        assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
        assert!(Backend::AVAILABLE.contains(&Backend::active()));
    }
}
