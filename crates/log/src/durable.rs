//! The log that survives: a Raft group of one, whose entries are fsynced before they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::RaftError;
use openraft::impls::ProgressResponder;
use openraft::{BasicNode, Instant as _, Raft, ServerState, SnapshotPolicy};
use sotto_protocol::Round;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::disk::Disk;
use super::entry::{Runtime, TypeConfig};
use super::kept::Kept;
use super::pinned::LogFiles;
use super::record::{Batch, ENTRY_MAX, Record};
use super::replica::{GroupNetwork, LogStorage, Network, StateMachine};
use super::state::State;
use super::store::{Opened, Options};
use super::writer::Writer;
use super::{Doing, Feed, LogError, Proposal, ProposeError, Role, RoundLog, SealedRound, Sequencer, Size};

/// This node, as long as it is the only one.
const ALONE: u64 = 1;
/// In a group of one there is nobody to wait for but the disk; whoever is not elected by then never will be.
const ELECTION: Duration = Duration::from_secs(60);
/// A leader is heard of this often. Who has not heard of one for the longer of these two, and then for a time between them, calls for
/// an election.
const HEARTBEAT_MS: u64 = 250;
const ELECTION_MS: (u64, u64) = (600, 900);
/// Another node takes the lead within this, or does not.
const HANDING_OVER: Duration = Duration::from_millis(400);
/// Who has heard of no majority for so long leads no more, and says so after a quarter of it more at the latest: together that is the
/// least time after which another node can lead.
const UNHEARD: Duration = Duration::from_millis(1200);
/// A snapshot is stored within this.
const SNAPSHOT_MS: u64 = 30_000;

/// A durable log.
pub struct DurableLog {
    raft: Raft<TypeConfig, StateMachine>,
    kept: Kept,
    role: watch::Receiver<Role>,
    telling: AbortHandle,
}

/// The group that a node's log belongs to, and the way to its members.
pub struct Group {
    /// Which of them this node is.
    pub number: u64,
    /// All that found it, and where they listen for each other; or that are there when this one comes.
    pub members: BTreeMap<u64, String>,
    /// Whether the group was there before this node, and takes it in later.
    pub joins: bool,
    /// The way to the others.
    pub network: Box<dyn GroupNetwork>,
    /// Is handed what takes the calls of other members, before this node calls any.
    pub joining: Joining,
}

/// See [`Group`].
pub(crate) type Joining = Box<dyn FnOnce(Raft<TypeConfig, StateMachine>, Kept, watch::Receiver<Role>) + Send>;

