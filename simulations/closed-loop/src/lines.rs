//! What the two processes tell each other: one JSON object a line.

use derive_more::{Add, Mul, Sub, Sum};
use serde::{Deserialize, Serialize};
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::Stages;
use sotto_measuring::engine::EngineName;
use sottod::Preference;

/// Requests that servers answer together by default, at most.
pub const TILE: usize = 16;
/// How long they wait for more of them by default, ms.
pub const GATHER_MS: u64 = 100;

/// How long they wait where what a client costs in a full tile is to be measured, ms: as long as it takes, if there are so many clients.
/// The clients of a measurement compute beside the server, and ask one after the other, where those of a deployment have machines of their
/// own and are more.
pub const fn gather_ms(clients: u32) -> u64 {
    if (clients as usize).is_multiple_of(TILE) { 20_000 } else { GATHER_MS }
}

/// What the server's process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// That it runs, alone.
    pub engine: EngineName,
    /// What its rounds are arranged for, with Voce.
    pub prefer: Preference,
    /// Of its rounds.
    pub code: CodeName,
    /// Messages that a client retrieves in a round (k).
    pub retrieve: u16,
    /// Simulated ones.
    pub users: u32,
    /// Real ones, who come on top of those.
    pub clients: u32,
    /// That compute.
    pub threads: usize,
    /// Requests that are answered together, at most.
    pub tile: usize,
    /// How long a request waits for others, ms.
    pub gather_ms: u64,
    /// Of the simulated users' deposits, and of all that clients choose.
    pub seed: u64,
}

/// What the server's process is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// [`Said::Now`].
    Now,
    /// To end the server, if it runs, and then measure the bare stages: [`Said::Bench`].
    Bench,
}

/// What the server's process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// It takes calls.
    Listening {
        address: String,
    },
    /// A round has come to a point.
    Round {
        round: u64,
        point: Point,
        at: Snapshot,
    },
    Now(Snapshot),
    /// The bare stages of a round, and how many answers of one bucket there were.
    Bench(Bench, u64),
    /// It cannot go on.
    Failed(String),
}

/// Points in the life of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// No deposit is taken any more.
    Sealed,
    /// The simulated users have deposited.
    Populated,
    /// It can be retrieved.
    Built,
    /// It cannot be built, and never will.
    Abandoned,
}

/// What the server's process has used up to a moment, and what it holds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Since it began.
    pub spent: Spent,
    /// Of the prepared buckets of all rounds.
    pub(crate) database_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// The most there was.
    pub(crate) peak_bytes: u64,
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, Sub)]
pub struct Spent {
    pub(crate) wall_ms: f64,
    /// Of all its threads, in the kernel too.
    pub cpu_ms: f64,
    /// Of that, in answers.
    pub stages: Stages,
    /// Answers of one bucket to one client.
    pub answers: u64,
}

/// CPU time of the bare stages of one round, milliseconds, with as many threads as the server has.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, Add, Sum, Mul)]
pub struct Bench {
    /// Order and digest of the deposits.
    pub arrange: f64,
    /// The batch code, with the bytes of its buckets.
    pub encode: f64,
    /// The engine's preparation of the buckets.
    pub(crate) prepare: f64,
    /// From labels to positions; none with slots.
    pub mapping: f64,
    /// The answers to all clients, and their stages.
    pub(crate) answer: f64,
    #[serde(flatten)]
    pub(crate) stages: Stages,
}

impl Bench {
    pub(crate) fn setup(&self) -> f64 {
        self.arrange + self.encode + self.prepare + self.mapping
    }
}
