//! Streams from clients, who may write slowly or not at all.

use core::time::Duration;

use bytes::Bytes;
use sotto_wire::{Join, Refused};
use tonic::{Status, Streaming};

/// The next message, if it arrives within `stall`; `None` at the end.
pub(crate) async fn next<T>(stream: &mut Streaming<T>, stall: Duration) -> Result<Option<T>, Status> {
    tokio::time::timeout(stall, stream.message())
        .await
        .map_err(|_| Status::deadline_exceeded("the caller stands still"))?
}

/// Reads the rest of a value of exactly `expected` bytes, of which `first` is there. Memory grows with what arrives.
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
    while let Some(chunk) = next(stream, stall).await? {
        join.push(data(chunk)).map_err(malformed)?;
    }
    join.finish().map_err(malformed)
}
