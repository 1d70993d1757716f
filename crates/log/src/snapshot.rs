//! The snapshot: a state from which the log goes on.
//!
//! ```text
//! magic "SOTTOSNP" | version, u32 | CRC-32C of the version and of what follows, u32 | state, see `state`
//! ```
//!
//! It is the state before the entry that opened the oldest round that is still needed, so that everything about such rounds is
//! in entries behind it, and a node that has nothing can begin with it. What a server wrote that was alone may be of a later
//! state: then deposits of rounds are in entries before it, which are no part of the log that is replayed, and are read from
//! where they are. Until version 4 the segments with such entries were listed before the state.

use super::codec::{Malformed, Reader};
use super::state::State;
use super::state::format::Encoding;

const MAGIC: [u8; 8] = *b"SOTTOSNP";
const VERSION: u32 = 7;
/// From this one on the checksum is of the version, too.
const CHECKED_VERSION: u32 = 3;
/// Until this one segments were listed.
const LISTED_VERSION: u32 = 4;
/// Bytes of one in the list.
const LISTED_BYTES: usize = 28;
const HEADER_BYTES: usize = 16;
/// The file.
pub(super) const NAME: &str = "snapshot";
/// Longer files are not ours, and are not read into memory.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) state: State,
}

impl Snapshot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
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
            (MAGIC, 6) => Encoding::Version6,
            (MAGIC, 5) => Encoding::Version5,
            (MAGIC, 4) => Encoding::Version4,
            (MAGIC, 3) => Encoding::Version3,
            (MAGIC, 2) => Encoding::Version2,
            (MAGIC, 1) => Encoding::Version1,
            _ => return Err(Malformed("this is no snapshot of version 1 to 7")),
        };
        if reader.u32()? != checksum(version, &bytes[HEADER_BYTES..]) {
            return Err(Malformed("the checksum of the snapshot does not hold"));
        }
        if version <= LISTED_VERSION {
            let listed = reader.count(LISTED_BYTES)?;
            reader.take(listed * LISTED_BYTES)?;
        }
        let state = State::decode(&mut reader, encoding)?;
        reader.finish()?;
        Ok(Self { state })
    }
}

/// In versions 1 and 2, of the content alone.
fn checksum(version: u32, content: &[u8]) -> u32 {
    let before = if version < CHECKED_VERSION { 0 } else { crc32c::crc32c(&version.to_le_bytes()) };
    crc32c::crc32c_append(before, content)
}

#[cfg(test)]
mod tests {
    use super::{Snapshot, State};

    #[test]
    fn a_snapshot_with_any_bit_flipped_is_refused() {
        let snapshot = Snapshot { state: State::default() };
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
