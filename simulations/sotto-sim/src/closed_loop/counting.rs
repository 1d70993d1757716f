//! A proxy that counts the bytes of all connections through it.

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

const CHUNK: usize = 256 << 10;

/// Bytes in the streams of TCP: TLS and all above it, without the headers of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// From the clients to the server.
    pub(super) up: u64,
    /// From the server to the clients.
    pub(super) down: u64,
}

#[derive(Default)]
struct Counters {
    up: AtomicU64,
    down: AtomicU64,
}

/// A listener on loopback in front of a server. Dropping it ends all connections.
pub(super) struct Counter {
    pub(super) address: SocketAddr,
    counters: Arc<Counters>,
    task: AbortHandle,
}

impl Counter {
    pub(super) async fn start(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let counters = Arc::new(Counters::default());
        let counting = Arc::clone(&counters);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // An end that fails closes the other end, and is told by that.
                connections.spawn(connect(client, server.clone(), Arc::clone(&counting)));
            }
        });
        Ok(Self { address, counters, task: task.abort_handle() })
    }

    /// What has passed so far.
    pub(super) fn traffic(&self) -> Traffic {
        let Counters { up, down } = &*self.counters;
        Traffic { up: up.load(Ordering::Relaxed), down: down.load(Ordering::Relaxed) }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(client: TcpStream, server: String, counters: Arc<Counters>) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(from_client, to_server, &counters.up);
    let down = pump(from_server, to_client, &counters.down);
    tokio::try_join!(up, down).map(|_| ())
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    counter: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        counter.fetch_add(length as u64, Ordering::Relaxed);
        to.write_all(&buffer[..length]).await?;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use core::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::Counter;

    /// A byte that is not counted, or counted twice, would be a wrong cost of the network.
    #[tokio::test]
    async fn every_byte_is_passed_on_and_counted_once_in_its_direction() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let counter = Counter::start(listener.local_addr().unwrap().to_string()).await.unwrap();
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
            let mut stream = TcpStream::connect(counter.address).await.unwrap();
            stream.write_all(&vec![1; length]).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer.len(), 2 * length + 1);
        }
        assert_eq!(server.await.unwrap(), [700_000, 3]);
        let traffic = counter.traffic();
        assert_eq!((traffic.up, traffic.down), (700_003, 1_400_008));
    }
}
