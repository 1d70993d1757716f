//! Keys.

use core::fmt;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{NonZero, Odd, RandomMod, Uint};
use crypto_primes::{Flavor, random_prime};
use pir_core::Error;
use pir_core::constant_time::public;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::{KEYS, header};

/// n of so many limbs, and arithmetic modulo its square, of as many.
#[derive(Clone)]
pub struct PublicKeys<const MODULUS: usize, const SQUARE: usize> {
    modulus: NonZero<Uint<MODULUS>>,
    square: FixedMontyParams<SQUARE>,
}

/// What decrypts.
pub struct ClientKey<const MODULUS: usize, const SQUARE: usize> {
    public: PublicKeys<MODULUS, SQUARE>,
    /// `(p - 1)(q - 1)`.
    lambda: Uint<MODULUS>,
    /// Its inverse modulo n.
    inverse: Uint<MODULUS>,
}

impl<const MODULUS: usize, const SQUARE: usize> fmt::Debug for PublicKeys<MODULUS, SQUARE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKeys").finish_non_exhaustive()
    }
}

impl<const MODULUS: usize, const SQUARE: usize> fmt::Debug for ClientKey<MODULUS, SQUARE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl<const MODULUS: usize, const SQUARE: usize> Drop for ClientKey<MODULUS, SQUARE> {
    fn drop(&mut self) {
        self.lambda.zeroize();
        self.inverse.zeroize();
    }
}

impl<const MODULUS: usize, const SQUARE: usize> ClientKey<MODULUS, SQUARE> {
    /// Derives the key from a client's seed, always the same one: primes of so many limbs are drawn from SHA-256("sotto paillier
    /// v2", 0, bits of n as 4 bytes, `seed`).
    pub(super) fn derive<const PRIME: usize>(seed: &[u8; 32]) -> Self {
        let digest = Sha256::new()
            .chain_update(b"sotto paillier v2\0")
            .chain_update(Uint::<MODULUS>::BITS.to_le_bytes())
            .chain_update(seed)
            .finalize();
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(digest.into());
        let mut rng = ChaCha20Rng::from_seed(*seed);
        loop {
            let primes = [(); 2].map(|()| {
                let mut prime: Uint<PRIME> = random_prime(&mut rng, Flavor::Any, Uint::<PRIME>::BITS);
                let wide = Zeroizing::new(prime.resize::<MODULUS>());
                prime.zeroize();
                wide
            });
            let [p, q] = &primes;
            let less = |prime: &Uint<MODULUS>| Zeroizing::new(prime.wrapping_sub(&Uint::ONE));
            let mut lambda = less(p).wrapping_mul(&*less(q));
            // Four of ten products have a bit less; two equal primes are never met.
            if let Some(public) = PublicKeys::new(p.wrapping_mul(&**q))
                && let Some(odd) = public.odd()
                && let Some(inverse) = lambda.invert_odd_mod(&odd).into_option()
            {
                return Self { public, lambda, inverse };
            }
            lambda.zeroize();
        }
    }

    /// What is uploaded.
    pub(super) fn public(&self) -> &PublicKeys<MODULUS, SQUARE> {
        &self.public
    }

    /// The message of a ciphertext.
    pub(super) fn decrypt(&self, ciphertext: &Uint<SQUARE>) -> Uint<MODULUS> {
        let power = FixedMontyForm::new(ciphertext, &self.public.square).pow(&self.lambda).retrieve();
        let (quotient, _) = power.wrapping_sub(&Uint::ONE).div_rem(&self.public.modulus);
        // Below n, as the inverse is, unless the ciphertext is none: their product has its place in a square.
        quotient.wrapping_mul(&self.inverse).rem(&self.public.modulus)
    }
}

impl<const MODULUS: usize, const SQUARE: usize> PublicKeys<MODULUS, SQUARE> {
    /// If the modulus is odd and has all of its bits.
    fn new(modulus: Uint<MODULUS>) -> Option<Self> {
        let right = public(modulus.bit_width_vartime() == Uint::<MODULUS>::BITS);
        let square = modulus.resize::<SQUARE>().wrapping_square();
        let square: Odd<Uint<SQUARE>> = square.to_odd().into_option().filter(|_| right)?;
        let modulus = modulus.to_nz().into_option()?;
        Some(Self { modulus, square: FixedMontyParams::new(square) })
    }

    fn odd(&self) -> Option<Odd<Uint<MODULUS>>> {
        self.modulus.get().to_odd().into_option()
    }

    /// Encodes n.
    pub(super) fn encode(&self) -> Vec<u8> {
        [&header::<MODULUS>(KEYS)[..], self.modulus.to_le_bytes().as_slice()].concat()
    }

    /// Parses [`PublicKeys::encode`]'s bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        let body = bytes.strip_prefix(&header::<MODULUS>(KEYS));
        let body = body.filter(|body| body.len() == Uint::<MODULUS>::BYTES).ok_or(MALFORMED)?;
        Self::new(Uint::from_le_slice(body)).ok_or(MALFORMED)
    }

    /// Arithmetic modulo `n^2`.
    pub(super) fn square(&self) -> &FixedMontyParams<SQUARE> {
        &self.square
    }

    /// An encryption of a message below n.
    pub(super) fn encrypt<R: CryptoRng>(&self, message: &Uint<MODULUS>, rng: &mut R) -> Uint<SQUARE> {
        let mut random = Uint::<MODULUS>::random_mod_vartime(rng, &self.modulus);
        let blinding = FixedMontyForm::new(&random.resize(), &self.square).pow(self.modulus.as_ref());
        let product = message.resize::<SQUARE>().wrapping_mul(self.modulus.as_ref());
        let carrier = FixedMontyForm::new(&product.wrapping_add(&Uint::ONE), &self.square);
        random.zeroize();
        carrier.mul(&blinding).retrieve()
    }

    /// Reads a residue modulo `n^2`.
    pub(super) fn read(&self, bytes: &[u8], what: &'static str) -> Result<Uint<SQUARE>, Error> {
        if bytes.len() != Uint::<SQUARE>::BYTES {
            return Err(Error::Malformed(what));
        }
        let value = Uint::from_le_slice(bytes);
        if value < *self.square.modulus().as_ref() { Ok(value) } else { Err(Error::Malformed(what)) }
    }
}
