//! A client's secret, and what it uploads: the keys of EXPAND, and one that takes `alpha s^2` to a ciphertext.

use core::fmt;

use pir_core::bfv::{Gadget, GaloisKeys, SecretKey, digit_products};
use pir_core::constant_time::public;
use pir_core::ring::bits::{BitWriter, packed_bytes, unpack};
use pir_core::ring::{Aligned, Coefficient, Evaluation, Polynomial, sampling};
use pir_core::{Error, bfv};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{HEADER_BYTES, SEED_BYTES, keys_header};

/// The gadget of the key for `s^2`: nothing is dropped, since what is dropped would be multiplied with `s^2`.
pub(super) const CONVERSION: Gadget = Gadget { digits: 5, base_bits: 10 };

/// A client's secret, for all databases.
pub struct ClientKey {
    seed: Zeroizing<[u8; 32]>,
    secret: SecretKey,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

/// What a client uploads once.
pub struct PublicKeys {
    galois: GaloisKeys,
    uniform_seed: [u8; SEED_BYTES],
    /// Digit by digit, `b` and `a` with `b + a s = v_j s^2 + e`, N slots each.
    squared: Aligned<u64>,
}

/// SHA-256("sotto onionpir v1" || 0 || domain || 0 || seed); domains contain no zero byte.
fn derive(domain: &str, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let digest = Sha256::new()
        .chain_update(b"sotto onionpir v1\0")
        .chain_update(domain.as_bytes())
        .chain_update([0])
        .chain_update(seed)
        .finalize();
    Zeroizing::new(digest.into())
}

impl ClientKey {
    /// Derives the key from a client's seed, always the same one; another one than SealPIR's from that seed.
    pub(super) fn derive(seed: &[u8; 32]) -> Self {
        let seed = derive("client", seed);
        let secret = SecretKey::derive(bfv::Parameters::s2048(), &seed);
        Self { seed, secret }
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// The public keys, always the same ones.
    pub(super) fn public_keys(&self) -> PublicKeys {
        let bfv = bfv::Parameters::s2048();
        let (ntt, modulus) = (bfv.large(), bfv.large().modulus());
        // The key begins with it; a hash says nothing about what it was made of.
        let uniform_seed = public(*derive("square uniform", &self.seed));
        let error_seed = derive("square errors", &self.seed);
        let mut secret = self.secret.over(bfv, ntt);
        let mut square = secret.clone();
        square.mul_assign(modulus, &secret);
        let mut squared = Aligned::default();
        for digit in 0..CONVERSION.digits {
            let errors = sampling::errors(bfv.degree(), &error_seed, digit.into());
            let mut b = Polynomial::<Coefficient>::from_signed(modulus, &errors).into_evaluation(ntt);
            let a: Polynomial<Evaluation> = sampling::uniform(ntt, &uniform_seed, digit.into());
            let mut product = a.clone();
            product.mul_assign(modulus, &secret);
            b.sub_assign(modulus, &product);
            let mut target = square.clone();
            target.scale(modulus, modulus.shoup(CONVERSION.weight(modulus, digit)));
            b.add_assign(modulus, &target);
            squared.extend_from_slice(b.residues());
            squared.extend_from_slice(a.residues());
            product.zeroize();
            target.zeroize();
        }
        secret.zeroize();
        square.zeroize();
        let galois = GaloisKeys::derive(bfv, &self.secret, &self.seed);
        PublicKeys { galois, uniform_seed, squared }
    }
}

impl PublicKeys {
    /// Exact size of the encoding, bytes.
    pub(super) fn encoded_bytes() -> usize {
        let galois = GaloisKeys::encoded_bytes(bfv::Parameters::s2048());
        HEADER_BYTES + galois + SEED_BYTES + CONVERSION.digits as usize * polynomial_bytes()
    }

    /// Encodes the keys of EXPAND, the seed of the other key's uniform halves, and the other halves.
    pub(super) fn encode(&self) -> Vec<u8> {
        let bfv = bfv::Parameters::s2048();
        let mut bytes = Vec::with_capacity(Self::encoded_bytes());
        bytes.extend(keys_header());
        bytes.extend(self.galois.encode(bfv));
        bytes.extend(self.uniform_seed);
        for b in self.squared.chunks_exact(bfv.degree()).step_by(2) {
            let mut writer = BitWriter::new(&mut bytes);
            b.iter().for_each(|value| writer.write(*value, bfv.large().modulus().bits()));
            writer.finish();
        }
        bytes
    }

    /// Parses [`PublicKeys::encode`]'s bytes and expands the seeds.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        let bfv = bfv::Parameters::s2048();
        if bytes.len() != Self::encoded_bytes() {
            return Err(MALFORMED);
        }
        let body = bytes.strip_prefix(&keys_header()).ok_or(MALFORMED)?;
        let (galois, rest) = body.split_at_checked(GaloisKeys::encoded_bytes(bfv)).ok_or(MALFORMED)?;
        let (uniform_seed, halves) = rest.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
        let modulus = bfv.large().modulus();
        let mut squared = Aligned::filled(0, 2 * CONVERSION.digits as usize * bfv.degree());
        let keys = squared.chunks_exact_mut(2 * bfv.degree()).zip(halves.chunks_exact(polynomial_bytes()));
        for (stream, (key, half)) in (0..).zip(keys) {
            let (b, a) = key.split_at_mut(bfv.degree());
            unpack(modulus.bits(), half, b);
            if b.iter().any(|value| *value >= modulus.value()) {
                return Err(MALFORMED);
            }
            let uniform: Polynomial<Evaluation> = sampling::uniform(bfv.large(), uniform_seed, stream);
            a.copy_from_slice(uniform.residues());
        }
        let galois = GaloisKeys::decode(bfv, galois)?;
        Ok(Self { galois, uniform_seed: *uniform_seed, squared })
    }

    /// The keys of EXPAND.
    pub(super) fn galois(&self) -> &GaloisKeys {
        &self.galois
    }

    /// From a ciphertext `(beta, alpha)` in evaluation form, one whose phase is s times that of the given one, and noise of
    /// variance `5 N 4^10/12 sigma^2`.
    pub(super) fn times_secret(&self, [beta, alpha]: [&[u64]; 2], out: [&mut [u64]; 2]) {
        let bfv = bfv::Parameters::s2048();
        let (ntt, degree) = (bfv.large(), bfv.degree());
        let mut coefficients = Aligned::filled(0, degree);
        coefficients.copy_from_slice(alpha);
        ntt.inverse(&mut coefficients);
        let mut digits = Aligned::filled(0, CONVERSION.digits as usize * degree);
        CONVERSION.decompose(ntt, &mut coefficients, &mut digits);
        let [out0, out1] = out;
        digit_products(ntt.modulus(), [&mut *out0, &mut *out1], &digits, &self.squared);
        for (slot, beta) in out1.iter_mut().zip(beta) {
            *slot = ntt.modulus().add(*slot, *beta);
        }
    }
}

/// Bytes of a polynomial modulo Q.
fn polynomial_bytes() -> usize {
    let bfv = bfv::Parameters::s2048();
    packed_bytes(bfv.degree(), bfv.large().modulus().bits())
}
