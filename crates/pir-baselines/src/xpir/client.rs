//! QUERY and EXTRACT. No branch and no memory access depends on the index.

use core::fmt;

use pir_core::bfv::SecretKey;
use pir_core::constant_time::{divide, equal, public};
use pir_core::ring::bits::BitWriter;
use pir_core::ring::{Coefficient, Evaluation, Polynomial, sampling};
use pir_core::{Error, bfv};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use subtle::ConditionallySelectable;
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{answer_header, query_header};
use super::shape::Parameters;

/// A client's secret, for all databases.
pub struct ClientKey {
    secret: SecretKey,
    /// The secret modulo q.
    small: Polynomial<Evaluation>,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Drop for ClientKey {
    fn drop(&mut self) {
        self.small.zeroize();
    }
}

impl ClientKey {
    /// The secret is derived from SHA-256("sotto xpir client v1", 0, `seed`): another one than SealPIR's from that seed.
    pub(super) fn derive(seed: &[u8; 32]) -> Self {
        let bfv = bfv::Parameters::s2048();
        let digest = Sha256::new().chain_update(b"sotto xpir client v1\0").chain_update(seed).finalize();
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(digest.into());
        let secret = SecretKey::derive(bfv, &seed);
        let small = secret.over(bfv, bfv.small());
        Self { secret, small }
    }

    /// The secret.
    #[cfg(test)]
    pub(super) fn secret(&self) -> &SecretKey {
        &self.secret
    }
}

/// Where an element lies.
struct Place<const D: usize> {
    /// Plaintext within its plane.
    plaintext: usize,
    /// Which of the elements of its plaintext.
    slot: usize,
    /// Row, column and, if d = 3, plane.
    coordinates: [usize; D],
}

impl<const D: usize> Place<D> {
    fn new(parameters: &Parameters<D>, index: usize) -> Result<Self, Error> {
        // A client that asks for what does not exist says so: it gets no query.
        if public(index >= parameters.elements()) {
            return Err(Error::Index);
        }
        let [rows, columns] = parameters.plane();
        let (number, slot) = divide(index, parameters.packing().elements_per_plaintext());
        let (plane, plaintext) = divide(number, rows * columns);
        let (column, row) = divide(plaintext, rows);
        let all = [row, column, plane];
        Ok(Self { plaintext, slot, coordinates: core::array::from_fn(|dimension| all[dimension]) })
    }
}

pub(super) fn query<const D: usize, R: CryptoRng>(
    key: &ClientKey,
    parameters: &Parameters<D>,
    index: usize,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let place = Place::new(parameters, index)?;
    let bfv = bfv::Parameters::s2048();
    let (ntt, modulus) = (bfv.small(), bfv.small().modulus());
    let (mut uniform_seed, mut error_seed) = ([0; 32], Zeroizing::new([0; 32]));
    rng.fill_bytes(&mut uniform_seed);
    rng.fill_bytes(&mut error_seed[..]);
    // Sent as it is, in place of the halves that it stands for.
    let uniform_seed = public(uniform_seed);

    let mut bytes = Vec::with_capacity(parameters.query_bytes());
    bytes.extend(query_header::<D>());
    bytes.extend(uniform_seed);
    // floor(q / t).
    let delta = modulus.value() >> bfv.plaintext_bits();
    let mut stream = 0;
    for (size, chosen) in parameters.shape().into_iter().zip(place.coordinates) {
        for selector in 0..size {
            let errors = sampling::errors(bfv.degree(), &error_seed, stream);
            let mut c0 = Polynomial::<Coefficient>::from_signed(modulus, &errors).into_evaluation(ntt);
            let mut product: Polynomial<Evaluation> = sampling::uniform(ntt, &uniform_seed, stream);
            product.mul_assign(modulus, &key.small);
            c0.sub_assign(modulus, &product);
            product.zeroize();
            // A constant has the same value at every slot.
            let message = u64::conditional_select(&0, &delta, equal(selector, chosen));
            let mut writer = BitWriter::new(&mut bytes);
            c0.residues().iter().for_each(|slot| writer.write(modulus.add(*slot, message), modulus.bits()));
            writer.finish();
            // What was sent less this is what was asked for.
            c0.zeroize();
            stream += 1;
        }
    }
    Ok(bytes)
}

pub(super) fn extract<const D: usize>(
    key: &ClientKey,
    parameters: &Parameters<D>,
    index: usize,
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    const MALFORMED: Error = Error::Malformed("answer");
    let place = Place::new(parameters, index)?;
    if answer.len() != parameters.answer_bytes() {
        return Err(MALFORMED);
    }
    let header = answer_header::<D>(parameters.answer_coefficient_bits());
    let body = answer.strip_prefix(&header).ok_or(MALFORMED)?;
    let place = [place.plaintext, place.slot];
    Ok(parameters.answer_form().extract(&key.secret, parameters.packing(), place, body))
}
