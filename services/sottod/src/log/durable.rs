//! The log that survives: a Raft group of one, whose entries are fsynced before they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::{BasicNode, Raft, ServerState, SnapshotPolicy};
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

use super::disk::Disk;
use super::entry::{Runtime, TypeConfig};
use super::record::{self, Batch, Record};
use super::replica::{LogStorage, NoPeers, StateMachine};
use super::state::Applied;
use super::store::{Opened, Options, Store};
use super::writer::Writer;
use super::{History, LogError, RoundLog, SealedRound, Size, TableSeal, TokenId};

/// This node, as long as it is the only one.
const NODE: u64 = 1;
/// Most bytes of deposits in one entry.
const ENTRY_MAX: usize = 512 << 10;
/// Deposits in an entry that is full.
const DEPOSITS_PER_ENTRY: usize = ENTRY_MAX / DEPOSIT_BYTES;
/// Most deposits for which there is room before they are read.
const DEPOSITS_RESERVED: usize = 1 << 16;
/// Accounts in an entry that is full.
const ACCOUNTS_PER_ENTRY: usize = ENTRY_MAX / 32;
/// Spent tokens in an entry that is full.
const TOKENS_PER_ENTRY: usize = ENTRY_MAX / 16;
/// In a group of one there is nobody to wait for but the disk; whoever is not elected by then never will be.
const ELECTION: Duration = Duration::from_secs(60);
/// Entries read at a time when a round is read: others may write in between.
const ENTRIES_PER_READ: u64 = 4;

/// A durable log.
pub(crate) struct DurableLog {
    raft: Raft<TypeConfig, StateMachine>,
    writer: Writer,
    machine: StateMachine,
}

impl DurableLog {
    /// Opens the log of a directory, or begins one. All that was ever acknowledged is applied when this returns.
    /// `guard` is held as long as files may be touched.
    ///
    /// # Errors
    /// [`LogError`].
    pub(crate) async fn start(
        disk: Arc<dyn Disk>,
        mut options: Options,
        guard: impl Send + 'static,
    ) -> Result<Self, LogError> {
        let started = std::time::Instant::now();
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start(disk, options, guard).await?;
        Self::over(writer, opened, seed, started).await
    }

