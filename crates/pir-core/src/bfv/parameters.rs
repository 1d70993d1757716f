//! Parameters and what is precomputed from them.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::gadget::Gadget;
use super::security::security_bits;
use crate::Error;
use crate::ring::{Automorphism, Modulus, Ntt, Rescale, ShoupFactor};

/// Degree, primes, plaintext modulus and gadgets, with tables for substitution and modulus switching.
#[derive(Debug)]
pub struct Parameters {
    plaintext_bits: u32,
    security_bits: u32,
    identity: [u8; 32],
    /// Modulo Q.
    large: Ntt,
    /// Modulo q.
    small: Ntt,
    /// Of the key switching at each level.
    gadgets: Vec<Gadget>,
    /// Entry j substitutes `X^(N/2^j + 1)`.
    automorphisms: Vec<Automorphism>,
    /// Entry j holds the slots of `X^-(2^j)` modulo Q. Slot i depends on `floor(i / 2^j)` only, so from j = 3 on every
    /// eighth is enough.
    inverse_monomials: Vec<Vec<ShoupFactor>>,
}

/// `(l, B)` for each level of EXPAND, the root first.
///
/// Half of all substitutions happen at the last level, but the noise of the first is doubled most often: few digits
/// where there are many nodes, many where there are few.
const S2048_GADGETS: [(u32, u32); 11] =
    [(7, 6), (7, 6), (7, 6), (6, 7), (6, 7), (6, 7), (5, 8), (5, 8), (4, 10), (3, 12), (3, 12)];

/// N = 2048, Q of 50 bits and q of 36, both congruent to 1 modulo 2^14, t = 2^9.
static S2048: LazyLock<Parameters> = LazyLock::new(|| {
    let gadgets = S2048_GADGETS.map(|(digits, base_bits)| Gadget { digits, base_bits });
    Parameters::new(2048, 1_125_899_906_826_241, 68_719_230_977, 9, &gadgets)
        .expect("the constants are primes 1 mod 2N of 50 and 36 bits; N = 2048 allows 53")
});

impl Parameters {
    /// The preset of at least 128 bits of security: N = 2048, Q of 50 bits, q of 36 bits, t = 2^9.
    #[must_use]
    pub fn s2048() -> &'static Self {
        &S2048
    }

    /// Parameters of at least 128 bits of security ([`super::security_bits`]): Q may have 26 bits for N = 1024, 53 for
    /// N = 2048, and 106 for N = 4096. No other degree is admitted.
    ///
    /// # Errors
    /// [`Error::Security`] if there is less; [`Error::Shape`] unless both primes are 1 modulo 2N, q is at most Q / 2,
    /// `2^plaintext_bits` leaves at least 4 bits of q, and there is a gadget for each of the log2 N levels, of at most
    /// 12 digits of at least 2 bits that are not longer than Q together.
    pub fn new(
        degree: usize,
        large: u64,
        small: u64,
        plaintext_bits: u32,
        gadgets: &[Gadget],
    ) -> Result<Self, Error> {
        let parameters =
            Self::new_allowing_insecure_parameters(degree, large, small, plaintext_bits, gadgets)?;
        if parameters.security_bits < 128 {
            return Err(Error::Security { bits: parameters.security_bits });
        }
        Ok(parameters)
    }

    /// **Without any demand on security**: for reproductions of older work and for tests.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::new`].
    pub fn new_allowing_insecure_parameters(
        degree: usize,
        large: u64,
        small: u64,
        plaintext_bits: u32,
        gadgets: &[Gadget],
    ) -> Result<Self, Error> {
        let (large, small) =
            (Ntt::new(Modulus::new(large)?, degree)?, Ntt::new(Modulus::new(small)?, degree)?);
        if small.modulus().value() > large.modulus().value() / 2 {
            return Err(Error::Shape("the small prime is not below half of the large one"));
        }
        if plaintext_bits == 0 || plaintext_bits + 4 > small.modulus().bits() {
            return Err(Error::Shape("plaintext modulus too large"));
        }
        if gadgets.len() != degree.ilog2() as usize || !gadgets.iter().all(|g| g.is_fit_for(large.modulus()))
        {
            return Err(Error::Shape("a gadget for every level, fit for the modulus"));
        }
        let automorphisms =
            (0..degree.ilog2()).map(|j| Automorphism::new(degree, (degree >> j) + 1)).collect();
        Ok(Self {
            plaintext_bits,
            security_bits: security_bits(degree, large.modulus().bits()),
            identity: identity(&large, gadgets),
            inverse_monomials: (0..degree.ilog2()).map(|j| inverse_monomial(&large, j)).collect(),
            automorphisms,
            gadgets: gadgets.to_vec(),
            large,
            small,
        })
    }

    /// The degree N.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.large.degree()
    }

    /// log2 of the plaintext modulus t.
    #[must_use]
    pub fn plaintext_bits(&self) -> u32 {
        self.plaintext_bits
    }

    /// Estimated security in bits ([`super::security_bits`]).
    #[must_use]
    pub fn security_bits(&self) -> u32 {
        self.security_bits
    }

    /// SHA-256 of degree, Q and gadgets; separates what is derived under different parameters.
    #[must_use]
    pub fn identity(&self) -> &[u8; 32] {
        &self.identity
    }

    /// The ring modulo Q: fresh ciphertexts and keys.
    #[must_use]
    pub fn large(&self) -> &Ntt {
        &self.large
    }

    /// The ring modulo q: plaintexts and what is multiplied with them.
    #[must_use]
    pub fn small(&self) -> &Ntt {
        &self.small
    }

    /// The map `round(q x / Q) mod q`.
    #[must_use]
    pub fn to_small(&self) -> Rescale {
        Rescale::new(self.large.modulus(), self.small.modulus().value())
    }

    /// The map `round(2^bits x / q) mod 2^bits` from the prime of one of the rings.
    ///
    /// # Panics
    /// If `2^bits` is above half the prime.
    #[must_use]
    pub fn to_power_of_two(ring: &Ntt, bits: u32) -> Rescale {
        Rescale::new(ring.modulus(), 1 << bits)
    }

    /// `Delta = floor(Q / t)`.
    #[must_use]
    pub fn delta(&self) -> u64 {
        self.large.modulus().value() >> self.plaintext_bits
    }

    /// The gadget of the key switching at a level of EXPAND.
    #[must_use]
    pub fn gadget(&self, level: usize) -> Gadget {
        self.gadgets[level]
    }

    /// The substitution of `X^(N/2^level + 1)`.
    #[must_use]
    pub fn automorphism(&self, level: usize) -> &Automorphism {
        &self.automorphisms[level]
    }

    /// The number of substitutions, log2 N.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.automorphisms.len()
    }

    /// The slots of `X^-(2^level)` modulo Q, or every eighth of them.
    pub(crate) fn inverse_monomial(&self, level: usize) -> &[ShoupFactor] {
        &self.inverse_monomials[level]
    }
}

