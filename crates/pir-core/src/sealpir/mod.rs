//! SealPIR: single-server PIR with compressed queries (paper sections 3.2 to 3.5) on the preset
//! [`crate::bfv::Parameters::s2048`].
//!
//! The database is packed into plaintexts, arranged as `n1` rows by `n2` columns. A query holds the selectors of both
//! dimensions in one seeded ciphertext. The server expands it ([`crate::expand`]), switches every leaf from Q to the
//! smaller prime q, and computes, for every column, the inner product of the first `n1` selectors with the plaintexts of
//! the column. With one column (d = 1), that is the answer. With more (d = 2), each result is switched to the modulus
//! `t^2`, both its polynomials are split into two chunks below t, and the inner products of the last `n2` selectors with
//! these four rows of chunks are the answer: F = 4 ciphertexts. Answers are switched to a power of two before they are
//! sent.
//!
//! Where longer answers are welcome ([`Parameters::choose_within`]), there are several such sets of columns, called parts,
//! under the same selectors, and the answer holds the results of all of them.
//! Packing, whitening, and the dimensions are those of [`crate::packing`] and [`crate::dimensions`].

mod client;
mod database;
mod encoding;
mod format;
mod progress;
mod server;
mod shape;
#[cfg(test)]
mod stages;

use core::fmt;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

pub use database::Database;
pub use shape::{MAXIMUM_ANSWER_BYTES, MAXIMUM_QUERY_BYTES, Parameters};

use crate::bfv::{GaloisKeys, SecretKey};
use crate::dimensions::Stage;
use crate::scheme::PROFILE_BYTES;
use crate::{Error, PagePool, Scheme, bfv, noise};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct SealPir;

/// A client's secret, for all databases.
pub struct ClientKey {
    seed: Zeroizing<[u8; 32]>,
    secret: SecretKey,
}

/// A client's Galois keys as the server uses them.
pub struct PublicKeys {
    galois: GaloisKeys,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Scheme for SealPir {
    const NAME: &'static str = "sealpir-s2048";

    type Parameters = Parameters;
    type Database = Database;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters, Error> {
        Parameters::choose(elements, element_bytes)
    }

    /// Answers have at most [`MAXIMUM_ANSWER_BYTES`], unless even the shortest is longer.
    fn parameters_for_one_query(elements: usize, element_bytes: usize) -> Result<Parameters, Error> {
        let shortest = Parameters::choose(elements, element_bytes)?;
        Parameters::choose_within(elements, element_bytes, shortest.answer_bytes().max(MAXIMUM_ANSWER_BYTES))
    }

    fn profile(parameters: &Parameters) -> [u8; PROFILE_BYTES] {
        encoding::profile(parameters)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Parameters, Error> {
        encoding::parameters_of(elements, element_bytes, profile)
    }

    fn security_bits(_: &Parameters) -> u32 {
        bfv::Parameters::s2048().security_bits()
    }

    fn failure_log2(parameters: &Parameters) -> f64 {
        noise::failure_log2(bfv::Parameters::s2048(), &parameters.circuit())
    }

    fn elements(parameters: &Parameters) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters) -> usize {
        parameters.query_bytes()
    }

    fn query_fits(made_for: &Parameters, asked: &Parameters) -> bool {
        encoding::query_header(made_for) == encoding::query_header(asked)
            && made_for.selectors() == asked.selectors()
    }

    fn answer_bytes(parameters: &Parameters) -> usize {
        parameters.answer_bytes()
    }

    fn public_keys_bytes() -> usize {
        format::HEADER_BYTES + GaloisKeys::encoded_bytes(bfv::Parameters::s2048())
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        let secret = SecretKey::derive(bfv::Parameters::s2048(), seed);
        ClientKey { seed: Zeroizing::new(*seed), secret }
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        let bfv = bfv::Parameters::s2048();
        let mut bytes = encoding::keys_header().to_vec();
        bytes.extend(GaloisKeys::derive(bfv, &key.secret, &key.seed).encode(bfv));
        bytes
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys, Error> {
        let body = encoding::strip_header(bytes, encoding::keys_header(), Error::Malformed("public keys"))?;
        Ok(PublicKeys { galois: GaloisKeys::decode(bfv::Parameters::s2048(), body)? })
    }

    fn setup_in(pool: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Database, Error> {
        Database::new(pool, parameters, elements)
    }

    fn database_bytes(database: &Database) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &ClientKey,
        items: &[(&Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(&key.secret, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database, keys: &PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        server::answer(database, &keys.galois, query)
    }

    fn answer_observed(
        database: &Database,
        queries: &[(&PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        let queries: Vec<_> = queries.iter().map(|(keys, query)| (&keys.galois, *query)).collect();
        server::answer_tile(database, &queries, observe)
    }

    fn extract(
        parameters: &Parameters,
        key: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(&key.secret, parameters, index, answer)
    }
}
