//! When snapshots are taken; and what a group of one never does, and a larger one will: entries that are taken back.

use std::sync::Arc;

use bytes::Bytes;
use openraft::EntryPayload;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

use super::simulated::Simulated;
use super::workload::options;
use crate::log::entry::{Entry, Vote, log_id};
use crate::log::record::{Batch, Record};
use crate::log::snapshot::Snapshot;
use crate::log::state::State;
use crate::log::store::{Store, read};
use crate::log::{Disk, DurableLog, LogError, Options, RoundLog, Verbs};

fn entry(term: u64, index: u64) -> Entry {
    let accounts = (0..20).map(|account| [index as u8 * 7 + account; 32]).collect();
    entry_of(term, index, Record::Accounts(accounts))
}

fn entry_of(term: u64, index: u64, record: Record) -> Entry {
    Entry { log_id: log_id(term, 1, index), payload: EntryPayload::Normal(Batch(vec![record])) }
}

fn open(disk: &Simulated) -> Store {
    Store::open(Arc::new(disk.clone()), options(5)).unwrap().0
}

/// A snapshot costs all accounts and manifests: it must be worth its bytes.
#[tokio::test]
async fn snapshots_come_with_the_bytes_that_they_free_and_not_with_rounds() {
    const SEGMENT_BYTES: u64 = 1 << 16;
    let disk = Simulated::default();
    let options = Options { segment_bytes: SEGMENT_BYTES, ..options(6) };
    let log = DurableLog::start(Arc::new(disk.clone()), options, ()).await.unwrap();
    let snapshots = || disk.trace().iter().filter(|what| what.ends_with(" snapshot")).count();
    let size = || disk.sizes().iter().map(|(_, bytes)| *bytes as u64).sum::<u64>();
    let mut written = 0;
    for round in 1..400 {
        let before = size();
        log.open(Round(round)).await.unwrap();
        let deposit = Deposit { label: Label([7; 16]), sealed: SealedBox([round as u8; BOX_BYTES]) };
        log.append(Round(round), vec![deposit], vec![[round as u8; 32]], None).await.unwrap();
        log.seal(Round(round), [1; 32], None, UnixMillis(round)).await.unwrap();
        written += size() - before;
        log.retire(Round(round)).await.unwrap();
        log.settle().await;
        assert!(snapshots() as u64 <= written.div_ceil(SEGMENT_BYTES), "round {round}");
        assert!(size() < 3 * SEGMENT_BYTES, "round {round}");
    }
    assert!(snapshots() > 1);
    log.close().await;
}

/// Appends in groups of three, takes some back, and appends others; the entries that must be there then.
fn change(store: &mut Store, from: u64) -> Result<(), LogError> {
    store.save_vote(Vote::new(9, 1))?;
    for first in (0..30).step_by(3) {
        store.append((first..first + 3).map(|index| entry(1, index)).collect())?;
    }
    store.truncate(from)?;
    store.append(vec![entry(2, from), entry(2, from + 1)])
}

#[test]
fn entries_that_are_taken_back_are_gone_and_no_others() {
    for from in 0..30 {
        let disk = Simulated::default();
        change(&mut open(&disk), from).unwrap();
        let mut store = open(&disk);
        let expected: Vec<Entry> =
            (0..from).map(|index| entry(1, index)).chain([entry(2, from), entry(2, from + 1)]).collect();
        assert_eq!(store.entries(.., u64::MAX).unwrap(), expected, "from {from}");
        assert_eq!(store.bounds(), (None, Some(expected[expected.len() - 1].log_id)));
    }
}

#[test]
fn a_crash_while_entries_are_taken_back_keeps_all_before_them() {
    for from in [0, 7, 14, 29] {
        let disk = Simulated::default();
        change(&mut open(&disk), from).unwrap();
        let operations = disk.trace().len();
        for crash_at in 0..operations {
            let disk = Simulated::default();
            disk.crash_at(Some(crash_at));
            let Ok((mut store, _)) = Store::open(Arc::new(disk.clone()), options(5)) else { continue };
            let mut durable = 0;
            // Everything below `from` that was appended must stay.
            if change(&mut store, from).is_err() {
                durable = store.bounds().1.map_or(0, |last| last.index + 1).min(from);
            }
            let mut found = open(&disk.survivor(crash_at as u64));
            let entries = found.entries(.., u64::MAX).unwrap();
            assert!(entries.len() as u64 >= durable, "from {from}, crash at {crash_at}");
            let expected = (0..durable).map(|index| entry(1, index));
            assert!(entries.iter().take(durable as usize).cloned().eq(expected));
        }
    }
}

/// A round that opens and takes deposits in many segments, and is retired.
fn round() -> Vec<Entry> {
    let deposits = || Record::Deposits(Round(1), Bytes::from(vec![1; 2 * 304]));
    let mut records = vec![Record::Open(Round(1))];
    records.resize_with(30, deposits);
    records.push(Record::Retire(Round(1)));
    (0..).zip(records).map(|(index, record)| entry_of(1, index, record)).collect()
}

