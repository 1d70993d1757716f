//! Retrieval by Paillier's cryptosystem (Paillier, EUROCRYPT 1999), in one dimension: what PaillierPSIR asks for its sums.
//! As an engine of its own it would take seconds for a thousand elements, and is not offered.
//!
//! With `n = p q` of 2048 bits, an encryption of m is `(1 + n)^m r^n mod n^2`, and products of encryptions are encryptions
//! of sums. A query holds one for every element, of 1 for the one that is wanted and of 0 for the others; the answer is, for
//! every 255 bytes x of the elements, the product of all `c_i^(x_i)`. A client decrypts with `lambda = (p - 1)(q - 1)`: `m =
//! ((c^lambda mod n^2) - 1)/n / lambda mod n`.
//!
//! A modulus of 2048 bits, the paper's, has 112 bits of security (NIST SP 800-57, part 1, table 2), and none against quantum
//! computers: [`pir_core::Scheme::parameters`] refuses, and [`INSECURE_PROFILE`] is the only door.
//!
//! | | |
//! |---|---|
//! | query | 512 bytes for every element, and as many exponentiations modulo `n^2` |
//! | answer | 512 bytes for every 255 bytes of an element |
//! | public keys | 256 bytes |
//! | answering | 2040 squarings, and `510` products for every element, for every 255 bytes |

mod client;
mod keys;
mod server;

use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, PagePool, Scheme};
use rand_core::CryptoRng;

pub use keys::{ClientKey, PublicKeys};
pub use server::Database;

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct Paillier;

/// The profile that admits a modulus of 2048 bits. No server announces it by itself, and clients refuse it by
/// [`Scheme::security_bits`].
pub const INSECURE_PROFILE: [u8; PROFILE_BYTES] = *b"INSECURE, 112 b\0";

/// Bytes of every header.
const HEADER_BYTES: usize = 4;

/// Bytes of a ciphertext.
const CIPHERTEXT_BYTES: usize = 512;

/// Bytes of n.
const MODULUS_BYTES: usize = 256;

/// Bytes of an element that one ciphertext of an answer carries: as many as are certainly below n.
const CHUNK_BYTES: usize = 255;

/// Estimated security, bits.
const SECURITY_BITS: u32 = 112;

/// No query is for more elements.
const MAXIMUM_ELEMENTS: usize = 1 << 14;

/// Headers of public keys, queries and answers: a number, the version, bits of n by 256, 0.
const KEYS_HEADER: [u8; HEADER_BYTES] = [81, 1, 8, 0];
const QUERY_HEADER: [u8; HEADER_BYTES] = [82, 1, 8, 0];
const ANSWER_HEADER: [u8; HEADER_BYTES] = [83, 1, 8, 0];

/// Number and size of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    elements: usize,
    element_bytes: usize,
}

impl Parameters {
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
        self.element_bytes.div_ceil(CHUNK_BYTES)
    }
}

impl Scheme for Paillier {
    const NAME: &'static str = "paillier";

    type Parameters = Parameters;
    type Database = Database;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys;

    /// Refuses with [`Error::Security`]: see [`INSECURE_PROFILE`].
    fn parameters(_: usize, _: usize) -> Result<Parameters, Error> {
        Err(Error::Security { bits: SECURITY_BITS })
    }

    fn profile(_: &Parameters) -> [u8; PROFILE_BYTES] {
        INSECURE_PROFILE
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Parameters, Error> {
        if *profile == INSECURE_PROFILE {
            return Parameters::new_allowing_insecure_parameters(elements, element_bytes);
        }
        Self::parameters(elements, element_bytes)
    }

    fn security_bits(_: &Parameters) -> u32 {
        SECURITY_BITS
    }

    /// There is no noise; what is left is that a factor of n is no prime.
    fn failure_log2(_: &Parameters) -> f64 {
        -100.0
    }

    fn elements(parameters: &Parameters) -> usize {
        parameters.elements
    }

    fn query_bytes(parameters: &Parameters) -> usize {
        HEADER_BYTES + parameters.elements * CIPHERTEXT_BYTES
    }

    fn answer_bytes(parameters: &Parameters) -> usize {
        HEADER_BYTES + parameters.chunks() * CIPHERTEXT_BYTES
    }

    fn public_keys_bytes() -> usize {
        HEADER_BYTES + MODULUS_BYTES
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive(seed)
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public().encode()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys, Error> {
        PublicKeys::decode(bytes)
    }

    fn setup_in(_: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Database, Error> {
        Database::new(parameters, elements)
    }

    fn database_bytes(database: &Database) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &ClientKey,
        items: &[(&Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database, keys: &PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        database.answer(keys, query)
    }

    fn extract(
        parameters: &Parameters,
        key: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(key, parameters, index, answer)
    }
}
