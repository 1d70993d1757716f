//! A proxy before a server on loopback: it counts the bytes of all connections through it, and can make them as slow and as
//! long as another link.
//!
//! Only rate and delay are imitated: there is no loss, and none of the slow starts and windows of TCP over the whole
//! distance, so that what is measured is what a warm connection with large enough windows gets.

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use derive_more::{Add, Sub, Sum};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// The most bytes that are passed on in one piece.
const CHUNK: usize = 64 << 10;

/// So late a timer fires at most on a machine that has time.
const GRAIN: Duration = Duration::from_millis(2);

/// A busy machine is later; as much more must be on its way for the link never to fall idle.
const LATENESS: Duration = Duration::from_millis(10);

/// A link, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// So much leaves it, and no more.
    pub bits_per_second: f64,
    /// To the other end and back, for what has no length.
    pub round_trip: Duration,
}

/// One direction of a link: a token bucket that saves no tokens. What is sent leaves piece by piece at the link's rate,
/// and every piece arrives half a round trip after its last bit has left.
struct Line {
    link: Link,
    /// When the last bit of everything before has left.
    free: Instant,
}

impl Line {
    fn new(link: Link) -> Self {
        Self { link, free: Instant::now() }
    }

    /// When a piece arrives that is handed over now.
    fn pass(&mut self, now: Instant, bytes: usize) -> Instant {
        let sending = Duration::from_secs_f64(bytes as f64 * 8.0 / self.link.bits_per_second);
        self.free = self.free.max(now) + sending;
        self.free + self.link.round_trip / 2
    }

    /// Bytes that may be on their way at a time: as many as keep the link busy.
    fn room(&self) -> usize {
        let seconds = (self.link.round_trip / 2 + LATENESS).as_secs_f64();
        (seconds * self.link.bits_per_second / 8.0) as usize + 2 * CHUNK
    }
}

/// Waits more exactly than timers do, whose grain is a millisecond.
async fn wait_until(due: Instant) {
    let left = || due.saturating_duration_since(Instant::now());
    if left() > GRAIN {
        sleep_until(due - GRAIN).await;
    }
    let short = left();
    if !short.is_zero() {
        // If no thread could be had, what is left is waited for below.
        drop(spawn_blocking(move || std::thread::sleep(short)).await);
    }
    // Nothing is left, unless the clock is a virtual one.
    if !left().is_zero() {
        sleep_until(due).await;
    }
}

