//! Connections: how many there may be, how long one may be silent or stuck, and what it takes to stay.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use rustls::ServerConfig;
use sotto_protocol::server::Account;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tonic::Request;
use tonic::transport::server::Connected;

use crate::config::Limits;
use crate::metrics::{Counted, SharedMetrics};

/// A live peer answers a ping at least this often; see the keep-alive interval of the server.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes with which every connection begins. They must come within the time in which a peer may stand still.
const PREFACE_BYTES: usize = 24;
/// Bytes that a connection may bring before a call on it shows who is there. What a client needs to say until then is
/// a thousandth of that.
const UNKNOWN_BYTES: usize = 512 << 10;
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Accepted connections that wait to be served.
const BACKLOG: usize = 16;
/// How long a new connection waits for the place of one that is cut off for it.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);
/// Refused connections are reported no more often than this.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// Who comes in, and how.
pub(crate) struct AcceptOptions {
    /// Without, plaintext.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) limits: Limits,
    pub(crate) metrics: SharedMetrics,
}

/// Where connections come in.
pub(crate) trait Listener: Send + 'static {
    /// The next one.
    fn next(&mut self) -> impl Future<Output = io::Result<Box<dyn Stream>>> + Send;
}

impl Listener for TcpListener {
    async fn next(&mut self) -> io::Result<Box<dyn Stream>> {
        let (stream, _) = self.accept().await?;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection without TCP_NODELAY");
        }
        Ok(Box::new(stream))
    }
}

/// Accepts connections, so many at a time as the limits say. Beyond, one that has not shown who it is makes room, and if
/// there is none, new ones are closed at once. They all end when `cut` is cancelled.
pub(crate) fn accept(
    mut listener: impl Listener,
    options: AcceptOptions,
    tracker: &TaskTracker,
    closing: CancellationToken,
    cut: CancellationToken,
) -> ReceiverStream<io::Result<Connection>> {
    let (connections, accepted) = mpsc::channel(BACKLOG);
    let AcceptOptions { tls, limits, metrics } = options;
    let mut door = Door::new(limits.connections, metrics.clone());
    let handshakes = tracker.clone();
    tracker.spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = closing.cancelled() => return,
                accepted = listener.next() => accepted,
            };
            let Ok(stream) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(permit) = door.place().await else {
                door.refuse();
                continue;
            };
            let handle = door.handle(cut.child_token());
            let new = PendingConnection { handle, limits, metrics: metrics.clone(), permit };
            let Some(tls) = &tls else {
                if connections.send(Ok(new.connect(stream))).await.is_err() {
                    return;
                }
                continue;
            };
            let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            let (connections, closing) = (connections.clone(), closing.clone());
            // Aside, so that nobody waits for somebody else's handshake. Who begins one holds a place.
            handshakes.spawn(async move {
                let cut = new.handle.cut.clone();
                // So that the door does not take who fails for one that can make room.
                let failed = cut.clone().drop_guard();
                let shaken = tokio::select! {
                    () = closing.cancelled() => return,
                    () = cut.cancelled() => return,
                    shaken = tokio::time::timeout(limits.stall, handshake) => shaken,
                };
                // That may be anybody: a scanner, or a client of another cluster.
                let Ok(Ok(stream)) = shaken else { return };
                failed.disarm();
                let _ = connections.send(Ok(new.connect(Box::new(stream)))).await;
            });
        }
    });
    ReceiverStream::new(accepted)
}

/// Bytes in both directions, plain or encrypted.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Somebody who has a place, and has yet to begin.
struct PendingConnection {
    handle: ConnectionHandle,
    limits: Limits,
    metrics: SharedMetrics,
    permit: OwnedSemaphorePermit,
}

impl PendingConnection {
    fn connect(self, stream: Box<dyn Stream>) -> Connection {
        let Self { handle, limits, metrics, permit } = self;
        Connection {
            stream,
            silence: Box::pin(tokio::time::sleep(SILENCE)),
            introduction: Some(Introduction::new(limits.stall, limits.unknown)),
            stuck: None,
            stall: limits.stall,
            cut: Box::pin(handle.cut.clone().cancelled_owned()),
            handle,
            traffic: metrics.traffic(),
            _open: Counted::new(&metrics.connections),
            _permit: permit,
        }
    }
}

