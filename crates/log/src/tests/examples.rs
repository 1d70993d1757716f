//! One of everything that the log writes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::{BasicNode, EntryPayload};
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_protocol::{Directory, KeyEpoch, Round, SignedDirectory, UnixMillis};
use sotto_wire::Announced;

use crate::entry::{Entry, Membership, Vote, encode, log_id, put_optional_log_id};
use crate::record::{Batch, Record, TableSeal};
use crate::segment::{HEADER_BYTES, Header};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tenure::Tenure;
use crate::{frame, segment};

pub(super) const HEADER: Header = Header { number: 1, first: 0, salt: 0x0123_4567_89ab_cdef };

/// A record of each kind, by name, in an order in which they can be applied.
pub(super) fn records() -> Vec<(&'static str, Record)> {
    let mut manifest =
        SignedManifest { bytes: [0; MANIFEST_BYTES], signature: [0; SIGNATURE_BYTES], segment: None };
    (0..).zip(&mut manifest.bytes).for_each(|(at, byte): (u32, &mut u8)| *byte = (at as u8).wrapping_mul(5));
    (0..).zip(&mut manifest.signature).for_each(|(at, byte): (u8, &mut u8)| *byte = !at);
    let deposits: Bytes = (0..2 * 304_u32).map(|at| ((at * at) >> 3) as u8).collect();
    vec![
        ("open", Record::Open(Round(7))),
        ("deposits", Record::Deposits(Round(7), deposits)),
        ("accounts", Record::Accounts(vec![[0x11; 32], [0x22; 32]])),
        ("seal", Record::Seal(Round(7), [0x33; 32], UnixMillis(1_700_000_000_000))),
        ("publish", Record::Publish(Round(7), Box::new(manifest))),
        ("spent", Record::Spent(vec![[0x44; 16], [0x55; 16]])),
        ("retire", Record::Retire(Round(6))),
    ]
}

/// An entry of each kind, and one for each kind of record.
pub(super) fn entries() -> Vec<(&'static str, Entry)> {
    let nodes = BTreeMap::from([(1, BasicNode::new("a:1")), (2, BasicNode::new(""))]);
    let membership = Membership::new(vec![BTreeSet::from([1]), BTreeSet::from([1, 2])], nodes).unwrap();
    let mut payloads = vec![
        ("membership", EntryPayload::Membership(membership)),
        ("blank", EntryPayload::Blank),
        ("batch", EntryPayload::Normal(Batch::default())),
    ];
    let records = records().into_iter();
    payloads.extend(records.map(|(name, record)| (name, EntryPayload::Normal(Batch(vec![record])))));
    let entry = |(index, (name, payload))| (name, Entry { log_id: log_id(3, 1, index), payload });
    (0..).zip(payloads).map(entry).collect()
}

/// The same of a server with slots, beside all that others write.
pub(super) fn entries_of_slots() -> Vec<(&'static str, Entry)> {
    let records = [
        ("lots", Record::Lots(3)),
        ("table", Record::Table(Round(9), TableSeal { lots: 3, cover: [0x66; 32] })),
    ];
    let entry = |(index, (name, record))| {
        let payload = EntryPayload::Normal(Batch(vec![record]));
        (name, Entry { log_id: log_id(3, 1, index), payload })
    };
    let next = snapshot().state.next_index();
    (next..).zip(records).map(entry).collect()
}

/// The same of a server on which an account was closed.
pub(super) fn entries_of_closing() -> Vec<(&'static str, Entry)> {
    let tenure = |slot, number| Tenure { slot, number };
    let records = [
        ("closed", Record::Closed(vec![[0x22; 32]])),
        ("vacant", Record::Vacant(vec![tenure(3, 1), tenure(40, 2), tenure(70, 7)])),
        ("begun", Record::Begun(vec![tenure(40, 2), tenure(41, 1)])),
    ];
    let entry = |(index, (name, record))| {
        let payload = EntryPayload::Normal(Batch(vec![record]));
        (name, Entry { log_id: log_id(3, 1, index), payload })
    };
    let next = snapshot_with_slots().state.next_index();
    (next..).zip(records).map(entry).collect()
}

