//! Spiral, SpiralPack, SpiralStream and SpiralStreamPack (Menon and Wu, "Spiral: Fast, High-Rate Single-Server PIR via FHE
//! Composition", IEEE S&P 2022), for comparison. Queries and answers of few kilobytes, whatever the number of elements.
//!
//! # The scheme
//!
//! All ciphertexts are over `R = Z_q[X]/(X^N + 1)`. A *matrix Regev* ciphertext of a matrix M of n x n polynomials has n
//! columns, each a polynomial a and n polynomials `b_j` with `b_j + a s_j = (q/p) M_j + e_j`; with n = 1, it is an ordinary one.
//! A *GSW* ciphertext of a bit has a column for each digit of a and of every `b_j`, so that the sum of the columns times the
//! digits of a column is one of that column times the bit: the external product.
//!
//! Plaintexts, `n^2 N log2 p` bits of one or more elements each, are in r rows and c columns.
//!
//! * **Query** for a plaintext in row i and column j: scalar ciphertexts, of 1 for row i and of 0 for all other rows, and of the
//!   bits of j times the weight of every digit. Spiral and SpiralPack send one ciphertext for all rows and one for all bits, and
//!   the server *expands* them (the coefficient expansion of SealPIR). The *streaming* variants send all of them.
//! * **Conversion**: a scalar ciphertext of x becomes the matrix of x times the identity (ScalToMat); those of a bit become a GSW
//!   ciphertext (RegevToGSW); both by key switching.
//! * **First dimension**: `C_j = sum_i q_i D_ij` for every column: `n^2 (n + 1)` products for each plaintext.
//! * **Folding**: `C_2j + bit (C_2j+1 - C_2j)`, one external product for every two columns, halves their number for each bit.
//! * **Packing**, in the variants with Pack in their names: n is 1, and a plaintext has `m^2` polynomials, each in a
//!   database of its own under the same query. Their results are packed into one matrix ciphertext of m columns: `m^2 + m`
//!   polynomials for `m^2`, in place of `2 m^2`.
//! * **Answer**: every `b` is switched to `log2 p + 2` bits, and every a to as many more as the failure bound takes.
//!
//! What adds noise to ciphertexts, and how much, is in [`stages()`].
//!
//! # Costs
//!
//! With l digits of folding, f folds, and g groups, matrices that an element spans:
//!
//! | | |
//! |---|---|
//! | query, expanded | all coefficients that leaves depend on: for all levels r of the rows, and for the fewest `f l N / 2^ceil(log2(f l))` |
//! | query, streamed | r polynomials, and `(n + 1) n l f`, or `l f` if they are converted |
//! | answer | `g (n m)^2 (log2 p + 2) N + g n m b N` bits |
//! | database | `log2 q / log2 p` times the elements |
//! | expansion | one substitution for each leaf, of 1 + d transforms for d digits |
//! | conversion | 1 + d transforms for every scalar ciphertext |
//! | first dimension | `n + 1` products for each polynomial of the database |
//! | folding | c - 1 external products, of `n (n + 1) (1 + l)` transforms each |
//! | packing | `m^2 (1 + d)` transforms |
//!
//! # Presets
//!
//! | engine | N | Q | q | n, m | bits of security |
//! |---|---|---|---|---|---|
//! | `spiral` | 2048 | 50 bits | 36 bits | n = 1 or 2 | 137 |
//! | `spiral-pack` | 2048 | 50 bits | 36 bits | m = 2 or 4 | 137 |
//! | `spiral-stream` | 2048 | 50 bits | Q | n = 1 or 2 | 137 |
//! | `spiral-stream-pack` | 2048 | 50 bits | Q | m = 2 or 4 | 137 |
//! | `-paper` behind each of them | 2048 | 56 bits: two primes of 28 | Q | n = 2; m = 2, 4 or 8, with streams 4 | 113 |
//!
//! `onionpir-paper`, [`crate::onionpir::OnionPirPaper`], is of this family, too: n = m = 1, Q of 60 bits.
//!
//! The paper takes 56 bits for at least 128 bits of security; by today's estimates of [`pir_core::bfv::security_bits`] it is
//! that of the next longer modulus that was estimated, 60 bits: 113. [`pir_core::Scheme::parameters`] refuses, and
//! [`Parameters::new_allowing_insecure_parameters`] is the only door, or its name in a round's profile: [`INSECURE_PROFILE`].
//! The paper's presets have its gadgets: 8 digits for expanding rows, 56 for bits, 4 digits for conversion (16 with streams, 56
//! where they are packed). p, the shape, n or m, digits of folding and the length of answers follow from the search
//! (`choose.rs`): the cheapest by its model whose failure bound is at most 2^-40.
//!
//! Not as in the paper: secrets are ternary; a query is two ciphertexts, of which only coefficients that matter are sent, without
//! their lowest bits; V takes digits of a alone, since `b s` is the phase of a column with b for its a; a fold is one external
//! product and not two; in the presets of 128 bits, ciphertexts are switched to a shorter prime before the first dimension, rows
//! and columns need not be powers of two, and digits of folding drop low bits. Elements are whitened, so that the bound holds for
//! any database.

