//! What taking part costs, computed from what a server announces, before there is an account.

use mpir::{Engine, Error, Form, RoundSpec};
use sotto_protocol::ServerParameters;
use sotto_protocol::audit::AUDITED;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{expected_bucket_size, mapping_bytes};

use crate::keys::ROUNDS as ROUNDS_OF_KEYS;

/// Bytes that a client sends and receives for a round, without the envelopes of gRPC, HTTP/2 and TLS (a few per cent). Everybody's
/// are the same, whether they talk or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCost {
    /// Its box, up.
    pub deposit: u64,
    /// What tells where boxes lie, down; 0 with slots.
    pub mapping: u64,
    /// What is the same for everybody and needed to read answers, down; 0 with most engines.
    pub hint: u64,
    /// Its request, up: where queries stand, a round's share of it, and the name that it has in the other rounds.
    pub request: u64,
    /// The answer, down.
    pub answer: u64,
    /// Keys for retrieval, up: a round's share of them, as they serve for 64 rounds.
    pub keys: u64,
    /// What answers are checked with, down: a round's share, as one part of one answer in 128 rounds is checked.
    pub checks: u64,
}

impl RoundCost {
    /// What a round costs if so many people deposit. With labels the size of the largest bucket is a matter of chance, of which
    /// this takes the expected one.
    ///
    /// # Errors
    /// [`Error`] if there can be no such round.
    pub fn expected(engine: &dyn Engine, server: &ServerParameters, people: u64) -> Result<Self, Error> {
        Self::of(engine, server, expected_bucket_size(server.shape(), people).ok_or(Error::Size)?)
    }

    /// What a round costs whose buckets have this size.
    ///
    /// # Errors
    /// [`Error`] if the engine cannot arrange them.
    pub fn of(engine: &dyn Engine, server: &ServerParameters, bucket_size: u32) -> Result<Self, Error> {
        let elements = bucket_size as usize;
        let form = Form { buckets: server.buckets.into(), elements, element_bytes: BOX_BYTES };
        let spec =
            RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile: engine.profile(form)? };
        let sizes = engine.sizes(&spec)?;
        let unit = sizes.units.range(0).len() * elements * BOX_BYTES + DIGEST_BYTES * form.buckets;
        let rounds = server.code.epoch_rounds();
        let request = sizes.request.bytes() as u64 + (rounds - 1) * DIGEST_BYTES as u64;
        Ok(Self {
            deposit: server.deposit_bytes() as u64,
            mapping: mapping_bytes(server.shape(), bucket_size),
            hint: sizes.hint.bytes() as u64,
            request: request.div_ceil(rounds),
            answer: sizes.answer.bytes() as u64,
            keys: (engine.public_keys_bytes() as u64).div_ceil(ROUNDS_OF_KEYS),
            checks: (unit as u64).div_ceil(AUDITED),
        })
    }

    /// Bytes that a client sends.
    #[must_use]
    pub fn up(&self) -> u64 {
        self.deposit + self.request + self.keys
    }

    /// Bytes that it receives.
    #[must_use]
    pub fn down(&self) -> u64 {
        self.mapping + self.hint + self.answer + self.checks
    }
}

/// SHA-256.
const DIGEST_BYTES: usize = 32;

/// Rounds that a text takes from its author's turn at the latest, with room for so many conversations; to the turn it may be as
/// long again.
#[must_use]
pub fn rounds_to_arrive(server: &ServerParameters, places: u8) -> u32 {
    // Where not everything is polled in a round, a text is found in one of several turns. A turn takes a round to come, and
    // one to be retrieved.
    let polls = (2 * u32::from(places)).div_ceil(server.retrieve.max(1).into());
    u32::from(places) * polls + 2
}