/// Who gets in when all places are taken.
struct Door {
    most: usize,
    room: Arc<Semaphore>,
    /// Connections in the order in which they came, without many that have ended.
    handles: VecDeque<ConnectionHandle>,
    metrics: SharedMetrics,
    /// When refusals were last reported, and how many there had been.
    reported: Option<(Instant, u64)>,
}

impl Door {
    fn new(most: usize, metrics: SharedMetrics) -> Self {
        Self { most, room: Arc::new(Semaphore::new(most)), handles: VecDeque::new(), metrics, reported: None }
    }

    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(permit);
        }
        // Who floods the door with connections pushes out their own.
        let first = self.handles.iter().position(ConnectionHandle::is_unknown)?;
        self.handles.remove(first)?.cut();
        let place = Arc::clone(&self.room).acquire_owned();
        tokio::time::timeout(ROOM_PATIENCE, place).await.ok()?.ok()
    }

    fn handle(&mut self, cut: CancellationToken) -> ConnectionHandle {
        if self.handles.len() >= self.most.saturating_mul(2) {
            self.handles.retain(|handle| !handle.cut.is_cancelled());
        }
        let handle = ConnectionHandle { known: Arc::default(), session: Arc::default(), cut };
        self.handles.push_back(handle.clone());
        handle
    }

    fn refuse(&mut self) {
        let refused = self.metrics.connections_refused.inc() + 1;
        let (at, before) = self.reported.unzip();
        if at.is_none_or(|at: Instant| at.elapsed() >= REPORT_PAUSE) {
            let more = refused - before.unwrap_or(0);
            tracing::warn!(more, "too many connections: new ones were closed");
            self.reported = Some((Instant::now(), refused));
        }
    }
}

/// What calls know of the connection they came by, and what they can do to it. It does not tell who the peer is.
#[derive(Clone)]
pub(crate) struct ConnectionHandle {
    known: Arc<AtomicBool>,
    /// Number of the session that was opened last by it.
    session: Arc<AtomicU64>,
    cut: CancellationToken,
}

impl ConnectionHandle {
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let handle = request.extensions().get::<Self>().cloned();
        // Every connection has one; a call that came another way has nothing to cut.
        handle.unwrap_or_else(|| Self {
            known: Arc::default(),
            session: Arc::default(),
            cut: CancellationToken::new(),
        })
    }

    /// Ends the connection and all its calls.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// A session was opened by it.
    pub(crate) fn opened(&self, session: u64) {
        self.session.store(session, Ordering::Relaxed);
    }

    /// Whether it has not ended, and this session is the last that was opened by it.
    pub(crate) fn keeps(&self, session: u64) -> bool {
        !self.cut.is_cancelled() && self.session.load(Ordering::Relaxed) == session
    }

    fn is_unknown(&self) -> bool {
        !self.known.load(Ordering::Relaxed) && !self.cut.is_cancelled()
    }
}

/// By which connection each account came last: that one may stay. The others of the account are unknown again, so that
/// one account does not take many places.
#[derive(Default)]
pub(crate) struct ConnectionsOfAccounts {
    handles: HashMap<Account, ConnectionHandle>,
    /// From so many on, those that have ended are taken out.
    many: usize,
}

impl ConnectionsOfAccounts {
    /// Somebody has shown by this connection that they hold an account.
    pub(crate) fn came(&mut self, account: Account, handle: &ConnectionHandle) {
        handle.known.store(true, Ordering::Relaxed);
        let before = self.handles.insert(account, handle.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(&before.known, &handle.known)) {
            before.known.store(false, Ordering::Relaxed);
        }
        if self.handles.len() > self.many {
            self.handles.retain(|_, handle| !handle.cut.is_cancelled());
            self.many = 1024 + 2 * self.handles.len();
        }
    }
}

/// What a connection may take before it is known.
struct Introduction {
    bytes: usize,
    limit: Pin<Box<Sleep>>,
    /// When the limit is to be once the connection has begun as it must.
    until: Instant,
}

impl Introduction {
    fn new(stall: Duration, unknown: Duration) -> Self {
        let limit = Box::pin(tokio::time::sleep(stall.min(unknown)));
        Self { bytes: 0, limit, until: Instant::now() + unknown }
    }

