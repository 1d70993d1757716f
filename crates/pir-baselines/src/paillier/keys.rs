//! Keys.

use core::fmt;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{NonZero, Odd, RandomMod, U1024, U2048, U4096};
use crypto_primes::{Flavor, random_prime};
use pir_core::Error;
use pir_core::constant_time::public;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::{CIPHERTEXT_BYTES, KEYS_HEADER, MODULUS_BYTES};

/// Residues modulo `n^2`.
pub(super) type Residue = FixedMontyForm<{ U4096::LIMBS }>;

/// n, and arithmetic modulo its square.
#[derive(Clone)]
pub struct PublicKeys {
    modulus: NonZero<U2048>,
    square: FixedMontyParams<{ U4096::LIMBS }>,
}

/// What decrypts.
pub struct ClientKey {
    public: PublicKeys,
    /// `(p - 1)(q - 1)`.
    lambda: U2048,
    /// Its inverse modulo n.
    inverse: U2048,
}

impl fmt::Debug for PublicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKeys").finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Drop for ClientKey {
    fn drop(&mut self) {
        self.lambda.zeroize();
        self.inverse.zeroize();
    }
}

impl ClientKey {
    /// Derives the key from a client's seed, always the same one: the primes are drawn from SHA-256("sotto paillier v1", 0,
    /// `seed`).
    pub(super) fn derive(seed: &[u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(b"sotto paillier v1\0").chain_update(seed).finalize();
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(digest.into());
        let mut rng = ChaCha20Rng::from_seed(*seed);
        loop {
            let [mut p, mut q] = [(); 2].map(|()| random_prime::<U1024, _>(&mut rng, Flavor::Any, 1024));
            let modulus: U2048 = p.concatenating_mul(&q);
            let mut lambda: U2048 =
                p.wrapping_sub(&U1024::ONE).concatenating_mul(&q.wrapping_sub(&U1024::ONE));
            p.zeroize();
            q.zeroize();
            // About half of all products have a bit less; two equal primes are never met.
            if let Some(public) = PublicKeys::new(modulus)
                && let Some(odd) = public.odd()
                && let Some(inverse) = lambda.invert_odd_mod(&odd).into_option()
            {
                return Self { public, lambda, inverse };
            }
            lambda.zeroize();
        }
    }

    /// What is uploaded.
    pub(super) fn public(&self) -> &PublicKeys {
        &self.public
    }

    /// The message of a ciphertext.
    pub(super) fn decrypt(&self, ciphertext: &U4096) -> U2048 {
        let power = Residue::new(ciphertext, &self.public.square).pow(&self.lambda).retrieve();
        let (quotient, _) = power.wrapping_sub(&U4096::ONE).div_rem(&self.public.modulus);
        let quotient: U2048 = quotient.resize();
        let product: U4096 = quotient.concatenating_mul(&self.inverse);
        product.rem(&self.public.modulus)
    }
}

impl PublicKeys {
    /// If the modulus is odd and has 2048 bits.
    fn new(modulus: U2048) -> Option<Self> {
        let right = public(modulus.bit_width_vartime() == U2048::BITS);
        let square: U4096 = modulus.concatenating_square();
        let square: Odd<U4096> = square.to_odd().into_option().filter(|_| right)?;
        let modulus = modulus.to_nz().into_option()?;
        Some(Self { modulus, square: FixedMontyParams::new(square) })
    }

    fn odd(&self) -> Option<Odd<U2048>> {
        self.modulus.get().to_odd().into_option()
    }

    /// Encodes n.
    pub(super) fn encode(&self) -> Vec<u8> {
        [&KEYS_HEADER[..], self.modulus.to_le_bytes().as_slice()].concat()
    }

    /// Parses [`PublicKeys::encode`]'s bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        let body = bytes.strip_prefix(&KEYS_HEADER).filter(|body| body.len() == MODULUS_BYTES);
        Self::new(U2048::from_le_slice(body.ok_or(MALFORMED)?)).ok_or(MALFORMED)
    }

    /// Arithmetic modulo `n^2`.
    pub(super) fn square(&self) -> &FixedMontyParams<{ U4096::LIMBS }> {
        &self.square
    }

    /// An encryption of a message below n.
    pub(super) fn encrypt<R: CryptoRng>(&self, message: &U2048, rng: &mut R) -> U4096 {
        let mut random = U2048::random_mod_vartime(rng, &self.modulus);
        let blinding = Residue::new(&random.resize(), &self.square).pow(self.modulus.as_ref());
        let product: U4096 = message.concatenating_mul(self.modulus.as_ref());
        let carrier = Residue::new(&product.wrapping_add(&U4096::ONE), &self.square);
        random.zeroize();
        carrier.mul(&blinding).retrieve()
    }

    /// Reads a residue modulo `n^2`.
    pub(super) fn read(&self, bytes: &[u8], what: &'static str) -> Result<U4096, Error> {
        if bytes.len() != CIPHERTEXT_BYTES {
            return Err(Error::Malformed(what));
        }
        let value = U4096::from_le_slice(bytes);
        if value < *self.square.modulus().as_ref() { Ok(value) } else { Err(Error::Malformed(what)) }
    }
}
