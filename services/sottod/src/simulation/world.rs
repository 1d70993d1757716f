//! Simulated time, the trace of all that happens, and what went wrong.

use core::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};
use sotto_wire::RootKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Randomness for one purpose: what others draw does not change it.
pub(super) fn rng(seed: u64, purpose: impl Display) -> StdRng {
    StdRng::from_seed(Sha256::digest(format!("{seed} {purpose}")).into())
}

/// The root key of every simulated cluster.
pub(super) const ROOT: RootKey = RootKey([8; 32]);

/// How a line of the trace begins that must never be.
pub(super) const VIOLATION: &str = "VIOLATION: ";

/// Everything that outlives a server.
#[derive(Default)]
pub(super) struct World(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    trace: Vec<String>,
    violations: Vec<String>,
    /// When the present life began, or the next one will.
    before: Duration,
    life: Option<Life>,
    lives: usize,
    busy: Vec<(Duration, Duration)>,
}

struct Life {
    began: Instant,
    power: CancellationToken,
    /// The server has been told to end, or its disk has failed: it may refuse anything.
    ending: bool,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// A server starts; the token tells when the power fails.
    pub(super) fn begin(&self) -> CancellationToken {
        let power = CancellationToken::new();
        let mut inner = self.lock();
        inner.life = Some(Life { began: Instant::now(), power: power.clone(), ending: false });
        inner.lives += 1;
        power
    }

    /// A server is gone, with everything that was in its memory.
    pub(super) fn end(&self) {
        let mut inner = self.lock();
        inner.before = inner.now();
        inner.life = None;
    }

    /// Time since the beginning of everything.
    pub(super) fn now(&self) -> Duration {
        self.lock().now()
    }

    /// Which server runs, from 1.
    pub(super) fn life(&self) -> usize {
        self.lock().lives
    }

    /// Nothing leaves the machine any more.
    pub(super) fn cut_power(&self) {
        if let Some(life) = &self.lock().life {
            life.power.cancel();
        }
    }

    pub(super) fn has_power(&self) -> bool {
        self.lock().life.as_ref().is_some_and(|life| !life.power.is_cancelled())
    }

    pub(super) fn ending(&self) {
        if let Some(life) = &mut self.lock().life {
            life.ending = true;
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.lock().life.as_ref().is_none_or(|life| life.ending)
    }

    /// The disk is at work for so long from now on.
    pub(super) fn busy(&self, duration: Duration) {
        let mut inner = self.lock();
        let now = inner.now();
        inner.busy.push((now, now + duration));
    }

    /// How long the disk was at work between these times.
    pub(super) fn busy_between(&self, from: Duration, to: Duration) -> Duration {
        let inner = self.lock();
        // The newest come last, and do not overlap.
        let late = inner.busy.iter().rev().take_while(|(_, end)| *end >= from);
        late.map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from))).sum()
    }

    pub(super) fn note(&self, what: impl Display) {
        let mut inner = self.lock();
        let line = format!("{:>8} {what}", inner.now().as_millis());
        inner.trace.push(line);
    }

    /// Something that must never be.
    pub(super) fn violated(&self, what: impl Display) {
        self.note(format_args!("{VIOLATION}{what}"));
        let mut inner = self.lock();
        let line = format!("at {} ms: {what}", inner.now().as_millis());
        inner.violations.push(line);
    }

    /// The trace, and all that must never be.
    pub(super) fn finish(&self) -> (Vec<String>, Vec<String>) {
        let mut inner = self.lock();
        (core::mem::take(&mut inner.trace), core::mem::take(&mut inner.violations))
    }
}

impl Inner {
    fn now(&self) -> Duration {
        self.before + self.life.as_ref().map_or(Duration::ZERO, |life| life.began.elapsed())
    }
}
