//! FastPIR: the engine of Addra (Ahmad, Yang, Agrawal, El Abbadi, Gupta, "Addra: Metadata-private voice communication over
//! fully untrusted infrastructure", OSDI 2021, section 4), for comparison. Answers are short and cost little; queries grow
//! with the database.
//!
//! # The scheme
//!
//! BFV with batching: t is a prime that is 1 modulo 2N, and a plaintext is 2 rows of N/2 values of Z_t, multiplied value by
//! value, which automorphisms rotate. An element is cut into values of `floor(log2 t)` bits; the first half of them goes into
//! the first row of its columns, the second half into the second. With n elements of v values, there are `r = ceil(2n/N)` by
//! `c = ceil(v/2)` plaintexts: number (i, j) has at place p, in its two rows, values j and c + j of element `i N/2 + p`.
//!
//! * **Query** for element `i' N/2 + p'`: r ciphertexts `q_i`, of which number i' has 1 at place p' of both rows, and 0
//!   elsewhere, as all the others have.
//! * **Answer**: the column `C_j = sum_i q_i D_ij` has at place p' values j and c + j of the element, and 0 elsewhere. The sum
//!   of the columns, each rotated by j places, `sum_j rot_j(C_j)`, has all values of the element in N/2 places one after the
//!   other, downwards from p'. It is switched to few bits and sent.
//! * **Extract** decrypts, and reads the places in order.
//!
//! Columns are combined in a tree: with `h` the power of two that is at least half of c,
//! `T(0..c) = T(0..h) + rot_h(T(h..c))`. That takes c - 1 rotations, but only by powers of two, so that log2 N - 1 keys are
//! enough for elements of any length: the rotations of the paper's sections 4.3 and 4.4. An element of more than N
//! values is answered by several ciphertexts.
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | query | r ciphertexts, their uniform halves as one seed: `N log2 q` bits for N/2 elements |
//! | answer | `2 N b` bits, b 7 to 13 more than t has, for every N values of an element |
//! | public keys | (log2 N - 1) L (L + 1) polynomials for L primes in q |
//! | database | `r c N log2 q` bits: `log2 q / log2 t` times the elements |
//! | first dimension | 2 r c products of polynomials |
//! | combining | (c - 1) rotations of `L^2 + 3 L + 2` transforms: 6 for one prime, 12 for two |
//!
//! # Presets
//!
//! | engine | N | q | P | values | bits of security |
//! |---|---|---|---|---|---|
//! | `fastpir` | 4096 | one prime of 50 bits | 50 bits | 15 to 20 bits | 128 |
//! | `fastpir-paper` | 4096 | two primes of 36 bits | 37 bits | 20 bits | 125 |
//!
//! The paper's are N = 4096 and 109 bits for q and P together, which by today's estimates has less than the 128 bits that
//! `pir-core` insists on: [`pir_core::Scheme::parameters`] refuses, and [`Parameters::new_allowing_insecure_parameters`] is the
//! only door, or its name in a round's profile: [`INSECURE_PROFILE`]. The 109 bits are divided as SEAL does by default. (The
//! authors' program has primes of 60 and 49 bits; those of [`pir_core::ring`] have at most 50.) In `fastpir`, t is the largest
//! prime of a table for which the failure bound of the shape is at most 2^-40: one prime in q, half the products and half the
//! transforms, for values that are shorter by a fifth.
//!
//! Not as in the paper: queries are encrypted with the secret key and seeded; q is switched to a power of two before an answer
//! is sent; elements are whitened, so that the bound holds for any database; places are numbered by powers of 5, not 3.

mod batching;
mod client;
mod encoding;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod lattice;
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
pub use shape::{MAXIMUM_QUERY_BYTES, Parameters};

/// The engine with keys modulo `Q` bits: 100, or the paper's 109, **for reproduction, never for use**.
#[derive(Clone, Copy, Debug)]
pub struct FastPir<const Q: u32>;

/// The profile of [`Parameters::new_allowing_insecure_parameters`]. No server announces it by itself, and clients refuse it by
/// [`Scheme::security_bits`].
pub const INSECURE_PROFILE: [u8; PROFILE_BYTES] = *b"INSECURE, 125 b\0";

impl<const Q: u32> Scheme for FastPir<Q> {
    const NAME: &'static str = if Q == 100 { "fastpir" } else { "fastpir-paper" };

    type Parameters = Parameters<Q>;
    type Database = Database<Q>;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys<Q>;

    /// Refuses the paper's primes with [`Error::Security`]: see [`Parameters::new_allowing_insecure_parameters`].
    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters<Q>, Error> {
        Parameters::new(elements, element_bytes)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Parameters<Q>, Error> {
        match *profile {
            INSECURE_PROFILE if Q == 109 => {
                Parameters::new_allowing_insecure_parameters(elements, element_bytes)
            }
            profile if profile == [0; PROFILE_BYTES] => Self::parameters(elements, element_bytes),
            _ => Err(Error::Shape("a profile that the engine does not know")),
        }
    }

    fn security_bits(_: &Parameters<Q>) -> u32 {
        lattice::Lattice::of::<Q>().security_bits()
    }

    fn failure_log2(parameters: &Parameters<Q>) -> f64 {
        noise::failure_log2(parameters)
    }

    fn elements(parameters: &Parameters<Q>) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters<Q>) -> usize {
        parameters.query_bytes()
    }

    fn answer_bytes(parameters: &Parameters<Q>) -> usize {
        parameters.answer_bytes()
    }

    fn public_keys_bytes() -> usize {
        PublicKeys::<Q>::encoded_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive::<Q>(seed)
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public_keys::<Q>().encode()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys<Q>, Error> {
        PublicKeys::decode(bytes)
    }

    fn setup_in(pool: &PagePool, parameters: &Parameters<Q>, elements: &[u8]) -> Result<Database<Q>, Error> {
        Database::new(pool, parameters, elements)
    }

    fn database_bytes(database: &Database<Q>) -> usize {
        database.bytes()
    }

    fn queries<R: CryptoRng>(
        key: &ClientKey,
        items: &[(&Parameters<Q>, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        items.iter().map(|(parameters, index)| client::query(key, parameters, *index, rng)).collect()
    }

    fn answer(database: &Database<Q>, keys: &PublicKeys<Q>, query: &[u8]) -> Result<Vec<u8>, Error> {
        let mut answers = Self::answer_tile(database, &[(keys, query)]);
        answers.pop().unwrap_or(Err(Error::Malformed("query")))
    }

    /// [`Stage::Expanded`] is told when queries are parsed, [`Stage::FurtherDimensions`] when columns are combined.
    fn answer_observed(
        database: &Database<Q>,
        queries: &[(&PublicKeys<Q>, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        server::answer_tile(database, queries, observe)
    }

    fn extract(
        parameters: &Parameters<Q>,
        key: &ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(key, parameters, index, answer)
    }
}
