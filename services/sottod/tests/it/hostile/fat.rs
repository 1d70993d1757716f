//! An engine with large answers that cost nothing to compute, so that a test measures how they are read.

use pir_core::{Error, NoOp, PagePool, Scheme};
use rand_chacha::rand_core::CryptoRng;

/// [`NoOp`] with answers of [`ANSWER_BYTES`].
pub(crate) struct Fat;

pub(crate) const ANSWER_BYTES: usize = 64 << 10;

impl Scheme for Fat {
    const NAME: &'static str = "fat-no-privacy";

    type Parameters = <NoOp as Scheme>::Parameters;
    type Database = <NoOp as Scheme>::Database;
    type ClientKey = <NoOp as Scheme>::ClientKey;
    type PublicKeys = <NoOp as Scheme>::PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        NoOp::parameters(elements, element_bytes)
    }

    fn security_bits(parameters: &Self::Parameters) -> u32 {
        NoOp::security_bits(parameters)
    }

    fn failure_log2(parameters: &Self::Parameters) -> f64 {
        NoOp::failure_log2(parameters)
    }

    fn elements(parameters: &Self::Parameters) -> usize {
        NoOp::elements(parameters)
    }

    fn query_bytes(parameters: &Self::Parameters) -> usize {
        NoOp::query_bytes(parameters)
    }

    fn answer_bytes(_: &Self::Parameters) -> usize {
        ANSWER_BYTES
    }

    fn public_keys_bytes() -> usize {
        NoOp::public_keys_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> Self::ClientKey {
        NoOp::client_key(seed)
    }

    fn encode_public_keys(key: &Self::ClientKey) -> Vec<u8> {
        NoOp::encode_public_keys(key)
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<Self::PublicKeys, Error> {
        NoOp::decode_public_keys(bytes)
    }

    fn setup_in(
        pool: &PagePool,
        parameters: &Self::Parameters,
        elements: &[u8],
    ) -> Result<Self::Database, Error> {
        NoOp::setup_in(pool, parameters, elements)
    }

    fn database_bytes(database: &Self::Database) -> usize {
        NoOp::database_bytes(database)
    }

    fn queries<R: CryptoRng>(
        key: &Self::ClientKey,
        items: &[(&Self::Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        NoOp::queries(key, items, rng)
    }

    fn answer(database: &Self::Database, keys: &Self::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let mut answer = NoOp::answer(database, keys, query)?;
        answer.resize(ANSWER_BYTES, 0);
        Ok(answer)
    }

    fn extract(
        parameters: &Self::Parameters,
        key: &Self::ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let element = answer.get(..NoOp::answer_bytes(parameters)).ok_or(Error::Malformed("answer"))?;
        NoOp::extract(parameters, key, index, element)
    }
}
