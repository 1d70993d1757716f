//! Round numbers and points in time.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Number of a round; they follow each other without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Round(pub u64);

impl Round {
    /// The round after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The round `rounds` before this one, or round 0.
    #[must_use]
    pub fn back(self, rounds: u64) -> Self {
        Self(self.0.saturating_sub(rounds))
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A point in time: milliseconds since the Unix epoch, as told by the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Milliseconds from `earlier` to this point; 0 if the clock went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
