//! Substitution `Enc(p(X)) -> Enc(p(X^k))` by key switching (paper Appendix A.1).
//!
//! The digits of `c1` are its centred residues `d_i` modulo the ciphertext primes, the gadget is `g_i = 1 mod q_i` and
//! `0 mod q_j`, and keys live modulo `q P`: key `i` encrypts `P g_i s(X^k)`. One substitution costs `2 L (L + 1)`
//! transforms: 12 for two primes.

use zeroize::Zeroize;

use super::ciphertext::Ciphertext;
use super::parameters::Parameters;
use super::secret_key::SecretKey;
use super::seed::derive;
use crate::Error;
use crate::ring::bits::{BitReader, BitWriter, packed_bytes};
use crate::ring::{self, Evaluation, Modulus, Polynomial, sampling};

/// Bytes of the seed of the uniform halves.
const SEED_BYTES: usize = 32;

/// Keys for the substitutions `X^(N/2^j + 1)`, `j = 0 .. log2 N - 1`; public.
pub struct GaloisKeys {
    uniform_seed: [u8; SEED_BYTES],
    /// `keys[j][i]` is for substitution j and digit i.
    keys: Vec<Vec<DigitKey>>,
}

/// `b + a s = P g_i s(X^k) + e`, over the key basis.
struct DigitKey {
    b: Polynomial<Evaluation>,
    a: Polynomial<Evaluation>,
}

/// Buffers of one thread for [`GaloisKeys::substitute`].
pub struct Workspace {
    /// c1 after the substitution, in both forms.
    rotated: Vec<u64>,
    coefficients: Vec<u64>,
    /// The digits modulo one prime.
    digits: Vec<Vec<u64>>,
    /// Modulo each prime of the key basis, for both halves.
    sums: [Vec<u64>; 2],
    lifted: Vec<u64>,
}

impl Workspace {
    /// Buffers for the given parameters.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        let degree = parameters.degree();
        let digits = parameters.ciphertext_basis().transforms().len();
        let sums = vec![0; degree * parameters.key_basis().transforms().len()];
        Self {
            rotated: vec![0; degree * digits],
            coefficients: vec![0; degree * digits],
            digits: vec![vec![0; degree]; digits],
            sums: [sums.clone(), sums],
            lifted: vec![0; degree],
        }
    }
}

impl GaloisKeys {
    /// Derives the keys from the seed that `secret` was derived from, always the same ones.
    ///
    /// The uniform half of digit i of substitution j is stream `j L + i` of a public seed, the errors are the same
    /// stream of a secret one.
    #[must_use]
    pub fn derive(parameters: &Parameters, secret: &SecretKey, seed: &[u8; 32]) -> Self {
        let uniform_seed = *derive(parameters, "galois uniform", seed);
        let error_seed = derive(parameters, "galois errors", seed);
        let basis = parameters.key_basis();
        let keys = streams(parameters)
            .map(|(level, streams)| {
                let mut target = parameters.automorphism(level).evaluation(basis, secret.evaluation());
                let digits = streams
                    .enumerate()
                    .map(|(i, stream)| {
                        let errors = sampling::errors(parameters.degree(), &error_seed, stream);
                        let mut b = Polynomial::from_signed(basis, &errors).into_evaluation(basis);
                        let a: Polynomial<Evaluation> = sampling::uniform(basis, &uniform_seed, stream);
                        let mut product = a.clone();
                        product.mul_assign(basis, secret.evaluation());
                        b.sub_assign(basis, &product);
                        product.zeroize();
                        let modulus = basis.transforms()[i].modulus();
                        let special = parameters.special()[i].0;
                        for (value, slot) in b.channel_mut(i).iter_mut().zip(target.channel(i)) {
                            *value = modulus.add(*value, modulus.mul(*slot, special));
                        }
                        DigitKey { b, a }
                    })
                    .collect();
                target.zeroize();
                digits
            })
            .collect();
        Self { uniform_seed, keys }
    }