impl DurableLog {
    /// Opens the log of a directory, or begins one. All that was ever acknowledged is applied when this returns.
    /// `guard` is held as long as files may be touched.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn start(
        disk: Arc<dyn Disk>,
        mut options: Options,
        guard: impl Send + 'static,
    ) -> Result<Self, LogError> {
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start(disk, options, guard).await?;
        Self::alone(writer, opened, seed).await
    }

    /// The same for a member of a group. What others have stored meanwhile comes later.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn start_in(
        group: Group,
        disk: Arc<dyn Disk>,
        mut options: Options,
        guard: impl Send + 'static,
    ) -> Result<Self, LogError> {
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start(disk, options, guard).await?;
        Self::join(group, writer, opened, seed).await
    }

    /// The same without a thread, as for [`DurableLog::start_inline`].
    #[cfg(any(test, feature = "testing"))]
    pub async fn start_in_inline(
        group: Group,
        disk: Arc<dyn Disk>,
        mut options: Options,
        pace: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Self, LogError> {
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start_inline(disk, options, pace).await?;
        Self::join(group, writer, opened, seed).await
    }

    fn join(
        group: Group,
        writer: Writer,
        opened: Opened,
        seed: u64,
    ) -> Doing<'static, Result<Self, LogError>> {
        Box::pin(async move {
            let needs = if group.members.len() > 1 { Needs::Others } else { Needs::Nobody };
            let network = (Some(group.network), needs);
            let log = Self::over(writer, opened, seed, config_of_many(), group.number, network).await?;
            (group.joining)(log.raft.clone(), log.kept.clone(), log.role.clone());
            let failed = |_| log.kept.writer.failure("it could not be opened");
            if !group.joins && !log.raft.is_initialized().await.map_err(failed)? {
                let members: BTreeMap<u64, BasicNode> =
                    group.members.into_iter().map(|(number, at)| (number, BasicNode::new(at))).collect();
                // Every founder says the same, and who was founded by another meanwhile needs it no more.
                if let Err(RaftError::Fatal(_)) = log.raft.initialize(members).await {
                    return Err(log.kept.writer.failure("the group cannot be founded"));
                }
            }
            Ok(log)
        })
    }

    /// The same as [`DurableLog::start`] without a thread: an order to the disk takes as long as `pace` says.
    #[cfg(any(test, feature = "testing"))]
    pub async fn start_inline(
        disk: Arc<dyn Disk>,
        mut options: Options,
        pace: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Self, LogError> {
        let seed = seed(&mut options)?;
        let (writer, opened) = Writer::start_inline(disk, options, pace).await?;
        Self::alone(writer, opened, seed).await
    }

    fn alone(writer: Writer, opened: Opened, seed: u64) -> Doing<'static, Result<Self, LogError>> {
        Box::pin(async move {
            // A group of one is founded by its first entry, before there is anything to vote on.
            if writer.run(|store| Ok(store.vote().is_some() && store.bounds().1.is_none())).await? {
                return Err(LogError::corrupt("the directory", 0, "the beginning of the log is missing"));
            }
            let mut log =
                Self::over(writer, opened, seed, config_of_one(), ALONE, (None, Needs::Nobody)).await?;
            log.lead().await?;
            // All entries before this one count once it does.
            match log.propose(Vec::new()).await.await {
                Ok(_) => {}
                Err(ProposeError::Log(error)) => return Err(error),
                Err(_) => return Err(log.kept.writer.failure("the group has no leader")),
            }
            let leads = |role: &Role| matches!(role, Role::Leads { .. });
            let failed = |_| log.kept.writer.failure("the group has no leader");
            log.role.wait_for(leads).await.map(|_| ()).map_err(failed)?;
            Ok(log)
        })
    }

    async fn over(
        writer: Writer,
        opened: Opened,
        seed: u64,
        config: openraft::Config,
        number: u64,
        (network, needs): (Option<Box<dyn GroupNetwork>>, Needs),
    ) -> Result<Self, LogError> {
        let kept = Kept::new(writer, opened);
        let (writer, machine) = (kept.writer.clone(), kept.machine.clone());
        let storage = LogStorage { writer: writer.clone() };
        let ended = |_: openraft::errors::Fatal<TypeConfig>| writer.failure("it could not be opened");
        let raft = Raft::new(number, Arc::new(config), Network(network), storage, machine.clone());
        let raft = Runtime::scope(seed, raft).await.map_err(ended)?;
        let (teller, role) = watch::channel(Role::Follows { leader: None });
        let telling = tokio::spawn(tell_role(raft.clone(), machine.clone(), teller, needs)).abort_handle();
        Ok(Self { raft, kept, role, telling })
    }

    /// Makes this node the leader of its group, which it founds if there is none.
    async fn lead(&self) -> Result<(), LogError> {
        let failed = |_| self.kept.writer.failure("the group has no leader");
        if !self.raft.is_initialized().await.map_err(failed)? {
            let members = BTreeMap::from([(ALONE, BasicNode::default())]);
            self.raft
                .initialize(members)
                .await
                .map_err(|_| self.kept.writer.failure("the group cannot be founded"))?;
        } else {
            let leads = self.raft.with_raft_state(|state| state.server_state == ServerState::Leader);
            if !leads.await.map_err(failed)? {
                self.raft.trigger().elect(false).await.map_err(failed)?;
            }
        }
        let failed = |_| self.kept.writer.failure("the group has no leader");
        let group = self.raft.wait(Some(ELECTION));
        let leading = group.state(ServerState::Leader, "nobody else can lead").await.map_err(failed)?;
        // Writes that overtook this would be stored with what was committed before or after it, by chance.
        let begun = group.applied_index_at_least(leading.last_log_index, "it begins with an entry").await;
        begun.map(|_| ()).map_err(failed)
    }

    /// The way to its files, for whoever copies them.
    pub fn files(&self) -> LogFiles {
        self.kept.files()
    }

    /// Waits until no segment could be removed that is not.
    #[cfg(test)]
    pub(super) async fn settle(&self) {
        let mut metrics = self.raft.metrics();
        loop {
            let floor = self.kept.machine.floor();
            let reclaimable = self.kept.writer.run(move |store| Ok(store.reclaimable(floor))).await;
            if !reclaimable.unwrap_or(false) || metrics.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Sequencer for DurableLog {
    fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    #[expect(
        clippy::async_yields_async,
        reason = "what becomes of an entry is waited for apart from handing it in"
    )]
    fn propose(&self, records: Vec<Record>) -> Doing<'_, Proposal> {
        Box::pin(async move {
            let (responder, answer) = ProgressResponder::complete_only();
            let handed_in = self.raft.client_write_ff(Batch(records), Some(responder)).await;
            let writer = self.kept.writer.clone();
            let proposal: Proposal = Box::pin(async move {
                let failed = || ProposeError::Log(writer.failure("the group takes no entries"));
                handed_in.map_err(|_| failed())?;
                match answer.await.map_err(|_| failed())? {
                    Ok(written) => match written.data.refused {
                        None => Ok(written.data),
                        Some(refused) => Err(ProposeError::Refused(refused)),
                    },
                    Err(_) => Err(ProposeError::Elsewhere),
                }
            });
            proposal
        })
    }

    fn hand_over(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            if !matches!(*self.role.borrow(), Role::Leads { .. }) {
                return;
            }
            let metrics = self.raft.metrics().borrow_watched().clone();
            let own = metrics.id;
            let voters: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
            let heard = metrics.heartbeat.unwrap_or_default();
            let is_there = |number: &u64| {
                heard.get(number).copied().flatten().is_some_and(|heard| heard.elapsed() < UNHEARD)
            };
            let stored = metrics.replication.into_iter().flatten();
            // One that is yet to be given a vote may have stored as much, and cannot lead.
            let stored =
                stored.filter(|(number, _)| *number != own && voters.contains(number) && is_there(number));
            let Some((best, _)) = stored.max_by_key(|(_, last)| *last) else { return };
            if self.raft.trigger().transfer_leader(best).await.is_err() {
                return;
            }
            let mut role = self.role.clone();
            let gone = role.wait_for(|role| !matches!(role, Role::Leads { .. }));
            if tokio::time::timeout(HANDING_OVER, gone).await.is_err() {
                tracing::warn!("no other node has taken the lead; they choose one when they miss this one");
            }
        })
    }
}