/// The state after them, too.
pub(super) fn snapshot_after_closing() -> Snapshot {
    let mut snapshot = snapshot_with_slots();
    for (name, entry) in entries_of_closing() {
        assert_eq!(snapshot.state.apply(&entry).refused, None, "{name}");
    }
    snapshot
}

/// An entry that tells where the nodes are.
pub(super) fn directory() -> (&'static str, Entry) {
    let nodes = ["a.example:7370", "b.example:7370"].map(String::from);
    let directory = Directory::new(1, Round(9), nodes).unwrap();
    let directory = SignedDirectory { bytes: directory.encode(), signature: [0x77; SIGNATURE_BYTES] };
    let payload = EntryPayload::Normal(Batch(vec![Record::Directory(Box::new(directory))]));
    ("directory", Entry { log_id: log_id(3, 1, snapshot().state.next_index()), payload })
}

/// An entry of a server that has changed its manifest key.
pub(super) fn entry_of_keys() -> Entry {
    let epoch = KeyEpoch::first(Round(90)).next([7; 32], Round(40), Round(900));
    let mut announcement = [0; ANNOUNCEMENT_BYTES];
    // Number, key, engine, code, mode: what is read of it is possible.
    announcement[0] = 2;
    announcement[10..42].fill(8);
    announcement[42..46].copy_from_slice(b"none");
    announcement[153..157].copy_from_slice(&epoch.number.to_le_bytes());
    announcement[157..165].copy_from_slice(&epoch.first.0.to_le_bytes());
    announcement[165..173].copy_from_slice(&epoch.end.0.to_le_bytes());
    announcement[173..].copy_from_slice(&epoch.former);
    let announced = Announced { announcement, endorsement: [9; 64] };
    let payload = EntryPayload::Normal(Batch(vec![Record::Announced(Box::new(announced))]));
    Entry { log_id: log_id(3, 1, snapshot().state.next_index()), payload }
}

/// The state after it.
pub(super) fn snapshot_with_keys() -> Snapshot {
    let mut snapshot = snapshot();
    assert_eq!(snapshot.state.apply(&entry_of_keys()).refused, None);
    snapshot
}

/// The payload of an append with these entries, of which all before the last were committed.
pub(super) fn payload(entries: &[Entry]) -> Vec<u8> {
    let mut payload = Vec::new();
    let committed = entries.len().checked_sub(2).and_then(|at| entries.get(at));
    put_optional_log_id(&mut payload, committed.map(|entry| &entry.log_id));
    entries.iter().for_each(|entry| payload.extend(encode(entry)));
    payload
}

/// A whole segment with all entries, the first of them in a frame of its own.
pub(super) fn segment() -> Vec<u8> {
    let entries: Vec<Entry> = entries().into_iter().map(|(_, entry)| entry).collect();
    let mut file = HEADER.encode().to_vec();
    file.extend(frame::encode(HEADER.salt, &payload(&entries[..1])));
    file.extend(frame::encode(HEADER.salt, &payload(&entries[1..])));
    assert!(segment::scan(1, &file, false).is_ok_and(|found| found.is_some()) && file.len() > HEADER_BYTES);
    file
}

/// The state after all entries, and after more for a round that is open.
pub(super) fn snapshot() -> Snapshot {
    let mut state = State::default();
    entries().iter().for_each(|(name, entry)| assert_eq!(state.apply(entry).refused, None, "{name}"));
    for record in [Record::Open(Round(9)), Record::Deposits(Round(9), Bytes::from(vec![6; 304]))] {
        let log_id = log_id(3, 1, state.next_index());
        let entry = Entry { log_id, payload: EntryPayload::Normal(Batch(vec![record])) };
        assert_eq!(state.apply(&entry).refused, None);
    }
    Snapshot { state }
}

/// The state after the entries of slots, too.
pub(super) fn snapshot_with_slots() -> Snapshot {
    let mut snapshot = snapshot();
    for (name, entry) in entries_of_slots() {
        assert_eq!(snapshot.state.apply(&entry).refused, None, "{name}");
    }
    snapshot
}

/// The same after the entry that tells where the nodes are.
pub(super) fn snapshot_with_directory() -> Snapshot {
    let (mut snapshot, (_, directory)) = (snapshot(), directory());
    assert_eq!(snapshot.state.apply(&directory).refused, None);
    snapshot
}

pub(super) fn vote() -> Vote {
    Vote::new_committed(3, 1)
}
