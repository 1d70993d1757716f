//! DoublePIR: SimplePIR put to itself, so that the hint does not grow with the database (Henzinger, Hong, Corrigan-Gibbs,
//! Meiklejohn, Vaikuntanathan, USENIX Security 2023, section 5).
//!
//! With the terms of [`crate::simplepir`], D has l rows and m columns, and what a client needs of SimplePIR's hint and answer
//! is one row of each. A second query selects it: both are cut into K = ceil(32 / b) digits of b bits, which makes a
//! database of K (n + 1) digits for each row of D. A1 and A2 are public matrices of m and of l rows, s1 and s2 secrets, and
//! `digits(X)` the matrix that has, for each row of X, the K digits of its words, centred:
//!
//! ```text
//! server's hint   H1 = digits((D A1)^T)                   K n rows of l bytes
//! hint            H2 = H1 A2                              K n n words, once for all clients
//! query           c1 = A1 s1 + e1 + delta u_column        m words
//!                 c2 = A2 s2 + e2 + delta u_row           l words
//! first answer    a1 = digits((D c1)^T)                   K rows of l bytes, kept
//! answer          h  = a1 A2, H1 c2, a1 c2                K n, K n and K words
//! read            H1 c2 - H2 s2  gives row `row` of D A1, n words
//!                 a1 c2 - h s2   gives row `row` of D c1, a word
//!                 and that word less the row times s1 is delta D[row][column] and noise.
//! ```
//!
//! **Long elements** have d digits, in r blocks of l rows each and c columns, `r c >= d`. The blocks share both queries, but
//! each has its own H1 and its own part of the hint: with c = 1 it is what the paper does, whose hint grows by d (section
//! 5.2). Columns share the hint, but each has a query c1 of its own, and the database is gone through for each of them, in
//! one pass. As the hint is downloaded in every round, [`Parameters::choose`] finds few blocks cheapest.
//!
//! The hint of one block is `4 K n^2` bytes, 20 MB, however many elements there are. Of 288 bytes each they take two blocks at
//! 2^16 and three at 2^18 and 2^20, where SimplePIR's hint has 6, 12 and 23 MB
//! (docs/figures/engines.md).

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

/// The engine with secrets of so many words, [`crate::SECURE`] or [`crate::PAPER`].
#[derive(Clone, Copy, Debug)]
pub struct DoublePir<const N: usize>;

impl<const N: usize> Hinted for DoublePir<N> {
    const NAME: &'static str = match N {
        SECURE => "doublepir",
        PAPER => "doublepir-paper",
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

    /// [`Stage::FurtherDimensions`] is told when the second query is answered, too.
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
