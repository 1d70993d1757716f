//! A segment: a file of frames.
//!
//! ```text
//! header (64)   magic "SOTTOLOG" | version, u32 | 4 zeros | number, u64 | index of its first entry, u64 | salt, u64 |
//!               20 zeros | CRC-32C of all before, u32
//! frames        see `frame`
//! ```

use super::codec::Reader;
use super::entry::take_number;
use super::error::LogError;
use super::frame::{self, Fault, Payload};

pub(super) const HEADER_BYTES: usize = 64;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const MAGIC: [u8; 8] = *b"SOTTOLOG";
const VERSION: u32 = 1;
/// Longer files are not ours, and are not read into memory.
pub(super) const BYTES_MAX: u64 = 512 << 20;
const PREFIX: &str = "segment-";

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// Index of the first entry that it holds, or will.
    pub(super) first: u64,
    /// Random.
    pub(super) salt: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(Fault::Torn) };
        // A crash may leave zeros of the header itself, and nothing behind it: frames come when it is durable.
        if bytes.len() == HEADER_BYTES && bytes.iter().all(|byte| *byte == 0) {
            return Err(Fault::Torn);
        }
        let (checked, checksum) = header.split_at(CHECKED_BYTES);
        if crc32c::crc32c(checked).to_le_bytes() != *checksum {
            return Err(Fault::Damaged("the checksum of the segment's header does not hold"));
        }
        let damaged = |_| Fault::Damaged("the segment's header is malformed");
        let mut reader = Reader::new(checked);
        if reader.array().map_err(damaged)? != MAGIC || reader.u32().map_err(damaged)? != VERSION {
            return Err(Fault::Damaged("this is no segment of version 1"));
        }
        let _zeros = reader.u32().map_err(damaged)?;
        let header = Self {
            number: take_number(&mut reader).map_err(damaged)?,
            first: take_number(&mut reader).map_err(damaged)?,
            salt: reader.u64().map_err(damaged)?,
        };
        // There is nothing where zeros belong.
        if header.encode() == bytes[..HEADER_BYTES] {
            Ok(header)
        } else {
            Err(Fault::Damaged("the segment's header is malformed"))
        }
    }
}

/// The file of a segment.
pub(super) fn name(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// The number in a file's name, if it is a segment's.
pub(super) fn number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (self::name(number) == name).then_some(number)
}

/// What stands in a segment's file.
pub(super) struct Scanned<'a> {
    pub(super) header: Header,
    /// Location and payload of every frame.
    pub(super) frames: Vec<(usize, Payload<'a>)>,
    /// Where the last frame ends; what follows is torn.
    pub(super) end: usize,
}

/// Reads all of a segment; `None` if the segment was being created when the process ended. Only the `newest` segment
/// may be torn.
pub(super) fn scan(number: u64, bytes: &[u8], newest: bool) -> Result<Option<Scanned<'_>>, LogError> {
    let corrupt = |at: usize, what| LogError::corrupt(&name(number), at as u64, what);
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(Fault::Torn) if newest => return Ok(None),
        Err(Fault::Torn) => return Err(corrupt(0, "the segment's header is missing")),
        Err(Fault::Damaged(what)) => return Err(corrupt(0, what)),
    };
    if header.number != number {
        return Err(corrupt(16, "the segment has another number than its file"));
    }
    let mut frames = Vec::new();
    let mut end = HEADER_BYTES;
    while end < bytes.len() {
        match frame::decode(header.salt, bytes, end) {
            Ok((payload, next)) => {
                frames.push((end, payload));
                end = next;
            }
            Err(Fault::Torn) if newest => break,
            Err(Fault::Torn) => return Err(corrupt(end, "a frame before the newest segment is incomplete")),
            Err(Fault::Damaged(what)) => return Err(corrupt(end, what)),
        }
    }
    Ok(Some(Scanned { header, frames, end }))
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, Header, scan};

    #[test]
    fn only_what_a_crash_leaves_of_a_creation_is_taken_for_none() {
        let header = Header { number: 1, first: 0, salt: 7 }.encode();
        for end in 0..HEADER_BYTES {
            assert!(matches!(scan(1, &header[..end], true), Ok(None)), "{end}");
        }
        assert!(matches!(scan(1, &[0; HEADER_BYTES], true), Ok(None)));
        assert!(matches!(scan(1, &header, true), Ok(Some(_))));
        assert!(scan(1, &[0; HEADER_BYTES], false).is_err());
        for bytes in [HEADER_BYTES + 1, HEADER_BYTES + 32, 1 << 16] {
            assert!(scan(1, &vec![0; bytes], true).is_err(), "{bytes} zeros may have been deposits");
        }
    }
}
