//! A client's end of a connection.

use core::net::SocketAddr;
use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::HEADER_BYTES;
use super::frame::{self, Kind};

/// Bytes compared at a time.
const PIECE: usize = 256 << 10;

/// A connection to a server, or to a proxy before it.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes sent and received, headers included.
    pub(crate) sent: usize,
    pub(crate) received: usize,
}

/// When parts of a download had come, from the moment it was asked for.
pub(crate) struct Download {
    pub(crate) first: Duration,
    pub(crate) all: Duration,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, sent: 0, received: 0 })
    }

    /// Sends a message and waits for the reply.
    pub(crate) async fn call(&mut self, kind: Kind, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let length = self.ask(kind, body).await?;
        let mut reply = vec![0; length];
        self.stream.read_exact(&mut reply).await?;
        self.received += length;
        Ok(reply)
    }

    /// The length of the reply.
    async fn ask(&mut self, kind: Kind, body: &[u8]) -> anyhow::Result<usize> {
        frame::write(&mut self.stream, kind, body).await?;
        self.sent += HEADER_BYTES + body.len();
        let length = frame::read_done(&mut self.stream).await?;
        self.received += HEADER_BYTES;
        Ok(length)
    }

    /// Downloads as much of the database as there is in `expected`, and compares every byte.
    pub(crate) async fn download(&mut self, expected: &[u8]) -> anyhow::Result<Download> {
        let start = Instant::now();
        let length = self.ask(Kind::Download, &(expected.len() as u64).to_le_bytes()).await?;
        ensure!(length == expected.len(), "a download of another length than asked for");
        let first = start.elapsed();
        let mut buffer = vec![0; PIECE];
        for piece in expected.chunks(PIECE) {
            self.stream.read_exact(&mut buffer[..piece.len()]).await?;
            ensure!(buffer[..piece.len()] == *piece, "a download of other bytes than the database's");
        }
        self.received += length;
        Ok(Download { first, all: start.elapsed() })
    }
}
