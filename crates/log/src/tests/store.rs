//! When snapshots are taken; and what a group of one never does, and a larger one will: entries that are taken back.

use std::sync::Arc;

use openraft::EntryPayload;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

use crate::entry::{Entry, Vote, log_id};
use crate::record::{Batch, Record};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::store::{Opened, Store};
use crate::testing::Verbs;
use crate::testing::{Simulated, options};
use crate::{DurableLog, LogError, Options, RoundLog};

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

fn grouped(disk: &Simulated) -> Result<(Store, Opened), LogError> {
    Store::open(Arc::new(disk.clone()), Options { grouped: true, ..options(5) })
}

/// The snapshot of a node that has applied entries up to this one.
fn snapshot_at(index: u64) -> Snapshot {
    let mut state = State::default();
    for index in 0..=index {
        assert_eq!(state.apply(&entry(2, index)).refused, None);
    }
    Snapshot { state }
}

/// A node that was away for long, takes over what another one has, and goes on behind that.
fn catch_up(disk: &Simulated) -> Result<(), LogError> {
    let (mut store, _) = grouped(disk)?;
    store.save_vote(Vote::new(9, 1))?;
    (0..12).try_for_each(|index| store.append(vec![entry(1, index)]))?;
    store.adopt_snapshot(&snapshot_at(24))?;
    store.purge(log_id(2, 1, 24))?;
    (25..32).try_for_each(|index| store.append(vec![entry(2, index)]))
}

#[test]
fn a_node_goes_on_behind_the_snapshot_of_another_whenever_it_crashes() {
    let whole = Simulated::default();
    catch_up(&whole).unwrap();
    let operations = whole.trace().len();
    let (mut store, opened) = grouped(&whole).unwrap();
    assert_eq!(opened.state, snapshot_at(24).state);
    assert!(store.entries(.., u64::MAX).unwrap().into_iter().eq((25..32).map(|index| entry(2, index))));
    for crash_at in 0..operations {
        let disk = Simulated::default();
        disk.crash_at(Some(crash_at));
        assert!(catch_up(&disk).is_err());
        for left in [disk.survivor(crash_at as u64), disk.after_kill()] {
            let (mut store, opened) = grouped(&left).unwrap();
            let (last, entries) = (store.bounds().1, store.entries(.., u64::MAX).unwrap());
            if opened.state.applied.is_some() {
                assert_eq!(opened.state, snapshot_at(24).state);
                assert!(last >= Some(log_id(2, 1, 24)), "it goes on behind the snapshot");
                assert!(entries.iter().all(|entry| entry.log_id > log_id(2, 1, 24)));
            } else {
                assert!(entries.iter().zip(0..).all(|(found, index)| *found == entry(1, index)));
            }
            store.save_vote(Vote::new(9, 1)).unwrap();
            let next = last.map_or(0, |last| last.index + 1);
            store.append(vec![entry(3, next)]).unwrap();
            drop(store);
            let (mut store, _) = grouped(&left).unwrap();
            assert_eq!(store.entry(next).unwrap(), entry(3, next));
        }
    }
}

/// What a node alone has lost nobody brings back.
#[test]
fn a_log_that_ends_before_its_snapshot_is_corrupt_without_others() {
    let disk = Simulated::default();
    let mut store = open(&disk);
    store.save_vote(Vote::new(9, 1)).unwrap();
    store.append(vec![entry(1, 0)]).unwrap();
    store.take_snapshot(snapshot_at(24).state).unwrap();
    drop(store);
    let opened = Store::open(Arc::new(disk.clone()), options(5));
    assert!(matches!(opened.err(), Some(LogError::Corrupt { .. })));
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

/// An entry of a leader that was soon forgotten has a higher term than a snapshot that is far ahead of it: terms are no order of
/// places.
#[test]
fn a_log_that_is_shorter_than_a_snapshot_goes_on_behind_it_whatever_its_last_term() {
    let disk = Simulated::default();
    let grouped = || Options { grouped: true, ..options(5) };
    let mut store = Store::open(Arc::new(disk.clone()), grouped()).unwrap().0;
    store.save_vote(Vote::new(5, 1)).unwrap();
    store.append((0..10).map(|index| entry_of(3, index, Record::Accounts(vec![[1; 32]]))).collect()).unwrap();
    // It led in term 5 for as long as it takes to write this, and lost its power.
    store.append(vec![entry_of(5, 10, Record::Accounts(vec![[1; 32]]))]).unwrap();
    // Another one that led in term 3 had 90 entries more, which count since it leads again.
    store.save_vote(Vote::new(6, 2)).unwrap();
    let applied = Some(log_id(3, 1, 100));
    let mut state = State::default();
    state.applied = applied;
    let snapshot = Snapshot { state };
    store.adopt_snapshot(&snapshot).unwrap();
    store.purge(log_id(3, 1, 100)).unwrap();
    let next = store.append(vec![entry_of(6, 101, Record::Accounts(vec![[1; 32]]))]);
    drop(store);
    let again = Store::open(Arc::new(disk.clone()), grouped()).map(|(store, _)| store.bounds());
    assert!(next.is_ok() && again.is_ok(), "{next:?}; after a restart {again:?}");
    assert_eq!(again.unwrap().1, Some(log_id(6, 1, 101)));
}