    /// Exact size of the encoding, bytes: a seed, then for every key the residues of `b` in as many bits as their prime.
    #[must_use]
    pub fn encoded_bytes(parameters: &Parameters) -> usize {
        let slot: usize =
            parameters.key_basis().moduli().map(|q| packed_bytes(parameters.degree(), q.bits())).sum();
        let digits = parameters.ciphertext_basis().transforms().len();
        SEED_BYTES + slot * digits * parameters.levels()
    }

    /// Encodes seed and `b` halves: substitution by substitution, digit by digit, prime by prime, slot by slot.
    #[must_use]
    pub fn encode(&self, parameters: &Parameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::encoded_bytes(parameters));
        bytes.extend_from_slice(&self.uniform_seed);
        for key in self.keys.iter().flatten() {
            for (i, modulus) in parameters.key_basis().moduli().enumerate() {
                let mut writer = BitWriter::new(&mut bytes);
                key.b.channel(i).iter().for_each(|value| writer.write(*value, modulus.bits()));
                writer.finish();
            }
        }
        bytes
    }

    /// Parses [`GaloisKeys::encode`]'s bytes and expands the seed.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size or a residue that is not below its prime.
    pub fn decode(parameters: &Parameters, bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("public keys");
        if bytes.len() != Self::encoded_bytes(parameters) {
            return Err(MALFORMED);
        }
        let (uniform_seed, mut rest) = bytes.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
        let basis = parameters.key_basis();
        let mut keys = Vec::with_capacity(parameters.levels());
        for (_, streams) in streams(parameters) {
            let mut digits = Vec::new();
            for stream in streams {
                let mut b = Polynomial::zero(basis);
                for (i, modulus) in basis.moduli().enumerate() {
                    let (packed, tail) = rest
                        .split_at_checked(packed_bytes(parameters.degree(), modulus.bits()))
                        .ok_or(MALFORMED)?;
                    rest = tail;
                    if !read_residues(packed, modulus, b.channel_mut(i)) {
                        return Err(MALFORMED);
                    }
                }
                digits.push(DigitKey { b, a: sampling::uniform(basis, uniform_seed, stream) });
            }
            keys.push(digits);
        }
        Ok(Self { uniform_seed: *uniform_seed, keys })
    }

    /// From an encryption of `p(X)` one of `p(X^k)`, `k = N/2^level + 1`.
    ///
    /// Adds noise of variance `L (N/12) q_i^2 sigma^2 / P^2 + (1 + |s|^2) / 12`.
    #[must_use]
    pub fn substitute(
        &self,
        parameters: &Parameters,
        level: usize,
        ciphertext: &Ciphertext<Evaluation>,
        workspace: &mut Workspace,
    ) -> Ciphertext<Evaluation> {
        let basis = parameters.ciphertext_basis();
        let [c0, c1] = self.switch_key(parameters, level, ciphertext, workspace);
        Ciphertext {
            c0: Polynomial::from_residues(basis, c0.to_vec()),
            c1: Polynomial::from_residues(basis, c1.to_vec()),
        }
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
        let switched = self.switch_key(parameters, level, node, workspace);
        let degree = parameters.degree();
        let moduli = || parameters.ciphertext_basis().moduli().enumerate();
        if let Some(odd) = odd {
            let halves = [(&mut node.c0, &mut odd.c0), (&mut node.c1, &mut odd.c1)];
            for ((even, odd), switched) in halves.into_iter().zip(switched) {
                for ((i, modulus), switched) in moduli().zip(switched.chunks_exact(degree)) {
                    let monomial = parameters.inverse_monomial(level, i);
                    ring::halves(modulus, even.channel_mut(i), odd.channel_mut(i), switched, monomial);
                }
            }
        } else {
            for (even, switched) in [&mut node.c0, &mut node.c1].into_iter().zip(switched) {
                for ((i, modulus), switched) in moduli().zip(switched.chunks_exact(degree)) {
                    ring::add(modulus, even.channel_mut(i), switched);
                }
            }
        }
    }

    /// Both halves of the substituted ciphertext, in buffers of the workspace.
    fn switch_key<'a>(
        &self,
        parameters: &Parameters,
        level: usize,
        ciphertext: &Ciphertext<Evaluation>,
        workspace: &'a mut Workspace,
    ) -> [&'a [u64]; 2] {
        let degree = parameters.degree();
        let automorphism = parameters.automorphism(level);
        let primes = parameters.ciphertext_basis().transforms();
        let channels = workspace.rotated.chunks_exact_mut(degree);
        for (i, (rotated, coefficients)) in
            channels.zip(workspace.coefficients.chunks_exact_mut(degree)).enumerate()
        {
            automorphism.slots_into(ciphertext.c1.channel(i), rotated);
            coefficients.copy_from_slice(rotated);
            primes[i].inverse(coefficients);
        }
        self.accumulate(parameters, level, workspace);
        let Workspace { sums: [sum0, sum1], lifted, rotated, .. } = workspace;
        let c0 = divide_by_special(parameters, sum0, lifted);
        for (i, (sum, ntt)) in c0.chunks_exact_mut(degree).zip(primes).enumerate() {
            let rotated = &mut rotated[..degree];
            automorphism.slots_into(ciphertext.c0.channel(i), rotated);
            ring::add(ntt.modulus(), sum, rotated);
        }
        [c0, divide_by_special(parameters, sum1, lifted)]
    }

    /// `sums = sum_i d_i (b_i, a_i)` over the key basis, the digits those of `workspace.rotated`.
    fn accumulate(&self, parameters: &Parameters, level: usize, workspace: &mut Workspace) {
        let degree = parameters.degree();
        let primes = parameters.ciphertext_basis().transforms();
        let Workspace { rotated, coefficients, digits, sums, .. } = workspace;
        let keys = &self.keys[level];
        for (j, ntt) in parameters.key_basis().transforms().iter().enumerate() {
            let channel = j * degree..(j + 1) * degree;
            for (i, digit) in digits.iter_mut().enumerate().filter(|(i, _)| *i != j) {
                let residues = &coefficients[i * degree..(i + 1) * degree];
                ring::lift(primes[i].modulus(), ntt.modulus(), digit, residues);
                ntt.forward(digit);
            }
            // Modulo its own prime, a digit is what it was taken from.
            let digit = |i: usize| if i == j { &rotated[channel.clone()] } else { &digits[i][..] };
            for (half, sum) in sums.iter_mut().enumerate() {
                let key = |i: usize| [&keys[i].b, &keys[i].a][half].channel(j);
                let sum = &mut sum[channel.clone()];
                match primes.len() {
                    1 => ring::inner_product(ntt.modulus(), sum, &[(digit(0), key(0))]),
                    _ => ring::inner_product(ntt.modulus(), sum, &[(digit(0), key(0)), (digit(1), key(1))]),
                }
            }
        }
    }
}

