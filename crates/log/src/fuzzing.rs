//! What holds of the readers of the log's formats, whatever bytes they are given: they never panic, keep no more than they
//! were given, and what they take for valid is written again as it was read. Run by tests, and by fuzzers.

use super::codec::Reader;
use super::entry::{self, decode_all};
use super::frame::{self, ALIGNMENT};
use super::record::Batch;
use super::segment::{self, Header};
use super::snapshot::Snapshot;
use super::store::{decode_vote, encode_vote};

/// The least bytes of an entry: its length, its identifier and its kind.
const ENTRY_BYTES: usize = 4 + 24 + 1;

/// Reads `data` as a segment; as the frames of one; as what an append writes in one; and as an entry, and a batch.
pub fn log_segment(data: &[u8]) {
    let number = data.get(16..24).and_then(|number| number.try_into().ok()).map_or(1, u64::from_le_bytes);
    check_segment(number, data);
    let header = Header { number: 1, first: 0, salt: 0x0123_4567_89ab_cdef };
    check_segment(1, &[&header.encode()[..], data].concat());

    let written = frame::encode(header.salt, data);
    let file = [&header.encode()[..], &written, data].concat();
    if let Ok((payload, next)) = frame::decode(header.salt, &file, segment::HEADER_BYTES) {
        assert!(payload.bytes() == data, "a payload is not read as it was written");
        assert_eq!(next, segment::HEADER_BYTES + written.len());
    } else {
        assert!(data.is_empty() || data.len() > frame::PAYLOAD_MAX, "an append is not read again");
    }

    check_payload(data);
    for kind in 0..3 {
        let mut entry = vec![0; ENTRY_BYTES - 5];
        entry.push(kind);
        entry.extend_from_slice(data);
        let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
        let committed = [0; 25];
        check_payload(&[&committed[..], &length.to_le_bytes(), &entry].concat());
    }
    let mut reader = Reader::new(data);
    if let Ok(batch) = Batch::decode(&mut reader)
        && reader.is_empty()
    {
        let mut encoded = Vec::new();
        batch.encode(&mut encoded);
        assert!(encoded == data, "a batch is not written as it was read");
    }
}

/// Reads `data` as a snapshot, and as what follows the head of one.
pub fn log_snapshot(data: &[u8]) {
    check_snapshot(data);
    let checksum = crc32c::crc32c(data);
    check_snapshot(&[b"SOTTOSNP", &1_u32.to_le_bytes()[..], &checksum.to_le_bytes(), data].concat());
}

/// Reads `data` as a vote, and as what is inside of one.
pub fn log_vote(data: &[u8]) {
    check_vote(data);
    let mut mended = [b"SVOT", &1_u32.to_le_bytes()[..], data].concat();
    let checksum = crc32c::crc32c(&mended);
    mended.extend_from_slice(&checksum.to_le_bytes());
    check_vote(&mended);
}

fn check_segment(number: u64, file: &[u8]) {
    for newest in [true, false] {
        let Ok(Some(scanned)) = segment::scan(number, file, newest) else { continue };
        assert!(
            scanned.header.encode() == file[..segment::HEADER_BYTES],
            "a header is not written as it was read"
        );
        assert!(scanned.end <= file.len() && (newest || scanned.end == file.len()));
        assert!(scanned.frames.len() * 2 * ALIGNMENT <= file.len());
        for (at, payload) in &scanned.frames {
            let bytes = payload.bytes();
            assert!(at + ALIGNMENT + bytes.len() <= scanned.end);
            check_payload(&bytes);
        }
    }
}

fn check_payload(payload: &[u8]) {
    let Ok((committed, entries)) = decode_all(payload) else { return };
    assert!(entries.len() * ENTRY_BYTES <= payload.len());
    let mut encoded = Vec::new();
    entry::put_optional_log_id(&mut encoded, committed.as_ref());
    entries.iter().for_each(|entry| encoded.extend(entry::encode(entry)));
    assert!(encoded == payload, "entries are not written as they were read");
}

fn check_snapshot(file: &[u8]) {
    if let Ok(snapshot) = Snapshot::decode(file) {
        assert!(snapshot.encode() == file, "a snapshot is not written as it was read");
        // What a start asks of it.
        assert!(snapshot.state.floor() <= snapshot.state.next_index());
        let _ = snapshot.state.rounds().count();
    }
}

fn check_vote(file: &[u8]) {
    if let Ok(vote) = decode_vote(file) {
        assert!(encode_vote(&vote) == file, "a vote is not written as it was read");
    }
}