    /// The same without a thread: an order to the disk takes as long as `pace` says.
    #[cfg(test)]
    pub(crate) async fn start_inline(
        disk: Arc<dyn Disk>,
        mut options: Options,
        pace: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Self, LogError> {
        let started = std::time::Instant::now();
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start_inline(disk, options, pace).await?;
        Self::over(writer, opened, seed, started).await
    }

    async fn over(
        writer: Writer,
        opened: Opened,
        seed: u64,
        started: std::time::Instant,
    ) -> Result<Self, LogError> {
        let Opened { state, segments, bytes, entries, torn } = opened;
        if let Some(torn) = torn {
            tracing::warn!(
                segment = torn.segment,
                at = torn.at,
                bytes = torn.bytes,
                "the last append was incomplete, was never acknowledged, and is cut off"
            );
        }
        // A group of one is founded by its first entry, before there is anything to vote on.
        if writer.run(|store| Ok(store.vote().is_some() && store.bounds().1.is_none())).await? {
            return Err(LogError::corrupt("the directory", 0, "the beginning of the log is missing"));
        }
        let machine = StateMachine { writer: writer.clone(), state: Arc::new(Mutex::new(state)) };
        let storage = LogStorage { writer: writer.clone() };
        let ended = |_: openraft::errors::Fatal<TypeConfig>| writer.failure("it could not be opened");
        let config = Arc::new(config());
        let raft = Raft::new(NODE, config, NoPeers, storage, machine.clone());
        let raft = Runtime::scope(seed, raft).await.map_err(ended)?;
        let log = Self { raft, writer, machine };
        log.lead().await?;
        // All entries before this one count once it does.
        log.write(Batch::default()).await?;
        tracing::info!(
            segments,
            bytes,
            entries,
            ms = started.elapsed().as_millis() as u64,
            "the round log is open"
        );
        Ok(log)
    }

    /// Makes this node the leader of its group, which it founds if there is none.
    async fn lead(&self) -> Result<(), LogError> {
        let failed = |_| self.writer.failure("the group has no leader");
        if !self.raft.is_initialized().await.map_err(failed)? {
            let members = BTreeMap::from([(NODE, BasicNode::default())]);
            self.raft
                .initialize(members)
                .await
                .map_err(|_| self.writer.failure("the group cannot be founded"))?;
        } else {
            let leads = self.raft.with_raft_state(|state| state.server_state == ServerState::Leader);
            if !leads.await.map_err(failed)? {
                self.raft.trigger().elect(false).await.map_err(failed)?;
            }
        }
        let failed = |_| self.writer.failure("the group has no leader");
        let group = self.raft.wait(Some(ELECTION));
        let leading = group.state(ServerState::Leader, "nobody else can lead").await.map_err(failed)?;
        // Writes that overtook this would be stored with what was committed before or after it, by chance.
        let begun = group.applied_index_at_least(leading.last_log_index, "it begins with an entry").await;
        begun.map(|_| ()).map_err(failed)
    }

    async fn write(&self, batch: Batch) -> Result<Applied, LogError> {
        let written = self.raft.client_write(batch).await;
        let applied = written.map_err(|_| self.writer.failure("the group takes no entries"))?.data;
        match applied.refused {
            None => Ok(applied),
            Some(refused) => Err(LogError::Refused(refused)),
        }
    }

    /// Waits until no segment could be removed that is not.
    #[cfg(test)]
    pub(super) async fn settle(&self) {
        use openraft::async_runtime::WatchReceiver;

        let mut metrics = self.raft.metrics();
        loop {
            let floor = self.machine.lock().floor();
            let reclaimable = self.writer.run(move |store| Ok(store.reclaimable(floor))).await;
            if !reclaimable.unwrap_or(false) || metrics.changed().await.is_err() {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn knows(&self, account: &Account) -> bool {
        self.machine.lock().accounts.contains(account)
    }

    /// The number of tokens that are spent.
    #[cfg(test)]
    pub(super) fn spent(&self) -> usize {
        self.machine.lock().tokens.len()
    }

    /// Publishes a round as servers of version 1 did.
    #[cfg(test)]
    pub(crate) async fn publish_former(
        &self,
        round: Round,
        manifest: sotto_protocol::manifest::FormerManifest,
    ) -> Result<(), LogError> {
        self.write_one(Record::FormerPublish(round, Box::new(manifest))).await.map(|_| ())
    }

    async fn write_one(&self, record: Record) -> Result<Applied, LogError> {
        self.write(Batch(vec![record])).await
    }
}

impl RoundLog for DurableLog {
    fn history(&self) -> Result<History, LogError> {
        Ok(self.machine.lock().history())
    }

    async fn open(&self, round: Round) -> Result<(), LogError> {
        self.write_one(Record::Open(round)).await.map(|_| ())
    }

    async fn append(
        &self,
        round: Round,
        mut deposits: Vec<Deposit>,
        mut accounts: Vec<Account>,
        lots: Option<u32>,
    ) -> Result<(), LogError> {
        {
            let state = self.machine.lock();
            accounts.retain(|account| !state.accounts.contains(account));
        }
        // Who came first within a batch is for nobody who reads the disk.
        deposits.sort_unstable_by(|a, b| (a.label, &a.sealed.0).cmp(&(b.label, &b.sealed.0)));
        accounts.sort_unstable();
        accounts.dedup();
        let mut deposits = deposits.chunks(DEPOSITS_PER_ENTRY);
        let mut accounts = accounts.chunks(ACCOUNTS_PER_ENTRY);
        let mut lots = lots.map(Record::Lots);
        loop {
            let deposits = deposits.next().map(|chunk| Record::Deposits(round, record::join(chunk)));
            let accounts = accounts.next().map(|chunk| Record::Accounts(chunk.to_vec()));
            let batch: Vec<Record> = deposits.into_iter().chain(accounts).chain(lots.take()).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.write(Batch(batch)).await?;
        }
    }

    fn knows(&self, account: &Account) -> bool {
        self.machine.lock().accounts.contains(account)
    }

    fn admits(&self, account: &Account, waiting: &BTreeSet<Account>) -> bool {
        self.machine.lock().admits_beside(account, waiting)
    }

    fn is_spent(&self, token: &TokenId) -> bool {
        self.machine.lock().is_spent(token)
    }

    async fn spend(&self, mut tokens: Vec<TokenId>) -> Result<(), LogError> {
        {
            let state = self.machine.lock();
            tokens.retain(|token| !state.tokens.contains(token));
        }
        // Accounts that come at the same time are in an order of their own, and in entries of their own.
        tokens.sort_unstable();
        tokens.dedup();
        for chunk in tokens.chunks(TOKENS_PER_ENTRY) {
            self.write_one(Record::Spent(chunk.to_vec())).await?;
        }
        Ok(())
    }

    async fn seal(
        &self,
        round: Round,
        seed: [u8; 32],
        table: Option<TableSeal>,
        at: UnixMillis,
    ) -> Result<u64, LogError> {
        let table = table.map(|table| Record::Table(round, table));
        let batch = table.into_iter().chain([Record::Seal(round, seed, at)]).collect();
        Ok(self.write(Batch(batch)).await?.sealed)
    }

    async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        let (sealed, count, spans, table) = {
            let state = self.machine.lock();
            let stored = state.rounds.get(&round).ok_or(LogError::Refused("no such round"))?;
            (stored.sealed, stored.deposits, stored.spans.clone(), stored.table)
        };
        let (seed, at) = sealed.ok_or(LogError::Refused("the round is not sealed"))?;
        let reserved = usize::try_from(count).unwrap_or(usize::MAX).min(DEPOSITS_RESERVED);
        let mut deposits = Vec::with_capacity(reserved);
        for (first, last) in spans {
            let mut next = first;
            while next <= last {
                let end = last.min(next + ENTRIES_PER_READ - 1);
                let read = move |store: &mut Store| deposits_of(store, round, next, end);
                deposits.extend(self.writer.run(read).await?);
                next = end + 1;
            }
        }
        if deposits.len() as u64 != count {
            return Err(LogError::Refused("a round has lost deposits"));
        }
        Ok(SealedRound { round, seed, at, deposits, table })
    }

    async fn publish(&self, round: Round, manifest: SignedManifest) -> Result<(), LogError> {
        self.write_one(Record::Publish(round, Box::new(manifest))).await.map(|_| ())
    }

    async fn retire(&self, round: Round) -> Result<(), LogError> {
        self.write_one(Record::Retire(round)).await?;
        let floor = self.machine.lock().floor();
        // A snapshot that frees no segment is not worth its bytes.
        if self.writer.run(move |store| Ok(store.reclaimable(floor))).await? {
            let failed = |_| self.writer.failure("the group takes no snapshot");
            self.raft.trigger().snapshot().await.map_err(failed)?;
        }
        Ok(())
    }

    fn size(&self) -> Size {
        self.writer.size()
    }

    async fn close(&self) {
        if self.raft.shutdown().await.is_err() {
            tracing::warn!("the round log did not end in order; nothing is lost");
        }
        self.writer.stop().await;
    }
}

/// Decides what openraft does by chance. From where the salts come from, as the only randomness that a log has.
fn seed(options: &mut Options) -> Result<u64, LogError> {
    (options.salts)().map_err(LogError::file("the group", "draw a seed"))
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

fn config() -> openraft::Config {
    openraft::Config {
        cluster_name: "sotto".to_owned(),
        // In a group of one there is nobody to hear from, and nobody to convince: the only election is the one that is
        // called for.
        enable_tick: false,
        // With entries of at most 512 KiB, an append of at most 2 MiB.
        max_payload_entries: (super::store::APPEND_MAX / ENTRY_MAX) as u64,
        // Taken when a round retires.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        purge_batch_size: 1,
        ..openraft::Config::default()
    }
}
