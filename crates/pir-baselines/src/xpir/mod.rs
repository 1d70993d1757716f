//! XPIR: single-server PIR whose queries are selectors sent one by one (Aguilar-Melchor et al., PETS 2016; paper Figure 1
//! and section 3.4), the baseline that SealPIR's compression is measured against.
//!
//! It is [`pir_core::sealpir`] without EXPAND, on the same preset [`pir_core::bfv::Parameters::s2048`]: the same packing,
//! whitening and first dimension, the same chunks between dimensions. What differs:
//!
//! * A query holds a seeded ciphertext for each selector of each dimension, encrypted modulo the small prime q from the
//!   start, and every dimension is modulo q. Nothing is published modulo Q, and there are no public keys to speak of.
//! * There are always d = 2 or d = 3 dimensions. With d = 3, the database is cut into planes of `n1` rows by `n2` columns.
//!   The first two dimensions give four ciphertexts for each plane. Each is switched and split into four chunks in turn,
//!   which are multiplied with the `n3` selectors of the planes: the answer has 16 ciphertexts.
//!
//! The whitening keystream is that of the place in the plane: it repeats from plane to plane, which the failure bound
//! takes into account ([`FreshCircuit`]).

mod client;
mod encoding;
mod noise;
mod server;
mod shape;
#[cfg(test)]
mod stages;

use pir_core::dimensions::Stage;
use pir_core::{Error, PagePool, Scheme, bfv};
use rand_core::CryptoRng;

pub use client::ClientKey;
pub use noise::{FreshCircuit, FreshStages};
pub use server::Database;
pub use shape::{MAXIMUM_QUERY_BYTES, Parameters};

/// The engine in D dimensions, 2 or 3.
#[derive(Clone, Copy, Debug)]
pub struct Xpir<const D: usize>;

/// That a client speaks this protocol: the server needs no key.
#[derive(Clone, Copy, Debug)]
pub struct PublicKeys<const D: usize>(());

impl<const D: usize> Scheme for Xpir<D> {
    const NAME: &'static str = ["xpir-2", "xpir-3"][D - 2];

    type Parameters = Parameters<D>;
    type Database = Database<D>;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys<D>;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters<D>, Error> {
        Parameters::choose(elements, element_bytes)
    }

    /// That of the small prime, the only modulus anything is encrypted under.
    fn security_bits(_: &Parameters<D>) -> u32 {
        let bfv = bfv::Parameters::s2048();
        bfv::security_bits(bfv.degree(), bfv.small().modulus().bits())
    }

    fn failure_log2(parameters: &Parameters<D>) -> f64 {
        parameters.circuit().failure_log2(bfv::Parameters::s2048())
    }

    fn elements(parameters: &Parameters<D>) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters<D>) -> usize {
        parameters.query_bytes()
    }

    fn answer_bytes(parameters: &Parameters<D>) -> usize {
        parameters.answer_bytes()
    }

    fn public_keys_bytes() -> usize {
        encoding::HEADER_BYTES
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive(seed)
    }

    fn encode_public_keys(_: &ClientKey) -> Vec<u8> {
        encoding::keys_header::<D>().to_vec()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys<D>, Error> {
        if bytes == encoding::keys_header::<D>() {
            Ok(PublicKeys(()))
        } else {
            Err(Error::Malformed("public keys"))
        }
    }

    fn setup_in(pool: &PagePool, parameters: &Parameters<D>, elements: &[u8]) -> Result<Database<D>, Error> {
        Database::new(pool, parameters, elements)
    }

    fn database_bytes(database: &Database<D>) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &ClientKey,
        items: &[(&Parameters<D>, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database<D>, keys: &PublicKeys<D>, query: &[u8]) -> Result<Vec<u8>, Error> {
        let mut answers = Self::answer_tile(database, &[(keys, query)]);
        answers.pop().unwrap_or(Err(Error::Malformed("query")))
    }

    /// [`Stage::Expanded`] is told when queries are parsed; with three dimensions, [`Stage::FirstDimension`] and
    /// [`Stage::FurtherDimensions`] are told for each plane in turn.
    fn answer_observed(
        database: &Database<D>,
        queries: &[(&PublicKeys<D>, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        let queries: Vec<&[u8]> = queries.iter().map(|(_, query)| *query).collect();
        server::answer_tile(database, &queries, observe)
    }

    fn extract(
        parameters: &Parameters<D>,
        key: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(key, parameters, index, answer)
    }
}
