//! Streams to clients, who may read slowly or not at all.

use core::future::Future;
use core::time::Duration;

use sotto_wire::Refused;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::Status;

/// Messages made before they are taken.
const AHEAD: usize = 4;

pub(crate) type Outgoing<T> = ReceiverStream<Result<T, Status>>;

/// The sending end of one stream.
pub(crate) struct Sender<T> {
    messages: mpsc::Sender<Result<T, Status>>,
    stall: Duration,
}

/// The reader has gone or stands still; there is nobody to tell.
#[derive(Debug)]
pub(crate) struct Gone;

impl<T: Send + 'static> Sender<T> {
    /// Hands a message over, at the reader's pace.
    pub(crate) async fn send(&self, message: T) -> Result<(), Gone> {
        self.messages.send_timeout(Ok(message), self.stall).await.map_err(|_| Gone)
    }

    /// Ends the stream with a refusal.
    pub(crate) async fn refuse(&self, refused: Refused) {
        // A reader that does not take even this just loses the connection's stream.
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
    produce: impl FnOnce(Sender<T>) -> F,
) -> Outgoing<T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (messages, stream) = mpsc::channel(AHEAD);
    tracker.spawn(produce(Sender { messages, stall }));
    ReceiverStream::new(stream)
}
