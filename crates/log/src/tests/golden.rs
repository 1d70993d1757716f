//! Formats, fixed by golden files: a log that was written is read by every later program.
//!
//! `SOTTO_BLESS=1 cargo test -p sotto-log golden` rewrites `vectors/`; a change there is a change of format, and needs
//! a new version.

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use openraft::EntryPayload;
use sotto_protocol::Round;
use sotto_protocol::manifest::FormerManifest;

use super::examples::{
    HEADER, directory, entries, entries_of_closing, entries_of_slots, entry_of_keys, payload, segment,
    snapshot, snapshot_after_closing, snapshot_with_directory, snapshot_with_keys, snapshot_with_slots, vote,
};
use crate::entry::{Entry, decode_all, encode};
use crate::record::{Batch, Record};
use crate::snapshot::Snapshot;
use crate::store::{decode_vote, encode_vote};
use crate::testing::History;
use crate::{frame, segment::scan};

/// Compares bytes with those of a file in hexadecimal, 32 in a line, and returns the file's.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = path("vectors", name);
    if std::env::var_os("SOTTO_BLESS").is_some_and(|value| value == "1") {
        let lines: String = bytes.chunks(32).map(|line| HEXLOWER.encode(line) + "\n").collect();
        fs::write(&path, lines).unwrap();
    }
    let golden = read(&path);
    assert!(golden == bytes, "{name} differs from the golden file");
    golden
}

fn path(vectors: &str, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(vectors).join(name);
    path.with_extension("hex")
}

fn read(path: &Path) -> Vec<u8> {
    let lines = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    HEXLOWER.decode(lines.replace('\n', "").as_bytes()).unwrap()
}

/// `vectors-1/` and `vectors-2/` have what servers wrote whose manifests were of those versions, `vectors-3/` what those wrote
/// that had no slots, `vectors-4/` what those wrote that were in no group, `vectors-5/` what those wrote that knew one manifest
/// key, and told nobody where the nodes are, `vectors-6/` what those wrote in which accounts were for ever; nothing rewrites it.
fn former(version: u16, name: &str) -> Vec<u8> {
    read(&path(&format!("vectors-{version}"), name))
}

/// The manifest that the log of an earlier version in the vectors has.
fn former_manifest(version: u16) -> Box<FormerManifest> {
    let bytes = FormerManifest::bytes_of(version).unwrap();
    let bytes: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(5)).collect();
    let signature = core::array::from_fn(|at| !(at as u8));
    Box::new(FormerManifest::new(version, &bytes, signature).unwrap())
}

/// The examples as that version had them.
fn former_entries(version: u16) -> Vec<(&'static str, Entry)> {
    let mut entries = entries();
    for (name, entry) in &mut entries {
        if *name == "publish" {
            let record = Record::FormerPublish(Round(7), former_manifest(version));
            entry.payload = EntryPayload::Normal(Batch(vec![record]));
        }
    }
    entries
}

#[test]
fn golden_logs_of_earlier_versions_are_read() {
    for (version, _) in FormerManifest::VERSIONS {
        let expected = former_entries(version);
        for (name, entry) in &expected {
            let bytes = former(version, &format!("entry-{name}"));
            assert!(encode(entry) == bytes, "{name} of version {version}");
        }
        let file = former(version, "segment");
        let scanned = scan(1, &file, false).unwrap().unwrap();
        assert_eq!((scanned.header, scanned.end), (HEADER, file.len()));
        let read = scanned.frames.iter().flat_map(|(_, payload)| decode_all(&payload.bytes()).unwrap().1);
        let expected: Vec<Entry> = expected.into_iter().map(|(_, entry)| entry).collect();
        assert_eq!(read.collect::<Vec<_>>(), expected);

        // What it held goes on, and is written as it is now.
        let former = Snapshot::decode(&former(version, "snapshot")).unwrap();
        let now = snapshot();
        assert_eq!(former.state.accounts, now.state.accounts);
        assert_eq!((&former.state.tokens, &former.state.rounds), (&now.state.tokens, &now.state.rounds));
        let history = History::from(&former.state);
        assert_eq!(history.newest, now.state.newest());
        let newest = Some((Round(7), former_manifest(version)));
        assert_eq!((history.former, history.manifests.len()), (newest, 0));
        assert_eq!(Snapshot::decode(&former.encode()), Ok(former));
    }
}

#[test]
fn golden_entries_of_every_kind_are_written_and_read_as_ever() {
    let others = [("announced", entry_of_keys()), directory()];
    for (name, entry) in
        entries().into_iter().chain(entries_of_slots()).chain(entries_of_closing()).chain(others)
    {
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
    let slots = golden("snapshot-slots", &snapshot_with_slots().encode());
    assert_eq!(Snapshot::decode(&slots), Ok(snapshot_with_slots()));
    let told = golden("snapshot-directory", &snapshot_with_directory().encode());
    assert_eq!(Snapshot::decode(&told), Ok(snapshot_with_directory()));
    let keys = golden("snapshot-keys", &snapshot_with_keys().encode());
    assert_eq!(Snapshot::decode(&keys), Ok(snapshot_with_keys()));
    let closed = golden("snapshot-closed", &snapshot_after_closing().encode());
    assert_eq!(Snapshot::decode(&closed), Ok(snapshot_after_closing()));
    // Before accounts were closed, and there were directories, other manifest keys, groups, and slots.
    for version in [3, 4, 5, 6] {
        assert_eq!(Snapshot::decode(&former(version, "snapshot")), Ok(snapshot()));
    }
    for version in [4, 5, 6] {
        let slots = former(version, "snapshot-slots");
        assert_eq!(Snapshot::decode(&slots), Ok(snapshot_with_slots()));
    }
    for (name, expected) in
        [("snapshot-directory", snapshot_with_directory()), ("snapshot-keys", snapshot_with_keys())]
    {
        assert_eq!(Snapshot::decode(&former(6, name)), Ok(expected));
    }
    assert_eq!(decode_vote(&golden("vote", &encode_vote(&vote()))), Ok(vote()));
}
