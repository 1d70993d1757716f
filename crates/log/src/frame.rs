//! A frame: what one append writes, and one sync makes durable, before the next is written.
//!
//! ```text
//! header (32)   magic "SFRM" | length of the payload, u32 | CRC-32C of what follows the header, u32 | mask, u32 | 12 zeros |
//!               CRC-32C of the segment's salt and the 28 bytes before, u32
//! payload       filled up with bytes 0xff to a multiple of 32, and not empty; each word of it is XORed with the mask
//! ```
//!
//! Frames begin at multiples of 32 bytes, so a header never crosses a sector.
//!
//! **Torn or damaged.** A crash may leave any part of the last frame: sectors that were not written are missing at the
//! end, or read as zeros. Everything before the last frame was synced. So what is no valid frame is *torn*, and cut
//! off, only if the file ends before the frame does or one of its sectors is all zeros, and only if nothing was written
//! after it. Anything else was acknowledged once, and is damage. The salt keeps deposits from looking like frames.
//!
//! **No sector of a whole frame is all zeros,** whatever the payload. A sector's share of a frame is made of whole blocks of
//! 32 bytes. The first of a frame is its header, with the magic; in each other, at least four of its eight words are not
//! zero, because the mask is chosen so, see [`choose_mask`]. So up to three flipped bits, or bytes that were replaced by
//! others than zeros, never pass for torn. A sector of the last frame that was acknowledged and reads as zeros now does: that
//! cannot be told from one that was never written.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Frames and their headers are multiples of this long.
pub(super) const ALIGNMENT: usize = 32;
const HEADER_BYTES: usize = 32;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const MAGIC: [u8; 4] = *b"SFRM";
/// What disks write as a whole.
const SECTOR: usize = 512;
/// The longest payload: entries of 2 MiB, and room for what stands around them.
pub(super) const PAYLOAD_MAX: usize = (2 << 20) + (64 << 10);

const WORD: usize = 4;
/// What payloads are filled up with.
const FILLER: u8 = 0xff;