mod choose;
mod client;
mod convert;
mod encoding;
mod expand;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod lattice;
mod noise;
mod preset;
mod server;
mod shape;
#[cfg(test)]
mod stages;
mod switch;

use pir_core::dimensions::Stage;
use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, PagePool, Scheme};
use rand_core::CryptoRng;

pub use keys::{ClientKey, PublicKeys};
pub use noise::{Stages, stages};
pub use server::Database;
pub use shape::{MAXIMUM_QUERY_BYTES, Parameters};

/// The number of the preset `spiral`.
pub const SPIRAL: usize = 0;
/// The number of the preset `spiral-pack`.
pub const SPIRAL_PACK: usize = 1;
/// The number of the preset `spiral-stream`.
pub const SPIRAL_STREAM: usize = 2;
/// The number of the preset `spiral-stream-pack`.
pub const SPIRAL_STREAM_PACK: usize = 3;
/// Added to the number of a preset, it gives the one with the paper's modulus, **for reproduction, never for use**.
pub const AS_PUBLISHED: usize = 4;

/// The number of [`crate::onionpir`]'s preset with its paper's modulus, which is a member of this family: not packed, with
/// n = 1. **For reproduction, never for use**.
pub const ONIONPIR_AS_PUBLISHED: usize = 8;

/// The engine of a preset, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Spiral<const PRESET: usize>;

/// The profile of [`Parameters::new_allowing_insecure_parameters`]. No server announces it by itself, and clients refuse it by
/// [`Scheme::security_bits`].
pub const INSECURE_PROFILE: [u8; PROFILE_BYTES] = *b"INSECURE, 113 b\0";

impl<const PRESET: usize> Scheme for Spiral<PRESET> {
    const NAME: &'static str = preset::NAMES[PRESET];

    type Parameters = Parameters;
    type Database = Database;
    type ClientKey = ClientKey;
    type PublicKeys = PublicKeys;

    /// Refuses the paper's modulus with [`Error::Security`]: see [`Parameters::new_allowing_insecure_parameters`].
    fn parameters(elements: usize, element_bytes: usize) -> Result<Parameters, Error> {
        Parameters::new(PRESET, elements, element_bytes)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Parameters, Error> {
        match *profile {
            INSECURE_PROFILE if PRESET >= AS_PUBLISHED => {
                Parameters::new_allowing_insecure_parameters(PRESET, elements, element_bytes)
            }
            profile if profile == [0; PROFILE_BYTES] => Self::parameters(elements, element_bytes),
            _ => Err(Error::Shape("a profile that the engine does not know")),
        }
    }

    fn security_bits(parameters: &Parameters) -> u32 {
        parameters.preset().security_bits()
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
        PublicKeys::encoded_bytes(PRESET)
    }

    fn client_key(seed: &[u8; 32]) -> ClientKey {
        ClientKey::derive(PRESET, seed)
    }

    fn encode_public_keys(key: &ClientKey) -> Vec<u8> {
        key.public_keys()
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<PublicKeys, Error> {
        PublicKeys::decode(PRESET, bytes)
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

    /// [`Stage::Expanded`] is told when queries are parsed, expanded and converted, [`Stage::FurtherDimensions`] when columns are
    /// folded, and once more when they are packed and written.
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
