//! OnionPIR (Mughees, Chen, Ren, "OnionPIR: Response efficient single-server PIR", CCS 2021; and its second version, ePrint
//! 2025/1142), for comparison: one ciphertext comes back, whatever the number of dimensions, and short queries are expanded.
//!
//! # The scheme
//!
//! The database is packed into plaintexts as SealPIR's, on the same preset [`pir_core::bfv::Parameters::s2048`], and stands
//! in `n1` rows and `n2` columns. A first dimension selects a row by products with ciphertexts; then every bit of the number
//! of the column halves what is left, by an *external product*.
//!
//! * A **ciphertext** `c = (c0, c1)` of m has the phase `c0 + c1 s = (Q/t) m + e`. An **RGSW ciphertext** of a bit b are 2 l
//!   ciphertexts whose phases are, up to noise, `w_i b` and `w_i b s`, for the l weights `w_i` of a gadget.
//! * **External product** `C [x] c`: the digits of c0 times the first l ciphertexts, and those of c1 times the others,
//!   added up. Its phase is `b (c0 + c1 s)`, that of `b m`, and its noise *is added* to that of c: any number of dimensions
//!   may follow.
//! * **Choice** between two ciphertexts: `x + C [x] (y - x)` is x if b is 0, and y if it is 1. With `n2` columns there are
//!   `n2 - 1` choices, in a tree: the ranges of columns below and from the largest power of two are reduced to one
//!   ciphertext each, and the choice between them is made by that bit of the number of the column. Where a range has no
//!   upper part, no choice is made.
//!
//! **Query**: two seeded ciphertexts are expanded as SealPIR's ([`pir_core::expand`]). One has `Q/t` at the coefficient of
//! the row. The other has for every bit b of the column's number the l values `w_i b`, which become the first half of an
//! RGSW ciphertext. From each of them, `(beta, alpha)` with `beta + alpha s = w_i b + e`, the server makes one of the second
//! half with a key for `s^2`:
//!
//! ```text
//! (sum_j d_j b_j, beta + sum_j d_j a_j)      d_j the digits of alpha, b_j + a_j s = v_j s^2 + e_j
//! ```
//!
//! whose phase is `beta s + alpha s^2 = s (w_i b + e)` and what the key adds. (The paper takes an external product with an
//! RGSW ciphertext of `-s`; the half of it that would be multiplied with the digits of beta is not needed, since `(0, beta)`
//! is already what it would give.) The noise e is multiplied with s there, so the second ciphertext is expanded in as few
//! levels as have room for the bits: noise is doubled at each.
//!
//! **Answer**: results of the first dimension are modulo the small prime q. They are lifted to Q, where external products
//! are taken: `x` becomes `round(Q x / q)`. The last ciphertext is switched to few bits and sent.
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | query | `30 n1` bits, and `34 N / 2^h` bits for each of l log2 n2 values, `2^h` at least as many as there are |
//! | answer | `2 N b` bits, b 8 to 12 more than t has: one ciphertext for every 2304 bytes of an element |
//! | public keys | those of SealPIR, and 5 polynomials |
//! | database | `36/9` times the elements |
//! | expansion | `n1` substitutions, and for each of the l log2 n2 values another and 6 transforms |
//! | first dimension | `2 n1 n2` products of polynomials |
//! | choices | `n2 - 1` times `2 l + 2` transforms, and 4 l products |
//!
//! # Presets
//!
//! | engine | N | Q | q | t | l, base | key for `s^2` | bits of security |
//! |---|---|---|---|---|---|---|---|
//! | `onionpir` | 2048 | 50 bits | 36 bits | 2^9 | 3, 2^7 | 5, 2^10 | 137 |
//! | `onionpir-paper` | 2048 | 60 bits: two primes of 30 | Q | by the search, 2^8 to 2^14 in the shapes that are compared | by the search, 3 to 5 | 10, 2^6 | 113 |
//!
//! The papers' rings have Q of 124 bits with N = 4096, and in the second version of 60 bits with N = 2048: less than 128 bits
//! of security by today's estimates. With the second one, the scheme is a member of the family of [`crate::spiral`], without
//! packing and with matrices of one polynomial, and [`OnionPirPaper`] is its engine there: as in the paper, q is Q, the
//! number of columns a power of two, and whatever makes selectors of a query takes 10 digits. For one ciphertext that is expanded
//! to rows and bits it has two, for one prime of 60 bits two of 30, for plaintexts of 16 bits those of the failure bound, and
//! keys for every level of both trees, of 3.1 MB where the paper's have 0.63.
//!
//! Not as in the papers, `onionpir`: the first dimension is modulo a smaller prime; queries are encrypted with the secret key, and half
//! of each is a seed; columns need not be a power of two; elements are whitened, so that the bound holds for any database.

mod client;
mod encoding;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod noise;
mod selectors;
mod server;
mod shape;
#[cfg(test)]
mod stages;

use pir_core::dimensions::Stage;
use pir_core::{Error, PagePool, Scheme, bfv};
use rand_core::CryptoRng;

use crate::spiral::{ONIONPIR_AS_PUBLISHED, Spiral};

pub use keys::{ClientKey, PublicKeys};
pub use noise::{Stages, stages};
pub use server::Database;
pub use shape::{MAXIMUM_QUERY_BYTES, Parameters};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct OnionPir;

/// The engine with the ring of the second paper, of 113 bits of security, **for reproduction, never for use**.
pub type OnionPirPaper = Spiral<ONIONPIR_AS_PUBLISHED>;

impl Scheme for OnionPir {
    const NAME: &'static str = "onionpir";

    type Parameters = Parameters;
    type Database = Database;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters, Error> {
        Parameters::choose(elements, element_bytes)
    }

    fn security_bits(_: &Parameters) -> u32 {
        bfv::Parameters::s2048().security_bits()
    }

    fn failure_log2(parameters: &Parameters) -> f64 {
        noise::failure_log2(parameters)
    }

    fn elements(parameters: &Parameters) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters) -> usize {
        parameters.query_bytes()
    }

    fn answer_bytes(parameters: &Parameters) -> usize {
        parameters.answer_bytes()
    }

    fn public_keys_bytes() -> usize {
        PublicKeys::encoded_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive(seed)
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public_keys().encode()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys, Error> {
        PublicKeys::decode(bytes)
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
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database, keys: &PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let mut answers = Self::answer_tile(database, &[(keys, query)]);
        answers.pop().unwrap_or(Err(Error::Malformed("query")))
    }

    fn answer_observed(
        database: &Database,
        queries: &[(&PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        server::answer_tile(database, queries, observe)
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