/// The bytes of a frame around `payload`.
pub(super) fn encode(salt: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("appends are at most 2 MiB");
    let padded = payload.len().next_multiple_of(ALIGNMENT);
    let mut frame = Vec::with_capacity(HEADER_BYTES + padded);
    frame.extend_from_slice(&[0; HEADER_BYTES]);
    frame.extend_from_slice(payload);
    frame.resize(HEADER_BYTES + padded, FILLER);
    let mask = choose_mask(&frame[HEADER_BYTES..]);
    apply_mask(mask, &mut frame[HEADER_BYTES..]);
    let checksum = crc32c::crc32c(&frame[HEADER_BYTES..]);
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    frame[8..12].copy_from_slice(&checksum.to_le_bytes());
    frame[12..16].copy_from_slice(&mask.to_le_bytes());
    let checksum = header_checksum(salt, &frame[..CHECKED_BYTES]);
    frame[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// The lowest mask under which no block has five words that are zero.
///
/// A word of a masked block is zero if it was equal to the mask. Of the eight words of a block, five can be equal to one
/// value only, so each block rules out one mask at most, and there are fewer blocks in a payload than masks.
fn choose_mask(padded: &[u8]) -> u32 {
    let mut ruled_out = BTreeSet::new();
    for block in padded.chunks(ALIGNMENT) {
        let (words, _) = block.as_chunks::<WORD>();
        // Where five of eight are equal, the two of a pair are.
        let pairs = words.chunks(2).filter(|pair| pair.iter().all(|word| *word == pair[0]));
        let most = |word: &[u8; WORD]| words.iter().filter(|other| *other == word).count() >= 5;
        ruled_out.extend(pairs.map(|pair| pair[0]).find(most).map(u32::from_le_bytes));
    }
    (0..=u32::MAX).find(|mask| !ruled_out.contains(mask)).expect("a payload has less than 2^32 blocks")
}

fn apply_mask(mask: u32, padded: &mut [u8]) {
    for word in padded.as_chunks_mut::<WORD>().0 {
        *word = (u32::from_le_bytes(*word) ^ mask).to_le_bytes();
    }
}

/// The payload of a frame, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    masked: &'a [u8],
    length: usize,
    mask: u32,
}

impl<'a> Payload<'a> {
    /// As it was before it was written.
    pub(super) fn bytes(&self) -> Cow<'a, [u8]> {
        if self.mask == 0 {
            return Cow::Borrowed(&self.masked[..self.length]);
        }
        let mut bytes = self.masked.to_vec();
        apply_mask(self.mask, &mut bytes);
        bytes.truncate(self.length);
        Cow::Owned(bytes)
    }
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
pub(super) fn decode(salt: u64, bytes: &[u8], at: usize) -> Result<(Payload<'_>, usize), Fault> {
    parse(salt, bytes, at).map_err(|what| diagnose(salt, bytes, at, what))
}

/// The payload of a frame that was read from where one begins; a torn one is as wrong as a damaged one.
pub(super) fn reread(salt: u64, frame: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    parse(salt, frame, 0).map(|(payload, _)| payload.bytes())
}

fn parse(salt: u64, bytes: &[u8], at: usize) -> Result<(Payload<'_>, usize), &'static str> {
    let header = header(salt, bytes, at).ok_or("the header of a frame does not hold")?;
    let (start, end) = (at + HEADER_BYTES, header.end(at));
    let masked = bytes.get(start..end).ok_or("a frame goes beyond the end")?;
    if crc32c::crc32c(masked) == header.checksum {
        Ok((Payload { masked, length: header.length, mask: header.mask }, end))
    } else {
        Err("the checksum of a frame does not hold")
    }
}

struct Header {
    length: usize,
    checksum: u32,
    mask: u32,
}

impl Header {
    /// Where the frame ends that begins at `at`.
    fn end(&self, at: usize) -> usize {
        at + HEADER_BYTES + self.length.next_multiple_of(ALIGNMENT)
    }
}

/// The header at `at`, if there is a valid one.
fn header(salt: u64, bytes: &[u8], at: usize) -> Option<Header> {
    let header: &[u8; HEADER_BYTES] = bytes.get(at..)?.first_chunk()?;
    let (checked, checksum) = header.split_at(CHECKED_BYTES);
    let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| header[at + byte]));
    let length = word(4) as usize;
    let valid = header_checksum(salt, checked).to_le_bytes() == *checksum
        && header[..4] == MAGIC
        && header[16..CHECKED_BYTES] == [0; CHECKED_BYTES - 16]
        && (1..=PAYLOAD_MAX).contains(&length);
    valid.then(|| Header { length, checksum: word(8), mask: word(12) })
}

fn header_checksum(salt: u64, checked: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), checked)
}

fn diagnose(salt: u64, bytes: &[u8], at: usize, what: &'static str) -> Fault {
    let rest = &bytes[at..];
    let later = (at + ALIGNMENT..bytes.len()).step_by(ALIGNMENT).any(|at| header(salt, bytes, at).is_some());
    if later || rest.len() > HEADER_BYTES + PAYLOAD_MAX {
        return Fault::Damaged(what);
    }
    let torn = match header(salt, bytes, at) {
        Some(header) => {
            let end = header.end(at);
            bytes.len() < end || (bytes.len() == end && has_lost_sector(bytes, at))
        }
        // A header is written as a whole, with all there is of its sector, or not at all.
        None => rest.len() < HEADER_BYTES || has_lost_sector(&bytes[..sector_end(bytes, at)], at),
    };
    if torn { Fault::Torn } else { Fault::Damaged(what) }
}

