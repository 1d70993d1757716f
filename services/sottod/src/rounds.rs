//! The task that owns the rounds of a node.
//!
//! What rounds there are stands in the log, and the log alone: every node of a group *follows* it, builds what was sealed there
//! and serves what was published there. One of them *leads*: it takes deposits and accounts, and proposes what a state machine
//! says is due. What it proposed it learns of like everybody else, when it stands in the log.

mod accepting;
mod announce;
mod command;
mod follow;
mod handle;
mod lead;
mod measure;
mod overview;
mod places;
mod pressure;
mod resume;
mod watchers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mpir::{Engine, Profile};
use sotto_log::{Doing, LogError, Phase, Role, RoundLog, TokenId};
use sotto_protocol::server::{Refusal, RoundMachine};
use sotto_protocol::{Round, ServerParameters, UnixMillis};
use sotto_wire::RootKey;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::compute::Compute;
use crate::events::ServerEvent;
use crate::forward::Forward;
use crate::host::Host;
use crate::keys::Progress;
use crate::manifest_keys::Announcing;
use crate::metrics::{Queue, SharedMetrics, gauge};
use crate::population::Population;
use crate::round_database::{Buffers, BuildError, RoundDatabase};
use crate::seeds::Seeds;
use crate::slots::{SlotPool, Vacancy};

use accepting::{Accepting, InFlight};
use command::Command;
use handle::Again;
use lead::Settled;
use places::Places;
use watchers::Watchers;

pub(crate) use handle::Rounds;
pub use overview::{RoundPhase, RoundStatus};
pub(crate) use places::Place;
#[cfg(test)]
pub(crate) use places::{EVERY, LEASE};
pub(crate) use watchers::{RoundNews, Watch, WatchEnd};

/// Commands that wait for the task.
const COMMANDS: usize = 1024;
/// Commands handled between two looks at the time; their deposits share one append.
const BATCH: usize = 1024;

/// Why a server ends before it is told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The round log belongs to a server with another key.
    #[error("the round log belongs to a server with another key; restore the key file that goes with it")]
    ForeignLog,
    /// Deposits can no longer be stored.
    #[error("the round log failed: {0}")]
    Log(#[from] LogError),
    /// A round that was published is not the same when it is built again.
    #[error("round {0} is not what was published: the log has changed, or this program computes otherwise")]
    Rebuilt(Round),
    /// A round that was published cannot be built again; it stays in the log.
    #[error(
        "round {round} was published and cannot be built again: {reason}; it is kept, start again to retry"
    )]
    NotRebuilt {
        /// Which.
        round: Round,
        /// Why not.
        reason: String,
    },
    /// The round log could not be closed in time.
    #[error(
        "the round log did not end in time: the disk does not answer, or is slow; nothing acknowledged is lost"
    )]
    Hangs,
    /// There are no more seeds.
    #[error(
        "round {0} has no seed: what the root key has signed ends before it; make seeds for more rounds with \
         'sottod certify --seeds', and start again"
    )]
    SeedsEnded(Round),
    /// The directory announces a manifest key from before the one that the log announces.
    #[error(
        "the file 'announcement' in the data directory names a manifest key from before the one that the log announces, and \
         clients would refuse it: bring back the file that was there, from a backup or another node, and if round settings \
         or seeds are to change, give 'sottod certify' again with it"
    )]
    FormerKey,
    /// What is announced cannot be written down.
    #[error("what is announced cannot be stored: {0}")]
    Announcement(String),
    /// The task that owns the rounds ended without being told to.
    #[error("the rounds ended unexpectedly: this is a fault of the program")]
    Rounds,
    /// No secrets can be drawn.
    #[error("the operating system gives no randomness")]
    Randomness,
    /// The listener failed.
    #[error("the listener failed")]
    Listener,
}

/// What the task needs of the rest of the server.
pub(crate) struct RoundsDependencies {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) root: RootKey,
    pub(crate) parameters: ServerParameters,
    /// What is said now, and what signs.
    pub(crate) announcing: Announcing,
    pub(crate) seeds: Box<dyn Seeds>,
    pub(crate) progress: watch::Sender<Progress>,
    /// The first round of a log without history.
    pub(crate) first: Round,
    /// No round behind a history has a lower number.
    pub(crate) least: Round,
    /// Whether new accounts need a token.
    pub(crate) token_required: bool,
    /// When slots of closed accounts are given to others.
    pub(crate) vacancy: Vacancy,
    pub(crate) deposits_max: usize,
    pub(crate) compute: Compute,
    pub(crate) population: Option<Population>,
    pub(crate) events: broadcast::Sender<ServerEvent>,
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) metrics: SharedMetrics,
    /// The way to the node that leads, in a group of several.
    pub(crate) forward: Option<Arc<dyn Forward>>,
    /// Where people find this node, if they are told: in a cluster.
    pub(crate) place: Option<Place>,
}

