//! Retrieval by Paillier's cryptosystem (Paillier, EUROCRYPT 1999), in one dimension: what PaillierPSIR asks for its sums.
//! As an engine of its own it would take seconds for a thousand elements, and is not offered.
//!
//! With `n = p q`, an encryption of m is `(1 + n)^m r^n mod n^2`, and products of encryptions are encryptions of sums. A query
//! holds one for every element, of 1 for the one that is wanted and of 0 for the others; the answer is, for as many bytes x of
//! the elements as are certainly below n, the product of all `c_i^(x_i)`. A client decrypts with `lambda = (p - 1)(q - 1)`: `m =
//! ((c^lambda mod n^2) - 1)/n / lambda mod n`.
//!
//! | | [`Paillier3072`] | [`Paillier2048`], as the paper has it |
//! |---|---|---|
//! | bits of n | 3072 | 2048 |
//! | security, bits (NIST SP 800-57, part 1, table 2); none against quantum computers | 128 | 112 |
//! | query: bytes for every element, and an exponentiation modulo `n^2` | 768 | 512 |
//! | answer: bytes for every so many bytes of an element | 768 for 383 | 512 for 255 |
//! | public keys, bytes | 388 | 260 |
//! | answering: squarings, and products for every element, for every so many bytes | 3064, 766 | 2040, 510 |
//!
//! For the second one [`pir_core::Scheme::parameters`] refuses, and [`INSECURE_PROFILE`] is the only door.

mod client;
mod keys;
mod server;

use crypto_bigint::Uint;
use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, PagePool, Scheme};
use rand_core::CryptoRng;

pub use keys::{ClientKey, PublicKeys};
pub use server::Database;

/// The engine: limbs of 64 bits that the primes have, n, and its square.
#[derive(Clone, Copy, Debug)]
pub struct Paillier<const PRIME: usize, const MODULUS: usize, const SQUARE: usize>;

/// n of 3072 bits.
pub type Paillier3072 = Paillier<{ 3072 / 128 }, { 3072 / 64 }, { 3072 / 32 }>;

/// n of 2048 bits.
pub type Paillier2048 = Paillier<{ 2048 / 128 }, { 2048 / 64 }, { 2048 / 32 }>;

/// The profile that admits a modulus of 2048 bits. No server announces it by itself, and clients refuse it by
/// [`Scheme::security_bits`].
pub const INSECURE_PROFILE: [u8; PROFILE_BYTES] = *b"INSECURE, 112 b\0";

/// Bytes of every header.
const HEADER_BYTES: usize = 4;

/// No query is for more elements.
const MAXIMUM_ELEMENTS: usize = 1 << 14;

/// What has a header.
const KEYS: u8 = 81;
const QUERY: u8 = 82;
const ANSWER: u8 = 83;

/// What it is, the version, bits of n by 256, 0.
const fn header<const MODULUS: usize>(what: u8) -> [u8; HEADER_BYTES] {
    [what, 1, (Uint::<MODULUS>::BITS / 256) as u8, 0]
}

/// Number and size of the elements, for n of so many limbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const MODULUS: usize> {
    elements: usize,
    element_bytes: usize,
}

impl<const MODULUS: usize> Parameters<MODULUS> {
    /// Bytes of an element that one ciphertext of an answer carries: as many as are certainly below n.
    const CHUNK_BYTES: usize = Uint::<MODULUS>::BYTES - 1;

    /// Estimated security, bits.
    const SECURITY_BITS: u32 = match Uint::<MODULUS>::BITS {
        3072.. => 128,
        2048.. => 112,
        _ => 0,
    };

    /// **Without any demand on security.**
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty or has more than 2^20 bytes, or there are more than 2^14
    /// elements.
    pub fn new_allowing_insecure_parameters(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        if !(1..=MAXIMUM_ELEMENTS).contains(&elements) || !(1..=1 << 20).contains(&element_bytes) {
            return Err(Error::Shape("1 to 2^14 elements of 1 to 2^20 bytes"));
        }
        Ok(Self { elements, element_bytes })
    }

    /// Ciphertexts of an answer.
    fn chunks(&self) -> usize {
        self.element_bytes.div_ceil(Self::CHUNK_BYTES)
    }
}

impl<const PRIME: usize, const MODULUS: usize, const SQUARE: usize> Scheme
    for Paillier<PRIME, MODULUS, SQUARE>
{
    const NAME: &'static str =
        if Parameters::<MODULUS>::SECURITY_BITS < 128 { "paillier-paper" } else { "paillier" };

    type Parameters = Parameters<MODULUS>;
    type Database = Database<MODULUS>;
    type ClientKey = ClientKey<MODULUS, SQUARE>;
    type PublicKeys = PublicKeys<MODULUS, SQUARE>;

    /// Refuses n of less than 128 bits of security with [`Error::Security`]: see [`INSECURE_PROFILE`].
    fn parameters(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        if Self::Parameters::SECURITY_BITS < 128 {
            return Err(Error::Security { bits: Self::Parameters::SECURITY_BITS });
        }
        Parameters::new_allowing_insecure_parameters(elements, element_bytes)
    }

    fn profile(_: &Self::Parameters) -> [u8; PROFILE_BYTES] {
        if Self::Parameters::SECURITY_BITS < 128 { INSECURE_PROFILE } else { [0; PROFILE_BYTES] }
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Self::Parameters, Error> {
        match *profile {
            INSECURE_PROFILE if Self::Parameters::SECURITY_BITS == 112 => {
                Parameters::new_allowing_insecure_parameters(elements, element_bytes)
            }
            profile if profile == [0; PROFILE_BYTES] => Self::parameters(elements, element_bytes),
            _ => Err(Error::Shape("a profile that the engine does not know")),
        }
    }

    fn security_bits(_: &Self::Parameters) -> u32 {
        Self::Parameters::SECURITY_BITS
    }

    /// There is no noise; what is left is that a factor of n is no prime.
    fn failure_log2(_: &Self::Parameters) -> f64 {
        -100.0
    }

    fn elements(parameters: &Self::Parameters) -> usize {
        parameters.elements
    }

    fn query_bytes(parameters: &Self::Parameters) -> usize {
        HEADER_BYTES + parameters.elements * Uint::<SQUARE>::BYTES
    }

    fn answer_bytes(parameters: &Self::Parameters) -> usize {
        HEADER_BYTES + parameters.chunks() * Uint::<SQUARE>::BYTES
    }

    fn public_keys_bytes() -> usize {
        HEADER_BYTES + Uint::<MODULUS>::BYTES
    }

    fn client_key(seed: &[u8; 32]) -> Self::ClientKey {
        const { assert!(2 * PRIME == MODULUS && 2 * MODULUS == SQUARE) };
        ClientKey::derive::<PRIME>(seed)
    }

    fn encode_public_keys(key: &Self::ClientKey) -> Vec<u8> {
        key.public().encode()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<Self::PublicKeys, Error> {
        PublicKeys::decode(bytes)
    }

    fn setup_in(
        _: &PagePool,
        parameters: &Self::Parameters,
        elements: &[u8],
    ) -> Result<Self::Database, Error> {
        Database::new(parameters, elements)
    }

    fn database_bytes(database: &Self::Database) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &Self::ClientKey,
        items: &[(&Self::Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Self::Database, keys: &Self::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        database.answer(keys, query)
    }

    fn extract(
        parameters: &Self::Parameters,
        key: &Self::ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(key, parameters, index, answer)
    }
}
