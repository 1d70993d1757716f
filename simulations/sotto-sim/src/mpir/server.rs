//! The server's part: buckets set up and answered in groups, so that memory stays bounded.

use crate::cpu::timed;
use crate::engine::{Engine, StageTimes};

/// Prepared buckets held at a time, bytes. A server holds all of them; as many as this leave nothing of a bucket in a
/// processor's cache until it is answered, which is what counts.
const HELD: usize = 2 << 30;

/// CPU time, milliseconds, and what came of it.
#[derive(Default)]
pub(super) struct Served {
    /// Bucket by bucket.
    pub(super) answers: Vec<Vec<u8>>,
    pub(super) setup: f64,
    pub(super) times: StageTimes,
    /// Of all prepared buckets together.
    pub(super) database_bytes: usize,
}

/// Sets up every content and answers its queries: `queries[i]` is for content `i / copies`.
///
/// `advance` is told how many buckets' elements were gone through, set-up and answers alike.
pub(super) fn serve<E: Engine>(
    contents: &[&[u8]],
    copies: usize,
    parameters: &E::Parameters,
    keys: &E::PublicKeys,
    queries: &[Vec<u8>],
    advance: &dyn Fn(u64),
) -> anyhow::Result<Served> {
    let mut served = Served::default();
    let (mut held, mut held_bytes): (Vec<E::Database>, usize) = (Vec::new(), 0);
    let mut pending = queries.iter();
    for (number, content) in contents.iter().enumerate() {
        let (database, time) = timed(|| E::setup(parameters, content));
        let database = database?;
        served.setup += time;
        advance(1);
        held_bytes += E::database_bytes(&database);
        held.push(database);
        if held_bytes < HELD && number + 1 < contents.len() {
            continue;
        }
        for database in held.drain(..) {
            for query in pending.by_ref().take(copies) {
                let answers = served.times.answer::<E>(&database, &[(keys, query)])?;
                served.answers.extend(answers);
                advance(1);
            }
        }
        served.database_bytes += core::mem::take(&mut held_bytes);
    }
    Ok(served)
}