/// Whether a sector's share of `bytes` from `at` on is all zeros.
fn has_lost_sector(bytes: &[u8], at: usize) -> bool {
    let mut start = at;
    while start < bytes.len() {
        let end = sector_end(bytes, start);
        if bytes[start..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

fn sector_end(bytes: &[u8], at: usize) -> usize {
    bytes.len().min((at / SECTOR + 1) * SECTOR)
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, Fault, HEADER_BYTES, PAYLOAD_MAX, SECTOR, choose_mask, decode, encode};

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

    /// Payloads that are hardest to tell from what was never written.
    fn empty_looking() -> Vec<Vec<u8>> {
        let constant =
            |word: u32, bytes: usize| word.to_le_bytes().repeat(bytes.div_ceil(4))[..bytes].to_vec();
        let mut payloads: Vec<Vec<u8>> =
            [1, 4, 31, 32, 33, 480, 512, 1000, 3000].map(|bytes| vec![0; bytes]).to_vec();
        // Blocks that rule out one mask after the other.
        payloads.push((0..120).flat_map(|mask| constant(mask, 32)).collect());
        // A single bit in each sector.
        let mut bits = vec![0; 4096];
        bits.iter_mut().step_by(SECTOR).for_each(|byte| *byte = 8);
        payloads.push(bits);
        payloads
    }

    #[test]
    fn a_frame_that_was_written_has_no_sector_of_zeros_and_no_flipped_bit_makes_one() {
        for payload in empty_looking() {
            let frame = encode(SALT, &payload);
            assert_eq!(decode(SALT, &frame, 0).unwrap().0.bytes(), payload);
            for block in frame[HEADER_BYTES..].chunks(ALIGNMENT) {
                assert!(block.iter().map(|byte| byte.count_ones()).sum::<u32>() >= 4, "{block:?}");
            }
            for before in [64, 96, 4096 + 480] {
                let mut file = vec![1; before];
                file.extend_from_slice(&frame);
                for bit in before * 8..file.len() * 8 {
                    let mut flipped = file.clone();
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    let found = decode(SALT, &flipped, before);
                    assert!(matches!(found, Err(Fault::Damaged(_))), "bit {bit} behind {before}: {found:?}");
                }
                let mut start = before;
                while start < file.len() {
                    let end = file.len().min((start / SECTOR + 1) * SECTOR);
                    for other in [1, 0x55, 0xff] {
                        let mut changed = file.clone();
                        changed[start..end].fill(other);
                        let found = decode(SALT, &changed, before);
                        assert!(matches!(found, Err(Fault::Damaged(_))), "{start} to {end} of {other}");
                    }
                    // Less than a sector is never what a crash leaves.
                    if end - start > ALIGNMENT {
                        let mut changed = file.clone();
                        changed[start..end - ALIGNMENT].fill(0);
                        let found = decode(SALT, &changed, before);
                        assert!(matches!(found, Err(Fault::Damaged(_))), "{start} to {end}: {found:?}");
                    }
                    let mut zeroed = file.clone();
                    zeroed[start..end].fill(0);
                    assert_eq!(decode(SALT, &zeroed, before), Err(Fault::Torn), "nothing can tell");
                    start = end;
                }
            }
        }
    }

    #[test]
    fn whatever_is_deposited_there_is_a_mask() {
        let every =
            |masks: u32| (0..masks).flat_map(|mask| mask.to_le_bytes().repeat(8)).collect::<Vec<u8>>();
        let most = (PAYLOAD_MAX / ALIGNMENT) as u32;
        assert_eq!(choose_mask(&every(most)), most);
        assert_eq!(choose_mask(&every(0)), 0);
        let five_of_eight = [[0; 12], [7; 12], [0; 12]].concat();
        assert_eq!(choose_mask(&five_of_eight[..32]), 1);
        let four_of_eight = [[7; 16], [0; 16]].concat();
        assert_eq!(choose_mask(&four_of_eight), 0);
        let frame = encode(SALT, &every(most));
        assert_eq!(decode(SALT, &frame, 0).unwrap().0.bytes(), every(most));
    }

    #[test]
    fn a_deposit_cannot_pass_for_a_frame() {
        let inner = encode(SALT ^ 1, &payload(10));
        let frame = encode(SALT, &inner);
        assert_eq!(decode(SALT, &frame[..frame.len() - 1], 0), Err(Fault::Torn));
    }
}
