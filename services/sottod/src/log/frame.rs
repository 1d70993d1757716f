//! A frame: what one append writes, and one sync makes durable, before the next is written.
//!
//! ```text
//! header (32)   magic "SFRM" | length of the payload, u32 | CRC-32C of the payload, u32 | 16 zeros |
//!               CRC-32C of the segment's salt and the 28 bytes before, u32
//! payload       filled up with zeros to a multiple of 32 bytes, and not empty
//! ```
//!
//! Frames begin at multiples of 32 bytes, so a header never crosses a sector.
//!
//! **Torn or damaged.** A crash may leave any part of the last frame: sectors that were not written are missing at the
//! end, or read as zeros. Everything before the last frame was synced. So what is no valid frame is *torn*, and cut
//! off, only if the file ends before the frame does or one of its sectors is all zeros, and only if nothing was written
//! after it. Anything else was acknowledged once, and is damage. The salt keeps deposits from looking like frames.

/// Frames and their headers are multiples of this long.
pub(super) const ALIGNMENT: usize = 32;
const HEADER_BYTES: usize = 32;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const MAGIC: [u8; 4] = *b"SFRM";
/// What disks write as a whole.
const SECTOR: usize = 512;
/// The longest payload: entries of 2 MiB, and room for what stands around them.
pub(super) const PAYLOAD_MAX: usize = (2 << 20) + (64 << 10);

/// The bytes of a frame around `payload`, which is filled up.
pub(super) fn encode(salt: u64, payload: &[u8]) -> Vec<u8> {
    let padded = payload.len().next_multiple_of(ALIGNMENT);
    let length = u32::try_from(padded).expect("appends are at most 2 MiB");
    let mut frame = vec![0; HEADER_BYTES + padded];
    frame[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
    let checksum = crc32c::crc32c(&frame[HEADER_BYTES..]);
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    frame[8..12].copy_from_slice(&checksum.to_le_bytes());
    let checksum = header_checksum(salt, &frame[..CHECKED_BYTES]);
    frame[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// Why there is no frame at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It was being written when the process or the machine ended.
    Torn,
    /// It was written, and has changed since.
    Damaged(&'static str),
}

/// The payload of the frame at `at`, and where the next one begins. `bytes` is the segment to its end.
pub(super) fn decode(salt: u64, bytes: &[u8], at: usize) -> Result<(&[u8], usize), Fault> {
    parse(salt, bytes, at).map_err(|what| diagnose(salt, bytes, at, what))
}

/// The payload of a frame that was read from where one begins; a torn one is as wrong as a damaged one.
pub(super) fn reread(salt: u64, frame: &[u8]) -> Result<&[u8], &'static str> {
    parse(salt, frame, 0).map(|(payload, _)| payload)
}

fn parse(salt: u64, bytes: &[u8], at: usize) -> Result<(&[u8], usize), &'static str> {
    let length = length(salt, bytes, at).ok_or("the header of a frame does not hold")?;
    let start = at + HEADER_BYTES;
    let payload = bytes.get(start..start + length).ok_or("a frame goes beyond the end")?;
    let checksum: [u8; 4] = core::array::from_fn(|byte| bytes[at + 8 + byte]);
    if crc32c::crc32c(payload) == u32::from_le_bytes(checksum) {
        Ok((payload, start + length))
    } else {
        Err("the checksum of a frame does not hold")
    }
}

/// The length that a valid header at `at` announces.
fn length(salt: u64, bytes: &[u8], at: usize) -> Option<usize> {
    let header: &[u8; HEADER_BYTES] = bytes.get(at..)?.first_chunk()?;
    let (checked, checksum) = header.split_at(CHECKED_BYTES);
    let length = u32::from_le_bytes(core::array::from_fn(|byte| header[4 + byte])) as usize;
    let valid = header_checksum(salt, checked).to_le_bytes() == *checksum
        && header[..4] == MAGIC
        && (1..=PAYLOAD_MAX).contains(&length)
        && length.is_multiple_of(ALIGNMENT);
    valid.then_some(length)
}

fn header_checksum(salt: u64, checked: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), checked)
}

