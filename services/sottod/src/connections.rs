//! Connections: how many there may be, and how long one may be silent.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

/// A live peer answers a ping at least this often; see the keep-alive interval of the server.
const SILENCE: Duration = Duration::from_secs(60);
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Accepted connections that wait to be served.
const BACKLOG: usize = 16;

/// Who comes in, and how.
pub(crate) struct Doors {
    /// Without, plaintext.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Connections at a time; one more is closed at once.
    pub(crate) most: usize,
    /// How long a handshake may take.
    pub(crate) handshake: Duration,
}

/// Accepts connections. They all end when `cut` is cancelled.
pub(crate) fn accept(
    listener: TcpListener,
    doors: Doors,
    tracker: &TaskTracker,
    closing: CancellationToken,
    cut: CancellationToken,
) -> ReceiverStream<io::Result<Connection>> {
    let (connections, accepted) = mpsc::channel(BACKLOG);
    let room = Arc::new(Semaphore::new(doors.most));
    let handshakes = tracker.clone();
    tracker.spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = closing.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                tracing::warn!("too many connections: one was closed");
                continue;
            };
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection without TCP_NODELAY");
            }
            let (connections, closing, cut) = (connections.clone(), closing.clone(), cut.clone());
            let Some(tls) = &doors.tls else {
                let connection = Connection::new(Box::new(stream), cut, permit);
                if connections.send(Ok(connection)).await.is_err() {
                    return;
                }
                continue;
            };
            let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            let handshake = tokio::time::timeout(doors.handshake, handshake);
            // Aside, so that nobody waits for somebody else's handshake. Who begins one holds a place.
            handshakes.spawn(async move {
                let shaken = tokio::select! {
                    () = closing.cancelled() => return,
                    shaken = handshake => shaken,
                };
                // Who fails may be anybody: a scanner, or a client of another cluster.
                let Ok(Ok(stream)) = shaken else { return };
                let _ = connections.send(Ok(Connection::new(Box::new(stream), cut, permit))).await;
            });
        }
    });
    ReceiverStream::new(accepted)
}

/// Bytes in both directions, plain or encrypted.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that ends by itself when its peer is silent for a minute.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    silence: Pin<Box<Sleep>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: Box<dyn Stream>, cut: CancellationToken, permit: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            silence: Box::pin(tokio::time::sleep(SILENCE)),
            cut: Box::pin(cut.cancelled_owned()),
            _permit: permit,
        }
    }
}

// Nothing about the peer reaches the calls.
impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending => match self.silence.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            ready => {
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                ready
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
