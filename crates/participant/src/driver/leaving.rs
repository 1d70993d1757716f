//! When somebody leaves.

use core::time::Duration;

use tokio::time::Instant;

use super::{Driver, Leaving};

/// Beyond two rounds, how long one who leaves waits for the rounds in progress.
const LEAVING_MARGIN: Duration = Duration::from_secs(5);

impl Driver {
    /// When to leave, if that is wanted: a round after the last call in progress has ended. How long the client takes to
    /// read what came, which depends on what that is, does not show in it.
    pub(super) fn leaves_at(&self) -> Option<Instant> {
        let Leaving { since, until, .. } = self.leaving.as_ref()?;
        let round = Duration::from_millis(self.server.round_ms.into());
        let quiet = self.called.max(*since) + round;
        Some(if self.rounds.are_called() { quiet.min(*until) } else { *until })
    }

    /// Two rounds and a little more: the calls of the rounds in progress are made by then, or something is wrong.
    pub(super) fn two_rounds(&self) -> Duration {
        let spread = u64::from(self.server.query_spread_ms);
        Duration::from_millis(u64::from(self.server.round_ms) * 2 + spread) + LEAVING_MARGIN
    }
}
