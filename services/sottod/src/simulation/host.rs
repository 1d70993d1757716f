//! A machine whose clock is wrong, and whose randomness comes from a seed.

use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use sotto_protocol::UnixMillis;
use tokio::time::Instant;

use crate::host::{Host, NoRandomness};

/// How a clock goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Right,
    /// It stands.
    Stopped,
    /// It goes backwards.
    Backwards,
    /// It is set anew, hours forth and back, whenever somebody looks.
    Jumping,
}

impl Clock {
    pub(super) const ALL: [Self; 4] = [Self::Right, Self::Stopped, Self::Backwards, Self::Jumping];
}

/// The machine of one server in one life.
pub(super) struct Simulated {
    clock: Clock,
    /// What the clock shows at the start.
    base: i64,
    started: Instant,
    rng: Mutex<StdRng>,
    jumps: Mutex<StdRng>,
}

impl Simulated {
    pub(super) fn new(clock: Clock, base: i64, rng: StdRng, jumps: StdRng) -> Self {
        Self { clock, base, started: Instant::now(), rng: Mutex::new(rng), jumps: Mutex::new(jumps) }
    }
}

impl Host for Simulated {
    fn unix_now(&self) -> UnixMillis {
        const HOURS_MS: i64 = 10 * 3_600_000;
        let passed = self.started.elapsed().as_millis() as i64;
        let shift = match self.clock {
            Clock::Right => passed,
            Clock::Stopped => 0,
            Clock::Backwards => -passed,
            Clock::Jumping => {
                let mut jumps = self.jumps.lock().unwrap_or_else(PoisonError::into_inner);
                passed + jumps.random_range(-HOURS_MS..HOURS_MS)
            }
        };
        UnixMillis(self.base.saturating_add(shift).max(0) as u64)
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
        Ok(())
    }
}
