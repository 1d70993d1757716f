//! Bytes by chance, and files that were changed by chance, for every reader.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::examples::{entries, payload, records, segment, snapshot, vote};
use crate::entry::Entry;
use crate::fuzzing::{log_segment, log_snapshot, log_vote};
use crate::record::Batch;
use crate::store::encode_vote;

/// One change of a file.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    /// A little-endian number where a length may be.
    Number(Index, u64, usize),
    Fill(Index, Index, u8),
    Remove(Index, Index),
    Repeat(Index, Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let range = |from: &Index, to: &Index| {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Flip(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << (bit % 8);
            }
            Self::Number(at, number, length) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + length);
                bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            Self::Fill(from, to, with) => {
                let range = range(from, to);
                bytes[range].fill(*with);
            }
            Self::Remove(from, to) => {
                let range = range(from, to);
                bytes.drain(range);
            }
            Self::Repeat(from, to) => {
                let range = range(from, to);
                let again = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, again);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let numbers =
        select(vec![0, 1, 2, 3, 255, 1 << 20, (1 << 31) - 1, u64::from(u32::MAX), 1 << 48, u64::MAX]);
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), numbers, select(vec![1_usize, 2, 4, 8]))
            .prop_map(|(at, number, length)| { Change::Number(at, number, length) }),
        (at(), at(), select(vec![0, 1, 0xff])).prop_map(|(from, to, with)| Change::Fill(from, to, with)),
        (at(), at()).prop_map(|(from, to)| Change::Remove(from, to)),
        (at(), at()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

/// Any bytes; or one of the examples, as it is or changed.
fn input(examples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changed = (select(examples), vec(change(), 0..4)).prop_map(|(mut bytes, changes)| {
        changes.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    });
    prop_oneof![vec(any::<u8>(), 0..600), changed.boxed(), vec(select(vec![0_u8, 1, 2, 7]), 0..200)]
}

fn payloads() -> Vec<Vec<u8>> {
    let entries: Vec<Entry> = entries().into_iter().map(|(_, entry)| entry).collect();
    entries.iter().map(|entry| payload(std::slice::from_ref(entry))).chain([payload(&entries)]).collect()
}

/// What stands in an entry behind its kind.
fn bodies() -> Vec<Vec<u8>> {
    payloads().into_iter().map(|payload| payload[25 + 29..].to_vec()).collect()
}

fn batches() -> Vec<Vec<u8>> {
    let records = records().into_iter().map(|(_, record)| record);
    let batches = records.clone().map(|record| Batch(vec![record])).chain([Batch(records.collect())]);
    batches
        .map(|batch| {
            let mut encoded = Vec::new();
            batch.encode(&mut encoded);
            encoded
        })
        .collect()
}

proptest! {
    #[test]
    fn fuzz_segment(data in input(vec![segment(), segment()[64..].to_vec()])) {
        log_segment(&data);
    }

    #[test]
    fn fuzz_frame(data in input(payloads())) {
        log_segment(&data);
    }

    #[test]
    fn fuzz_entry(data in input(bodies())) {
        log_segment(&data);
    }

    #[test]
    fn fuzz_batch(data in input(batches())) {
        log_segment(&data);
    }

    #[test]
    fn fuzz_snapshot(data in input(vec![snapshot().encode(), snapshot().encode()[16..].to_vec()])) {
        log_snapshot(&data);
    }

    #[test]
    fn fuzz_vote(data in input(vec![encode_vote(&vote()), encode_vote(&vote())[8..25].to_vec()])) {
        log_vote(&data);
    }
}
