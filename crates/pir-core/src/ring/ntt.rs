//! Negacyclic number-theoretic transform: `Z_q[X]/(X^N + 1)` to `Z_q^N`.
//!
//! With `psi` the *least* primitive 2N-th root of unity modulo q and `br` the reversal of log2 N bits, slot `i` of the
//! evaluation form is `p(psi^(2 br(i) + 1))`. This order is part of the encodings: every kernel must produce it.

use super::kernel::{self, Lanes, OrbitWalk, Pairs};
use super::modulus::Modulus;
use super::tables::{NttTables, SlotOrder, SplitFactors};
use crate::Error;

/// The transform of one prime and one degree N; its tables are built once and never written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ntt {
    tables: NttTables,
}

impl Ntt {
    /// Tables for degree `degree`, a power of two from 8 to 2^15.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the modulus is 1 modulo twice the degree.
    pub fn new(modulus: Modulus, degree: usize) -> Result<Self, Error> {
        Ok(Self { tables: NttTables::new(modulus, degree, SlotOrder::BitReversed)? })
    }

    /// The same transform with its slots in the order of the automorphisms: slot `h N/2 + br(i)`, where br reverses
    /// `log2 N - 1` bits, holds `p(psi^((-1)^h 5^i))`. What `X -> X^5` does to a polynomial takes i + 1 to i, and
    /// `X -> X^-1` exchanges the halves.
    ///
    /// # Errors
    /// As for [`Ntt::new`].
    pub fn in_orbit_order(modulus: Modulus, degree: usize) -> Result<Self, Error> {
        Ok(Self { tables: NttTables::new(modulus, degree, SlotOrder::Orbit)? })
    }

    /// The prime q.
    #[must_use]
    pub fn modulus(&self) -> &Modulus {
        self.tables.modulus()
    }