/// What a snapshot lists never changes, but entries that are not committed can be taken back.
#[test]
fn a_snapshot_lists_no_segment_with_entries_that_it_does_not_know() {
    let round = round();
    let numbers = |disk: &Simulated| {
        let found = read(disk, &mut |_, _| {}).unwrap();
        found.segments.iter().map(|segment| (segment.header.number, segment.header.first)).collect::<Vec<_>>()
    };
    let mut most = 0;
    for applied in 1..round.len() {
        let disk = Simulated::default();
        let mut store = open(&disk);
        store.save_vote(Vote::new(9, 1)).unwrap();
        round.iter().for_each(|entry| store.append(vec![entry.clone()]).unwrap());
        let mut state = State::default();
        round[..=applied].iter().for_each(|entry| assert_eq!(state.apply(entry).refused, None));
        let before = numbers(&disk);
        let snapshot = Snapshot::decode(&store.take_snapshot(state).unwrap()).unwrap();
        assert_eq!(numbers(&disk), before, "nothing is to be gained from a new segment");
        for listed in &snapshot.segments {
            let next = before.iter().find(|(number, _)| *number == listed.number + 1);
            assert!(next.is_some_and(|(_, first)| *first <= applied as u64 + 1), "{listed:?} at {applied}");
        }
        most = most.max(snapshot.segments.len());
        // Whatever is taken back, the snapshot is still that of the log.
        store.truncate(applied as u64 + 1).unwrap();
        store.append(vec![entry(2, applied as u64 + 1)]).unwrap();
        drop(store);
        assert_eq!(open(&disk).bounds().1.map(|last| last.index), Some(applied as u64 + 1));
    }
    assert!(most > 2, "the round is too short");
}

#[test]
fn a_snapshot_completes_the_segment_that_is_written_to_only_for_what_it_needs_of_it() {
    let round = round();
    for (entries, rolls) in [(0, false), (1, false), (2, true), (30, true), (31, false)] {
        let disk = Simulated::default();
        let mut store = open(&disk);
        store.save_vote(Vote::new(9, 1)).unwrap();
        let mut state = State::default();
        for entry in &round[..entries] {
            store.append(vec![entry.clone()]).unwrap();
            state.apply(entry);
        }
        let segments = |disk: &Simulated| read(disk, &mut |_, _| {}).unwrap().segments.len();
        let before = segments(&disk);
        let snapshot = Snapshot::decode(&store.take_snapshot(state).unwrap()).unwrap();
        assert_eq!(segments(&disk), before + usize::from(rolls), "{entries} entries");
        assert_eq!(snapshot.segments.len(), if rolls { before } else { 0 }, "{entries} entries");
    }
}

#[test]
fn a_snapshot_that_lists_more_than_it_knows_is_refused() {
    let round = round();
    let disk = Simulated::default();
    let mut store = open(&disk);
    store.save_vote(Vote::new(9, 1)).unwrap();
    round.iter().for_each(|entry| store.append(vec![entry.clone()]).unwrap());
    let mut state = State::default();
    round[..20].iter().for_each(|entry| assert_eq!(state.apply(entry).refused, None));
    let mut snapshot = Snapshot::decode(&store.take_snapshot(state).unwrap()).unwrap();
    let all = read(&disk, &mut |_, _| {}).unwrap().segments;
    let mut file = disk.open("snapshot", false).unwrap();
    for more in &all[snapshot.segments.len()..] {
        snapshot.segments.push(more.complete());
        file.write_at(0, &snapshot.encode()).unwrap();
        assert!(matches!(read(&disk, &mut |_, _| {}), Err(LogError::Corrupt { .. })), "{more:?}");
    }
}

/// Who reads what a killed process wrote, and builds on it, must not lose it to a power failure.
#[test]
fn what_a_killed_process_wrote_is_durable_before_anything_follows_it() {
    const ENTRIES: u64 = 12;
    let append = |store: &mut Store, from| {
        store.save_vote(Vote::new(9, 1))?;
        (from..from + ENTRIES).try_for_each(|index| store.append(vec![entry(1, index)]))
    };
    let whole = Simulated::default();
    append(&mut open(&whole), 0).unwrap();
    assert!(whole.trace().iter().filter(|what| what.starts_with("create segment")).count() > 1);
    for killed_at in 0..whole.trace().len() {
        let disk = Simulated::default();
        disk.crash_at(Some(killed_at));
        if let Ok((mut store, _)) = Store::open(Arc::new(disk.clone()), options(5)) {
            let _ = append(&mut store, 0);
        }
        let found = disk.after_kill();
        let mut store = open(&found);
        let from = store.bounds().1.map_or(0, |last| last.index + 1);
        append(&mut store, from).unwrap();
        for seed in 0..8 {
            let mut left = open(&found.survivor(seed));
            let expected = (0..from + ENTRIES).map(|index| entry(1, index));
            assert!(left.entries(.., u64::MAX).unwrap().into_iter().eq(expected), "killed at {killed_at}");
        }
    }
}
