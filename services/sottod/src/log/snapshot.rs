//! The snapshot: a state, and the segments that hold the deposits of its rounds.
//!
//! ```text
//! magic "SOTTOSNP" | version, u32 | CRC-32C of the version and of what follows, u32 | segments, u32, each: number, u64 | index of its
//! first entry, u64 | bytes, u64 | CRC-32C, u32 | state, see `state`
//! ```
//!
//! The segments listed are complete, and hold only entries that the state knows: they never change again. A segment with
//! entries of which the state knows only some is not listed, though its rounds may have deposits there. An entry that a
//! snapshot covers is no longer part of the log that is replayed, but its deposits are read from where they are.

use super::codec::{Malformed, Reader, put_count};
use super::state::{Encoding, State};

const MAGIC: [u8; 8] = *b"SOTTOSNP";
const VERSION: u32 = 4;
/// From this one on the checksum is of the version, too.
const CHECKED_VERSION: u32 = 3;
const HEADER_BYTES: usize = 16;
/// The file.
pub(super) const NAME: &str = "snapshot";
/// Longer files are not ours, and are not read into memory.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// A segment that does not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Complete {
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) segments: Vec<Complete>,
    pub(super) state: State,
}

impl Snapshot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        put_count(&mut out, self.segments.len());
        for Complete { number, first, bytes, checksum } in &self.segments {
            out.extend([number, first, bytes].into_iter().flat_map(|field| field.to_le_bytes()));
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        self.state.encode(&mut out);
        let checksum = checksum(VERSION, &out[HEADER_BYTES..]);
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (magic, version) = (reader.array()?, reader.u32()?);
        let encoding = match (magic, version) {
            (MAGIC, VERSION) => Encoding::Current,
            (MAGIC, 3) => Encoding::Version3,
            (MAGIC, 2) => Encoding::Version2,
            (MAGIC, 1) => Encoding::Version1,
            _ => return Err(Malformed("this is no snapshot of version 1 to 4")),
        };
        if reader.u32()? != checksum(version, &bytes[HEADER_BYTES..]) {
            return Err(Malformed("the checksum of the snapshot does not hold"));
        }
        let segments = reader.count(28)?;
        let segments = (0..segments)
            .map(|_| {
                Ok(Complete {
                    number: reader.u64()?,
                    first: reader.u64()?,
                    bytes: reader.u64()?,
                    checksum: reader.u32()?,
                })
            })
            .collect::<Result<_, _>>()?;
        let state = State::decode(&mut reader, encoding)?;
        reader.finish()?;
        Ok(Self { segments, state })
    }
}

/// In versions 1 and 2, of the content alone.
fn checksum(version: u32, content: &[u8]) -> u32 {
    let before = if version < CHECKED_VERSION { 0 } else { crc32c::crc32c(&version.to_le_bytes()) };
    crc32c::crc32c_append(before, content)
}

#[cfg(test)]
mod tests {
    use super::{Complete, Snapshot, State};

    #[test]
    fn a_snapshot_with_any_bit_flipped_is_refused() {
        let segments = vec![Complete { number: 1, first: 2, bytes: 3, checksum: 4 }];
        let snapshot = Snapshot { segments, state: State::default() };
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes), Ok(snapshot));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::decode(&flipped).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..end]).is_err());
        }
    }
}
