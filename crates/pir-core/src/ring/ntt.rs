//! Negacyclic number-theoretic transform: `Z_q[X]/(X^N + 1)` to `Z_q^N`.
//!
//! With `psi` the *least* primitive 2N-th root of unity modulo q and `br` the reversal of log2 N bits, slot `i` of the
//! evaluation form is `p(psi^(2 br(i) + 1))`. This order is part of the encodings: every kernel must produce it.

use super::aligned::Aligned;
use super::kernel;
use super::modulus::{Modulus, ShoupFactor};
use crate::Error;

/// Tables of one prime and one degree N; built once, never written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ntt {
    modulus: Modulus,
    degree: usize,
    psi: u64,
    /// `psi^br(i)`, i in [0, N).
    forward: Vec<ShoupFactor>,
    /// `psi^-br(i)`, i in [0, N); the last pass has `N^-1` folded in, in `inverse_last`.
    inverse: Vec<ShoupFactor>,
    /// `[N^-1, N^-1 psi^-br(1)]`.
    inverse_last: [ShoupFactor; 2],
    /// The same roots for kernels that read vectors of them.
    forward_split: SplitFactors,
    inverse_split: SplitFactors,
    forward_doubles: SplitFactors,
    inverse_doubles: SplitFactors,
}

/// Factors with values and quotients by the modulus apart, for kernels that read vectors of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SplitFactors {
    pub(super) values: Aligned<u64>,
    pub(super) quotients: Aligned<u64>,
}

impl SplitFactors {
    /// As integers: the quotient is `floor(value * 2^52 / q)`.
    fn of_integers(factors: &[ShoupFactor]) -> Self {
        let values = factors.iter().map(|factor| factor.value).collect();
        Self { values, quotients: factors.iter().map(|factor| factor.quotient >> 12).collect() }
    }

    /// As the bits of doubles: the representative `w` in `(-q/2, q/2)`, and `w / q`.
    fn of_doubles(modulus: &Modulus, factors: &[ShoupFactor]) -> Self {
        let doubles = factors.iter().map(|factor| Self::double(modulus, factor.value).map(f64::to_bits));
        let values = doubles.clone().map(|[w, _]| w).collect();
        Self { values, quotients: doubles.map(|[_, quotient]| quotient).collect() }
    }

    /// `w` and `w / q`.
    pub(super) fn double(modulus: &Modulus, value: u64) -> [f64; 2] {
        let centred = modulus.centre(value) as f64;
        [centred, centred / modulus.value() as f64]
    }

    /// The two doubles at `index`.
    #[inline]
    pub(super) fn doubles(&self, index: usize) -> [f64; 2] {
        [self.values[index], self.quotients[index]].map(f64::from_bits)
    }
}

impl Ntt {
    /// Tables for degree `degree`, a power of two from 8 to 2^15.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the modulus is 1 modulo twice the degree.
    pub fn new(modulus: Modulus, degree: usize) -> Result<Self, Error> {
        if !degree.is_power_of_two() || !(8..=1 << 15).contains(&degree) {
            return Err(Error::Shape("degree is not a power of two in range"));
        }
        let order = 2 * degree as u64;
        if modulus.value() % order != 1 {
            return Err(Error::Shape("modulus is not 1 modulo 2N"));
        }
        let psi = least_primitive_root(&modulus, order);
        let powers = |root: u64| {
            let mut power = 1;
            let mut table = vec![modulus.shoup(1); degree];
            for i in 0..degree {
                table[bit_reverse(i, degree.ilog2())] = modulus.shoup(power);
                power = modulus.mul(power, root);
            }
            table
        };
        let (forward, inverse) = (powers(psi), powers(modulus.inverse(psi)));
        let scale = modulus.inverse(degree as u64);
        let inverse_last = [modulus.shoup(scale), modulus.shoup(modulus.mul(scale, inverse[1].value))];
        let [forward_split, inverse_split] =
            [&forward, &inverse].map(|table| SplitFactors::of_integers(table));
        let [forward_doubles, inverse_doubles] =
            [&forward, &inverse].map(|table| SplitFactors::of_doubles(&modulus, table));
        Ok(Self {
            forward_doubles,
            inverse_doubles,
            modulus,
            degree,
            psi,
            forward,
            inverse,
            inverse_last,
            forward_split,
            inverse_split,
        })
    }

    /// The prime q.
    #[must_use]
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// The degree N.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The least primitive 2N-th root of unity.
    #[must_use]
    pub fn psi(&self) -> u64 {
        self.psi
    }

    /// In place, coefficients below `4q` to evaluations below `q`.
    ///
    /// # Panics
    /// If the slice does not have N entries.
    pub fn forward(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree, "one value per coefficient");
        kernel::forward(self, values);
    }

    /// In place, evaluations below `2q` to coefficients below `q`.
    ///
    /// # Panics
    /// If the slice does not have N entries.
    pub fn inverse(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree, "one value per slot");
        kernel::inverse(self, values);
    }

    pub(super) fn forward_roots(&self) -> &[ShoupFactor] {
        &self.forward
    }

    pub(super) fn inverse_roots(&self) -> &[ShoupFactor] {
        &self.inverse
    }

    pub(super) fn forward_doubles(&self) -> &SplitFactors {
        &self.forward_doubles
    }

    pub(super) fn inverse_doubles(&self) -> &SplitFactors {
        &self.inverse_doubles
    }

    pub(super) fn forward_split(&self) -> &SplitFactors {
        &self.forward_split
    }

    pub(super) fn inverse_split(&self) -> &SplitFactors {
        &self.inverse_split
    }

    pub(super) fn inverse_last(&self) -> [ShoupFactor; 2] {
        self.inverse_last
    }
}

/// The lowest `bits` bits of `value` in reverse order.
#[must_use]
pub fn bit_reverse(value: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { value.reverse_bits() >> (usize::BITS - bits) }
}

/// The least element of order exactly `order`, a power of two that divides `q - 1`.
fn least_primitive_root(modulus: &Modulus, order: u64) -> u64 {
    let q = modulus.value();
    let root = (2..q)
        .map(|base| modulus.pow_vartime(base, (q - 1) / order))
        .find(|root| modulus.pow_vartime(*root, order / 2) == q - 1)
        .expect("half of all residues are non-squares, and each of them gives a root of that order");
    let square = modulus.mul(root, root);
    let (mut least, mut power) = (root, root);
    for _ in 1..order / 2 {
        power = modulus.mul(power, square);
        least = least.min(power);
    }
    least
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Ntt, bit_reverse};
    use crate::ring::modulus::Modulus;

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