/// The pairs of a substitution j and its streams `j L .. (j + 1) L`.
fn streams(parameters: &Parameters) -> impl Iterator<Item = (usize, core::ops::Range<u64>)> {
    let digits = parameters.ciphertext_basis().transforms().len() as u64;
    (0..parameters.levels()).map(move |level| (level, level as u64 * digits..(level as u64 + 1) * digits))
}

/// Reads `out.len()` residues; whether all were below the modulus and the padding zero.
fn read_residues(packed: &[u8], modulus: &Modulus, out: &mut [u64]) -> bool {
    let mut reader = BitReader::new(packed);
    let mut valid = true;
    for value in out {
        *value = reader.read(modulus.bits());
        valid &= *value < modulus.value();
    }
    valid && reader.is_finished()
}

/// `round(x / P)` over the ciphertext basis, for x over the key basis in evaluation form, in place.
fn divide_by_special<'a>(parameters: &Parameters, sums: &'a mut [u64], lifted: &mut [u64]) -> &'a mut [u64] {
    let (degree, transforms) = (parameters.degree(), parameters.key_basis().transforms());
    let primes = parameters.ciphertext_basis().transforms();
    let (rest, remainder) = sums.split_at_mut(primes.len() * degree);
    let special = &transforms[primes.len()];
    special.inverse(remainder);
    for ((channel, ntt), (_, inverse)) in rest.chunks_exact_mut(degree).zip(primes).zip(parameters.special())
    {
        ring::lift(special.modulus(), ntt.modulus(), lifted, remainder);
        ntt.forward(lifted);
        ring::subtract_scale(ntt.modulus(), channel, lifted, *inverse);
    }
    rest
}
