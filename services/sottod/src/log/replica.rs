//! The log as openraft sees it, and the group it belongs to.

mod network;

use std::fmt::Debug;
use std::io::Cursor;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    AnyError, LogState, OptionalSend, RaftLogReader, RaftSnapshotBuilder, SnapshotMeta, StorageError,
    StorageIOError,
};

use super::entry::{Entry, LogId, StoredMembership, TypeConfig, Vote};
use super::error::LogError;
use super::snapshot::Snapshot;
use super::state::{Applied, State};
use super::writer::Writer;

pub(super) use network::NoPeers;

type Failure = StorageError<u64>;
type Meta = SnapshotMeta<u64, openraft::BasicNode>;
type RaftSnapshot = openraft::Snapshot<TypeConfig>;

/// Bytes of entries that are sent to another node at a time.
const APPEND_BYTES: u64 = super::store::APPEND_MAX as u64;

/// Log and vote.
#[derive(Clone)]
pub(super) struct LogStorage {
    pub(super) writer: Writer,
}

impl RaftLogReader<TypeConfig> for LogStorage {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, Failure> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.writer.run(move |store| store.entries(range, u64::MAX)).await.map_err(reading)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, Failure> {
        self.writer.run(move |store| store.entries(start..end, APPEND_BYTES)).await.map_err(reading)
    }
}

impl RaftLogStorage<TypeConfig> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, Failure> {
        let bounds = self.writer.run(|store| Ok(store.bounds())).await.map_err(reading)?;
        let (last_purged_log_id, last_log_id) = bounds;
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), Failure> {
        let vote = *vote;
        self.writer.run(move |store| store.save_vote(vote)).await.map_err(writing)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, Failure> {
        self.writer.run(|store| Ok(store.vote())).await.map_err(reading)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), Failure> {
        let save = move |store: &mut super::store::Store| {
            store.save_committed(committed);
            Ok(())
        };
        self.writer.run(save).await.map_err(writing)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, Failure> {
        self.writer.run(|store| Ok(store.committed())).await.map_err(reading)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), Failure>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.writer.run(move |store| store.append(entries)).await.map_err(writing)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), Failure> {
        self.writer.run(move |store| store.truncate(from.index)).await.map_err(writing)
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), Failure> {
        self.writer.run(move |store| store.purge(upto)).await.map_err(writing)
    }
}

/// The state that follows from the committed entries.
#[derive(Clone)]
pub(super) struct StateMachine {
    pub(super) writer: Writer,
    pub(super) state: Arc<Mutex<State>>,
}

impl StateMachine {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // An entry is applied without anything that could panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), Failure> {
        let state = self.lock();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, Failure>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.lock();
        Ok(entries.into_iter().map(|entry| state.apply(&entry)).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::default())
    }

    async fn install_snapshot(&mut self, _: &Meta, snapshot: Box<Cursor<Vec<u8>>>) -> Result<(), Failure> {
        let snapshot = decode(snapshot.get_ref()).map_err(reading)?;
        let state = snapshot.state.clone();
        self.writer.run(move |store| store.adopt_snapshot(&snapshot)).await.map_err(writing)?;
        *self.lock() = state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, Failure> {
        let bytes = self.writer.run(|store| store.snapshot()).await.map_err(reading)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let meta = meta(&decode(&bytes).map_err(reading)?.state);
        Ok(Some(RaftSnapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, Failure> {
        // One consistent view, however many entries are applied while it is written.
        let state = self.lock().clone();
        let meta = meta(&state);
        let bytes = self.writer.run(move |store| store.take_snapshot(state)).await.map_err(writing)?;
        Ok(RaftSnapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

fn meta(state: &State) -> Meta {
    SnapshotMeta {
        last_log_id: state.applied,
        last_membership: state.membership.clone(),
        snapshot_id: state.applied.map_or_else(String::new, |applied| applied.to_string()),
    }
}

fn decode(bytes: &[u8]) -> Result<Snapshot, LogError> {
    Snapshot::decode(bytes).map_err(|malformed| LogError::corrupt(super::snapshot::NAME, 0, malformed.0))
}

fn reading(error: LogError) -> Failure {
    StorageIOError::read_logs(AnyError::new(&error)).into()
}

fn writing(error: LogError) -> Failure {
    StorageIOError::write_logs(AnyError::new(&error)).into()
}