impl Feed for DurableLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.kept.machine.lock()
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.kept.machine.changes.subscribe()
    }

    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>> {
        Box::pin(async move { self.kept.sealed(round).await })
    }
}

impl RoundLog for DurableLog {
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>> {
        Box::pin(async move {
            if self.kept.is_reclaimable().await? {
                let failed = |_| self.kept.writer.failure("the group takes no snapshot");
                self.raft.trigger().snapshot().await.map_err(failed)?;
            }
            Ok(())
        })
    }

    fn size(&self) -> Size {
        self.kept.writer.size()
    }

    fn failure(&self) -> LogError {
        self.kept.writer.failure("the group has ended")
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.telling.abort();
            if self.raft.shutdown().await.is_err() {
                tracing::warn!("the round log did not end in order; nothing is lost");
            }
            self.kept.writer.stop().await;
        })
    }
}

/// Decides what openraft does by chance. From where the salts come from, as the only randomness that a log has.
fn seed(options: &mut Options) -> Result<u64, LogError> {
    (options.salts)().map_err(LogError::file("the group", "draw a seed"))
}

/// Whom a leader needs, to be one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nobody,
    Others,
}

/// Tells who puts entries in order, until the group ends.
async fn tell_role(
    raft: Raft<TypeConfig, StateMachine>,
    machine: StateMachine,
    role: watch::Sender<Role>,
    needs: Needs,
) {
    let (mut metrics, mut changes) = (raft.server_metrics(), machine.changes.subscribe());
    let heard = raft.data_metrics();
    // A term in which this node leads, and the last entry that it had when it was found to.
    let mut begun: Option<(u64, u64)> = None;
    loop {
        let (state, term, leader) = {
            let metrics = metrics.borrow_watched();
            (metrics.state, metrics.vote.leader_id.term, metrics.current_leader)
        };
        if state != ServerState::Leader {
            begun = None;
        } else if begun.is_none_or(|(begun, _)| begun != term) {
            let last = raft.with_raft_state(|state| {
                let last = || state.log_ids.last().map_or(0, |last| last.index);
                (state.server_state == ServerState::Leader).then(last)
            });
            let Ok(last) = last.await else { return };
            begun = last.map(|last| (term, last));
        }
        // Nobody tells a leader that the others are gone.
        let recently = || heard.borrow_watched().last_quorum_acked.map(|heard| heard.elapsed());
        let is_heard = needs == Needs::Nobody || recently().is_some_and(|ago| ago < UNHEARD);
        // A leader begins with an entry of its own, or leads on in the term of an earlier start, without one: then it has entries of that
        // term that were committed, and does not know that yet. Behind the last one that it had nothing is unknown to it.
        let has_begun = || {
            let applied = machine.lock().applied;
            applied.zip(begun).is_some_and(|(applied, (of, last))| {
                of == term && applied.leader_id.term == term && applied.index >= last
            })
        };
        let now = match state {
            ServerState::Leader if is_heard && has_begun() => Role::Leads { term },
            ServerState::Leader => Role::Follows { leader: None },
            _ => Role::Follows { leader },
        };
        role.send_if_modified(|known| core::mem::replace(known, now) != now);
        tokio::select! {
            biased;
            changed = metrics.changed() => if changed.is_err() { return },
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(UNHEARD / 4), if needs == Needs::Others => {}
        }
    }
}

fn config_of_one() -> openraft::Config {
    openraft::Config {
        // In a group of one there is nobody to hear from, and nobody to convince: the only election is the one that is
        // called for.
        enable_tick: false,
        ..config()
    }
}

fn config_of_many() -> openraft::Config {
    openraft::Config {
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS.0,
        election_timeout_max: ELECTION_MS.1,
        // Whoever was cut off and comes back unseats nobody.
        enable_pre_vote: Some(true),
        install_snapshot_timeout: SNAPSHOT_MS,
        // A node whose log is lost is sent all of it again. The one that leads would end otherwise, and the next one, too.
        allow_log_reversion: Some(true),
        ..config()
    }
}

fn config() -> openraft::Config {
    openraft::Config {
        cluster_name: "sotto".to_owned(),
        // With entries of at most 512 KiB, an append of at most 2 MiB.
        max_payload_entries: (super::store::APPEND_MAX / ENTRY_MAX) as u64,
        // Taken when a round retires.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        purge_batch_size: 1,
        ..openraft::Config::default()
    }
}
