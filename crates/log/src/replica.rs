//! The log as openraft sees it, and the group it belongs to.

mod network;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{BasicNode, EntryPayload, LogState, OptionalSend, RaftLogReader, RaftSnapshotBuilder};
use sotto_protocol::Round;
use sotto_wire::RootKey;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};

use super::entry::{Entry, LeaderId, LogId, StoredMembership, TypeConfig, Vote};
use super::error::LogError;
use super::record::Record;
use super::snapshot::Snapshot;
use super::state::{Applied, State};
use super::store::{APPEND_MAX, Store};
use super::writer::Writer;

pub(super) use network::Network;
pub use network::{Called, GroupLink, GroupNetwork, Sent};

type Meta = openraft::SnapshotMeta<LeaderId, u64, BasicNode>;
/// A snapshot's file, and what it is of.
pub type RaftSnapshot = openraft::Snapshot<LeaderId, u64, BasicNode, Vec<u8>>;

/// Bytes of entries that are sent to another node at a time.
pub(super) const APPEND_BYTES: u64 = APPEND_MAX as u64;

/// Log and vote.
#[derive(Clone)]
pub(super) struct LogStorage {
    pub(super) writer: Writer,
}

impl RaftLogReader<TypeConfig> for LogStorage {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, io::Error> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.writer.run(move |store| store.entries(range, u64::MAX)).await.map_err(io::Error::other)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.writer.run(move |store| store.entries(start..end, APPEND_BYTES)).await.map_err(io::Error::other)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.writer.run(|store| Ok(store.vote())).await.map_err(io::Error::other)
    }
}

impl RaftLogStorage<TypeConfig> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let bounds = self.writer.run(|store| Ok(store.bounds())).await.map_err(io::Error::other)?;
        let (last_purged_log_id, last_log_id) = bounds;
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let vote = *vote;
        self.writer.run(move |store| store.save_vote(vote)).await.map_err(io::Error::other)
    }

    /// Waits for no write before it: it is in memory alone until the next append.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let save = move |store: &mut Store| {
            store.save_committed(committed);
            Ok(())
        };
        self.writer.order(save, |_| ()).await.map_err(io::Error::other)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        self.writer.run(|store| Ok(store.committed())).await.map_err(io::Error::other)
    }

    /// Returns before the disk has anything: whoever reads comes behind it, and the thread tells when it is durable.
    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let flushed = Flushed(Some(callback));
        let append = move |store: &mut Store| store.append(entries);
        self.writer.order(append, move |result| flushed.tell(result)).await.map_err(io::Error::other)
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |last| last.index + 1);
        self.writer.run(move |store| store.truncate(from)).await.map_err(io::Error::other)
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        self.writer.run(move |store| store.purge(upto)).await.map_err(io::Error::other)
    }
}

/// Tells openraft what became of an append, also if the thread ends before it comes to it: nobody else would.
struct Flushed(Option<IOFlushed<TypeConfig>>);

impl Flushed {
    fn tell(mut self, result: Result<(), LogError>) {
        if let Some(callback) = self.0.take() {
            callback.io_completed(result.map_err(io::Error::other));
        }
    }
}

impl Drop for Flushed {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            callback.io_completed(Err(io::Error::other("the thread of the log is gone")));
        }
    }
}

/// The state that follows from the committed entries.
#[derive(Clone)]
pub struct StateMachine {
    writer: Writer,
    /// The same on all nodes, as what counts in the log must be.
    root: Option<RootKey>,
    state: Arc<Mutex<State>>,
    /// States before the entries that opened rounds that are not retired, without what only grows; ascending. Locked behind
    /// the state.
    checkpoints: Arc<Mutex<VecDeque<(Round, State)>>>,
    /// Told after every change of the state.
    pub(super) changes: Arc<watch::Sender<()>>,
}

impl StateMachine {
    pub(super) fn new(writer: Writer, state: State, root: Option<RootKey>) -> Self {
        Self {
            writer,
            root,
            state: Arc::new(Mutex::new(state)),
            checkpoints: Arc::default(),
            changes: Arc::new(watch::Sender::new(())),
        }
    }