    fn read(&mut self, bytes: usize) -> io::Result<()> {
        let begun = self.bytes < PREFACE_BYTES && self.bytes + bytes >= PREFACE_BYTES;
        self.bytes += bytes;
        if begun {
            self.limit.as_mut().reset(self.until);
        }
        if self.bytes > UNKNOWN_BYTES { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// A TCP connection that ends by itself when its peer is silent for a minute, takes nothing of what is sent for as long
/// as a peer may stand still, or does not show who it is.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    silence: Pin<Box<Sleep>>,
    introduction: Option<Introduction>,
    /// Runs while there is something to write and the peer takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    handle: ConnectionHandle,
    /// Bytes received and sent.
    traffic: (Counter, Counter),
    _open: Counted,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.handle.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // So that the door does not take it for one that can make room.
        self.handle.cut();
    }
}

impl Connection {
    /// What of the times for reading is over.
    fn overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let unknown = self.introduction.as_mut().filter(|_| self.handle.is_unknown());
        unknown.is_some_and(|introduction| introduction.limit.as_mut().poll(cx).is_ready())
            || self.silence.as_mut().poll(cx).is_ready()
    }

    fn sent(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.traffic.1.inc_by(*bytes as u64);
        }
    }

    /// Notes whether the peer takes what is written.
    fn written<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let stall = self.stall;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        stuck.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
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
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending if self.overdue(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                if !self.handle.is_unknown() {
                    self.introduction = None;
                }
                let bytes = buffer.filled().len() - before;
                self.traffic.0.inc_by(bytes as u64);
                Poll::Ready(match &mut self.introduction {
                    Some(introduction) => introduction.read(bytes),
                    None => Ok(()),
                })
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(&written);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Encryption writes what it has kept back.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Encryption says good-bye, which a peer that reads nothing does not take.
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.sent(&written);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::{ConnectionHandle, ConnectionsOfAccounts, Door};
    use crate::metrics::Metrics;

    fn handles(door: &mut Door, many: usize) -> Vec<ConnectionHandle> {
        (0..many).map(|_| door.handle(CancellationToken::new())).collect()
    }

    #[test]
    fn one_account_keeps_one_connection() {
        let mut door = Door::new(4, Arc::new(Metrics::new()));
        let handles = handles(&mut door, 3);
        let mut known = ConnectionsOfAccounts::default();
        for handle in &handles {
            known.came([1; 32], handle);
            known.came([1; 32], handle);
        }
        let unknown: Vec<bool> = handles.iter().map(ConnectionHandle::is_unknown).collect();
        assert_eq!(unknown, [true, true, false]);
        // Accounts that share a connection do not disturb each other.
        known.came([2; 32], &handles[2]);
        assert!(!handles[2].is_unknown());
    }

    #[test]
    fn connections_that_have_ended_are_forgotten() {
        let mut door = Door::new(4, Arc::new(Metrics::new()));
        let mut known = ConnectionsOfAccounts::default();
        for number in 0..10_000_u32 {
            let mut account = [0; 32];
            account[..4].copy_from_slice(&number.to_le_bytes());
            let handle = door.handle(CancellationToken::new());
            known.came(account, &handle);
            handle.cut();
        }
        assert!(known.handles.len() <= 1026 && door.handles.len() <= 8);
    }

    #[tokio::test]
    async fn the_oldest_that_is_unknown_makes_room_and_nobody_else() {
        let mut door = Door::new(2, Arc::new(Metrics::new()));
        let (first, second) = (door.place().await.unwrap(), door.place().await.unwrap());
        let handles = handles(&mut door, 2);
        let mut known = ConnectionsOfAccounts::default();
        known.came([1; 32], &handles[0]);
        let ended = handles[1].cut.clone();
        tokio::spawn(async move {
            ended.cancelled().await;
            drop(second);
        });
        let third = door.place().await;
        assert!(third.is_some() && handles[1].cut.is_cancelled() && !handles[0].cut.is_cancelled());
        assert!(door.place().await.is_none(), "whoever is known stays");
        drop(first);
        assert!(door.place().await.is_some());
    }
}
