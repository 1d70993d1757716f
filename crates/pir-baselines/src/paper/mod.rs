//! SealPIR as the paper has it (sections 3 and 6, Appendix A), **for reproduction, never for use**.
//!
//! N = 2048 and `q = 2^60 - 2^18 + 1` offer about 113 bits of security by the rule of [`pir_core::bfv::Parameters`], less than
//! the 128 that `pir-core` insists on. [`pir_core::Scheme::parameters`] therefore refuses, and
//! [`Parameters::new_allowing_insecure_parameters`] is the only door, or its name in a round's profile: [`INSECURE_PROFILE`].
//!
//! What is the paper's: a query of d whole ciphertexts `Enc(X^i)`; EXPAND with doubling, undone by the smaller plaintext
//! modulus t' of Equation (1); elements packed `floor(N log t' / beta)` to a plaintext; a square of plaintexts; ciphertexts
//! split into `F = 2 ceil(log q / log t')` plaintexts between the dimensions; answers of F whole ciphertexts. Key switching
//! splits the one 60-bit prime into digits, as the evaluation keys of SEAL 2.3 do.
//!
//! What is not: queries are encrypted with the secret key rather than with a public one; digits are signed; plaintexts are
//! whitened ([`pir_core::packing`]), so that the failure bound holds for any database; residues travel in 60 bits rather than
//! in words of 64.

mod choose;
mod client;
mod encoding;
mod expand;
mod format;
mod kernel;
mod keys;
mod noise;
mod server;
mod shape;
#[cfg(test)]
mod stages;

use pir_core::dimensions::Stage;
use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, PagePool, Scheme};
use rand_core::CryptoRng;

pub use keys::{ClientKey, PublicKeys};
pub use noise::{Stages, stages};
pub use server::Database;
pub use shape::Parameters;

/// The engine with `log t = T`, 20 or 23: **for reproduction, never for use**.
#[derive(Clone, Copy, Debug)]
pub struct PaperSealPir<const T: u32>;

/// The profile of [`Parameters::new_allowing_insecure_parameters`] in two dimensions. No server announces it by itself, and
/// clients refuse it by [`Scheme::security_bits`].
pub const INSECURE_PROFILE: [u8; PROFILE_BYTES] = *b"INSECURE, d = 2\0";

impl<const T: u32> Scheme for PaperSealPir<T> {
    const NAME: &'static str = if T == 20 { "sealpir-paper-t20" } else { "sealpir-paper-t23" };

    type Parameters = Parameters<T>;
    type Database = Database<T>;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys<T>;

    /// Refuses with [`Error::Security`]: see [`Parameters::new_allowing_insecure_parameters`].
    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters<T>, Error> {
        Parameters::new(elements, element_bytes)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Parameters<T>, Error> {
        if *profile != INSECURE_PROFILE {
            return Self::parameters(elements, element_bytes);
        }
        Parameters::new_allowing_insecure_parameters(elements, element_bytes, 2)
    }

    fn security_bits(_: &Parameters<T>) -> u32 {
        shape::security_bits()
    }

    fn failure_log2(parameters: &Parameters<T>) -> f64 {
        noise::failure_log2(parameters)
    }

    fn elements(parameters: &Parameters<T>) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters<T>) -> usize {
        parameters.query_bytes()
    }

    fn answer_bytes(parameters: &Parameters<T>) -> usize {
        parameters.answer_bytes()
    }

    fn public_keys_bytes() -> usize {
        PublicKeys::<T>::encoded_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive::<T>(seed)
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public_keys::<T>().encode()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys<T>, Error> {
        PublicKeys::decode(bytes)
    }

    fn setup_in(_: &PagePool, parameters: &Parameters<T>, elements: &[u8]) -> Result<Database<T>, Error> {
        Database::new(parameters, elements)
    }

    fn database_bytes(database: &Database<T>) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &ClientKey,
        items: &[(&Parameters<T>, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database<T>, keys: &PublicKeys<T>, query: &[u8]) -> Result<Vec<u8>, Error> {
        server::answer(database, keys, query, &mut |_| ())
    }

    /// One query after the other: the stages of each are told.
    fn answer_observed(
        database: &Database<T>,
        queries: &[(&PublicKeys<T>, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        queries.iter().map(|(keys, query)| server::answer(database, keys, query, observe)).collect()
    }

    fn extract(
        parameters: &Parameters<T>,
        key: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(key, parameters, index, answer)
    }
}
