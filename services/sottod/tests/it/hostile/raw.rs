//! HTTP/2 by hand, right and wrong.

use std::sync::Arc;
use std::time::Duration;

use sotto_session::{ByteStream, Dial as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, watch};

use super::stage::Wire;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// What came from the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The error code of a GOAWAY.
    pub(crate) goaway: Option<u32>,
    /// Streams that were reset, and why.
    pub(crate) resets: Vec<(u32, u32)>,
    /// Streams that were answered with a head.
    pub(crate) answered: Vec<u32>,
    pub(crate) closed: bool,
}

/// A connection without a library that would keep to the rules.
pub(crate) struct Raw {
    write: Arc<Mutex<WriteHalf<Box<dyn ByteStream>>>>,
    seen: watch::Receiver<Seen>,
}

impl Raw {
    /// A connection on which nothing was sent yet, and nothing will be but what a test sends.
    pub(crate) async fn open(wire: &Wire) -> Self {
        Self::start(wire, &[], false).await
    }

    /// A connection that has begun as it must and answers pings.
    pub(crate) async fn connect(wire: &Wire) -> Self {
        Self::start(wire, &greeting(), true).await
    }

    /// A connection that has begun as it must and answers nothing from then on.
    pub(crate) async fn deaf(wire: &Wire) -> Self {
        Self::start(wire, &greeting(), false).await
    }

    /// The greeting goes before anything is answered: the settings of a server may come first, and an answer to them
    /// ahead of the preface is an error that ends the connection.
    async fn start(wire: &Wire, greeting: &[u8], polite: bool) -> Self {
        let mut stream = wire.dial("").await.unwrap().stream;
        stream.write_all(greeting).await.unwrap();
        let (read, write) = tokio::io::split(stream);
        let write = Arc::new(Mutex::new(write));
        let (tell, seen) = watch::channel(Seen::default());
        tokio::spawn(listen(read, Arc::clone(&write), tell, polite));
        Self { write, seen }
    }

    /// Whether it could be sent: the server may have closed.
    pub(crate) async fn send(&self, bytes: &[u8]) -> bool {
        self.write.lock().await.write_all(bytes).await.is_ok()
    }

    /// Begins a call, with a request that does not end yet.
    pub(crate) async fn call(&self, stream: u32, method: &str, message: &[u8]) {
        self.send(&frame(HEADERS, END_HEADERS, stream, &head(method))).await;
        self.send(&frame(DATA, 0, stream, &grpc(message))).await;
    }

    /// Follows the rounds, so that the server knows who this is.
    pub(crate) async fn watch(&self, stream: u32, session: &[u8]) {
        self.send(&frame(HEADERS, END_HEADERS, stream, &head("Watch"))).await;
        self.send(&frame(DATA, END_STREAM, stream, &grpc(&field(1, session)))).await;
        self.until(|seen| seen.answered.contains(&stream), Duration::from_secs(10)).await;
    }

    /// Waits for what must come.
    pub(crate) async fn until(&self, wanted: impl Fn(&Seen) -> bool, limit: Duration) -> Seen {
        let mut seen = self.seen.clone();
        let wanted = seen.wait_for(|seen| wanted(seen));
        let came = tokio::time::timeout(limit, wanted).await;
        came.unwrap_or_else(|_| panic!("not within {limit:?}: {:?}", self.seen.borrow())).unwrap().clone()
    }

    /// Waits so long, or until the server has closed.
    pub(crate) async fn rest(&self, pause: Duration) {
        let _ = tokio::time::timeout(pause, self.seen.clone().wait_for(|seen| seen.closed)).await;
    }

    pub(crate) async fn closed(&self, limit: Duration) -> Seen {
        self.until(|seen| seen.closed, limit).await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.seen.borrow().closed
    }
}

async fn listen(
    mut read: ReadHalf<Box<dyn ByteStream>>,
    write: Arc<Mutex<WriteHalf<Box<dyn ByteStream>>>>,
    tell: watch::Sender<Seen>,
    polite: bool,
) {
    let mut header = [0; 9];
    while read.read_exact(&mut header).await.is_ok() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut payload = vec![0; length];
        if read.read_exact(&mut payload).await.is_err() {
            break;
        }
        let code =
            |at: usize| payload.get(at..at + 4).map(|code| u32::from_be_bytes(code.try_into().unwrap()));
        tell.send_modify(|seen| match kind {
            HEADERS => seen.answered.push(stream),
            RESET => seen.resets.push((stream, code(0).unwrap())),
            GOAWAY => seen.goaway = code(4),
            _ => {}
        });
        let answer = match kind {
            SETTINGS if flags & ACK == 0 && polite => frame(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 && polite => frame(PING, ACK, 0, &payload),
            _ => continue,
        };
        // Who has closed may have said why before.
        let _ = write.lock().await.write_all(&answer).await;
    }
    tell.send_modify(|seen| seen.closed = true);
}

/// What every client sends first.
pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::to_be_bytes(payload.len() as u32)[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a call, every field as a literal.
pub(crate) fn head(method: &str) -> Vec<u8> {
    let path = format!("/sotto.v1.Sotto/{method}");
    // POST and http from the static table.
    let mut block = vec![0x83, 0x86, 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block.extend([0x01, 1, b'x']);
    block.extend(literal("content-type", "application/grpc"));
    block.extend(literal("te", "trailers"));
    block
}

/// A header field that is not indexed; both lengths below 127.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.as_bytes());
    bytes
}

/// A message with its gRPC prefix.
pub(crate) fn grpc(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes
}

/// A field of bytes in a message; shorter than 128.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2, bytes.len() as u8];
    encoded.extend(bytes);
    encoded
}
