//! A round's deposit, at its time.

use core::time::Duration;

use bytes::Bytes;
use sotto_protocol::Round;
use sotto_session::Session;
use sotto_wire::Failure;
use tokio::time::{Instant, sleep_until};

use super::Phase;
use super::keys::PublicKeys;
use super::sessions::{Patience, Sessions};

/// A deposit is not repeated without end, should a round never end.
const ATTEMPTS: u32 = 32;
const LONGEST: Duration = Duration::from_secs(600);

/// How a deposit went.
pub(crate) struct Deposited {
    pub(crate) round: Round,
    pub(crate) result: Result<Phase, Failure>,
}

/// Sends the bytes at the given time, and the same bytes again while no answer comes. The caller ends this when the
/// round is over.
pub(crate) async fn deposit(
    sessions: Sessions,
    keys: PublicKeys,
    round: Round,
    bytes: Bytes,
    at: Instant,
) -> Deposited {
    sleep_until(at).await;
    let started = Instant::now();
    let patience = Patience { until: started + LONGEST, attempts: ATTEMPTS };
    let length = bytes.len() as u64;
    let call = |session: Session| {
        let bytes = bytes.clone();
        async move { session.deposit(round, &bytes).await }
    };
    let sent = sessions.call(patience, &keys, call).await;
    let phase = |()| Phase { bytes: length, time: started.elapsed() };
    Deposited { round, result: sent.map(phase) }
}
