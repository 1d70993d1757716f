//! What tests of several rooms need.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{
    CodeKind, KeyEpoch, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters, UnixMillis,
};

use crate::Address;

/// Somebody with room for two conversations, at a server that nobody has seen.
pub(crate) fn client(name: &str) -> Client {
    let server = ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        manifest_key: [1; 32],
        seeds: SeedCommitment::default(),
        engine: "none".into(),
        security_bits: 128,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 12,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 200,
        query_ms: 300,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: KeyEpoch::ENDLESS,
    };
    let joined = (Round(1), UnixMillis(0));
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    Client::new(name, server, Settings { conversations: 2 }, joined, &mut rng).unwrap()
}

/// Where that server would be.
pub(crate) fn address() -> Address {
    format!("sotto://127.0.0.1:7370/{}", "a".repeat(52)).parse().unwrap()
}
