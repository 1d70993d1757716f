//! Streams from clients, who may write slowly or not at all.

use core::time::Duration;

use bytes::Bytes;
use sotto_wire::{Join, Refused};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use crate::pace::patience;

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
    data: impl Fn(T) -> Result<Bytes, Refused>,
) -> Result<Bytes, Status> {
    let malformed = |_| Status::from(Refused::Malformed);
    let mut join = Join::exactly(expected);
    join.push(first).map_err(malformed)?;
    let began = Instant::now();
    while let Some(chunk) = next(stream, patience(began.elapsed(), join.len(), RATE, stall)).await? {
        join.push(data(chunk)?).map_err(malformed)?;
    }
    join.finish().map_err(malformed)
}
