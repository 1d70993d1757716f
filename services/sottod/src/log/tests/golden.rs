//! Formats, fixed by golden files: a log that was written is read by every later program.
//!
//! `SOTTO_BLESS=1 cargo test -p sottod --lib golden` rewrites `vectors/`; a change there is a change of format, and needs
//! a new version.

use std::fs;
use std::path::Path;

use data_encoding::HEXLOWER;

use super::examples::{HEADER, entries, payload, segment, snapshot, vote};
use crate::log::entry::{Entry, decode_all, encode};
use crate::log::snapshot::Snapshot;
use crate::log::store::{decode_vote, encode_vote};
use crate::log::{frame, segment::scan};

/// Compares bytes with those of a file in hexadecimal, 32 in a line, and returns the file's.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/log/tests/vectors").join(name);
    let path = path.with_extension("hex");
    if std::env::var_os("SOTTO_BLESS").is_some_and(|value| value == "1") {
        let lines: String = bytes.chunks(32).map(|line| HEXLOWER.encode(line) + "\n").collect();
        fs::write(&path, lines).unwrap();
    }
    let lines = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let golden = HEXLOWER.decode(lines.replace('\n', "").as_bytes()).unwrap();
    assert!(golden == bytes, "{name} differs from the golden file");
    golden
}

#[test]
fn golden_entries_of_every_kind_are_written_and_read_as_ever() {
    for (name, entry) in entries() {
        golden(&format!("entry-{name}"), &encode(&entry));
        assert_eq!(decode_all(&payload(std::slice::from_ref(&entry))), Ok((None, vec![entry])));
    }
}

#[test]
fn golden_segments_are_written_and_read_as_ever() {
    golden("segment-header", &HEADER.encode());
    let zeros = golden("frame-of-zeros", &frame::encode(HEADER.salt, &[0; 40]));
    assert_eq!(frame::decode(HEADER.salt, &zeros, 0).unwrap().0.bytes(), [0; 40].as_slice());
    let file = golden("segment", &segment());
    let scanned = scan(1, &file, false).unwrap().unwrap();
    assert_eq!((scanned.header, scanned.end), (HEADER, file.len()));
    let read = scanned.frames.iter().flat_map(|(_, payload)| decode_all(&payload.bytes()).unwrap().1);
    let expected: Vec<Entry> = entries().into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(read.collect::<Vec<_>>(), expected);
}

#[test]
fn golden_snapshots_and_votes_are_written_and_read_as_ever() {
    assert_eq!(Snapshot::decode(&golden("snapshot", &snapshot().encode())), Ok(snapshot()));
    assert_eq!(decode_vote(&golden("vote", &encode_vote(&vote()))), Ok(vote()));
}
