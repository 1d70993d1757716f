//! Parameters and what is precomputed from them.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::switching::Rescale;
use crate::Error;
use crate::ring::{Automorphism, Basis, Modulus, ShoupFactor};

/// Degree, primes and plaintext modulus, with tables for substitution and modulus switching.
#[derive(Debug)]
pub struct Parameters {
    plaintext_bits: u32,
    security_bits: u32,
    identity: [u8; 32],
    /// `q_0 .. q_{L-1}, P`.
    key: Basis,
    /// `q_0 .. q_{L-1}`.
    ciphertext: Basis,
    /// `q_0`.
    first: Basis,
    /// `P mod q_i` and its inverse.
    special: Vec<(u64, ShoupFactor)>,
    /// `q_1^-1 mod q_0`, when L = 2.
    second_inverse: Option<ShoupFactor>,
    /// Entry j substitutes `X^(N/2^j + 1)`.
    automorphisms: Vec<Automorphism>,
    /// Entry j holds the slots of `X^-(2^j)`, prime by prime. Slot i depends on `floor(i / 2^j)` only, so from j = 3 on
    /// every eighth is enough.
    inverse_monomials: Vec<Vec<ShoupFactor>>,
}

/// N = 4096, q of 36 + 36 bits, P of 37 bits, all congruent to 1 modulo 2^14, t = 2^23.
static S4096: LazyLock<Parameters> = LazyLock::new(|| {
    Parameters::new(4096, &[68_719_230_977, 68_718_428_161], 137_438_822_401, 23)
        .expect("the constants are primes 1 mod 2N of 36, 36 and 37 bits: 109 in all, the limit for N = 4096")
});

impl Parameters {
    /// The preset of 128 bits of security: N = 4096, two 36-bit primes, a special prime of 37 bits, t = 2^23.
    #[must_use]
    pub fn s4096() -> &'static Self {
        &S4096
    }

    /// Parameters of at least 128 bits of security for a uniform ternary secret, by the tables of the Homomorphic
    /// Encryption Standard: all primes together, the special one included, may have 54 bits for N = 2048, 109 for
    /// N = 4096, and 218 for N = 8192.
    ///
    /// # Errors
    /// [`Error::Security`] if there is less; [`Error::Shape`] unless there are one or two ciphertext primes, all primes
    /// are distinct, 1 modulo 2N and within a factor of 4 of each other, and `2^plaintext_bits` leaves at least 4 bits
    /// of `q_0`.
    pub fn new(degree: usize, primes: &[u64], special: u64, plaintext_bits: u32) -> Result<Self, Error> {
        let parameters = Self::new_allowing_insecure_parameters(degree, primes, special, plaintext_bits)?;
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
        primes: &[u64],
        special: u64,
        plaintext_bits: u32,
    ) -> Result<Self, Error> {
        if !(1..=2).contains(&primes.len()) {
            return Err(Error::Shape("one or two ciphertext primes"));
        }
        let all: Vec<u64> = primes.iter().copied().chain([special]).collect();
        let (least, most) = all.iter().fold((u64::MAX, 0), |(least, most), p| (least.min(*p), most.max(*p)));
        if most / 4 >= least {
            return Err(Error::Shape("primes differ by more than a factor of 4"));
        }
        let key = Basis::new(degree, &all)?;
        let (ciphertext, first) = (key.prefix(primes.len()), key.prefix(1));
        let modulus = *first.transforms()[0].modulus();
        if plaintext_bits == 0 || plaintext_bits + 4 > modulus.bits() {
            return Err(Error::Shape("plaintext modulus too large"));
        }
        let automorphisms =
            (0..degree.ilog2()).map(|j| Automorphism::new(degree, (degree >> j) + 1)).collect();
        Ok(Self {
            plaintext_bits,
            security_bits: security_bits(degree, key.moduli().map(Modulus::bits).sum()),
            identity: identity(degree, &all),
            special: ciphertext
                .moduli()
                .map(|q| (special % q.value(), q.shoup(q.inverse(special % q.value()))))
                .collect(),
            second_inverse: primes
                .get(1)
                .map(|second| modulus.shoup(modulus.inverse(second % modulus.value()))),
            inverse_monomials: (0..degree.ilog2()).map(|j| inverse_monomial(&ciphertext, j)).collect(),
            automorphisms,
            key,
            ciphertext,
            first,
        })
    }

    /// The degree N.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.key.degree()
    }

    /// log2 of the plaintext modulus t.
    #[must_use]
    pub fn plaintext_bits(&self) -> u32 {
        self.plaintext_bits
    }

    /// Security by the tables of [`Parameters::new`]: 128 at their limit, in inverse proportion to log2 of the modulus
    /// elsewhere (rounded down).
    #[must_use]
    pub fn security_bits(&self) -> u32 {
        self.security_bits
    }

    /// SHA-256 of degree and primes; separates what is derived under different parameters.
    #[must_use]
    pub fn identity(&self) -> &[u8; 32] {
        &self.identity
    }

    /// The ciphertext primes; q is their product.
    #[must_use]
    pub fn ciphertext_basis(&self) -> &Basis {
        &self.ciphertext
    }

    /// The ciphertext primes and, last, the special prime.
    #[must_use]
    pub fn key_basis(&self) -> &Basis {
        &self.key
    }

    /// The first ciphertext prime alone.
    #[must_use]
    pub fn first_basis(&self) -> &Basis {
        &self.first
    }

    /// The first ciphertext prime, `q_0`.
    #[must_use]
    pub fn first_modulus(&self) -> &Modulus {
        self.first.transforms()[0].modulus()
    }

    /// The map `round(2^bits x / q_0) mod 2^bits`.
    #[must_use]
    pub fn rescale_first(&self, bits: u32) -> Rescale {
        Rescale::new(self.first_modulus(), bits)
    }

    /// q as an integer.
    #[must_use]
    pub fn modulus(&self) -> u128 {
        self.ciphertext.moduli().map(|modulus| u128::from(modulus.value())).product()
    }

    /// `Delta = floor(q / 2^plaintext_bits)`.
    #[must_use]
    pub fn delta(&self, plaintext_bits: u32) -> u128 {
        self.modulus() >> plaintext_bits
    }

    /// The residues of a non-negative integer modulo the ciphertext primes.
    #[must_use]
    pub fn residues(&self, value: u128) -> Vec<u64> {
        self.ciphertext.moduli().map(|modulus| (value % u128::from(modulus.value())) as u64).collect()
    }

    pub(crate) fn special(&self) -> &[(u64, ShoupFactor)] {
        &self.special
    }

    pub(crate) fn second_inverse(&self) -> Option<ShoupFactor> {
        self.second_inverse
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

    /// The slots of `X^-(2^level)` modulo ciphertext prime `i`, or every eighth of them.
    pub(crate) fn inverse_monomial(&self, level: usize, i: usize) -> &[ShoupFactor] {
        let slots = &self.inverse_monomials[level];
        let length = slots.len() / self.ciphertext.transforms().len();
        &slots[i * length..(i + 1) * length]
    }
}

