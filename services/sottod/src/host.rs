//! What a server asks of the machine that it runs on, behind a seam where tests answer.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::TryRng;
use rand::rngs::SysRng;
use sotto_protocol::UnixMillis;

/// A clock that anybody may set, and randomness. Time that passes is measured by [`tokio::time::Instant`] alone.
pub(crate) trait Host: Send + Sync + 'static {
    /// The time of day, as far as the machine knows it.
    fn unix_now(&self) -> UnixMillis;

    /// Fills a buffer with bytes that nobody else knows.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The operating system gives no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRandomness;

/// The operating system.
pub(crate) struct System;

impl Host for System {
    fn unix_now(&self) -> UnixMillis {
        unix_now()
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        SysRng.try_fill_bytes(bytes).map_err(|_| NoRandomness)
    }
}

/// The time of day; 0 if the clock stands before 1970.
pub fn unix_now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(since.as_millis().try_into().unwrap_or(u64::MAX))
}