fn identity(large: &Ntt, gadgets: &[Gadget]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"sotto bfv parameters v2\0")
        .chain_update((large.degree() as u64).to_le_bytes())
        .chain_update(large.modulus().value().to_le_bytes());
    for gadget in gadgets {
        hash.update([gadget.digits as u8, gadget.base_bits as u8]);
    }
    hash.finalize().into()
}

/// Slots of `X^-(2^level) = -X^(N - 2^level)`, or every eighth.
fn inverse_monomial(ntt: &Ntt, level: u32) -> Vec<ShoupFactor> {
    let step = if level < 3 { 1 } else { 8 };
    let mut slots = vec![0; ntt.degree()];
    slots[ntt.degree() - (1 << level)] = ntt.modulus().value() - 1;
    ntt.forward(&mut slots);
    slots.into_iter().step_by(step).map(|slot| ntt.modulus().shoup(slot)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Gadget, Parameters};
    use crate::Error;

    const Q50: u64 = 1_125_899_906_826_241;
    const Q36: u64 = 68_719_230_977;

    #[test]
    fn the_preset_has_a_larger_margin_than_128_bits() {
        let preset = Parameters::s2048();
        assert_eq!(preset.security_bits(), 137);
        assert_eq!([preset.large(), preset.small()].map(|ntt| ntt.modulus().bits()), [50, 36]);
        assert!([preset.large(), preset.small()].iter().all(|ntt| ntt.modulus().value() % (1 << 14) == 1));
    }

    #[test]
    fn parameters_below_128_bits_need_the_loud_door() {
        let gadgets = [Gadget { digits: 5, base_bits: 10 }; 10];
        let refused = Parameters::new(1024, Q50, Q36, 9, &gadgets);
        assert_eq!(refused.err(), Some(Error::Security { bits: 0 }));
        assert!(Parameters::new_allowing_insecure_parameters(1024, Q50, Q36, 9, &gadgets).is_ok());
    }

    /// Where the gate stands: what the tables of 2018 admitted, 27 bits for N = 1024, has 126 bits by later estimates.
    #[test]
    fn the_gate_stands_where_the_estimates_reach_128_bits() {
        let gadgets = [Gadget { digits: 5, base_bits: 4 }; 10];
        // The largest primes of 26 and 27 bits that are 1 modulo 2048, and one of 16 bits.
        let [q26, q27, q16] = [67_104_769, 134_215_681, 61_441];
        assert!(Parameters::new(1024, q26, q16, 4, &gadgets).is_ok());
        let refused = Parameters::new(1024, q27, q16, 4, &gadgets);
        assert_eq!(refused.err(), Some(Error::Security { bits: 126 }));
    }

    #[test]
    fn gadgets_that_do_not_fit_are_refused() {
        for (digits, base_bits) in [(0, 10), (13, 3), (6, 9), (5, 1)] {
            let gadgets = [Gadget { digits, base_bits }; 11];
            assert!(Parameters::new(2048, Q50, Q36, 9, &gadgets).is_err(), "{digits} {base_bits}");
        }
        assert!(Parameters::new(2048, Q50, Q36, 9, &[Gadget { digits: 5, base_bits: 10 }; 10]).is_err());
    }
    /// Four bits of q are left for noise, and a plaintext has one at least.
    #[test]
    fn plaintexts_that_leave_no_room_for_noise_are_refused() {
        let gadgets = [Gadget { digits: 5, base_bits: 10 }; 11];
        let fits = |bits| Parameters::new(2048, Q50, Q36, bits, &gadgets).is_ok();
        assert_eq!([0, 1, 32, 33].map(fits), [false, true, true, false]);
    }

    /// What is switched to a prime that is not far smaller keeps its noise, and the factors of the switch have no room.
    #[test]
    fn a_small_prime_above_half_of_the_large_one_is_refused() {
        let gadgets = [Gadget { digits: 5, base_bits: 10 }; 11];
        let refused = Parameters::new(2048, Q50, Q50, 9, &gadgets);
        assert_eq!(refused.err(), Some(Error::Shape("the small prime is not below half of the large one")));
    }
}
