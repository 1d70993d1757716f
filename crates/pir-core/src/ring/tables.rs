//! What kernels read beside residues: roots of unity, and where slots come from.

use super::aligned::Aligned;
use super::modulus::{Modulus, ShoupFactor};
use crate::Error;

/// Tables of one prime and one degree N; built once, never written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NttTables {
    modulus: Modulus,
    degree: usize,
    psi: u64,
    /// At `2^d + n` the root that node n of level d multiplies with; where slots are bit-reversed, `psi^br(i)` at i.
    forward: Vec<ShoupFactor>,
    /// Their inverses; the last pass has `N^-1` folded in, in `inverse_last`.
    inverse: Vec<ShoupFactor>,
    /// `N^-1`, and `N^-1` times the inverse of the root of level 0.
    inverse_last: [ShoupFactor; 2],
    /// The same roots for kernels that read vectors of them.
    forward_split: SplitFactors,
    inverse_split: SplitFactors,
    forward_doubles: SplitFactors,
    inverse_doubles: SplitFactors,
}

/// Factors with values and quotients by the modulus apart, for kernels that read vectors of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitFactors {
    pub(super) values: Aligned<u64>,
    pub(super) quotients: Aligned<u64>,
}

impl SplitFactors {
    /// Residues by which others are multiplied, as integers.
    pub(crate) fn of_residues(modulus: &Modulus, residues: &[u64]) -> Self {
        let factors: Vec<ShoupFactor> = residues.iter().map(|residue| modulus.shoup(*residue)).collect();
        Self::of_integers(&factors)
    }

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

impl NttTables {
    /// Tables for degree `degree`, a power of two from 8 to 2^15.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the modulus is 1 modulo twice the degree.
    pub(crate) fn new(modulus: Modulus, degree: usize, order: SlotOrder) -> Result<Self, Error> {
        if !degree.is_power_of_two() || !(8..=1 << 15).contains(&degree) {
            return Err(Error::Shape("degree is not a power of two in range"));
        }
        let twice = 2 * degree;
        if modulus.value() % twice as u64 != 1 {
            return Err(Error::Shape("modulus is not 1 modulo 2N"));
        }
        let psi = least_primitive_root(&modulus, twice as u64);
        let levels = degree.ilog2();
        // The tree has at level d, node n, the polynomial `X^(N/2^d) - z`; its children have the two roots of z in the place
        // of z, and the first of them leads to slot `n 2^(L-d)`, whose point is therefore a power of that root.
        let powers = |root: u64| {
            let mut power = 1;
            let mut all = vec![0; twice];
            for entry in &mut all {
                *entry = power;
                power = modulus.mul(power, root);
            }
            let mut table = vec![modulus.shoup(1); degree];
            for (entry, index) in table.iter_mut().zip(0usize..).skip(1) {
                let level = index.ilog2();
                let slot = (index - (1 << level)) << (levels - level);
                *entry = modulus.shoup(all[(order.exponent(degree, slot) << (levels - 1 - level)) % twice]);
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
    pub(crate) fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// The degree N.
    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    /// The least primitive 2N-th root of unity.
    pub(crate) fn psi(&self) -> u64 {
        self.psi
    }

    /// At `2^d + n` the root that node n of level d multiplies with.
    pub(super) fn forward_roots(&self) -> &[ShoupFactor] {
        &self.forward
    }

    /// Their inverses.
    pub(super) fn inverse_roots(&self) -> &[ShoupFactor] {
        &self.inverse
    }

    /// [`NttTables::forward_roots`] as doubles.
    pub(super) fn forward_doubles(&self) -> &SplitFactors {
        &self.forward_doubles
    }

    /// [`NttTables::inverse_roots`] as doubles.
    pub(super) fn inverse_doubles(&self) -> &SplitFactors {
        &self.inverse_doubles
    }

    /// [`NttTables::forward_roots`] as integers.
    pub(super) fn forward_split(&self) -> &SplitFactors {
        &self.forward_split
    }

    /// [`NttTables::inverse_roots`] as integers.
    pub(super) fn inverse_split(&self) -> &SplitFactors {
        &self.inverse_split
    }

    /// `N^-1`, and `N^-1` times the inverse of the root of level 0.
    pub(super) fn inverse_last(&self) -> [ShoupFactor; 2] {
        self.inverse_last
    }
}

/// At which points slots hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotOrder {
    /// Slot i: `psi^(2 br(i) + 1)`.
    BitReversed,
    /// Slot `h N/2 + br(i)`, with one bit less to reverse: `psi^((-1)^h 5^i)`.
    Orbit,
}

impl SlotOrder {
    /// The exponent of psi at a slot, odd and below 2N. Slots of which the first bits agree have points of which the same
    /// power of two is the same power: the order is a tree's.
    pub(super) fn exponent(self, degree: usize, slot: usize) -> usize {
        match self {
            Self::BitReversed => 2 * bit_reverse(slot, degree.ilog2()) + 1,
            Self::Orbit => {
                let half = degree / 2;
                let place = bit_reverse(slot % half, half.ilog2());
                let squares = core::iter::successors(Some(5), |square| Some(square * square % (2 * degree)));
                let bits = squares.zip(0..half.ilog2()).filter(|(_, bit)| place >> bit & 1 == 1);
                let power = bits.fold(1, |power, (square, _)| power * square % (2 * degree));
                if slot < half { power } else { 2 * degree - power }
            }
        }
    }
}

/// Where eight neighbouring slots come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorSource {
    /// Which aligned group of eight.
    pub(super) index: u32,
    /// Which of its slots.
    pub(super) lanes: [u8; 8],
}

impl VectorSource {
    pub(super) fn new(slots: &[u32; 8]) -> Option<Self> {
        let index = slots[0] / 8;
        slots
            .iter()
            .all(|slot| slot / 8 == index)
            .then(|| Self { index, lanes: slots.map(|slot| (slot % 8) as u8) })
    }
}

/// One digit of a gadget decomposition: see [`digit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digit {
    /// Its lowest bit.
    pub(crate) shift: u32,
    /// What is kept of it.
    pub(crate) mask: u64,
    /// Added to it.
    pub(crate) bias: u64,
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
    use super::{NttTables, SlotOrder, VectorSource, bit_reverse};
    use crate::ring::Modulus;