/// How much later than it should a round of a cluster may end before a node takes itself to be cut off.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a node of a cluster that ends waits for what it has proposed.
const DRAIN: Duration = Duration::from_millis(300);

type Building = oneshot::Receiver<Result<RoundDatabase, BuildError>>;

struct Task {
    surroundings: RoundsDependencies,
    log: Arc<dyn RoundLog>,
    changes: watch::Receiver<()>,
    role: watch::Receiver<Role>,
    machine: RoundMachine,
    started: (UnixMillis, Instant),
    /// The rounds in the log when it was last looked at.
    known: BTreeMap<Round, Phase>,
    /// Sealed, waiting for the one that is being built.
    queue: VecDeque<Round>,
    building: Option<(Round, Building)>,
    buffers: Buffers,
    /// Built, and not published as far as this node knows.
    built: BTreeMap<Round, RoundDatabase>,
    served: BTreeMap<Round, Arc<RoundDatabase>>,
    /// Rounds that cannot be built or must not be served, to be taken out of the log by whoever leads.
    hopeless: BTreeSet<Round>,
    watchers: Watchers,
    /// The term in which this node leads.
    leads: Option<u64>,
    /// What was proposed, and has neither come to stand in the log nor failed.
    proposed: JoinSet<Settled>,
    in_flight: InFlight,
    /// Until when nothing is proposed.
    held: Option<Instant>,
    accepting: Accepting,
    /// Tokens spent since the last round was sealed.
    spent: BTreeSet<TokenId>,
    slots: SlotPool,
    places: Places,
    /// Number of the directory that people have been told.
    directory: Option<u64>,
    has_sealed: bool,
    /// How many segments of seeds there were when it was last said that they end.
    warned: Option<u64>,
    /// When a round last began or ended.
    heard: Instant,
    /// Index of the entry to be applied next, when it was last looked at.
    applied: u64,
    /// When people were last told that a round is still open.
    told: Instant,
    is_silent: bool,
    /// When the newest round opened, and when those were sealed that are not ready.
    opened: Option<Instant>,
    sealed: BTreeMap<Round, Instant>,
    /// Rounds that were in the log when the task began.
    resumed: BTreeSet<Round>,
    again: Again,
}

/// Starts the task, which begins with opening the log. It ends when told to, or with an error.
pub(crate) fn start<L: RoundLog>(
    surroundings: RoundsDependencies,
    opening: impl Future<Output = Result<L, LogError>> + Send + 'static,
) -> (Rounds, tokio::task::JoinHandle<Result<(), RunError>>) {
    start_over(surroundings, Box::pin(async { opening.await.map(|log| Arc::new(log) as Arc<dyn RoundLog>) }))
}

fn start_over(
    surroundings: RoundsDependencies,
    opening: Doing<'static, Result<Arc<dyn RoundLog>, LogError>>,
) -> (Rounds, tokio::task::JoinHandle<Result<(), RunError>>) {
    let (sender, receiver) = mpsc::channel(COMMANDS);
    let tracker = surroundings.tracker.clone();
    let again = Again(sender.downgrade());
    let joined = tracker.spawn(async move {
        let stop = surroundings.stop.clone();
        let log = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            log = opening => log?,
        };
        let ended = match Task::resume(surroundings, Arc::clone(&log), again) {
            Ok(task) => task.run(receiver).await,
            Err(error) => Err(error),
        };
        log.close().await;
        ended
    });
    (Rounds::new(sender, tracker), joined)
}