    /// The degree N.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.tables.degree()
    }

    /// The least primitive 2N-th root of unity.
    #[must_use]
    pub fn psi(&self) -> u64 {
        self.tables.psi()
    }

    /// In place, coefficients below `4q` to evaluations below `q`.
    ///
    /// # Panics
    /// If the slice does not have N entries.
    pub fn forward(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree(), "one value per coefficient");
        kernel::forward(&self.tables, values);
    }

    /// As [`Ntt::forward`], while what is read next is fetched.
    pub(crate) fn forward_fetching(&self, values: &mut [u64], ahead: &[Lanes]) {
        assert_eq!(values.len(), self.degree(), "one value per coefficient");
        kernel::forward_fetching(&self.tables, values, ahead);
    }

    /// A walk along the automorphisms, of which the slots are in orbit order: see [`kernel::orbit_walk`].
    pub(crate) fn orbit_walk(&self, walk: &OrbitWalk<'_>, sum: &mut [u64], kept: &mut [Lanes]) {
        assert_eq!(sum.len(), self.degree(), "one value per slot");
        kernel::orbit_walk(&self.tables, walk, sum, kept);
    }

    /// Transforms of 16 polynomials side by side, times factors: see [`kernel::radix_columns`].
    pub(crate) fn radix_columns(
        &self,
        pairs: &[Pairs],
        factors: &SplitFactors,
        adds: bool,
        scratch: &mut [Lanes],
        out: &mut [[Lanes; 2]],
    ) {
        assert!(out.len() == self.degree() && pairs.len() <= self.degree(), "a column for each slot");
        kernel::radix_columns(&self.tables, pairs, factors, adds, scratch, out);
    }

    /// In place, evaluations below `2q` to coefficients below `q`.
    ///
    /// # Panics
    /// If the slice does not have N entries.
    pub fn inverse(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree(), "one value per slot");
        kernel::inverse(&self.tables, values);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::Ntt;
    use crate::ring::modulus::Modulus;
    use crate::ring::tables::bit_reverse;

    const PRIMES: [u64; 4] = [65537, 68_718_428_161, 137_438_822_401, 1_125_899_906_826_241];

    fn tables(degree: usize) -> Vec<Ntt> {
        let tables: Vec<Ntt> = PRIMES
            .iter()
            .filter_map(|value| Modulus::new(*value).ok())
            .filter_map(|modulus| Ntt::new(modulus, degree).ok())
            .collect();
        assert!(tables.len() >= 3, "a table prime is not prime");
        tables
    }

    fn random(ntt: &Ntt, seed: u64) -> Vec<u64> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        (0..ntt.degree()).map(|_| rng.next_u64() % ntt.modulus().value()).collect()
    }

    #[test]
    fn slots_are_the_documented_evaluations() {
        for ntt in tables(64) {
            let q = ntt.modulus();
            let coefficients = random(&ntt, 1);
            let mut slots = coefficients.clone();
            ntt.forward(&mut slots);
            for (i, slot) in slots.iter().enumerate() {
                let point = q.pow_vartime(ntt.psi(), 2 * bit_reverse(i, 6) as u64 + 1);
                let value = coefficients.iter().rev().fold(0, |value, c| q.add(q.mul(value, point), *c));
                assert_eq!(*slot, value);
            }
        }
    }

    #[test]
    fn transforms_are_inverse_to_each_other_at_every_degree_even_from_unreduced_values() {
        for degree in [8, 16, 32, 2048, 4096, 8192] {
            for ntt in tables(degree) {
                let q = ntt.modulus().value();
                for coefficients in [random(&ntt, 2), vec![0; degree], vec![q - 1; degree]] {
                    let mut reduced = coefficients.clone();
                    ntt.forward(&mut reduced);
                    assert!(reduced.iter().all(|x| *x < q));
                    let mut lazy: Vec<u64> = coefficients.iter().map(|x| x + 3 * q).collect();
                    ntt.forward(&mut lazy);
                    assert_eq!(lazy, reduced);
                    let mut back: Vec<u64> = lazy.iter().map(|x| x + q).collect();
                    ntt.inverse(&mut back);
                    assert_eq!(back, coefficients);
                }
            }
        }
    }

    #[test]
    fn slots_in_orbit_order_are_the_documented_evaluations_and_transforms_are_inverse() {
        for degree in [8usize, 64, 2048] {
            let standard = Ntt::new(Modulus::new(PRIMES[3]).unwrap(), degree).unwrap();
            let orbit = Ntt::in_orbit_order(*standard.modulus(), degree).unwrap();
            assert_eq!(standard.psi(), orbit.psi());
            let coefficients = random(&orbit, 4);
            let (mut by_exponent, mut slots) = (coefficients.clone(), coefficients.clone());
            standard.forward(&mut by_exponent);
            orbit.forward(&mut slots);
            let (bits, mut power) = (degree.ilog2(), 1);
            for i in 0..degree / 2 {
                let place = bit_reverse(i, bits - 1);
                for (half, exponent) in [power, 2 * degree - power].into_iter().enumerate() {
                    let value = by_exponent[bit_reverse(exponent / 2, bits)];
                    assert_eq!(slots[half * degree / 2 + place], value, "{degree} {half} {i}");
                }
                power = 5 * power % (2 * degree);
            }
            orbit.inverse(&mut slots);
            assert_eq!(slots, coefficients);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn slotwise_products_are_negacyclic_products(seed in any::<u64>()) {
            for degree in [8usize, 32, 128] {
                for ntt in tables(degree) {
                    let q = ntt.modulus();
                    let (a, b) = (random(&ntt, seed), random(&ntt, !seed));
                    let mut schoolbook = vec![0; degree];
                    for (i, x) in a.iter().enumerate() {
                        for (j, y) in b.iter().enumerate() {
                            let product = q.mul(*x, *y);
                            let slot = &mut schoolbook[(i + j) % degree];
                            *slot = if i + j < degree { q.add(*slot, product) } else { q.sub(*slot, product) };
                        }
                    }
                    let (mut a, mut b) = (a, b);
                    ntt.forward(&mut a);
                    ntt.forward(&mut b);
                    let mut product: Vec<u64> = a.iter().zip(&b).map(|(x, y)| q.mul(*x, *y)).collect();
                    ntt.inverse(&mut product);
                    prop_assert_eq!(product, schoolbook);
                }
            }
        }
    }
}