fn security_bits(degree: usize, modulus_bits: u32) -> u32 {
    let limit = match degree {
        1024 => 27,
        2048 => 54,
        4096 => 109,
        8192 => 218,
        16384 => 438,
        32768 => 881,
        _ => 0,
    };
    128 * limit / modulus_bits
}

fn identity(degree: usize, primes: &[u64]) -> [u8; 32] {
    let mut hash =
        Sha256::new_with_prefix(b"sotto bfv parameters v1\0").chain_update((degree as u64).to_le_bytes());
    for prime in primes {
        hash.update(prime.to_le_bytes());
    }
    hash.finalize().into()
}

/// Slots of `X^-(2^level) = -X^(N - 2^level)`, or every eighth.
fn inverse_monomial(basis: &Basis, level: u32) -> Vec<ShoupFactor> {
    let step = if level < 3 { 1 } else { 8 };
    let mut factors = Vec::with_capacity(basis.degree() / step * basis.transforms().len());
    for ntt in basis.transforms() {
        let mut slots = vec![0; basis.degree()];
        slots[basis.degree() - (1 << level)] = ntt.modulus().value() - 1;
        ntt.forward(&mut slots);
        factors.extend(slots.into_iter().step_by(step).map(|slot| ntt.modulus().shoup(slot)));
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::Parameters;
    use crate::Error;

    #[test]
    fn the_preset_is_at_the_128_bit_limit_and_not_beyond() {
        let preset = Parameters::s4096();
        assert_eq!(preset.security_bits(), 128);
        let bits: Vec<u32> = preset.key_basis().moduli().map(|modulus| modulus.bits()).collect();
        assert_eq!(bits, [36, 36, 37]);
        assert!(preset.key_basis().moduli().all(|modulus| modulus.value() % (1 << 14) == 1));
    }

    #[test]
    fn parameters_below_128_bits_need_the_loud_door() {
        let primes = [68_719_230_977, 68_718_428_161];
        let refused = Parameters::new(2048, &primes, 137_438_822_401, 23);
        assert_eq!(refused.err(), Some(Error::Security { bits: 63 }));
        let weak = Parameters::new(4096, &[137_438_773_249, 68_718_428_161], 137_438_822_401, 23);
        assert_eq!(weak.err(), Some(Error::Security { bits: 126 }));
        assert!(Parameters::new_allowing_insecure_parameters(2048, &primes, 137_438_822_401, 23).is_ok());
    }
}
