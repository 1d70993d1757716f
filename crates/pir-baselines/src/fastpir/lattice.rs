//! The presets: rings and what is precomputed of them.

use std::sync::LazyLock;

use pir_core::bfv;
use pir_core::ring::{Automorphism, Coefficient, Modulus, Ntt, Polynomial, ShoupFactor};

/// The degree N, the paper's.
pub(super) const DEGREE: usize = 4096;

/// Places of a row of the batching, N/2: records that one ciphertext of a query selects from.
pub(super) const PLACES: usize = DEGREE / 2;

/// Rotations by a power of two that there are keys for.
pub(super) const ROTATIONS: usize = PLACES.ilog2() as usize;

/// 50 bits: the modulus of the 100-bit preset, and where clients multiply integers.
const Q50: u64 = 1_125_899_906_826_241;

/// The primes of a preset. All are 1 modulo 2N.
pub(super) struct Lattice {
    /// q is their product: what queries are encrypted modulo, and what the database is multiplied modulo.
    data: Vec<Ntt>,
    /// P, under which keys live beside q.
    special: Ntt,
    /// A prime of 50 bits, for products of integers that are shorter.
    exact: Ntt,
    /// Entry k substitutes `X^(5^(2^k))` for X.
    automorphisms: Vec<Automorphism>,
}

static S100: LazyLock<Lattice> = LazyLock::new(|| Lattice::new(&[Q50], 1_125_899_906_629_633));

static P109: LazyLock<Lattice> =
    LazyLock::new(|| Lattice::new(&[68_719_403_009, 68_719_230_977], 137_438_822_401));

impl Lattice {
    /// That of keys modulo `Q` bits: 100 or 109.
    pub(super) fn of<const Q: u32>() -> &'static Self {
        const { assert!(Q == 100 || Q == 109, "one of the two presets") };
        if Q == 100 { &S100 } else { &P109 }
    }

    fn new(data: &[u64], special: u64) -> Self {
        let ring = |prime: u64| {
            let ring = Modulus::new(prime).and_then(|modulus| Ntt::new(modulus, DEGREE));
            ring.expect("the constants are primes 1 mod 2N")
        };
        let powers = core::iter::successors(Some(5), |power| Some(power * power % (2 * DEGREE)));
        Self {
            data: data.iter().copied().map(ring).collect(),
            special: ring(special),
            exact: ring(Q50),
            automorphisms: powers
                .take(ROTATIONS)
                .map(|exponent| Automorphism::new(DEGREE, exponent))
                .collect(),
        }
    }

    /// The rings of the primes of q.
    pub(super) fn data(&self) -> &[Ntt] {
        &self.data
    }

    /// The ring of the first prime of q, which an answer is switched to before it is cut to fewer bits.
    pub(super) fn last(&self) -> &Ntt {
        &self.data[0]
    }

    /// The ring of P.
    pub(super) fn special(&self) -> &Ntt {
        &self.special
    }

    /// The rings that keys live in: those of q, then that of P.
    pub(super) fn rings(&self) -> impl Iterator<Item = &Ntt> {
        self.data.iter().chain([&self.special])
    }

    /// A ring whose prime is far above the coefficients of an answer times N.
    pub(super) fn exact(&self) -> &Ntt {
        &self.exact
    }

    /// What takes the slots of all places `2^k` places down.
    pub(super) fn automorphism(&self, k: usize) -> &Automorphism {
        &self.automorphisms[k]
    }

    /// q modulo a prime of at most 50 bits.
    pub(super) fn modulo(&self, modulus: &Modulus) -> u64 {
        self.data
            .iter()
            .fold(1, |product, ring| modulus.mul(product, modulus.reduce(u128::from(ring.modulus().value()))))
    }

    /// Bits of all primes together.
    pub(super) fn bits(&self) -> u32 {
        self.rings().map(|ring| ring.modulus().bits()).sum()
    }

    /// By the rule of [`bfv::Parameters`], for q and P together.
    pub(super) fn security_bits(&self) -> u32 {
        bfv::security_bits(DEGREE, self.bits())
    }
}

/// The centred representatives of residues modulo one prime as residues modulo another, unreduced as [`Ntt::forward`] takes
/// them.
///
/// # Panics
/// If the first prime is not below eight times the second.
pub(super) fn convert(from: &Modulus, to: &Modulus, values: &mut [u64]) {
    let (source, target) = (from.value(), to.value());
    assert!(source < 8 * target, "primes of nearly the same length");
    // What is above half of the source stands for a negative number above -source / 2.
    let raised = (source / 2).div_ceil(target) * target;
    let correction = raised.wrapping_sub(source);
    for value in values {
        let negative = ((source / 2).wrapping_sub(*value) as i64 >> 63) as u64;
        *value = value.wrapping_add(correction & negative);
    }
}

/// `(value - high) / p`, where `high` is what is left of `value` modulo the prime p, in coefficients: divides by p and rounds.
pub(super) fn lower(
    from: &Modulus,
    to: &Ntt,
    inverse: ShoupFactor,
    mut high: Polynomial<Coefficient>,
    value: &mut Polynomial<pir_core::ring::Evaluation>,
) {
    convert(from, to.modulus(), high.residues_mut());
    value.sub_assign(to.modulus(), &high.into_evaluation(to));
    value.scale(to.modulus(), inverse);
}

/// The inverse of a prime modulo another.
pub(super) fn inverse(of: &Modulus, modulo: &Modulus) -> ShoupFactor {
    modulo.shoup(modulo.inverse(modulo.reduce(u128::from(of.value()))))
}

#[cfg(test)]
mod tests {
    use pir_core::ring::Modulus;

    use super::{Lattice, convert};

    #[test]
    fn converted_residues_stand_for_the_same_small_number() {
        for lattice in [Lattice::of::<100>(), Lattice::of::<109>()] {
            for (from, to) in lattice.rings().flat_map(|from| lattice.rings().map(move |to| (from, to))) {
                let (from, to): (&Modulus, &Modulus) = (from.modulus(), to.modulus());
                let half = from.value() / 2;
                for value in [0, 1, 12_345, half - 1, half, half + 1, half + 2, from.value() - 1] {
                    let mut converted = [value];
                    convert(from, to, &mut converted);
                    assert!(converted[0] < 4 * to.value());
                    assert_eq!(converted[0] % to.value(), to.from_signed(from.centre(value)));
                }
            }
        }
    }

    #[test]
    fn presets_have_the_bits_of_their_names() {
        assert_eq!((Lattice::of::<100>().bits(), Lattice::of::<100>().security_bits()), (100, 128));
        assert_eq!((Lattice::of::<109>().bits(), Lattice::of::<109>().security_bits()), (109, 125));
    }
}