    pub(super) fn change(&self, entry: &Entry) -> Applied {
        let mut state = self.lock();
        if let Some(round) = opens(entry) {
            self.checkpoints().push_back((round, state.without_what_grows()));
        }
        let applied = state.apply_under(self.root.as_ref(), entry);
        let needed = |round: &Round| state.rounds.contains_key(round);
        let mut checkpoints = self.checkpoints();
        while checkpoints.front().is_some_and(|(round, _)| !needed(round)) {
            checkpoints.pop_front();
        }
        drop((checkpoints, state));
        self.changes.send_replace(());
        applied
    }

    /// Goes on from another node's snapshot.
    pub(super) async fn adopt(&self, snapshot: Snapshot) -> Result<(), LogError> {
        // What another node has of rounds is not here.
        let state = snapshot.state.as_it_was(&snapshot.state);
        let adopted = Snapshot { state: state.clone() };
        self.writer.run(move |store| store.adopt_snapshot(&adopted)).await?;
        *self.lock() = state;
        self.checkpoints().clear();
        self.changes.send_replace(());
        Ok(())
    }

    /// The state with which another node can begin, and this one after a restart.
    pub(super) fn base(&self) -> State {
        let (state, checkpoints) = (self.lock(), self.checkpoints());
        let oldest = state.rounds.iter().find(|(_, round)| !round.gone).map(|(round, _)| *round);
        match (oldest, checkpoints.front()) {
            (Some(oldest), Some((round, earlier))) if oldest == *round => state.as_it_was(earlier),
            // Its rounds were opened before an earlier start of a server alone, and their deposits stay where they are.
            _ => state.clone(),
        }
    }

    /// The first entry that is needed beside [`StateMachine::base`].
    pub(super) fn floor(&self) -> u64 {
        let (state, checkpoints) = (self.lock(), self.checkpoints());
        let checkpoint = checkpoints.front().map(|(_, earlier)| earlier.next_index());
        state.floor().min(checkpoint.unwrap_or(u64::MAX))
    }

    fn checkpoints(&self) -> MutexGuard<'_, VecDeque<(Round, State)>> {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // An entry is applied without anything that could panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let state = self.lock();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, asked)) = entries.try_next().await? {
            let applied = self.change(&entry);
            if let Some(asked) = asked {
                asked.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, _: &Meta, snapshot: Vec<u8>) -> Result<(), io::Error> {
        let snapshot = decode(&snapshot).map_err(io::Error::other)?;
        self.adopt(snapshot).await.map_err(io::Error::other)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, io::Error> {
        let bytes = self.writer.run(|store| store.snapshot()).await.map_err(io::Error::other)?;
        bytes.map(snapshot_of).transpose().map_err(io::Error::other)
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, io::Error> {
        let state = self.base();
        let meta = meta(&state);
        let bytes =
            self.writer.run(move |store| store.take_snapshot(state)).await.map_err(io::Error::other)?;
        Ok(RaftSnapshot { meta, snapshot: bytes })
    }
}

/// The round that an entry opens.
fn opens(entry: &Entry) -> Option<Round> {
    let EntryPayload::Normal(batch) = &entry.payload else { return None };
    batch.0.iter().find_map(|record| match record {
        Record::Open(round) => Some(*round),
        _ => None,
    })
}

fn meta(state: &State) -> Meta {
    Meta { last_log_id: state.applied, last_membership: state.membership.clone() }
}

/// The snapshot in a file of one.
pub fn snapshot_of(bytes: Vec<u8>) -> Result<RaftSnapshot, LogError> {
    let meta = meta(&decode(&bytes)?.state);
    Ok(RaftSnapshot { meta, snapshot: bytes })
}

fn decode(bytes: &[u8]) -> Result<Snapshot, LogError> {
    Snapshot::decode(bytes).map_err(|malformed| LogError::corrupt(super::snapshot::NAME, 0, malformed.0))
}
