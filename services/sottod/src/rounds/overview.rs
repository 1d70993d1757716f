//! The rounds of a node as its operator sees them.

use serde::{Deserialize, Serialize};
use sotto_log::Phase;

use super::Task;

/// How far a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundPhase {
    /// It takes deposits.
    Open,
    /// It is being built, or is to be.
    Sealed,
    /// It has a manifest.
    Published,
}

/// A round that is not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundStatus {
    /// Its number.
    pub round: u64,
    /// How far it has come in the log.
    pub phase: RoundPhase,
    /// Whether this node serves it.
    pub served: bool,
    /// Deposits in it, as far as this node knows.
    pub deposits: u64,
    /// Elements of each of its buckets, once it is served.
    pub bucket_elements: Option<u32>,
    /// Bytes of its mapping, once it is served.
    pub mapping_bytes: Option<usize>,
}

impl Task {
    /// The rounds in the log, the newest first.
    pub(super) fn overview(&self) -> Vec<RoundStatus> {
        let state = self.log.state();
        let status = |(round, phase): (&_, &Phase)| {
            let served = self.served.get(round);
            RoundStatus {
                round: round.0,
                phase: match phase {
                    Phase::Open => RoundPhase::Open,
                    Phase::Sealed => RoundPhase::Sealed,
                    Phase::Published => RoundPhase::Published,
                },
                served: served.is_some(),
                deposits: state.deposits(*round),
                bucket_elements: served.map(|database| database.manifest.bucket_size),
                mapping_bytes: served.map(|database| database.mapping.len()),
            }
        };
        self.known.iter().rev().map(status).collect()
    }
}
