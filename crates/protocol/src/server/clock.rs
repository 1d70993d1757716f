//! Time that never goes back.

use crate::UnixMillis;

/// Milliseconds that have passed, from a clock that may be set meanwhile.
///
/// Only steps forward count. A clock set back costs the time up to the next look at it, so that nothing waits for it to
/// catch up; one set forward ends at most the round that is open.
#[derive(Debug)]
pub(super) struct Stopwatch {
    seen: UnixMillis,
    elapsed: u64,
}

impl Stopwatch {
    pub(super) fn new(now: UnixMillis) -> Self {
        Self { seen: now, elapsed: 0 }
    }

    pub(super) fn advance(&mut self, now: UnixMillis) {
        self.elapsed = self.elapsed_at(now);
        self.seen = now;
    }

    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed
    }

    pub(super) fn elapsed_at(&self, now: UnixMillis) -> u64 {
        self.elapsed.saturating_add(now.since(self.seen))
    }
}