/// Passes on what is read, and counts it, until the end of it; late, if there is a line.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
    mut line: Option<Line>,
) -> io::Result<()> {
    let room = line.as_ref().map_or(4 * CHUNK, Line::room);
    let room = Arc::new(Semaphore::new(room));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = from.read(&mut buffer).await?;
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let permit = room.clone().acquire_many_owned(length as u32).await.map_err(|_| closed())?;
            if length == 0 {
                return Ok(());
            }
            count.fetch_add(length as u64, Ordering::Relaxed);
            let due = line.as_mut().map(|line| line.pass(Instant::now(), length));
            sender.send((due, buffer[..length].to_vec(), permit)).map_err(|_| closed())?;
        }
    };
    let write = async move {
        while let Some((due, piece, permit)) = receiver.recv().await {
            if let Some(due) = due {
                wait_until(due).await;
            }
            to.write_all(&piece).await?;
            drop(permit);
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// Bytes in the streams of TCP: TLS and all above it, without the headers of packets.
#[derive(Clone, Copy, Debug, Default, Add, Sub, Sum)]
pub struct Traffic {
    /// From the clients to the server.
    pub up: u64,
    /// From the server to the clients.
    pub down: u64,
}

/// A listener on loopback in front of a server. Dropping it ends all connections.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Up and down.
    counts: Arc<[AtomicU64; 2]>,
    task: AbortHandle,
}

impl Proxy {
    /// Every connection has a link of its own, if there is one.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start(link: Option<Link>, server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let counts = Arc::<[AtomicU64; 2]>::default();
        let counting = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let counts = Arc::clone(&counting);
                // An end that fails closes the other end, and is told by that.
                connections.spawn(async move { connect(client, server, link, &counts).await });
            }
        });
        Ok(Self { address, counts, task: task.abort_handle() })
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        let [up, down] = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Traffic { up, down }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(
    client: TcpStream,
    server: SocketAddr,
    link: Option<Link>,
    [up, down]: &[AtomicU64; 2],
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let line = || link.map(Line::new);
    let done = tokio::try_join!(
        pump(from_client, to_server, up, line()),
        pump(from_server, to_client, down, line())
    );
    done.map(|_| ())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use core::net::Ipv4Addr;
    use core::sync::atomic::AtomicU64;
    use core::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::{CHUNK, Line, Link, Proxy, pump};

    const LINKS: [Link; 4] = [
        Link { bits_per_second: 3.4e9, round_trip: Duration::from_micros(500) },
        Link { bits_per_second: 800e6, round_trip: Duration::from_millis(220) },
        Link { bits_per_second: 20e6, round_trip: Duration::from_millis(220) },
        Link { bits_per_second: 10e6, round_trip: Duration::from_millis(1) },
    ];

    /// Pieces must not overtake each other's sending, whatever their sizes, nor save up an idle time.
    #[tokio::test(start_paused = true)]
    async fn the_arithmetic_is_that_of_the_rate_and_the_delay() {
        for link in LINKS {
            let mut line = Line::new(link);
            let start = Instant::now();
            let mut sent = 0;
            for bytes in [1, 1000, CHUNK, 17, CHUNK, CHUNK] {
                sent += bytes;
                let exact = sent as f64 * 8.0 / link.bits_per_second + link.round_trip.as_secs_f64() / 2.0;
                let arrival = (line.pass(start, bytes) - start).as_secs_f64();
                // Every piece is rounded to a nanosecond.
                assert!((arrival - exact).abs() < 1e-8, "{link:?}: {arrival} s, {exact} s");
            }
            let later = start + Duration::from_secs(3600);
            let alone = Line::new(link).pass(later, CHUNK);
            assert_eq!(line.pass(later, CHUNK), alone);
        }
    }

    /// On a virtual clock: a link that is faster than asked would flatter what sends much.
    #[tokio::test(start_paused = true)]
    async fn a_stream_has_the_asked_rate_and_delay() {
        for link in LINKS {
            // A second of traffic, and a little more.
            let bytes = (link.bits_per_second / 8.0) as usize + 12_345;
            let (mut sender, from) = duplex(1 << 20);
            let (to, mut receiver) = duplex(1 << 20);
            let start = Instant::now();
            let pumped =
                tokio::spawn(async move { pump(from, to, &AtomicU64::new(0), Some(Line::new(link))).await });
            let sent = tokio::spawn(async move {
                let piece = vec![7; CHUNK];
                let mut left = bytes;
                while left > 0 {
                    let length = left.min(piece.len());
                    sender.write_all(&piece[..length]).await.unwrap();
                    left -= length;
                }
            });
            let mut buffer = vec![0; CHUNK];
            let mut received = receiver.read(&mut buffer).await.unwrap();
            let first = start.elapsed();
            while received < bytes {
                received += receiver.read(&mut buffer).await.unwrap();
            }
            let all = start.elapsed();
            sent.await.unwrap();
            pumped.await.unwrap().unwrap();
            assert_eq!(receiver.read(&mut buffer).await.unwrap(), 0, "the end is passed on");
            assert!(first >= link.round_trip / 2, "{link:?}: {first:?}");
            let rate = bytes as f64 * 8.0 / (all - link.round_trip / 2).as_secs_f64();
            let share = rate / link.bits_per_second;
            assert!((0.95..=1.000_001).contains(&share), "{link:?}: {share} of the rate");
        }
    }

    /// Bytes that change, or come back sooner than light would, would make every figure behind the proxy worthless.
    #[tokio::test]
    async fn sockets_behind_the_proxy_get_the_same_bytes_not_too_early() {
        let link = Link { bits_per_second: 80e6, round_trip: Duration::from_millis(30) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start(Some(link), listener.local_addr().unwrap()).await.unwrap();
        let echo = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        });
        let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let start = Instant::now();
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        assert!(received == sent);
        // A tenth of a second in each direction, one after the other, and the round trip.
        assert!(start.elapsed() >= Duration::from_millis(230), "{:?}", start.elapsed());
        echo.await.unwrap();
    }

    /// A byte that is not counted, or counted twice, would be a wrong cost of the network.
    #[tokio::test]
    async fn every_byte_is_passed_on_and_counted_once_in_its_direction() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start(None, listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(async move {
            let mut sums = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.unwrap();
                stream.write_all(&vec![9; 2 * bytes.len() + 1]).await.unwrap();
                sums.push(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            }
            sums
        });
        for length in [700_000, 3] {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            stream.write_all(&vec![1; length]).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer.len(), 2 * length + 1);
        }
        assert_eq!(server.await.unwrap(), [700_000, 3]);
        let traffic = proxy.traffic();
        assert_eq!((traffic.up, traffic.down), (700_003, 1_400_008));
    }
}
