//! When in a round this account's calls leave: the server's offsets, put off by what follows from account and round.

use core::time::Duration;

use ed25519_dalek::SigningKey;
use sotto_protocol::client::Client;
use sotto_protocol::{Round, ServerParameters, slot};

/// The times of one account's calls.
pub(crate) struct Slots {
    account: [u8; 32],
    server: ServerParameters,
}

/// Offsets after a round is ready.
pub(crate) struct Retrieving {
    /// Mapping and hint are asked for.
    pub(crate) begin: Duration,
    /// A look-up that is not done is given up.
    pub(crate) lookup: Duration,
    /// The multi-query leaves.
    pub(crate) query: Duration,
}

impl Slots {
    pub(crate) fn new(client: &Client) -> Self {
        let account = SigningKey::from_bytes(client.account_seed()).verifying_key().to_bytes();
        Self { account, server: client.server().clone() }
    }

    /// Of the deposit, after the round opened.
    pub(crate) fn deposit(&self, round: Round) -> Duration {
        let slot = slot(&self.account, round, self.server.deposit_spread_ms);
        Duration::from_millis(self.server.deposit_ms.into()) + slot
    }

    pub(crate) fn retrieval(&self, round: Round) -> Retrieving {
        let begin = slot(&self.account, round, self.server.query_spread_ms);
        let after = |offset: u32| begin + Duration::from_millis(offset.into());
        Retrieving { begin, lookup: after(self.server.lookup_ms), query: after(self.server.query_ms) }
    }
}
