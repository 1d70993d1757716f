//! What an eavesdropper sees of the calls of one client, were there no TLS: which it makes, in which order, and the sizes of all
//! that goes to and fro in them.
//!
//! Frames that only keep a connection going (SETTINGS, PING, WINDOW_UPDATE) answer the peer's and are left out.

use std::collections::BTreeMap;

const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
/// Of a gRPC message.
const PREFIX_BYTES: usize = 5;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// One call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// Size of each message that the client sent in it.
    pub(crate) up: Vec<usize>,
    /// Bytes of all messages that it was answered.
    pub(crate) down: usize,
    /// Whether that was the whole answer.
    pub(crate) is_answered: bool,
    /// How the first message begins.
    first: Vec<u8>,
    parts: [Vec<u8>; 2],
}

impl Call {
    /// The round that it is about: the second field of a message whose first is the session.
    pub(crate) fn round(&self) -> Option<u64> {
        let varint = self.first.strip_prefix(&[0x0a, 32])?.get(32..)?.strip_prefix(&[0x10])?;
        let (mut round, mut shift) = (0, 0);
        for byte in varint {
            round |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(round);
            }
        }
        None
    }

    /// DATA frames are cut wherever flow control wants it; what is decided is the sequence of messages in them.
    fn take(&mut self, way: Way, payload: &[u8]) {
        let part = &mut self.parts[way as usize];
        part.extend_from_slice(payload);
        while let Some(&[_, a, b, c, d]) = part.first_chunk::<PREFIX_BYTES>() {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if part.len() < PREFIX_BYTES + length {
                return;
            }
            let message: Vec<u8> = part.drain(..PREFIX_BYTES + length).skip(PREFIX_BYTES).collect();
            match way {
                Way::Up => {
                    if self.up.is_empty() {
                        self.first = message.into_iter().take(64).collect();
                    }
                    self.up.push(length);
                }
                Way::Down => self.down += length,
            }
        }
    }
}

/// All calls of one client, in the order in which they were opened: by connection and stream.
pub(crate) type Calls = BTreeMap<(usize, u32), Call>;

/// Cuts what goes one way in a connection into frames.
pub(crate) struct Frames {
    connection: usize,
    way: Way,
    pending: Vec<u8>,
    past_preface: bool,
}

impl Frames {
    pub(crate) fn of(connection: usize, way: Way) -> Self {
        Self { connection, way, pending: Vec::new(), past_preface: way == Way::Down }
    }

    pub(crate) fn take(&mut self, bytes: &[u8], calls: &mut Calls) {
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
            if !matches!(frame[3], DATA | HEADERS) {
                continue;
            }
            let call = calls.entry((self.connection, stream)).or_default();
            if frame[3] == DATA {
                call.take(self.way, &frame[FRAME_HEADER_BYTES..]);
            }
            call.is_answered |= self.way == Way::Down && frame[4] & END_STREAM != 0;
        }
    }
}
