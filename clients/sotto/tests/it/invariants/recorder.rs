//! A relay between client and server that writes down what an eavesdropper on the wire sees of the client: every
//! HTTP/2 stream it opens, and the sizes of its gRPC messages.
//!
//! Frames that only keep the connection going (SETTINGS, PING, WINDOW_UPDATE) answer the peer's and are left out.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
};

const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// One call as seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Size of each gRPC message the client sent in it, bytes, with the 5-byte prefix.
    pub(crate) messages: Vec<usize>,
    unparsed: Vec<u8>,
}

/// The relay and its notes.
pub(crate) struct Recorder {
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    /// Relays connections to `server`.
    pub(crate) async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let calls = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(server).await else { continue };
                client.set_nodelay(true).ok();
                upstream.set_nodelay(true).ok();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = upstream.into_split();
                tokio::spawn(relay(from_client, to_server, Some(Arc::clone(&notes))));
                tokio::spawn(relay(from_server, to_client, None));
            }
        });
        Ok(Self { address, calls })
    }

    /// The calls so far, in the order in which they were opened.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, notes: Option<Arc<Mutex<Vec<Call>>>>) {
    let mut frames = FrameReader::default();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if let Some(notes) = &notes {
            frames.take(&buffer[..read], &mut notes.lock().unwrap());
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}

/// Cuts one connection's bytes into frames.
#[derive(Default)]
struct FrameReader {
    pending: Vec<u8>,
    past_preface: bool,
    /// Stream number to place in the notes.
    streams: BTreeMap<u32, usize>,
}

impl FrameReader {
    fn take(&mut self, bytes: &[u8], calls: &mut Vec<Call>) {
        self.pending.extend_from_slice(bytes);
        if !self.past_preface {
            if self.pending.len() < PREFACE_BYTES {
                return;
            }
            self.pending.drain(..PREFACE_BYTES);
            self.past_preface = true;
        }
        while self.pending.len() >= FRAME_HEADER_BYTES {
            let length = u32::from_be_bytes([0, self.pending[0], self.pending[1], self.pending[2]]) as usize;
            if self.pending.len() < FRAME_HEADER_BYTES + length {
                return;
            }
            let frame: Vec<u8> = self.pending.drain(..FRAME_HEADER_BYTES + length).collect();
            let stream = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]) & 0x7fff_ffff;
            self.note(frame[3], stream, &frame[FRAME_HEADER_BYTES..], calls);
        }
    }

    fn note(&mut self, kind: u8, stream: u32, payload: &[u8], calls: &mut Vec<Call>) {
        if !matches!(kind, DATA | HEADERS) {
            return;
        }
        let place = *self.streams.entry(stream).or_insert_with(|| {
            calls.push(Call { messages: Vec::new(), unparsed: Vec::new() });
            calls.len() - 1
        });
        if kind == DATA {
            calls[place].messages(payload);
        }
    }
}

impl Call {
    /// DATA frames are cut wherever flow control wants it; what the client decides is the sequence of messages in them.
    fn messages(&mut self, payload: &[u8]) {
        self.unparsed.extend_from_slice(payload);
        while let Some(&[_, a, b, c, d]) = self.unparsed.first_chunk::<5>() {
            let whole = 5 + u32::from_be_bytes([a, b, c, d]) as usize;
            if self.unparsed.len() < whole {
                return;
            }
            self.unparsed.drain(..whole);
            self.messages.push(whole);
        }
    }
}
