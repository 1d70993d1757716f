//! The secret key with encryption and decryption, and the keys that substitution needs (paper Appendix A.1).

use core::fmt;

use pir_core::Error;
use pir_core::bfv::Ciphertext;
use pir_core::ring::{Coefficient, Evaluation, Polynomial, sampling};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{keys_header, read_ciphertexts, write_ciphertext};
use super::format::{HEADER_BYTES, POLYNOMIAL_BYTES, decomposition};
use super::kernel::{
    DEGREE, Q, Q_BITS, add, backward, centre, forward, from_signed, mul, reduce, sub, uniform, zip,
};

/// Substitutions that EXPAND may need, log2 N.
const LEVELS: usize = DEGREE.ilog2() as usize;

/// A client's secret, for all databases.
pub struct ClientKey {
    seed: Zeroizing<[u8; 32]>,
    /// The ternary secret s.
    secret: Polynomial<Evaluation>,
}

/// A client's keys for the substitutions `X^(N/2^j + 1)`.
pub struct PublicKeys<const T: u32> {
    /// Level by level and digit by digit, `(b, a)` with `b + a s = 2^(i B) s(X^k) + e`.
    levels: Vec<Vec<Ciphertext<Evaluation>>>,
}

/// k of the substitution at a level of EXPAND.
fn exponent(level: usize) -> usize {
    (DEGREE >> level) + 1
}

/// `p(X^k)`: coefficient m moves to `k m mod N`, negated when `k m mod 2N >= N`.
fn substitute(polynomial: &Polynomial<Coefficient>, exponent: usize) -> Polynomial<Coefficient> {
    let mut out = Polynomial::zero(DEGREE);
    for (m, value) in polynomial.residues().iter().enumerate() {
        let power = m * exponent % (2 * DEGREE);
        out.residues_mut()[power % DEGREE] = if power < DEGREE { *value } else { sub(0, *value) };
    }
    out
}

/// SHA-256("sotto sealpir paper v1" || 0 || domain || 0 || log t || seed); domains contain no zero byte.
fn derive<const T: u32>(domain: &str, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let digest = Sha256::new()
        .chain_update(b"sotto sealpir paper v1\0")
        .chain_update(domain.as_bytes())
        .chain_update([0, T as u8])
        .chain_update(seed)
        .finalize();
    Zeroizing::new(digest.into())
}

