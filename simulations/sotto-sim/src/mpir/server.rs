//! The server's part: buckets set up and answered in groups, so that memory stays bounded.

use pir_core::sealpir::{Database, Parameters, PublicKeys, Stage, answer_tile_observed};
use pir_core::{Scheme, SealPir};

use crate::cpu::{milliseconds, timed};

/// Prepared buckets held at a time, bytes. A server holds all of them; as many as this leave nothing of a bucket in a
/// processor's cache until it is answered, which is what counts.
const HELD: usize = 2 << 30;

/// CPU time, milliseconds, and what came of it.
#[derive(Default)]
pub(super) struct Served {
    /// Bucket by bucket.
    pub(super) answers: Vec<Vec<u8>>,
    pub(super) setup: f64,
    pub(super) expand: f64,
    /// With several groups of columns for a long element, all but the last group's further work counts here, too.
    pub(super) first_dimension: f64,
    pub(super) answer: f64,
    /// Of all prepared buckets together.
    pub(super) database_bytes: usize,
}

/// Sets up every content and answers its queries: `queries[i]` is for content `i / copies`.
///
/// `advance` is told how many buckets' elements were gone through, set-up and answers alike.
pub(super) fn serve(
    contents: &[&[u8]],
    copies: usize,
    parameters: &Parameters,
    keys: &PublicKeys,
    queries: &[Vec<u8>],
    advance: &dyn Fn(u64),
) -> anyhow::Result<Served> {
    let mut served = Served::default();
    let (mut held, mut held_bytes): (Vec<Database>, usize) = (Vec::new(), 0);
    let mut pending = queries.iter();
    for (number, content) in contents.iter().enumerate() {
        let (database, time) = timed(|| SealPir::setup(parameters, content));
        let database = database?;
        served.setup += time;
        advance(1);
        held_bytes += database.bytes();
        held.push(database);
        if held_bytes < HELD && number + 1 < contents.len() {
            continue;
        }
        for database in held.drain(..) {
            for query in pending.by_ref().take(copies) {
                served.answer(&database, keys, query)?;
                advance(1);
            }
        }
        served.database_bytes += core::mem::take(&mut held_bytes);
    }
    Ok(served)
}

impl Served {
    fn answer(&mut self, database: &Database, keys: &PublicKeys, query: &[u8]) -> anyhow::Result<()> {
        let start = milliseconds();
        let (mut expanded, mut first) = (start, start);
        let answers = answer_tile_observed(database, &[(keys, query)], |stage| match stage {
            Stage::Expanded => expanded = milliseconds(),
            Stage::FirstDimension => first = milliseconds(),
            _ => {}
        });
        self.answer += milliseconds() - start;
        self.expand += expanded - start;
        self.first_dimension += first - expanded;
        for answer in answers {
            self.answers.push(answer?);
        }
        Ok(())
    }
}
