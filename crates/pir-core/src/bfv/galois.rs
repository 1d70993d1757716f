//! Substitution `Enc(p(X)) -> Enc(p(X^k))` by key switching (paper Appendix A.1).
//!
//! `c1` after the substitution multiplies `s(X^k)`. It is decomposed into small digits `d_i` ([`Gadget`]), and key i
//! encrypts `w_i s(X^k)`, `w_i` the weight of the digit: the sum of the products is an encryption of `c1 s(X^k)` under
//! `s`. With l digits, one substitution costs `l + 1` transforms.

use zeroize::Zeroize;

use super::ciphertext::Ciphertext;
use super::gadget::{Gadget, digit_products};
use super::parameters::Parameters;
use super::secret_key::SecretKey;
use super::seed::derive;
use crate::Error;
use crate::constant_time::public;
use crate::ring::bits::{BitReader, BitWriter, packed_bytes};
use crate::ring::{self, Aligned, Evaluation, Polynomial, sampling};

/// Bytes of the seed of the uniform halves.
const SEED_BYTES: usize = 32;

/// Keys for the substitutions `X^(N/2^j + 1)`, `j = 0 .. log2 N - 1`; public.
pub struct GaloisKeys {
    uniform_seed: [u8; SEED_BYTES],
    /// For every substitution, digit by digit, `b` and `a` with `b + a s = w_i s(X^k) + e`, N slots each.
    keys: Vec<Aligned<u64>>,
}

/// Buffers of one thread for [`GaloisKeys::substitute`].
pub struct Workspace {
    rotated: Aligned<u64>,
    digits: Aligned<u64>,
    /// Both halves of the result.
    sums: [Aligned<u64>; 2],
}

impl Workspace {
    /// Buffers for the given parameters.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        let degree = parameters.degree();
        let digits = (0..parameters.levels()).map(|level| parameters.gadget(level).digits as usize).max();
        Self {
            rotated: Aligned::filled(0, degree),
            digits: Aligned::filled(0, degree * digits.unwrap_or(0)),
            sums: [Aligned::filled(0, degree), Aligned::filled(0, degree)],
        }
    }
}

impl GaloisKeys {
    /// Derives the keys from the seed that `secret` was derived from, always the same ones.
    ///
    /// The keys are numbered substitution by substitution and digit by digit. The uniform half of a key is the stream of
    /// its number of a public seed, its errors are the same stream of a secret one.
    #[must_use]
    pub fn derive(parameters: &Parameters, secret: &SecretKey, seed: &[u8; 32]) -> Self {
        // The keys begin with it; a hash says nothing about what it was made of.
        let uniform_seed = public(*derive(parameters, "galois uniform", seed));
        let error_seed = derive(parameters, "galois errors", seed);
        let (ntt, modulus) = (parameters.large(), parameters.large().modulus());
        let mut keys: Vec<_> = (0..parameters.levels()).map(|_| Aligned::default()).collect();
        for Key { stream, level, gadget, digit } in Key::all(parameters) {
            let errors = sampling::errors(parameters.degree(), &error_seed, stream);
            let mut b = Polynomial::from_signed(modulus, &errors).into_evaluation(ntt);
            let a: Polynomial<Evaluation> = sampling::uniform(ntt, &uniform_seed, stream);
            let mut product = a.clone();
            product.mul_assign(modulus, secret.evaluation());
            b.sub_assign(modulus, &product);
            let mut target = parameters.automorphism(level).evaluation(secret.evaluation());
            target.scale(modulus, modulus.shoup(gadget.weight(modulus, digit)));
            b.add_assign(modulus, &target);
            product.zeroize();
            target.zeroize();
            keys[level].extend_from_slice(b.residues());
            keys[level].extend_from_slice(a.residues());
        }
        Self { uniform_seed, keys }
    }