fn signed(values: &[i64]) -> Polynomial<Coefficient> {
    Polynomial::from_residues(values.iter().map(|value| from_signed(*value)))
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Drop for ClientKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl ClientKey {
    /// Derives the key from a client's seed, always the same one.
    pub(super) fn derive<const T: u32>(seed: &[u8; 32]) -> Self {
        let ternary = sampling::ternary(DEGREE, &derive::<T>("secret key", seed), 0);
        Self { seed: Zeroizing::new(*seed), secret: forward(signed(&ternary)) }
    }

    /// Encrypts a scaled message under a uniform half; errors are the stream of a seed that must be secret.
    pub(super) fn encrypt(
        &self,
        message: &Polynomial<Coefficient>,
        uniform: Polynomial<Coefficient>,
        error_seed: &[u8; 32],
        stream: u64,
    ) -> Ciphertext<Coefficient> {
        let mut errors = signed(&sampling::errors(DEGREE, error_seed, stream));
        let mut product = backward(zip(&forward(uniform.clone()), &self.secret, mul));
        let c0 = zip(&zip(message, &errors, add), &product, sub);
        errors.zeroize();
        product.zeroize();
        Ciphertext { c0, c1: uniform }
    }

    /// `c0 + c1 s`.
    pub(super) fn phase(&self, ciphertext: &Ciphertext<Coefficient>) -> Polynomial<Coefficient> {
        let product = backward(zip(&forward(ciphertext.c1.clone()), &self.secret, mul));
        zip(&product, &ciphertext.c0, add)
    }

    /// `round(t' phase / q) mod t'`.
    pub(super) fn decrypt(
        &self,
        ciphertext: &Ciphertext<Coefficient>,
        plaintext_bits: u32,
    ) -> Zeroizing<Vec<u64>> {
        let mut phase = self.phase(ciphertext);
        let round = |phase: &u64| {
            let x = (u128::from(*phase) << plaintext_bits) + u128::from(Q / 2);
            // 2^60 is so near to q that this is the quotient or one less.
            let estimate = (x >> Q_BITS) as u64;
            let rest = x - u128::from(estimate) * u128::from(Q);
            let carry = u64::from(rest >= u128::from(Q));
            (estimate + carry) & ((1 << plaintext_bits) - 1)
        };
        let message = Zeroizing::new(phase.residues().iter().map(round).collect());
        phase.zeroize();
        message
    }

    /// The public keys, always the same ones.
    pub(super) fn public_keys<const T: u32>(&self) -> PublicKeys<T> {
        let uniform_seed = derive::<T>("galois uniform", &self.seed);
        let error_seed = derive::<T>("galois errors", &self.seed);
        let (digits, base_bits) = decomposition::<T>();
        let mut secret = backward(self.secret.clone());
        let levels = (0..LEVELS).map(|level| {
            let mut target = forward(substitute(&secret, exponent(level)));
            let keys = (0..digits).map(|digit| {
                let stream = (level as u32 * digits + digit).into();
                let a: Polynomial<Evaluation> = uniform(&uniform_seed, stream);
                let mut errors = forward(signed(&sampling::errors(DEGREE, &error_seed, stream)));
                let weight = reduce(1u128 << (digit * base_bits));
                let mut scaled: Polynomial<Evaluation> =
                    Polynomial::from_residues(target.residues().iter().map(|slot| mul(*slot, weight)));
                let mut product = zip(&a, &self.secret, mul);
                let b = zip(&zip(&scaled, &errors, add), &product, sub);
                for secret in [&mut errors, &mut scaled, &mut product] {
                    secret.zeroize();
                }
                Ciphertext { c0: b, c1: a }
            });
            let keys = keys.collect();
            target.zeroize();
            keys
        });
        let levels = levels.collect();
        secret.zeroize();
        PublicKeys { levels }
    }
}

impl<const T: u32> PublicKeys<T> {
    /// Exact size of the encoding, bytes.
    pub(super) fn encoded_bytes() -> usize {
        HEADER_BYTES + LEVELS * decomposition::<T>().0 as usize * 2 * POLYNOMIAL_BYTES
    }

    /// Encodes all keys in full.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::encoded_bytes());
        bytes.extend(keys_header::<T>());
        self.levels.iter().flatten().for_each(|key| write_ciphertext(key, &mut bytes));
        bytes
    }

    /// Parses [`PublicKeys::encode`]'s bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        if bytes.len() != Self::encoded_bytes() {
            return Err(MALFORMED);
        }
        let body = bytes.strip_prefix(&keys_header::<T>()).ok_or(MALFORMED)?;
        let keys = read_ciphertexts(body).ok_or(MALFORMED)?;
        let digits = decomposition::<T>().0 as usize;
        Ok(Self { levels: keys.chunks(digits).map(<[_]>::to_vec).collect() })
    }

    /// Sub: the encryption of `p(X)` becomes one of `p(X^(N/2^level + 1))` under the same key.
    pub(super) fn substitute(
        &self,
        level: usize,
        ciphertext: &Ciphertext<Coefficient>,
    ) -> Ciphertext<Coefficient> {
        let exponent = exponent(level);
        let c1 = substitute(&ciphertext.c1, exponent);
        let (digits, base_bits) = decomposition::<T>();
        // Half a base at each digit makes all of them non-negative.
        let half = 1i128 << (base_bits - 1);
        let offset: i128 = (0..digits).map(|digit| half << (digit * base_bits)).sum();
        let mut sums = vec![[0u128; 2]; DEGREE];
        for (digit, key) in (0..digits).zip(&self.levels[level]) {
            // The last digit takes what is left.
            let mask = if digit + 1 == digits { u64::MAX } else { (1 << base_bits) - 1 };
            let values = c1.residues().iter().map(|value| {
                let raised = (i128::from(centre(*value)) + offset) >> (digit * base_bits);
                (raised as u64 & mask) + Q - half as u64
            });
            let values = forward(Polynomial::from_residues(values));
            let halves = key.c0.residues().iter().zip(key.c1.residues());
            for ((sum, value), (b, a)) in sums.iter_mut().zip(values.residues()).zip(halves) {
                sum[0] += u128::from(*value) * u128::from(*b);
                sum[1] += u128::from(*value) * u128::from(*a);
            }
        }
        let half = |i: usize| backward(Polynomial::from_residues(sums.iter().map(|sum| reduce(sum[i]))));
        Ciphertext { c0: zip(&half(0), &substitute(&ciphertext.c0, exponent), add), c1: half(1) }
    }
}