impl Task {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> Result<(), RunError> {
        let stop = self.surroundings.stop.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.follow().await?;
            self.lead().await?;
            self.say_place().await;
            self.tell_progress();
            self.notice_silence();
            self.measure_pressure();
            let wakeup = self.wakeup();
            // A node alone is asked nothing before it serves again what it served.
            let answers = !self.waits_for_builds();
            let metrics = &self.surroundings.metrics;
            metrics.queue(Queue::Commands, commands.len());
            metrics.queue(Queue::Builds, self.queue.len() + usize::from(self.building.is_some()));
            metrics.participants.set(gauge(self.watchers.len()));
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.end().await,
                built = finished(&mut self.building) => self.finish(built)?,
                settled = self.proposed.join_next(), if !self.proposed.is_empty() => self.settle(settled)?,
                changed = self.changes.changed() => changed.map_err(|_| self.log.failure())?,
                changed = self.role.changed() => changed.map_err(|_| self.log.failure())?,
                () = tokio::time::sleep_until(wakeup) => {}
                received = commands.recv_many(&mut batch, BATCH), if answers => {
                    if received == 0 {
                        return self.end().await;
                    }
                    self.handle(batch.drain(..)).await?;
                }
            }
        }
    }

    /// What was accepted and is on its way is waited for, so that as few as possible are left without an answer.
    async fn end(&mut self) -> Result<(), RunError> {
        if self.leads.is_some() {
            self.propose_spent().await;
            let alone = self.is_alone();
            let drained = async {
                while let Some(settled) = self.proposed.join_next().await {
                    self.settle(Some(settled))?;
                }
                Ok(())
            };
            if alone {
                return drained.await;
            }
            // Without enough others nothing comes of it, and whoever waits asks another node.
            if let Ok(drained) = tokio::time::timeout(DRAIN, drained).await {
                drained?;
            }
            self.log.hand_over().await;
        }
        Ok(())
    }

    /// Whether this is the only node there is.
    fn is_alone(&self) -> bool {
        self.surroundings.forward.is_none()
    }

    /// The time by a clock that nobody can set.
    fn now(&self) -> UnixMillis {
        let (unix, instant) = self.started;
        let passed = instant.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        UnixMillis(unix.0.saturating_add(passed))
    }

    fn wakeup(&self) -> Instant {
        let now = self.now();
        // Whoever follows is woken by the log.
        let decides = self.leads.is_some() && self.in_flight.turn.is_none();
        let waits = self.waits_for_builds() && self.machine.open(now).is_none();
        let due = if decides && !waits { self.machine.next_wakeup(now) } else { None };
        let wakeup = due.map_or(IDLE_MS, |wakeup| wakeup.since(now));
        let wakeup = Instant::now() + Duration::from_millis(wakeup);
        let held = self.held.filter(|held| self.leads.is_some() && *held > Instant::now());
        let silent = self.silent_from().filter(|_| !self.is_silent);
        // Whatever is due is proposed when nothing holds it back.
        let wakeup = held.unwrap_or(wakeup);
        [silent, self.next_place(), self.next_sign_of_life(), self.next_late()]
            .into_iter()
            .flatten()
            .fold(wakeup, Instant::min)
    }

    /// From when on a node of a cluster has heard nothing for too long: the open round should have ended.
    fn silent_from(&self) -> Option<Instant> {
        self.surroundings.forward.as_ref()?;
        let round = Duration::from_millis(self.surroundings.parameters.round_ms.into());
        Some(self.heard + round + SILENCE)
    }

    /// A node that is cut off from the others keeps nobody: whoever follows it goes on at another one.
    fn notice_silence(&mut self) {
        let is_silent = self.silent_from().is_some_and(|from| from <= Instant::now());
        self.surroundings.metrics.silent.set(is_silent.into());
        if is_silent && !core::mem::replace(&mut self.is_silent, is_silent) {
            tracing::warn!("nothing is heard of the rounds: other nodes do not answer, or too few of them");
            self.watchers.end_all();
        }
        self.is_silent = is_silent;
    }

    async fn handle(&mut self, batch: impl Iterator<Item = Command>) -> Result<(), RunError> {
        for command in batch {
            match command {
                Command::Deposit { account, round, deposit, digest, tenure, reply } => {
                    self.deposit(account, round, deposit, digest, tenure, reply);
                }
                Command::Register { account, token, shown, reply } => {
                    self.register(account, token, shown, reply);
                }
                Command::Close { account, tenure, reply } => self.close(account, tenure, reply),
                // Another node may know what is.
                Command::Watch { reply, .. } if self.is_silent => drop(reply),
                Command::Watch { account, has_keys, reply } => {
                    self.machine.registered(account, has_keys);
                    let open = self.machine.open(self.now()).map(|(round, _)| round);
                    // A caller that has left meanwhile drops the watch, which takes the account out again.
                    let _ = reply.send(self.watchers.join(account, open));
                }
                Command::Left { account, generation } => {
                    if self.watchers.leave(&account, generation) {
                        self.machine.gone(&account);
                    }
                }
                Command::HasKeys { account } => {
                    if self.watchers.has(&account) {
                        self.machine.registered(account, true);
                    }
                }
                Command::Place(place) => self.places.heard(place),
                Command::Announce { announced, reply } => self.announce(*announced, reply).await,
                Command::Overview { reply } => {
                    let _ = reply.send(self.overview());
                }
                Command::Current { reply } => {
                    let _ = reply.send(self.machine.current());
                }
                Command::Served { round, reply } => {
                    let _ = reply.send(self.served(round));
                }
                Command::Mapping { account, round, reply } => {
                    let allowed = self.machine.mapping(account, round);
                    let _ = reply.send(allowed.and_then(|_| self.served(round)));
                }
                Command::Hint { account, round, reply } => {
                    let allowed = self.machine.hint(account, round);
                    let _ = reply.send(allowed.and_then(|_| self.served(round)));
                }
                Command::Unit { account, round, unit, reply } => {
                    let allowed = self.machine.unit(account, round, unit);
                    let _ = reply.send(allowed.and_then(|_| self.served(round)));
                }
                Command::Retrieve { account, round, digest, reply } => {
                    let _ = reply.send(self.machine.retrieve(account, round, digest).map(|_| ()));
                }
                Command::Answered { account, round, complete: true } => {
                    self.machine.retrieved(&account, round);
                }
                Command::Answered { account, round, complete: false } => {
                    self.machine.unanswered(&account, round);
                }
                Command::Manifests { first, last, reply } => {
                    let state = self.log.state();
                    let wanted = state.manifests().iter().filter(|(round, _)| (first..=last).contains(round));
                    let _ = reply.send(wanted.map(|(_, manifest)| manifest.clone()).collect());
                }
            }
        }
        Ok(())
    }

    fn served(&self, round: Round) -> Result<Arc<RoundDatabase>, Refusal> {
        let too_early = round >= self.machine.current() || self.machine.is_building(round);
        self.served.get(&round).cloned().ok_or(if too_early { Refusal::NotReady } else { Refusal::Closed })
    }

    fn tell(&self, event: ServerEvent) {
        // Without an audience nothing is lost.
        let _ = self.surroundings.events.send(event);
    }
}

