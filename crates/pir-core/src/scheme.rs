//! What every PIR engine offers: SETUP, QUERY, ANSWER, EXTRACT (paper Figure 1), on bytes.
//!
//! A scheme is chosen at compile time (`S: Scheme`); its parameters are a pure function of the number and the size of
//! the database's elements, so that server and client derive the same ones from a published count.

use core::fmt::Debug;

use rand_core::CryptoRng;

use crate::dimensions::Stage;
use crate::{Error, PagePool};

/// Bytes of a profile.
pub const PROFILE_BYTES: usize = 16;

/// A single-server PIR engine.
///
/// Encoded queries and answers have a size fixed by the parameters alone: it depends neither on the index nor on the
/// contents of the database.
pub trait Scheme: Send + Sync + 'static {
    /// The engine's name in manifests, negotiations and reports.
    const NAME: &'static str;

    /// Everything both ends must agree on, the shape of the database included.
    type Parameters: Clone + Debug + PartialEq + Send + Sync + 'static;
    /// The server's preprocessed form of one database.
    type Database: Send + Sync + 'static;
    /// The client's secret; one for all databases and rounds.
    type ClientKey: Send + Sync + 'static;
    /// What the server needs of a client's key; uploaded once, parsed once.
    type PublicKeys: Send + Sync + 'static;

    /// The cheapest admissible parameters for `elements` elements of `element_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or no shape has a failure bound of 2^-40.
    fn parameters(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error>;

    /// [`Scheme::parameters`] for a database that is asked a single query a round, next to which a longer answer counts for
    /// little: an engine may spend bytes to spare the server work.
    ///
    /// # Errors
    /// Those of [`Scheme::parameters`].
    fn parameters_for_one_query(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        Self::parameters(elements, element_bytes)
    }

    /// What of the parameters does not follow from the number and the size of the elements, for a server to announce; zeros
    /// behind it. An engine that has one arrangement for every shape announces nothing.
    fn profile(_: &Self::Parameters) -> [u8; PROFILE_BYTES] {
        [0; PROFILE_BYTES]
    }

    /// The parameters with an announced profile.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are none, or their failure bound is above 2^-40.
    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Self::Parameters, Error> {
        if *profile != [0; PROFILE_BYTES] {
            return Err(Error::Shape("a profile that the engine does not know"));
        }
        Self::parameters(elements, element_bytes)
    }

    /// Estimated security in bits; 0 for an engine without privacy.
    fn security_bits(parameters: &Self::Parameters) -> u32;

    /// Upper bound on the probability that one correctly computed answer decodes wrongly, as a logarithm to base 2.
    fn failure_log2(parameters: &Self::Parameters) -> f64;

    /// Number of elements of the database.
    fn elements(parameters: &Self::Parameters) -> usize;

    /// Exact size of an encoded query, bytes.
    fn query_bytes(parameters: &Self::Parameters) -> usize;

    /// Whether a query made for a database of one shape has size and form of one for a database of another, so that it can
    /// be sent in its place where the answer does not matter. What an engine does not know, does not fit.
    fn query_fits(made_for: &Self::Parameters, asked: &Self::Parameters) -> bool {
        made_for == asked
    }

    /// Exact size of an encoded answer, bytes.
    fn answer_bytes(parameters: &Self::Parameters) -> usize;

    /// Exact size of the encoded public keys, bytes.
    fn public_keys_bytes() -> usize;

    /// Derives a client's key from its seed, always the same one.
    fn client_key(seed: &[u8; 32]) -> Self::ClientKey;

    /// Encodes the public keys; the bytes are a function of the seed, so a second upload is identical to the first.
    fn encode_public_keys(key: &Self::ClientKey) -> Vec<u8>;

    /// Parses a client's public keys.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size, version or range.
    fn decode_public_keys(bytes: &[u8]) -> Result<Self::PublicKeys, Error>;

    /// Preprocesses a database given as `elements * element_bytes` bytes (SETUP), in memory of this pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room for it.
    fn setup_in(
        pool: &PagePool,
        parameters: &Self::Parameters,
        elements: &[u8],
    ) -> Result<Self::Database, Error>;

    /// The same in memory of its own, for who makes one database.
    ///
    /// # Errors
    /// As for [`Scheme::setup_in`].
    fn setup(parameters: &Self::Parameters, elements: &[u8]) -> Result<Self::Database, Error> {
        Self::setup_in(&PagePool::default(), parameters, elements)
    }

    /// Size of a preprocessed database in memory, bytes.
    fn database_bytes(database: &Self::Database) -> usize;

    /// Builds one encoded query per index, all in one call (QUERY): an engine whose secret must never serve two
    /// different queries of one round has no other door.
    ///
    /// `items` pairs each database's parameters with the index wanted from it.
    ///
    /// # Errors
    /// [`Error::Index`] if an index is not below its database's number of elements.
    fn queries<R: CryptoRng>(
        key: &Self::ClientKey,
        items: &[(&Self::Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error>;

    /// Answers one encoded query (ANSWER).
    ///
    /// # Errors
    /// [`Error::Malformed`] if the query is not one for this database.
    fn answer(database: &Self::Database, keys: &Self::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error>;

    /// Answers several clients' queries against one database; an engine may do it in one pass over the database.
    fn answer_tile(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
    ) -> Vec<Result<Vec<u8>, Error>> {
        Self::answer_observed(database, queries, &mut |_| ())
    }

    /// [`Scheme::answer_tile`], telling `observe` whenever a stage has ended for a whole tile, for measurements.
    fn answer_observed(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
        _: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        queries.iter().map(|(keys, query)| Self::answer(database, keys, query)).collect()
    }

    /// Recovers the element at `index` from an encoded answer (EXTRACT).
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size, version or range; [`Error::Index`] as in [`Scheme::queries`]. An answer
    /// that decodes to other bytes than the database's is not an error here: integrity is the caller's business.
    fn extract(
        parameters: &Self::Parameters,
        key: &Self::ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error>;
}
