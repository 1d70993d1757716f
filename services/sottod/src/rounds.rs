//! The task that owns the rounds: it tells the state machine what happens and carries out what that decides.

mod command;
mod handle;
mod measure;
mod resume;
mod watchers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::{Engine, Profile};
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::{Accepted, Account, Action, Refusal, RoundMachine};
use sotto_protocol::{Deposit, Round, ServerParameters, UnixMillis};
use sotto_wire::{Refused, RootKey};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::compute::Compute;
use crate::events::ServerEvent;
use crate::host::Host;
use crate::keys::Progress;
use crate::log::{LogError, RoundLog, TableSeal, TokenId};
use crate::metrics::{Outcome, Queue, SharedMetrics, gauge};
use crate::population::Population;
use crate::round_database::{BuildError, RoundDatabase};
use crate::seeds::Seeds;
use crate::slots::SlotPool;

use command::{Acknowledgement, Command};
use watchers::Watchers;

pub(crate) use handle::Rounds;
pub(crate) use watchers::{RoundNews, Watch, WatchEnd};

/// Commands that wait for the task.
const COMMANDS: usize = 1024;
/// Tokens spent in one round; the log keeps room for so many.
const SPENT_MAX: usize = 4096;
/// Commands handled between two looks at the time; their deposits share one append.
const BATCH: usize = 1024;
/// Manifests kept for clients that close a gap.
const MANIFESTS_KEPT: usize = sotto_wire::limits::MANIFESTS_MAX;

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
    pub(crate) signing_key: SigningKey,
    pub(crate) seeds: Box<dyn Seeds>,
    pub(crate) progress: watch::Sender<Progress>,
    /// The first round of a log without history.
    pub(crate) first: Round,
    /// No round behind a history has a lower number.
    pub(crate) least: Round,
    /// Whether new accounts need a token.
    pub(crate) token_required: bool,
    pub(crate) deposits_max: usize,
    pub(crate) compute: Compute,
    pub(crate) population: Option<Population>,
    pub(crate) events: broadcast::Sender<ServerEvent>,
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) metrics: SharedMetrics,
}

type Building = oneshot::Receiver<Result<RoundDatabase, BuildError>>;

struct Task<L> {
    surroundings: RoundsDependencies,
    log: Arc<L>,
    machine: RoundMachine,
    started: (UnixMillis, Instant),
    served: BTreeMap<Round, Arc<RoundDatabase>>,
    manifests: VecDeque<(Round, SignedManifest)>,
    previous: [u8; 32],
    watchers: Watchers,
    /// Sealed, waiting for the one that is being built; the machine keeps it short.
    queue: VecDeque<Round>,
    building: Option<(Round, Building)>,
    /// Tokens spent since the last round was sealed.
    spent: BTreeSet<TokenId>,
    slots: SlotPool,
    has_sealed: bool,
    /// How many segments of seeds there were when it was last said that they end.
    warned: Option<u64>,
    /// When the newest round opened, and when those were sealed that are not ready.
    opened: Option<Instant>,
    sealed: BTreeMap<Round, Instant>,
}

/// Starts the task, which begins with opening the log. It ends when told to, or with an error.
pub(crate) fn start<L: RoundLog>(
    surroundings: RoundsDependencies,
    opening: impl Future<Output = Result<L, LogError>> + Send + 'static,
) -> (Rounds, tokio::task::JoinHandle<Result<(), RunError>>) {
    let (sender, receiver) = mpsc::channel(COMMANDS);
    let tracker = surroundings.tracker.clone();
    let joined = tracker.spawn(async move {
        let stop = surroundings.stop.clone();
        let log = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            log = opening => Arc::new(log?),
        };
        let resumed = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            resumed = Task::resume(surroundings, Arc::clone(&log)) => Some(resumed),
        };
        let ended = match resumed {
            None => Ok(()),
            Some(Ok(task)) => task.run(receiver).await,
            Some(Err(error)) => Err(error),
        };
        log.close().await;
        ended
    });
    (Rounds::new(sender, tracker), joined)
}

