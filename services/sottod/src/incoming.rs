//! Streams from clients, who may write slowly or not at all.

use core::time::Duration;

use bytes::Bytes;
use sotto_wire::{Join, Refused};
use tokio::time::Instant;
use tonic::{Status, Streaming};

/// The next message, if it arrives within `stall`; `None` at the end.
pub(crate) async fn next<T>(stream: &mut Streaming<T>, stall: Duration) -> Result<Option<T>, Status> {
    tokio::time::timeout(stall, stream.message())
        .await
        .map_err(|_| Status::deadline_exceeded("the caller stands still"))?
}

/// Bytes per second below which a caller counts as standing still, however often it sends a little.
const RATE: usize = 32 << 10;

/// Reads the rest of a value of exactly `expected` bytes, of which `first` is there. Memory grows with what arrives; a
/// caller that falls more than `stall` behind [`RATE`] is given up.
pub(crate) async fn join<T>(
    stream: &mut Streaming<T>,
    first: Bytes,
    expected: usize,
    stall: Duration,
    data: impl Fn(T) -> Bytes,
) -> Result<Bytes, Status> {
    let malformed = |_| Status::from(Refused::Malformed);
    let mut join = Join::exactly(expected);
    join.push(first).map_err(malformed)?;
    let began = Instant::now();
    while let Some(chunk) = next(stream, patience(began.elapsed(), join.len(), stall)).await? {
        join.push(data(chunk)).map_err(malformed)?;
    }
    join.finish().map_err(malformed)
}

/// How long to wait for more from a caller that has sent `bytes` in `elapsed`.
fn patience(elapsed: Duration, bytes: usize, stall: Duration) -> Duration {
    let earned = Duration::from_secs_f64(bytes as f64 / RATE as f64);
    stall.saturating_add(earned).saturating_sub(elapsed).min(stall)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{RATE, patience};

    const STALL: Duration = Duration::from_secs(10);

    #[test]
    fn a_caller_that_drips_holds_its_place_no_longer_than_a_silent_one() {
        let mut elapsed = Duration::ZERO;
        // One byte each time just before the patience ends.
        for bytes in 1..=10 {
            elapsed += patience(elapsed, bytes, STALL).mul_f64(0.99);
        }
        assert!(elapsed < STALL + Duration::from_millis(10), "{elapsed:?}");
    }

    #[test]
    fn a_steady_caller_is_never_given_up() {
        for seconds in 0..100 {
            let elapsed = Duration::from_secs(seconds);
            assert_eq!(patience(elapsed, RATE * seconds as usize, STALL), STALL);
        }
        assert_eq!(patience(Duration::ZERO, usize::MAX, STALL), STALL);
    }
}
