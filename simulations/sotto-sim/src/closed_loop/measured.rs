//! What a run brings together: of each round, and of all of them.

use hdrhistogram::Histogram;

use super::check::Check;
use super::client::{Counts, Payload};
use super::counting::Traffic;
use super::lines::{Bench, Snapshot, Spent};

/// What a whole run has measured.
pub(super) struct Measured {
    pub(super) rounds: Vec<RoundMeasured>,
    pub(super) latencies: Histogram<u64>,
    pub(super) key_bytes: u64,
    /// In the sockets while clients registered and uploaded keys.
    pub(super) entering: Traffic,
    /// Before any client, when all of them had uploaded their keys, and at the end.
    pub(super) memory: [Snapshot; 3],
    /// Of all prepared buckets, of as many rounds as are kept.
    pub(super) database_bytes: u64,
    /// One round of bare stages for each of the rounds.
    pub(super) benches: Vec<Bench>,
    /// Of one answer of the last round.
    pub(super) check: Check,
    pub(super) warnings: Vec<String>,
}

/// One round of all clients.
#[derive(Clone, Debug)]
pub(super) struct RoundMeasured {
    pub(super) round: u64,
    /// From the release of the clients to the last answer judged.
    pub(super) all: Spent,
    /// Until the round was sealed: deposits.
    pub(super) deposits: Spent,
    /// Making up the simulated users' deposits.
    pub(super) population: Spent,
    pub(super) setup: Spent,
    /// From the publication of the round until every client had its answers.
    pub(super) retrieval: Spent,
    pub(super) counts: Counts,
    pub(super) payload: Payload,
    pub(super) traffic: Traffic,
    pub(super) clients_cpu_ms: f64,
    pub(super) buckets: usize,
    pub(super) bucket_size: usize,
}