fn diagnose(salt: u64, bytes: &[u8], at: usize, what: &'static str) -> Fault {
    let rest = &bytes[at..];
    let later = (at + ALIGNMENT..bytes.len()).step_by(ALIGNMENT).any(|at| length(salt, bytes, at).is_some());
    if later || rest.len() > HEADER_BYTES + PAYLOAD_MAX {
        return Fault::Damaged(what);
    }
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return Fault::Torn };
    if *header == [0; HEADER_BYTES] {
        return Fault::Torn;
    }
    let Some(length) = length(salt, bytes, at) else { return Fault::Damaged(what) };
    let end = at + HEADER_BYTES + length;
    if end > bytes.len() || has_lost_sector(&bytes[..end], at) {
        return if bytes.len() > end { Fault::Damaged(what) } else { Fault::Torn };
    }
    Fault::Damaged(what)
}

/// Whether a sector's share of `bytes` from `at` on is all zeros.
fn has_lost_sector(bytes: &[u8], at: usize) -> bool {
    let mut start = at;
    while start < bytes.len() {
        let end = bytes.len().min((start / SECTOR + 1) * SECTOR);
        if bytes[start..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Fault, PAYLOAD_MAX, decode, encode};

    const SALT: u64 = 0x1234_5678_9abc_def0;

    fn payload(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251 + 1) as u8).collect()
    }

    #[test]
    fn every_cut_is_torn_and_every_flipped_bit_is_damage() {
        for bytes in [1, 31, 32, 500, 3000] {
            let first = encode(SALT, &payload(200));
            let last = encode(SALT, &payload(bytes));
            let file = [first.clone(), last].concat();
            for end in first.len()..file.len() {
                let expected = Err(Fault::Torn);
                assert_eq!(decode(SALT, &file[..end], first.len()), expected, "{bytes} bytes cut at {end}");
            }
            for bit in 0..file.len() * 8 {
                let mut flipped = file.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let at = if bit / 8 < first.len() { 0 } else { first.len() };
                assert!(matches!(decode(SALT, &flipped, at), Err(Fault::Damaged(_))), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_sector_that_was_not_written_is_torn_only_at_the_end() {
        let frame = encode(SALT, &payload(3000));
        let file = [frame.clone(), frame.clone()].concat();
        for start in (frame.len().next_multiple_of(512)..file.len()).step_by(512) {
            let mut lost = file.clone();
            let end = lost.len().min(start + 512);
            lost[start..end].fill(0);
            assert_eq!(decode(SALT, &lost, frame.len()), Err(Fault::Torn));
        }
        for start in (0..frame.len() - 512).step_by(512) {
            let mut lost = file.clone();
            lost[start..start + 512].fill(0);
            assert!(
                matches!(decode(SALT, &lost, 0), Err(Fault::Damaged(_))),
                "what follows was written later"
            );
        }
        // All that is left is its length.
        let mut zeros = file.clone();
        zeros[frame.len()..].fill(0);
        assert_eq!(decode(SALT, &zeros, frame.len()), Err(Fault::Torn));
    }

    #[test]
    fn a_header_announces_no_more_than_there_may_be() {
        let frame = encode(SALT, &payload(PAYLOAD_MAX));
        assert!(decode(SALT, &frame, 0).is_ok());
        let frame = encode(SALT, &vec![1; PAYLOAD_MAX + 1]);
        assert!(decode(SALT, &frame, 0).is_err());
    }

    #[test]
    fn a_deposit_cannot_pass_for_a_frame() {
        let inner = encode(SALT ^ 1, &payload(10));
        let frame = encode(SALT, &inner);
        assert_eq!(decode(SALT, &frame[..frame.len() - 1], 0), Err(Fault::Torn));
    }
}
