//! What a node keeps of the log: its files, and the state that follows from them; read by the node itself, and by those that
//! follow it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::storage::RaftSnapshotBuilder as _;
use sotto_protocol::{Deposit, Round};

use super::entry::{LogId, encode};
use super::pinned::LogFiles;
use super::record::{self, Record};
use super::replica::{APPEND_BYTES, StateMachine};
use super::snapshot::Snapshot;
use super::state::Entries;
use super::store::{Opened, Store};
use super::writer::Writer;
use super::{LogError, SealedRound};
use crate::Doing;

/// Most deposits for which there is room before they are read.
const DEPOSITS_RESERVED: usize = 1 << 16;
/// Entries read at a time when a round is read: others may write in between.
const ENTRIES_PER_READ: u64 = 4;

/// Entries that are handed on at a time.
const ENTRIES_MAX: u64 = 32;

/// Files and state.
#[derive(Clone)]
pub struct Kept {
    pub(super) writer: Writer,
    pub(super) machine: StateMachine,
}

/// What comes behind an entry, for a node that has none of it.
#[derive(Debug)]
pub enum Behind {
    /// Nothing yet.
    Nothing,
    /// Entries, each as it stands in a segment, and the last of them; as many as a leader sends at a time.
    Entries(Vec<Bytes>, LogId),
    /// Some of it is not kept any more: the state with which a node goes on, and the last entry in it.
    Snapshot(Vec<u8>, Option<LogId>),
}

impl Kept {
    /// What was opened, before anything of it is applied.
    pub(super) fn new(writer: Writer, opened: Opened) -> Self {
        let Opened { state, root, segments, bytes, entries, torn } = opened;
        if let Some(torn) = torn {
            tracing::warn!(
                segment = torn.segment,
                at = torn.at,
                bytes = torn.bytes,
                "the last append was incomplete, was never acknowledged, and is cut off"
            );
        }
        tracing::info!(segments, bytes, entries, "the round log is open");
        Self { machine: StateMachine::new(writer.clone(), state, root), writer }
    }

    /// Reads a sealed round.
    pub(super) async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        let (mut sealed, Entries { spans, count }) = self.machine.lock().sealed(round)?;
        let reserved = usize::try_from(count).unwrap_or(usize::MAX).min(DEPOSITS_RESERVED);
        sealed.deposits.reserve(reserved);
        for (first, last) in spans {
            let mut next = first;
            while next <= last {
                let end = last.min(next + ENTRIES_PER_READ - 1);
                let read = move |store: &mut Store| deposits_of(store, round, next, end);
                sealed.deposits.extend(self.writer.run(read).await?);
                next = end + 1;
            }
        }
        if sealed.deposits.len() as u64 != count {
            return Err(LogError::Refused("a round has lost deposits"));
        }
        Ok(sealed)
    }

    /// Whether a snapshot would free a segment. One that frees none is not worth its bytes.
    pub(super) async fn is_reclaimable(&self) -> Result<bool, LogError> {
        let floor = self.machine.floor();
        self.writer.run(move |store| Ok(store.reclaimable(floor))).await
    }

    /// Takes a snapshot, and everything before it out of the log.
    pub(super) async fn reclaim(&self) -> Result<(), LogError> {
        if self.is_reclaimable().await? {
            let failed = |_| self.writer.failure("the snapshot could not be written");
            let taken = self.machine.clone().build_snapshot().await.map_err(failed)?;
            if let Some(upto) = taken.meta.last_log_id {
                self.writer.run(move |store| store.purge(upto)).await?;
            }
        }
        Ok(())
    }

    /// Whether an entry is, or was, the log's: `None` if that is not known here, or not any more.
    pub fn is_of_log(&self, entry: LogId) -> Doing<'_, Result<Option<bool>, LogError>> {
        Box::pin(async move {
            let applied = self.machine.lock().applied;
            if applied.is_none_or(|applied| applied.index < entry.index) {
                return Ok(None);
            }
            let find = move |store: &mut Store| {
                let kept = store.entries(entry.index..=entry.index, u64::MAX)?;
                Ok(kept.first().map(|kept| kept.log_id).or(store.bounds().0))
            };
            let found = self.writer.run(find).await?.filter(|found| found.index == entry.index);
            Ok(found.map(|found| found == entry))
        })
    }

    /// Whether everything up to an entry was applied here.
    pub fn has(&self, last: Option<LogId>) -> bool {
        last.is_none_or(|last| last.index < self.machine.lock().next_index())
    }

    /// What was applied here behind an entry of the log, or behind its beginning.
    pub fn behind(&self, last: Option<LogId>) -> Doing<'_, Result<Behind, LogError>> {
        Box::pin(async move {
            let next = last.map_or(0, |last| last.index + 1);
            let end = self.machine.lock().next_index();
            if next >= end {
                return Ok(Behind::Nothing);
            }
            let end = end.min(next + ENTRIES_MAX);
            let entries = self.writer.run(move |store| store.entries(next..end, APPEND_BYTES)).await?;
            if let (Some(first), Some(last)) = (entries.first(), entries.last())
                && first.log_id.index == next
            {
                let encoded = entries.iter().map(|entry| Bytes::from(encode(entry))).collect();
                return Ok(Behind::Entries(encoded, last.log_id));
            }
            let state = self.machine.base();
            let upto = state.applied;
            // On the thread of the log, which has nothing to do with it but keeps order: what happens depends on nothing else.
            let bytes = self.writer.run(move |_| Ok(Snapshot { state }.encode())).await?;
            Ok(Behind::Snapshot(bytes, upto))
        })
    }

    /// The nodes that vote, and where they listen for each other. None until the log tells.
    pub fn voters(&self) -> BTreeMap<u64, String> {
        let state = self.machine.lock();
        let membership = &state.membership;
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let nodes = membership.nodes().filter(|(number, _)| voters.contains(number));
        nodes.map(|(number, node)| (*number, node.addr.clone())).collect()
    }

    /// The way to its files, for whoever copies them.
    pub(super) fn files(&self) -> LogFiles {
        LogFiles { writer: self.writer.clone() }
    }

    /// Changes with the state.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.machine.changes.subscribe()
    }
}

/// A round's deposits in entries `first` to `last`.
fn deposits_of(store: &mut Store, round: Round, first: u64, last: u64) -> Result<Vec<Deposit>, LogError> {
    let mut deposits = Vec::new();
    for index in first..=last {
        let openraft::EntryPayload::Normal(batch) = store.entry(index)?.payload else { continue };
        for record in &batch.0 {
            if let Record::Deposits(of, bytes) = record
                && *of == round
            {
                deposits.extend(record::split(bytes));
            }
        }
    }
    Ok(deposits)
}
