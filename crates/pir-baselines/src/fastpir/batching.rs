//! Batching: plaintexts modulo a prime t that is 1 modulo 2N are N values, in two rows of N/2 places.
//!
//! The value of row h at place i is that of the polynomial at `psi^((-1)^h 5^i)`, psi a 2N-th root of unity modulo t. Products
//! are taken value by value. What `X -> X^5` does takes the value of place i + 1 to place i in both rows, from the first place
//! to the last: powers of 5 are a rotation group of N/2 elements, as are those of 3, which SEAL takes.

use std::sync::LazyLock;

use pir_core::ring::{Modulus, Ntt, bit_reverse};

use super::lattice::{DEGREE, PLACES, ROTATIONS};

/// The bits of a value that are used, and t: the least prime above that is 1 modulo 2N. The last one is the paper's.
const PRIMES: [(u32, u64); 6] =
    [(15, 40_961), (16, 65_537), (17, 147_457), (18, 270_337), (19, 557_057), (20, 1_073_153)];

/// The plaintext ring of a number of bits for each value.
pub(super) struct Batching {
    bits: u32,
    ntt: Ntt,
}

static ALL: LazyLock<Vec<Batching>> = LazyLock::new(|| {
    let ring = |t: u64| Modulus::new(t).and_then(|modulus| Ntt::in_orbit_order(modulus, DEGREE));
    let ring = |t: u64| ring(t).expect("the constants are primes 1 mod 2N");
    PRIMES.into_iter().map(|(bits, t)| Batching { bits, ntt: ring(t) }).collect()
});

impl Batching {
    /// All of them, the longest values first.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter().rev()
    }

    /// The one whose values have so many bits.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn of_bits(bits: u32) -> &'static Self {
        ALL.iter().find(|batching| batching.bits == bits).expect("bits of one of the plaintext rings")
    }

    /// Bits of a value that are used.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// t.
    pub(super) fn modulus(&self) -> &Modulus {
        self.ntt.modulus()
    }

    /// Replaces the values, at the indices of [`slot`], by the coefficients of their polynomial.
    pub(super) fn encode(&self, values: &mut [u64]) {
        self.ntt.inverse(values);
    }

    /// The inverse.
    pub(super) fn decode(&self, coefficients: &mut [u64]) {
        self.ntt.forward(coefficients);
    }
}

/// Where the value of a row at a place stands.
pub(super) fn slot(row: usize, place: usize) -> usize {
    row * PLACES + bit_reverse(place, ROTATIONS as u32)
}

#[cfg(test)]
mod tests {
    use pir_core::ring::{Automorphism, Coefficient, Polynomial};

    use super::super::lattice::{DEGREE, Lattice, PLACES};
    use super::{Batching, slot};

    /// A rotation the other way, or of one row alone, would read other symbols.
    #[test]
    fn automorphisms_take_both_rows_down() {
        let lattice = Lattice::of::<100>();
        for batching in Batching::all() {
            assert!(batching.modulus().value() > 1 << batching.bits());
            let t = batching.modulus();
            let value = |row: usize, place: usize| (7 + 3 * row + 11 * place) as u64 % t.value();
            let mut values = vec![0; DEGREE];
            for (row, place) in (0..2).flat_map(|row| (0..PLACES).map(move |place| (row, place))) {
                values[slot(row, place)] = value(row, place);
            }
            batching.encode(&mut values);
            for k in [0, 3, 10] {
                let automorphism: &Automorphism = lattice.automorphism(k);
                let polynomial = Polynomial::<Coefficient>::from_residues(values.iter().copied());
                let mut rotated = automorphism.coefficient(t, &polynomial);
                batching.decode(rotated.residues_mut());
                for (row, place) in (0..2).flat_map(|row| (0..PLACES).map(move |place| (row, place))) {
                    let from = (place + (1 << k)) % PLACES;
                    assert_eq!(rotated.residues()[slot(row, place)], value(row, from), "{row} {place} {k}");
                }
            }
        }
    }
}
