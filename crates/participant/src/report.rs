//! What a round cost its participant.

use core::fmt;
use core::time::Duration;

use sotto_protocol::Round;
use sotto_protocol::client::Lookups;

/// A transfer: payload bytes and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Payload, without the envelopes of gRPC and HTTP/2.
    pub bytes: u64,
    /// Time, the server's work included.
    pub time: Duration,
}

/// What a round cost, phase by phase. Written for debugging, it shows only what the manifest says.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// The round.
    pub round: Round,
    /// Deposits in it, as the manifest says.
    pub entries: u64,
    /// Elements of every bucket, as the manifest says.
    pub bucket_size: u32,
    /// Keys uploaded since the report before: in the first round, and when the server has lost them.
    pub keys: Phase,
    /// The deposit, up.
    pub deposit: Phase,
    /// The mapping, down.
    pub mapping: Phase,
    /// Bytes of what is needed to read answers, down; 0 with most engines.
    pub hint: u64,
    /// Time of looking up and planning.
    pub lookup: Duration,
    /// What became of the boxes looked for. As secret as the contacts.
    pub lookups: Lookups,
    /// Whether all queries were random, since mapping or look-up failed or came late.
    pub dummy: bool,
    /// Time of building the multi-query.
    pub build: Duration,
    /// The multi-query, up; time until the answer begins.
    pub query: Phase,
    /// The answer, down; time from its beginning.
    pub answer: Phase,
    /// Time of decoding the answer.
    pub extract: Duration,
    /// Whether all calls of the round succeeded.
    pub complete: bool,
}

impl fmt::Debug for RoundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundReport")
            .field("round", &self.round)
            .field("entries", &self.entries)
            .field("bucket_size", &self.bucket_size)
            .finish_non_exhaustive()
    }
}
