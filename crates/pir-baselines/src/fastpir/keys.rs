//! The secret key, and the keys that rotations need.
//!
//! Key switching is that of SEAL, by one special prime P: c1 after the automorphism multiplies `s(X^k)`. Its residues modulo
//! each prime `q_i` of q are a digit `d_i` of up to `q_i / 2`, and key i encrypts `P s(X^k)` modulo `q_i` and 0 modulo all
//! other primes, P included. The sum of the products is an encryption of `P c1 s(X^k)` modulo q P; divided by P and rounded,
//! one of `c1 s(X^k)` modulo q. With L primes, a rotation costs `L + L^2 + 2 (1 + L)` transforms.

use core::fmt;

use pir_core::Error;
use pir_core::bfv::Ciphertext;
use pir_core::constant_time::public;
use pir_core::ring::{Coefficient, Evaluation, Ntt, Polynomial, sampling};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{
    HEADER_BYTES, SEED_BYTES, keys_header, polynomial_bytes, read_polynomial, write_polynomial,
};
use super::lattice::{DEGREE, Lattice, ROTATIONS, convert, inverse, lower};

/// A client's secret, for all databases.
pub struct ClientKey {
    seed: Zeroizing<[u8; 32]>,
    /// The ternary secret s modulo the primes of q and P.
    secret: Vec<Polynomial<Evaluation>>,
    /// The same modulo the prime of [`Lattice::exact`].
    exact: Polynomial<Evaluation>,
}

/// A client's keys for rotations by powers of two.
pub struct PublicKeys<const Q: u32> {
    uniform_seed: [u8; SEED_BYTES],
    /// Rotation by rotation, digit by digit and modulus by modulus, `(b, a)` with `b + a s` as above, and an error.
    keys: Vec<Ciphertext<Evaluation>>,
}

/// SHA-256("sotto fastpir v1" || 0 || domain || 0 || bits of q P || seed); domains contain no zero byte.
fn derive<const Q: u32>(domain: &str, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let digest = Sha256::new()
        .chain_update(b"sotto fastpir v1\0")
        .chain_update(domain.as_bytes())
        .chain_update([0, Q as u8])
        .chain_update(seed)
        .finalize();
    Zeroizing::new(digest.into())
}