impl<L: RoundLog> Task<L> {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> Result<(), RunError> {
        let stop = self.surroundings.stop.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let actions = self.machine.tick(self.now());
            self.perform(actions).await?;
            self.tell_progress();
            // Behind the opening of the next round, which nothing is to hold up.
            if core::mem::take(&mut self.has_sealed) {
                self.store_spent().await?;
            }
            let wakeup = self.wakeup();
            let metrics = &self.surroundings.metrics;
            metrics.queue(Queue::Commands, commands.len());
            metrics.queue(Queue::Builds, self.queue.len() + usize::from(self.building.is_some()));
            metrics.participants.set(gauge(self.watchers.len()));
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.store_spent().await,
                built = finished(&mut self.building) => self.finish(built).await?,
                () = tokio::time::sleep_until(wakeup) => {}
                received = commands.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return self.store_spent().await;
                    }
                    self.handle(batch.drain(..)).await?;
                }
            }
        }
    }

    /// The time by a clock that nobody can set.
    fn now(&self) -> UnixMillis {
        let (unix, instant) = self.started;
        let passed = instant.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        UnixMillis(unix.0.saturating_add(passed))
    }

    fn wakeup(&self) -> Instant {
        let now = self.now();
        let wakeup = self.machine.next_wakeup(now).map_or(IDLE_MS, |wakeup| wakeup.since(now));
        Instant::now() + Duration::from_millis(wakeup)
    }

    async fn handle(&mut self, batch: impl Iterator<Item = Command>) -> Result<(), RunError> {
        let mut accepted = Accepting::default();
        let mut actions = Vec::new();
        let mut open = self.machine.current();
        for command in batch {
            match command {
                Command::Deposit { account, round, deposit, digest, reply } => {
                    let result = self.machine.deposit(account, round, digest);
                    if result == Ok(Accepted::New) {
                        open = round;
                        accepted.deposits.push(*deposit);
                    }
                    let result = result.map(|_| ()).map_err(Refused::from);
                    accepted.acknowledgements.push((reply, result));
                }
                Command::Register { account, token, shown, reply } => {
                    let admitted = self.admit(account, token, shown, &mut accepted);
                    accepted.registrations.push((reply, admitted));
                }
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
                    actions.extend(self.machine.retrieved(&account, round, self.now()));
                }
                Command::Answered { account, round, complete: false } => {
                    actions.extend(self.machine.unanswered(&account, round, self.now()));
                }
                Command::Manifests { first, last, reply } => {
                    let wanted = |(round, _): &&(Round, SignedManifest)| (first..=last).contains(round);
                    let manifests = self.manifests.iter().filter(wanted);
                    let _ = reply.send(manifests.map(|(_, manifest)| manifest.clone()).collect());
                }
            }
            if !actions.is_empty() {
                // The round may end here, with all that was accepted before.
                self.append(open, &mut accepted).await?;
                self.perform(core::mem::take(&mut actions)).await?;
            }
        }
        self.append(open, &mut accepted).await
    }

    /// Stores what one batch brought, then acknowledges it.
    async fn append(&self, round: Round, accepted: &mut Accepting) -> Result<(), RunError> {
        let Accepting { deposits, accounts, lots, acknowledgements, registrations } =
            core::mem::take(accepted);
        if !deposits.is_empty() || !accounts.is_empty() {
            let (began, count) = (Instant::now(), deposits.len() as u64);
            self.log.append(round, deposits, accounts.into_iter().collect(), lots).await?;
            let metrics = &self.surroundings.metrics;
            metrics.append.observe(began.elapsed().as_secs_f64());
            metrics.deposits.inc_by(count);
        }
        for (reply, result) in acknowledgements {
            let _ = reply.send(result);
        }
        for (reply, result) in registrations {
            let _ = reply.send(result);
        }
        Ok(())
    }

    /// Lets a known account in, and a new one if there is room and its token, if it needs one, is unspent.
    fn admit(
        &mut self,
        account: Account,
        token: Option<TokenId>,
        shown: Option<u32>,
        accepted: &mut Accepting,
    ) -> Result<Option<u32>, Refused> {
        let known = accepted.accounts.contains(&account) || self.log.knows(&account);
        let mut spent = None;
        if self.surroundings.token_required && !known {
            if self.spent.len() >= SPENT_MAX {
                return Err(Refused::Busy);
            }
            let unspent = |token: &TokenId| !self.spent.contains(token) && !self.log.is_spent(token);
            let token = token.filter(unspent).ok_or(Refused::Token)?;
            if !self.log.admits(&account, &accepted.accounts) {
                return Err(Refused::Busy);
            }
            spent = Some(token);
        } else if !self.log.admits(&account, &accepted.accounts) {
            return Err(Refused::Busy);
        }
        // Who gets no slot keeps its token.
        let slot = self.slot_of(account, known, shown, accepted)?;
        self.spent.extend(spent);
        accepted.accounts.insert(account);
        Ok(slot)
    }

    /// The slot of an account that is let in: what it has shown, or what it was given and has not shown yet, or, to a new one, a
    /// new one. None without slots.
    fn slot_of(
        &mut self,
        account: Account,
        known: bool,
        shown: Option<u32>,
        accepted: &mut Accepting,
    ) -> Result<Option<u32>, Refused> {
        if !self.surroundings.parameters.code.has_slots() {
            return Ok(None);
        }
        let before = self.slots.lots();
        if let Some(slot) = shown {
            self.slots.heard(&account);
            self.slots.begin_up_to(slot);
            self.begun(before, accepted);
            return Ok(shown);
        }
        let unheard = self.slots.unheard(&account);
        if unheard.is_some() || known {
            // One that is known was given a slot once: who could ask again would take up the table.
            return unheard.map(Some).ok_or(Refused::Slot);
        }
        let slot = self.slots.take(account, &*self.surroundings.host).map_err(|_| Refused::Internal)?;
        self.begun(before, accepted);
        slot.map(Some).ok_or(Refused::Busy)
    }

    /// Has the number of lots stored if there are more than before.
    fn begun(&self, before: u32, accepted: &mut Accepting) {
        let lots = self.slots.lots();
        if lots != before || accepted.lots.is_some() {
            accepted.lots = Some(lots);
        }
    }

    /// What the table of a round is made of that is sealed now; none without slots.
    fn table(&self) -> Result<Option<TableSeal>, RunError> {
        if !self.surroundings.parameters.code.has_slots() {
            return Ok(None);
        }
        let mut cover = [0; 32];
        self.surroundings.host.fill(&mut cover).map_err(|_| RunError::Randomness)?;
        Ok(Some(TableSeal { lots: self.slots.lots(), cover }))
    }

    /// Stores which tokens were spent: once a round and in order, so that none is beside the account it admitted. A crash
    /// before that lets a token serve once more.
    async fn store_spent(&mut self) -> Result<(), RunError> {
        let spent = core::mem::take(&mut self.spent);
        if spent.is_empty() { Ok(()) } else { Ok(self.log.spend(spent.into_iter().collect()).await?) }
    }

    fn served(&self, round: Round) -> Result<Arc<RoundDatabase>, Refusal> {
        let too_early = round >= self.machine.current() || self.machine.is_building(round);
        self.served.get(&round).cloned().ok_or(if too_early { Refusal::NotReady } else { Refusal::Closed })
    }

    async fn perform(&mut self, actions: Vec<Action>) -> Result<(), RunError> {
        for action in actions {
            match action {
                Action::Open(round) => {
                    if self.surroundings.seeds.seed(round).is_none() {
                        return Err(RunError::SeedsEnded(round));
                    }
                    self.warn_of_the_end(round);
                    // Before anybody hears of it: whoever did would never deposit under this number again.
                    self.log.open(round).await?;
                    self.watchers.opened(round);
                    self.opened = Some(Instant::now());
                    self.surroundings.metrics.open_round.set(gauge(round.0));
                    self.tell(ServerEvent::RoundOpened { round });
                }
                Action::Seal(round) => {
                    let seed = self.surroundings.seeds.seed(round).ok_or(RunError::SeedsEnded(round))?;
                    let table = self.table()?;
                    let now = self.surroundings.host.unix_now();
                    let entries = self.log.seal(round, seed, table, now).await?;
                    let entries = entries.try_into().unwrap_or(usize::MAX);
                    self.measure_sealed(round, entries);
                    self.has_sealed = true;
                    self.tell(ServerEvent::RoundSealed { round, entries });
                    self.queue.push_back(round);
                    self.build_next();
                }
                Action::Retire(round) => {
                    self.queue.retain(|queued| *queued != round);
                    if self.served.remove(&round).is_none() {
                        tracing::warn!(%round, "the round is given up: its database was not ready in time");
                        self.surroundings.metrics.round(Outcome::Abandoned);
                        self.sealed.remove(&round);
                        self.tell(ServerEvent::RoundAbandoned { round });
                    }
                    self.log.retire(round).await?;
                }
            }
        }
        Ok(())
    }

    fn build_next(&mut self) {
        if self.building.is_some() {
            return;
        }
        let Some(round) = self.queue.pop_front() else { return };
        let (reply, built) = oneshot::channel();
        let build = build(Arc::clone(&self.log), Builder::of(&self.surroundings), round);
        self.surroundings.tracker.spawn(async move {
            let _ = reply.send(build.await);
        });
        self.building = Some((round, built));
    }

    /// Publishes what was built, if it still matters, and goes on with the next.
    async fn finish(&mut self, built: Result<RoundDatabase, BuildError>) -> Result<(), RunError> {
        let Some((round, _)) = self.building.take() else { return Ok(()) };
        let actions = match built {
            _ if !self.machine.is_building(round) => Vec::new(),
            Ok(database) => {
                self.publish(round, database).await?;
                self.machine.built(round, self.now())
            }
            Err(BuildError::Log(error)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%round, %error, "the round cannot be built");
                self.machine.abandoned(round, self.now())
            }
        };
        self.perform(actions).await?;
        self.build_next();
        Ok(())
    }

    /// Continues the chain of manifests with a round's, and serves the round.
    async fn publish(&mut self, round: Round, mut database: RoundDatabase) -> Result<(), RunError> {
        database.manifest.previous = self.previous;
        let signed = SignedManifest::sign(&database.manifest, &self.surroundings.signing_key);
        // Before anybody sees it: the chain must go on from here after a restart, too.
        self.log.publish(round, signed.clone()).await?;
        self.previous = database.manifest.digest();
        if self.manifests.len() >= MANIFESTS_KEPT {
            self.manifests.pop_front();
        }
        self.manifests.push_back((round, signed.clone()));
        self.serve(round, database, signed);
        Ok(())
    }

    fn serve(&mut self, round: Round, database: RoundDatabase, signed: SignedManifest) {
        self.measure_ready(round, &database);
        self.tell(ServerEvent::RoundBuilt {
            round,
            bucket_size: database.manifest.bucket_size,
            mapping_bytes: database.mapping.len(),
            setup_ms: database.setup_ms,
        });
        tracing::debug!(%round, entries = database.manifest.entries, setup_ms = database.setup_ms, "round ready");
        self.served.insert(round, Arc::new(database));
        self.watchers.ready(signed);
    }

    fn tell(&self, event: ServerEvent) {
        // Without an audience nothing is lost.
        let _ = self.surroundings.events.send(event);
    }
}

