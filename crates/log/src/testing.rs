//! For tests of what has a log: a disk that crashes, and the steps of a round.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod simulated;
mod verbs;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use simulated::Simulated;
pub use verbs::{History, Verbs};

use crate::{LogId, Options, State, snapshot};

/// Small, so that segments come and go.
const SEGMENT_BYTES: u64 = 6 << 10;

/// How a log is kept whose segments are small, and whose salts follow from a seed.
#[must_use]
pub fn options(seed: u64) -> Options {
    let mut rng = StdRng::seed_from_u64(!seed);
    Options {
        segment_bytes: SEGMENT_BYTES,
        grouped: false,
        root: None,
        salts: Box::new(move || Ok(rng.random())),
    }
}

/// A snapshot with nothing in it but where it is.
#[must_use]
pub fn empty_snapshot_at(applied: LogId) -> Vec<u8> {
    let mut state = State::default();
    state.applied = Some(applied);
    snapshot::Snapshot { state }.encode()
}