/// What a round's database is built with.
struct Builder {
    engine: Arc<dyn Engine>,
    root: RootKey,
    compute: Compute,
    parameters: ServerParameters,
    population: Option<Population>,
    events: broadcast::Sender<ServerEvent>,
    buffers: Buffers,
    /// Of a round that was published.
    profile: Option<Profile>,
}

impl Builder {
    fn of(surroundings: &RoundsDependencies, buffers: &Buffers) -> Self {
        let RoundsDependencies { engine, root, compute, parameters, population, events, .. } = surroundings;
        Self {
            engine: Arc::clone(engine),
            root: *root,
            compute: compute.clone(),
            parameters: parameters.clone(),
            population: *population,
            events: events.clone(),
            buffers: buffers.clone(),
            profile: None,
        }
    }
}

/// Builds a sealed round's database.
async fn build(log: Arc<dyn RoundLog>, builder: Builder, round: Round) -> Result<RoundDatabase, BuildError> {
    let Builder { engine, root, compute, parameters, population, events, buffers, profile } = builder;
    let mut sealed = log.sealed(round).await?;
    if let Some(population) = population {
        let slots = parameters.code.has_slots();
        let deposits = compute.run_own(move || population.deposits(round, slots)).await;
        sealed.deposits.extend(deposits.map_err(|_| BuildError::Compute)?);
        // Told apart from the building, which is what a server without simulated users does, too.
        let _ = events.send(ServerEvent::RoundPopulated { round, users: population.users });
    }
    compute
        .run_own(move || RoundDatabase::build_as(&buffers, sealed, &*engine, &root, &parameters, profile))
        .await
        .unwrap_or(Err(BuildError::Compute))
}

/// How long the task sleeps when only a command can change something, ms.
const IDLE_MS: u64 = 60_000;

/// Waits for the running build; for ever if there is none.
async fn finished(building: &mut Option<(Round, Building)>) -> Result<RoundDatabase, BuildError> {
    match building {
        Some((_, built)) => built.await.unwrap_or(Err(BuildError::Compute)),
        None => core::future::pending().await,
    }
}