    /// Exact size of the encoding, bytes: a seed, then for every key the residues of `b` in `bits(Q)` bits each.
    #[must_use]
    pub fn encoded_bytes(parameters: &Parameters) -> usize {
        let key = packed_bytes(parameters.degree(), parameters.large().modulus().bits());
        SEED_BYTES + key * Key::all(parameters).count()
    }

    /// Encodes seed and `b` halves: substitution by substitution, digit by digit, slot by slot.
    #[must_use]
    pub fn encode(&self, parameters: &Parameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::encoded_bytes(parameters));
        bytes.extend_from_slice(&self.uniform_seed);
        for b in self.keys.iter().flat_map(|keys| keys.chunks_exact(parameters.degree()).step_by(2)) {
            let mut writer = BitWriter::new(&mut bytes);
            b.iter().for_each(|value| writer.write(*value, parameters.large().modulus().bits()));
            writer.finish();
        }
        bytes
    }

    /// Parses [`GaloisKeys::encode`]'s bytes and expands the seed.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size or a residue that is not below Q.
    pub fn decode(parameters: &Parameters, bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        if bytes.len() != Self::encoded_bytes(parameters) {
            return Err(MALFORMED);
        }
        let (uniform_seed, mut rest) = bytes.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
        let (ntt, modulus) = (parameters.large(), parameters.large().modulus());
        let mut keys: Vec<_> = (0..parameters.levels()).map(|_| Aligned::default()).collect();
        for Key { stream, level, .. } in Key::all(parameters) {
            let (packed, tail) =
                rest.split_at_checked(packed_bytes(parameters.degree(), modulus.bits())).ok_or(MALFORMED)?;
            rest = tail;
            let mut reader = BitReader::new(packed);
            let mut valid = true;
            let b = (0..parameters.degree()).map(|_| {
                let value = reader.read(modulus.bits());
                valid &= value < modulus.value();
                value
            });
            let b: Vec<u64> = b.collect();
            keys[level].extend_from_slice(&b);
            if !valid || !reader.is_finished() {
                return Err(MALFORMED);
            }
            let a: Polynomial<Evaluation> = sampling::uniform(ntt, uniform_seed, stream);
            keys[level].extend_from_slice(a.residues());
        }
        Ok(Self { uniform_seed: *uniform_seed, keys })
    }

    /// From an encryption of `p(X)` one of `p(X^k)`, `k = N/2^level + 1`.
    ///
    /// Adds noise of variance `l N 4^B/12 sigma^2 + 4^r/12 |s|^2`.
    #[must_use]
    pub fn substitute(
        &self,
        parameters: &Parameters,
        level: usize,
        ciphertext: &Ciphertext<Evaluation>,
        workspace: &mut Workspace,
    ) -> Ciphertext<Evaluation> {
        Self::rotate(parameters, level, ciphertext, workspace);
        self.switch_key(parameters, level, &ciphertext.c0, workspace);
        let [c0, c1] = workspace.sums.each_ref().map(|half| Polynomial::from_residues(half.iter().copied()));
        Ciphertext { c0, c1 }
    }

    /// Replaces `node` by `node + Sub(node)` and, where asked for, `odd` by `(node - Sub(node)) X^-(2^level)`.
    pub(crate) fn split(
        &self,
        parameters: &Parameters,
        level: usize,
        node: &mut Ciphertext<Evaluation>,
        odd: Option<&mut Ciphertext<Evaluation>>,
        workspace: &mut Workspace,
    ) {
        Self::rotate(parameters, level, node, workspace);
        self.switch_key(parameters, level, &node.c0, workspace);
        let modulus = parameters.large().modulus();
        let [sum0, sum1] = &workspace.sums;
        if let Some(odd) = odd {
            let monomial = parameters.inverse_monomial(level);
            ring::halves(modulus, node.c0.residues_mut(), odd.c0.residues_mut(), sum0, monomial);
            ring::halves(modulus, node.c1.residues_mut(), odd.c1.residues_mut(), sum1, monomial);
        } else {
            ring::add(modulus, node.c0.residues_mut(), sum0);
            ring::add(modulus, node.c1.residues_mut(), sum1);
        }
    }

    /// [`GaloisKeys::split`], with both results switched to q.
    ///
    /// The switch needs coefficients, and so do the digits: made from the same ones, they save a transform, and the
    /// monomial only moves coefficients.
    pub(crate) fn split_and_switch(
        &self,
        parameters: &Parameters,
        level: usize,
        node: &mut Ciphertext<Evaluation>,
        odd: Option<&mut Ciphertext<Evaluation>>,
        workspace: &mut Workspace,
    ) {
        let (large, small, rescale) = (parameters.large(), parameters.small(), parameters.to_small());
        let modulus = large.modulus();
        large.inverse(node.c1.residues_mut());
        parameters.automorphism(level).coefficients_into(modulus, node.c1.residues(), &mut workspace.rotated);
        self.switch_key(parameters, level, &node.c0, workspace);
        large.inverse(node.c0.residues_mut());
        workspace.sums.iter_mut().for_each(|sum| large.inverse(sum));
        if let Some(odd) = odd {
            let halves = [(&node.c0, &mut odd.c0), (&node.c1, &mut odd.c1)];
            for ((half, odd), sum) in halves.into_iter().zip(&workspace.sums) {
                // X^m times X^-p: lower powers than p go around and change their sign.
                let (low, high) = half.residues().split_at(1 << level);
                let (sum_low, sum_high) = sum.split_at(1 << level);
                let (front, back) = odd.residues_mut().split_at_mut(high.len());
                rescale.apply_to_differences(modulus, front, high, sum_high);
                rescale.apply_to_differences(modulus, back, sum_low, low);
                small.forward(odd.residues_mut());
            }
        }
        for (half, sum) in [&mut node.c0, &mut node.c1].into_iter().zip(&workspace.sums) {
            rescale.apply_to_sums(modulus, half.residues_mut(), sum);
            small.forward(half.residues_mut());
        }
    }

    /// Leaves the coefficients of the substituted c1 in `workspace.rotated`.
    fn rotate(
        parameters: &Parameters,
        level: usize,
        ciphertext: &Ciphertext<Evaluation>,
        workspace: &mut Workspace,
    ) {
        parameters.automorphism(level).slots_into(ciphertext.c1.residues(), &mut workspace.rotated);
        parameters.large().inverse(&mut workspace.rotated);
    }

    /// From c0 and the coefficients of the substituted c1 in `workspace.rotated`, leaves both halves of the substituted
    /// ciphertext in `workspace.sums`.
    fn switch_key(
        &self,
        parameters: &Parameters,
        level: usize,
        c0: &Polynomial<Evaluation>,
        workspace: &mut Workspace,
    ) {
        let (ntt, modulus) = (parameters.large(), parameters.large().modulus());
        let (automorphism, gadget) = (parameters.automorphism(level), parameters.gadget(level));
        let Workspace { rotated, digits, sums: [sum0, sum1] } = workspace;
        let digits = &mut digits[..gadget.digits as usize * parameters.degree()];
        gadget.decompose(ntt, rotated, digits);
        digit_products(modulus, [sum0, sum1], digits, &self.keys[level]);
        automorphism.slots_into(c0.residues(), rotated);
        ring::add(modulus, sum0, rotated);
    }
}

/// One of the keys.
struct Key {
    stream: u64,
    level: usize,
    gadget: Gadget,
    digit: u32,
}

impl Key {
    /// Substitution by substitution, digit by digit.
    fn all(parameters: &Parameters) -> impl Iterator<Item = Self> {
        let levels = (0..parameters.levels()).map(|level| (level, parameters.gadget(level)));
        levels
            .flat_map(|(level, gadget)| (0..gadget.digits).map(move |digit| (level, gadget, digit)))
            .zip(0..)
            .map(|((level, gadget, digit), stream)| Self { stream, level, gadget, digit })
    }
}