pub(super) fn from_signed(ring: &Ntt, values: &[i64]) -> Polynomial<Evaluation> {
    Polynomial::from_signed(ring.modulus(), values).into_evaluation(ring)
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Drop for ClientKey {
    fn drop(&mut self) {
        self.secret.iter_mut().for_each(Zeroize::zeroize);
        self.exact.zeroize();
    }
}

impl ClientKey {
    /// Derives the key from a client's seed, always the same one.
    pub(super) fn derive<const Q: u32>(seed: &[u8; 32]) -> Self {
        let lattice = Lattice::of::<Q>();
        let ternary = sampling::ternary(DEGREE, &derive::<Q>("secret key", seed), 0);
        Self {
            seed: Zeroizing::new(*seed),
            secret: lattice.rings().map(|ring| from_signed(ring, &ternary)).collect(),
            exact: from_signed(lattice.exact(), &ternary),
        }
    }

    /// s modulo the primes of q, then P.
    pub(super) fn secret(&self) -> &[Polynomial<Evaluation>] {
        &self.secret
    }

    /// `c0 + c1 s modulo 2^bits`, for polynomials modulo `2^bits` of at most 37 bits.
    pub(super) fn phase(&self, lattice: &Lattice, [c0, c1]: [&[u64]; 2], bits: u32) -> Zeroizing<Vec<u64>> {
        // |c1 s| <= 2^(bits - 1) N over the integers: exact modulo a prime of 50 bits.
        assert!(bits + DEGREE.ilog2() < lattice.exact().modulus().bits(), "coefficients far below the prime");
        let centred: Vec<i64> =
            c1.iter().map(|value| ((value << (64 - bits)) as i64) >> (64 - bits)).collect();
        let modulus = lattice.exact().modulus();
        let mut product = from_signed(lattice.exact(), &centred);
        product.mul_assign(modulus, &self.exact);
        let mut product = product.into_coefficient(lattice.exact());
        let mask = (1 << bits) - 1;
        let sums = product.residues().iter().zip(c0);
        let phase = sums.map(|(product, c0)| (modulus.centre(*product) as u64).wrapping_add(*c0) & mask);
        let phase = Zeroizing::new(phase.collect());
        product.zeroize();
        phase
    }

    /// The public keys, always the same ones.
    pub(super) fn public_keys<const Q: u32>(&self) -> PublicKeys<Q> {
        let lattice = Lattice::of::<Q>();
        // The keys begin with it; a hash says nothing about what it was made of.
        let uniform_seed = public(*derive::<Q>("rotations uniform", &self.seed));
        let error_seed = derive::<Q>("rotations errors", &self.seed);
        let mut keys = Vec::new();
        for (k, digit) in (0..ROTATIONS).flat_map(|k| (0..lattice.data().len()).map(move |digit| (k, digit)))
        {
            let errors = sampling::errors(DEGREE, &error_seed, (k * lattice.data().len() + digit) as u64);
            for (number, (ring, secret)) in lattice.rings().zip(&self.secret).enumerate() {
                let modulus = ring.modulus();
                let a: Polynomial<Evaluation> = sampling::uniform(ring, &uniform_seed, keys.len() as u64);
                let mut b = from_signed(ring, &errors);
                let mut product = a.clone();
                product.mul_assign(modulus, secret);
                b.sub_assign(modulus, &product);
                if number == digit {
                    let mut target = lattice.automorphism(k).evaluation(secret);
                    let special = u128::from(lattice.special().modulus().value());
                    target.scale(modulus, modulus.shoup(modulus.reduce(special)));
                    b.add_assign(modulus, &target);
                    target.zeroize();
                }
                product.zeroize();
                keys.push(Ciphertext { c0: b, c1: a });
            }
        }
        PublicKeys { uniform_seed, keys }
    }
}

impl<const Q: u32> PublicKeys<Q> {
    /// Exact size of the encoding, bytes.
    pub(super) fn encoded_bytes() -> usize {
        let lattice = Lattice::of::<Q>();
        let key: usize = lattice.rings().map(polynomial_bytes).sum();
        HEADER_BYTES + SEED_BYTES + ROTATIONS * lattice.data().len() * key
    }

    /// Encodes the seed of the uniform halves, and all other halves.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::encoded_bytes());
        bytes.extend(keys_header::<Q>());
        bytes.extend(self.uniform_seed);
        for (key, ring) in self.keys.iter().zip((0..).flat_map(|_: u32| Lattice::of::<Q>().rings())) {
            write_polynomial(ring, &key.c0, &mut bytes);
        }
        bytes
    }

    /// Parses [`PublicKeys::encode`]'s bytes and expands the seed.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "public keys";
        if bytes.len() != Self::encoded_bytes() {
            return Err(Error::Malformed(WHAT));
        }
        let body = bytes.strip_prefix(&keys_header::<Q>()).ok_or(Error::Malformed(WHAT))?;
        let (seed, mut rest) = body.split_first_chunk::<SEED_BYTES>().ok_or(Error::Malformed(WHAT))?;
        let lattice = Lattice::of::<Q>();
        let mut keys = Vec::new();
        for ring in (0..ROTATIONS * lattice.data().len()).flat_map(|_| lattice.rings()) {
            let c1 = sampling::uniform(ring, seed, keys.len() as u64);
            keys.push(Ciphertext { c0: read_polynomial(ring, &mut rest, WHAT)?, c1 });
        }
        Ok(Self { uniform_seed: *seed, keys })
    }

    /// Takes the values of all places `2^k` places down, the first ones to the end: the ciphertext, given modulo each prime of
    /// q, becomes one of the rotated values under the same key.
    ///
    /// Adds noise of variance `sum_i N q_i^2/12 sigma^2 / P^2 + R`, R that of a rounding.
    pub(super) fn rotate(&self, k: usize, ciphertext: &mut [Ciphertext<Evaluation>]) {
        let lattice = Lattice::of::<Q>();
        let (data, automorphism) = (lattice.data(), lattice.automorphism(k));
        let moduli = data.len() + 1;
        let keys = self.keys[k * data.len() * moduli..].chunks_exact(moduli);
        let mut sums = vec![Ciphertext::zero(DEGREE); moduli];
        for (number, (part, keys)) in ciphertext.iter().zip(keys).enumerate() {
            let digit = automorphism.evaluation(&part.c1);
            let coefficients = digit.clone().into_coefficient(&data[number]);
            for (to, ((ring, key), sum)) in lattice.rings().zip(keys).zip(&mut sums).enumerate() {
                let digit = if to == number {
                    digit.clone()
                } else {
                    let mut digit: Polynomial<Coefficient> = coefficients.clone();
                    convert(data[number].modulus(), ring.modulus(), digit.residues_mut());
                    digit.into_evaluation(ring)
                };
                let mut product = Ciphertext { c0: digit.clone(), c1: digit };
                product.c0.mul_assign(ring.modulus(), &key.c0);
                product.c1.mul_assign(ring.modulus(), &key.c1);
                sum.add_assign(ring.modulus(), &product);
            }
        }
        let special = lattice.special();
        let high = sums.pop().unwrap_or_else(|| Ciphertext::zero(DEGREE)).into_coefficient(special);
        for ((ring, part), mut sum) in data.iter().zip(ciphertext).zip(sums) {
            let inverse = inverse(special.modulus(), ring.modulus());
            lower(special.modulus(), ring, inverse, high.c0.clone(), &mut sum.c0);
            lower(special.modulus(), ring, inverse, high.c1.clone(), &mut sum.c1);
            sum.c0.add_assign(ring.modulus(), &automorphism.evaluation(&part.c0));
            *part = sum;
        }
    }
}
