//! Clients that attack, over real sockets, while honest ones deposit and retrieve.
//!
//! Every test has the same shape: honest members take part, an attack runs, the attacker gets exactly what
//! docs/SECURITY.md says, and at the end every round of the honest members was complete. `--nocapture` prints what was
//! measured; the times mean something only with `--test-threads 1`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]
#![allow(clippy::print_stdout, reason = "measurements are for whoever runs the tests")]

mod calls;
mod ciphertexts;
mod fat;
mod floods;
mod frames;
mod honest;
mod labels;
mod order;
mod raw;
mod readers;
mod replay;
#[path = "../support/mod.rs"]
mod support;
mod transport;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpir::{Engine, noop};
use sottod::{Config, Running, Usage};
use tokio::sync::RwLock;

/// Floods take the machine for themselves; everything else can be tried side by side.
static TURNS: RwLock<()> = RwLock::const_new(());

/// Limits of the servers here: short, so that attacks end soon, and long enough for a busy machine.
const STALL: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_secs(8);
const UNKNOWN: Duration = Duration::from_secs(5);
/// What a busy machine may add to a limit.
const SLACK: Duration = Duration::from_secs(6);

fn target(adjust: impl FnOnce(&mut Config)) -> Running {
    target_of(noop(), adjust)
}

fn target_of(engine: Arc<dyn Engine>, adjust: impl FnOnce(&mut Config)) -> Running {
    support::server_of(engine, |config| {
        config.round_ms = 1500;
        config.limits.stall = STALL;
        config.limits.call = CALL;
        config.limits.unknown = UNKNOWN;
        adjust(config);
    })
}

/// Says how long an attack held what it held, which must be no longer than its limit.
fn held(attack: &str, since: Instant, limit: Duration) {
    let held = since.elapsed();
    println!("measured: {attack}: {:.1} s, limit {:.1} s", held.as_secs_f64(), limit.as_secs_f64());
    assert!(held < limit + SLACK, "{attack}: {held:?}");
}

/// Memory of this process, MiB, as the operating system counts it.
fn resident() -> u64 {
    Usage::of_this().resident >> 20
}
