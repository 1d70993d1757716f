//! What the two processes tell each other: one JSON object a line.

use serde::{Deserialize, Serialize};

use super::Code;
use crate::engine::EngineName;

/// What the server's process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) engine: EngineName,
    pub(super) code: Code,
    pub(super) retrieve: u16,
    /// Simulated ones.
    pub(super) users: u32,
    pub(super) clients: u32,
    pub(super) threads: usize,
    /// Of the simulated users' deposits.
    pub(super) seed: u64,
}

/// What the server's process is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// [`Said::Now`].
    Now,
    /// To end the server, if it runs, and then measure the bare stages: [`Said::Bench`].
    Bench,
}

/// What the server's process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
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
    Bench(Bench),
    /// It cannot go on.
    Failed(String),
}

/// Points in the life of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Point {
    Sealed,
    Populated,
    Built,
    Abandoned,
}

/// What the server's process has used up to a moment, and what it holds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    /// Since it began.
    pub(super) wall_ms: f64,
    /// Of all its threads, in the kernel too.
    pub(super) cpu_ms: f64,
    pub(super) expand_ms: f64,
    pub(super) first_dimension_ms: f64,
    pub(super) rest_ms: f64,
    /// Answers of one bucket to one client.
    pub(super) answers: u64,
    /// Of the prepared buckets of all rounds.
    pub(super) database_bytes: u64,
    pub(super) resident_bytes: u64,
    /// The most there was.
    pub(super) peak_bytes: u64,
}

/// CPU time of the bare stages of one round, milliseconds, with as many threads as the server has.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bench {
    /// Order and digest of the deposits.
    pub(super) arrange_ms: f64,
    /// The batch code, with the bytes of its buckets.
    pub(super) encode_ms: f64,
    /// The engine's preparation of the buckets.
    pub(super) prepare_ms: f64,
    pub(super) mapping_ms: f64,
    /// The answers to all clients.
    pub(super) answer_ms: f64,
    pub(super) expand_ms: f64,
    pub(super) first_dimension_ms: f64,
    pub(super) rest_ms: f64,
    /// How many there were.
    pub(super) answers: u64,
}

impl Bench {
    pub(super) fn setup_ms(&self) -> f64 {
        self.arrange_ms + self.encode_ms + self.prepare_ms + self.mapping_ms
    }
}

/// All of one and the other.
impl core::ops::Add for Bench {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            arrange_ms: self.arrange_ms + other.arrange_ms,
            encode_ms: self.encode_ms + other.encode_ms,
            prepare_ms: self.prepare_ms + other.prepare_ms,
            mapping_ms: self.mapping_ms + other.mapping_ms,
            answer_ms: self.answer_ms + other.answer_ms,
            expand_ms: self.expand_ms + other.expand_ms,
            first_dimension_ms: self.first_dimension_ms + other.first_dimension_ms,
            rest_ms: self.rest_ms + other.rest_ms,
            answers: self.answers + other.answers,
        }
    }
}

impl core::ops::Sub for Snapshot {
    type Output = Spent;

    fn sub(self, earlier: Self) -> Spent {
        Spent {
            wall_ms: self.wall_ms - earlier.wall_ms,
            cpu_ms: self.cpu_ms - earlier.cpu_ms,
            expand_ms: self.expand_ms - earlier.expand_ms,
            first_dimension_ms: self.first_dimension_ms - earlier.first_dimension_ms,
            rest_ms: self.rest_ms - earlier.rest_ms,
            answers: self.answers.saturating_sub(earlier.answers),
        }
    }
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) wall_ms: f64,
    pub(super) cpu_ms: f64,
    pub(super) expand_ms: f64,
    pub(super) first_dimension_ms: f64,
    pub(super) rest_ms: f64,
    pub(super) answers: u64,
}
