//! Clients that attack while honest ones deposit and retrieve.
//!
//! Every attack has the same shape: honest members take part, an attack runs, the attacker gets exactly what
//! docs/SECURITY.md says, and at the end every round of the honest members was complete. They are played over real sockets
//! (`sockets.rs`) and in simulated time (`src/hostile.rs`), where nothing may add to a limit. `--nocapture` prints what was
//! measured; over sockets the times mean something only with `--test-threads 1`.
#![allow(clippy::print_stdout, reason = "measurements are for whoever runs the tests")]

pub(crate) mod calls;
pub(crate) mod ciphertexts;
mod counted;
mod fat;
pub(crate) mod floods;
pub(crate) mod frames;
mod honest;
pub(crate) mod labels;
pub(crate) mod order;
pub(crate) mod queries;
mod raw;
pub(crate) mod readers;
pub(crate) mod replay;
pub(crate) mod transport;
pub(crate) mod units;

use std::sync::Arc;
use std::time::Duration;

use mpir::{Engine, noop};
use sottod::{Config, Usage};
use tokio::time::Instant;

use super::{stage, support};

/// Limits of the servers here: short, so that attacks end soon, and long enough for a busy machine.
const STALL: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_secs(8);
const UNKNOWN: Duration = Duration::from_secs(5);
/// Nothing that has no limit takes so long.
const SLACK: Duration = Duration::from_secs(6);

fn target(adjust: impl FnOnce(&mut Config)) -> support::Server {
    target_of(noop(), adjust)
}

fn target_of(engine: Arc<dyn Engine>, adjust: impl FnOnce(&mut Config)) -> support::Server {
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
    assert!(held < limit + stage::LATE, "{attack}: {held:?}");
}

/// Memory of this process, MiB, as the operating system counts it.
fn resident() -> u64 {
    Usage::of_this().resident >> 20
}
