//! SimplePIR: single-server PIR by one product of a matrix with a vector, read with a hint (Henzinger, Hong, Corrigan-Gibbs,
//! Meiklejohn, Vaikuntanathan, USENIX Security 2023, sections 4.1 to 4.3).
//!
//! With `q = 2^32`, `p = 2^b` and `delta = q/p`, a database is a matrix D of l rows and m columns of digits modulo p, centred
//! to `[-p/2, p/2)`. A is a public matrix of m rows and n columns, s a secret of n words and e an error, both drawn for every
//! query, and u is 1 at the wanted column and 0 elsewhere:
//!
//! ```text
//! hint   H  = D A                            l n words, once for all clients
//! query  c  = A s + e + delta u              m words
//! answer a  = D c                            l words
//! read   a - H s = delta D u + D e           the wanted column, all of it
//! ```
//!
//! An element is `d = ceil(8 B / b)` digits that stand below each other in a column (section 4.3), and a column has as many
//! elements as an arrangement says. The work of an answer is `l m` products, one for each byte of the database if b = 8.
//!
//! **What is ours.** In Sotto the database is new in every round, and so are A, from the round's seed, and the hint. A client
//! downloads the hint for a single answer. A square matrix, which the paper takes since it counts the hint once, is then not
//! the cheapest: with fewer rows the hint is shorter, and queries and the product with A are longer. [`Parameters::choose`]
//! weighs these; [`Parameters::square`] is the paper's, and that of `simplepir-paper`. Digits have at most 8 bits, those of
//! the paper up to 9.95 (`p = 991` for 2^13 columns): the server reads no more than the database has, and hint, query and
//! answer of a square are longer by a ninth.

mod client;
mod encoding;
mod noise;
mod server;
mod shape;
#[cfg(test)]
mod stages;

use pir_core::dimensions::Stage;
use pir_core::{Error, PagePool};

pub use client::Asked;
pub use encoding::INSECURE_PROFILE;
pub use noise::{Noise, Stages};
pub use server::Database;
pub use shape::Parameters;

use crate::lwe::{Hinted, Hinting, PAPER, SECURE, security_bits};

/// The engine with secrets of so many words: [`crate::SECURE`] or [`crate::PAPER`].
#[derive(Clone, Copy, Debug)]
pub struct SimplePir<const N: usize>;

impl<const N: usize> Hinted for SimplePir<N> {
    const NAME: &'static str = match N {
        SECURE => "simplepir",
        PAPER => "simplepir-paper",
        _ => panic!("a degree without an estimate of its security"),
    };

    type Parameters = Parameters<N>;
    type Database = Database<N>;
    type Asked = Asked;

    fn choose(databases: usize, elements: usize, element_bytes: usize) -> Result<Parameters<N>, Error> {
        if N == PAPER {
            return Err(Error::Security { bits: security_bits(N) });
        }
        Parameters::choose(databases, elements, element_bytes)
    }

    fn profile(parameters: &Parameters<N>) -> [u8; 16] {
        encoding::profile(parameters)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; 16],
    ) -> Result<Parameters<N>, Error> {
        encoding::with_profile(elements, element_bytes, profile)
    }

    fn security_bits() -> u32 {
        security_bits(N)
    }

    fn failure_log2(parameters: &Parameters<N>) -> f64 {
        parameters.noise().failure_log2()
    }

    fn elements(parameters: &Parameters<N>) -> usize {
        parameters.elements()
    }

    fn query_bytes(parameters: &Parameters<N>) -> usize {
        parameters.query_bytes()
    }

    fn answer_bytes(parameters: &Parameters<N>) -> usize {
        parameters.answer_bytes()
    }

    fn hint_bytes(parameters: &Parameters<N>) -> usize {
        parameters.hint_bytes()
    }

    fn setup(
        pool: &PagePool,
        parameters: &Parameters<N>,
        seed: &[u8; 32],
        contents: &[&[u8]],
    ) -> Result<Hinting<Database<N>>, Error> {
        server::setup(pool, parameters, seed, contents)
    }

    fn database_bytes(database: &Database<N>) -> usize {
        database.bytes()
    }

    fn queries(
        parameters: &Parameters<N>,
        seed: &[u8; 32],
        indices: &[usize],
        own: &[u8; 32],
    ) -> Result<(Vec<u8>, Vec<Asked>), Error> {
        client::queries(parameters, seed, indices, own)
    }

    fn answer(
        database: &Database<N>,
        queries: &[&[u8]],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        server::answer(database, queries, observe)
    }

    fn extract(
        parameters: &Parameters<N>,
        asked: &Asked,
        hint: &[u8],
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        client::extract(parameters, asked, hint, answer)
    }
}