    /// 65,537 is 1 modulo 2^16, and 12,289 modulo 2^12.
    #[test]
    fn degrees_and_primes_without_roots_of_unity_are_refused() {
        let new = |prime, degree| {
            NttTables::new(Modulus::new(prime).unwrap(), degree, SlotOrder::BitReversed).is_ok()
        };
        for (degree, fits) in
            [(0, false), (4, false), (8, true), (12, false), (1 << 15, true), (1 << 16, false)]
        {
            assert_eq!(new(65_537, degree), fits, "{degree}");
        }
        // 1 modulo 2^17, so that only the degree is too large.
        assert!(new(786_433, 1 << 15) && !new(786_433, 1 << 16));
        assert!(new(12_289, 1 << 11) && !new(12_289, 1 << 12));
    }

    #[test]
    fn roots_are_the_least_of_their_order() {
        for (prime, degree) in [(65_537, 8), (12_289, 16), (786_433, 32)] {
            let modulus = Modulus::new(prime).unwrap();
            let order = 2 * degree as u64;
            let found = NttTables::new(modulus, degree, SlotOrder::Orbit).unwrap().psi();
            let least = (2..prime).find(|root| modulus.pow_vartime(*root, order / 2) == prime - 1);
            assert_eq!(Some(found), least, "{prime}");
        }
    }

    #[test]
    fn orders_of_slots_are_the_documented_ones() {
        for degree in [8usize, 64] {
            let bits = degree.ilog2();
            for slot in 0..degree {
                let exponent = SlotOrder::BitReversed.exponent(degree, slot);
                assert_eq!(exponent, 2 * bit_reverse(slot, bits) + 1);
                let place = bit_reverse(slot % (degree / 2), bits - 1);
                let power = (0..place).fold(1, |power, _| 5 * power % (2 * degree));
                let expected = if slot < degree / 2 { power } else { 2 * degree - power };
                assert_eq!(SlotOrder::Orbit.exponent(degree, slot), expected);
            }
        }
        assert_eq!(
            [(0b1011, 4), (1, 3), (0, 0)].map(|(value, bits)| bit_reverse(value, bits)),
            [0b1101, 4, 0]
        );
    }

    #[test]
    fn eight_slots_are_read_together_where_they_stand_together() {
        let source = VectorSource::new(&[17, 16, 19, 18, 23, 22, 21, 20]).unwrap();
        assert_eq!((source.index, source.lanes), (2, [1, 0, 3, 2, 7, 6, 5, 4]));
        assert_eq!(VectorSource::new(&[17, 16, 19, 18, 23, 22, 21, 24]), None);
    }
}