/// What a batch of commands brought that is to be stored before it is acknowledged.
#[derive(Default)]
struct Accepting {
    deposits: Vec<Deposit>,
    accounts: BTreeSet<Account>,
    /// Lots of slots that are begun with them, if any is.
    lots: Option<u32>,
    acknowledgements: Vec<Acknowledgement<()>>,
    registrations: Vec<Acknowledgement<Option<u32>>>,
}

/// What a round's database is built with.
struct Builder {
    engine: Arc<dyn Engine>,
    root: RootKey,
    compute: Compute,
    parameters: ServerParameters,
    population: Option<Population>,
    events: broadcast::Sender<ServerEvent>,
    /// Of a round that was published.
    profile: Option<Profile>,
}

impl Builder {
    fn of(surroundings: &RoundsDependencies) -> Self {
        let RoundsDependencies { engine, root, compute, parameters, population, events, .. } = surroundings;
        Self {
            engine: Arc::clone(engine),
            root: *root,
            compute: compute.clone(),
            parameters: parameters.clone(),
            population: *population,
            events: events.clone(),
            profile: None,
        }
    }
}

/// Builds a sealed round's database.
async fn build<L: RoundLog>(
    log: Arc<L>,
    builder: Builder,
    round: Round,
) -> Result<RoundDatabase, BuildError> {
    let Builder { engine, root, compute, parameters, population, events, profile } = builder;
    let mut sealed = log.sealed(round).await?;
    if let Some(population) = population {
        let slots = parameters.code.has_slots();
        let deposits = compute.run_own(move || population.deposits(round, slots)).await;
        sealed.deposits.extend(deposits.map_err(|_| BuildError::Compute)?);
        // Told apart from the building, which is what a server without simulated users does, too.
        let _ = events.send(ServerEvent::RoundPopulated { round, users: population.users });
    }
    compute
        .run_own(move || RoundDatabase::build_as(sealed, &*engine, &root, &parameters, profile))
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
