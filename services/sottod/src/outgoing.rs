//! Streams to clients, who may read slowly or not at all.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use sotto_wire::Refused;
use sotto_wire::limits::CHUNK_BYTES;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::connections::ConnectionHandle;
use crate::pace::patience;

/// Messages made before they are taken.
const AHEAD: usize = 4;

/// Bytes per second below which a reader counts as standing still, however often it takes a little: the answers to 16
/// messages are 1.1 MB, and whoever takes part fetches them and more in every round.
const RATE: usize = 128 << 10;

/// A response that is filled while it is read.
pub(crate) struct Outgoing<T> {
    messages: mpsc::Receiver<Result<T, Status>>,
    /// Dropped with the rest, when the reader has everything or has gone.
    _reader: oneshot::Sender<Infallible>,
    _held: Held,
}

/// What is held for a stream until its reader has everything or has gone, and no longer.
type Held = Arc<OnceLock<OwnedSemaphorePermit>>;

impl<T> Stream for Outgoing<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(cx)
    }
}

/// The sending end of one stream.
pub(crate) struct Sender<T> {
    messages: mpsc::Sender<Result<T, Status>>,
    held: Held,
    stall: Duration,
    handle: ConnectionHandle,
    /// Handed over so far, and how long that was waited for.
    bytes: usize,
    waited: Duration,
}

/// The reader has gone or stands still; there is nobody to tell.
#[derive(Debug)]
pub(crate) struct Gone;

impl<T: Send + 'static> Sender<T> {
    /// Hands a message of so many bytes over, at the reader's pace. One that falls too far behind [`RATE`] loses its
    /// connection: what it has not read would stay in memory for as long as the connection.
    pub(crate) async fn send(&mut self, message: T, bytes: usize) -> Result<(), Gone> {
        let patience = patience(self.waited, self.bytes, RATE, self.stall);
        let began = Instant::now();
        let sent = self.messages.send_timeout(Ok(message), patience).await;
        self.waited += began.elapsed();
        self.bytes = self.bytes.saturating_add(bytes);
        sent.map_err(|error| {
            if matches!(error, mpsc::error::SendTimeoutError::Timeout(_)) {
                self.handle.cut();
            }
            Gone
        })
    }

    /// Holds a part of the memory until all that was sent has left it, which is later than the end of those who send: chunks
    /// are made ahead. Once for a stream.
    pub(crate) fn hold(&self, part: OwnedSemaphorePermit) {
        let held = self.held.set(part);
        debug_assert!(held.is_ok(), "a stream holds one part of the memory");
    }

    /// Ends the stream with a refusal.
    pub(crate) async fn refuse(&self, refused: Refused) {
        // A reader that does not take even this loses the connection when its time is over.
        let _ = self.messages.send_timeout(Err(refused.into()), self.stall).await;
    }

    /// Waits until the reader has gone.
    pub(crate) async fn gone(&self) {
        self.messages.closed().await;
    }
}

/// A stream that `produce` fills, in a task that ends with the reader.
pub(crate) fn stream<T, F>(
    tracker: &TaskTracker,
    stall: Duration,
    handle: ConnectionHandle,
    produce: impl FnOnce(Sender<T>) -> F,
) -> Outgoing<T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (messages, stream) = mpsc::channel(AHEAD);
    let (reader, read) = oneshot::channel();
    let held = Held::default();
    let sender = Sender {
        messages,
        held: Arc::clone(&held),
        stall,
        handle: handle.clone(),
        bytes: 0,
        waited: Duration::ZERO,
    };
    let produced = produce(sender);
    tracker.spawn(async move {
        produced.await;
        // What was made ahead is to be taken, too.
        let rest = Duration::from_secs_f64(((AHEAD + 1) * CHUNK_BYTES) as f64 / RATE as f64);
        if tokio::time::timeout(stall.saturating_add(rest), read).await.is_err() {
            handle.cut();
        }
    });
    Outgoing { messages: stream, _reader: reader, _held: held }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use sotto_wire::Refused;
    use tokio_stream::StreamExt as _;
    use tokio_util::task::TaskTracker;
    use tonic::Request;

    use super::stream;
    use crate::connections::ConnectionHandle;
    use crate::memory::Memory;

    /// Otherwise readers who leave the last chunks unread would fill more memory than there is.
    #[tokio::test(start_paused = true)]
    async fn what_is_made_ahead_counts_until_it_is_read() {
        let memory = Memory::new(4 << 10);
        let part = memory.take(4 << 10).unwrap();
        let tracker = TaskTracker::new();
        let handle = ConnectionHandle::of(&Request::new(()));
        let mut reader = stream(&tracker, Duration::from_secs(9), handle, |mut sender| async move {
            sender.hold(part);
            for message in 0..2 {
                sender.send(message, 2 << 10).await.unwrap();
            }
        });
        // All is handed over, and whoever sent has ended.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(memory.take(1).err(), Some(Refused::Busy));
        assert_eq!(reader.next().await.unwrap().unwrap(), 0);
        assert_eq!(memory.take(1).err(), Some(Refused::Busy));
        assert_eq!(reader.next().await.unwrap().unwrap(), 1);
        assert!(reader.next().await.is_none());
        drop(reader);
        assert!(memory.take(4 << 10).is_ok());
    }
}
