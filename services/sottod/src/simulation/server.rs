//! One life of a server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::noop;
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_log::testing::{Simulated, Verbs};
use sotto_log::{DurableLog, Options};
use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::limits::MESSAGE_MAX;
use sotto_wire::proto::sotto_server::SottoServer;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use super::host::{Clock, Simulated as Machine};
use super::ledger::Ledger;
use super::witness::Witness;
use super::world::{ROOT, World, rng};
use crate::answering::Room;
use crate::compute::Compute;
use crate::config::Config;
use crate::events::ServerEvent;
use crate::host::Host;
use crate::keys::Progress;
use crate::manifest_keys::Announcing;
use crate::metrics::Metrics;
use crate::rounds::{self, RoundsDependencies, RunError};
use crate::seeds::Seeds;
use crate::server::first_rounds;
use crate::service::{Announcement, Service, ServiceDependencies};
use crate::slots::{SlotKey, Vacancy};

/// The key under which all servers of a history sign.
pub(super) fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[0x5e; 32])
}

/// What a server is started with.
#[derive(Clone)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) config: Config,
    pub(super) parameters: ServerParameters,
    pub(super) segment_bytes: u64,
    /// Longest time that the disk usually takes for an order, ms.
    pub(super) disk_ms: u64,
    /// Longest time that a computation takes, ms.
    pub(super) compute_ms: u64,
    pub(super) clock: Clock,
    /// What the clock shows at the start, ms since 1970.
    pub(super) clock_base: i64,
}

pub(super) struct Server {
    calls: Arc<Service>,
    /// Ends with the server, and says why.
    pub(super) rounds: JoinHandle<Result<(), RunError>>,
    pub(super) closing: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) tracker: TaskTracker,
    deadlines: Arc<Deadlines>,
}

impl Server {
    /// As [`start`](crate::start) does it, but for the sockets.
    pub(super) fn start(
        conditions: &Conditions,
        disk: Simulated,
        world: &Arc<World>,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let Conditions { seed, config, parameters, segment_bytes, disk_ms, compute_ms, .. } = conditions;
        let life = world.life();
        let draw = |purpose: &str| rng(*seed, format_args!("{purpose} in life {life}"));
        // Two, so that what clients make the server draw does not change the seeds of rounds.
        let machine = |purpose: &str| -> Arc<dyn Host> {
            let Conditions { clock, clock_base, .. } = conditions;
            Arc::new(Machine::new(*clock, *clock_base, draw(purpose), draw("clock")))
        };
        let (own, of_calls) = (machine("seeds of rounds"), machine("sessions"));
        let compute = {
            let (dice, longest) = (Mutex::new(draw("computing")), *compute_ms);
            let duration = move || Duration::from_millis(dice.lock().unwrap().random_range(0..=longest));
            Compute::inline(config.limits.computing, duration)
        };
        let (tracker, closing, cut) =
            (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let events = broadcast::channel(256).0;
        let metrics = Arc::new(Metrics::new());
        let (first, least) = first_rounds(config, own.unix_now());
        let (progress, progress_of_rounds) = watch::channel(Progress { oldest: first, open: first });
        let announcing = Announcing::new(vec![signing_key()], None, parameters.clone(), [0; 64]);
        let (said, said_to_calls) = (announcing.hear(), announcing.hear());
        let surroundings = RoundsDependencies {
            engine: noop(),
            root: ROOT,
            parameters: parameters.clone(),
            announcing,
            seeds: Box::new(Drawn(*seed)),
            progress,
            token_required: false,
            vacancy: Vacancy::default(),
            first,
            least,
            deposits_max: config.limits.deposits,
            compute: compute.clone(),
            population: None,
            events: events.clone(),
            tracker: tracker.clone(),
            stop: cut.clone(),
            host: own,
            metrics: Arc::clone(&metrics),
            forward: None,
            place: None,
        };
        let opening = {
            let (world, ledger) = (Arc::clone(world), Arc::clone(ledger));
            let pace = pace(draw("disk"), *disk_ms, world);
            let mut salts = draw("salts");
            let salts = Box::new(move || Ok(salts.random()));
            let options = Options { segment_bytes: *segment_bytes, grouped: false, root: None, salts };
            async move {
                let log = DurableLog::start_inline(Arc::new(disk), options, pace).await?;
                ledger.found(&log.history());
                Ok(Witness { log, ledger, repeats: false })
            }
        };
        let deadlines = Arc::new(Deadlines {
            world: Arc::clone(world),
            length: Duration::from_millis(config.round_ms.into()),
            open: Mutex::default(),
            waiting: Mutex::default(),
            most: usize::from(config.retained.clamp(1, 2)),
        });
        tokio::spawn(Arc::clone(&deadlines).follow(events.subscribe()));
        let (rounds, rounds_task) = rounds::start(surroundings, opening);
        let room = Room::open(compute.clone(), said, &config.limits, &tracker, &cut);
        let slots = parameters.code.has_slots().then(|| SlotKey::new(Zeroizing::new([7; 32])));
        let announcement =
            Announcement { parameters: parameters.clone(), said: said_to_calls, tokens: None, slots };
        let means = ServiceDependencies {
            engine: noop(),
            rounds,
            compute,
            room,
            tracker: tracker.clone(),
            progress: progress_of_rounds,
            seeds: Arc::new(SeedTree::new(Round(0), vec![[0; 32]]).unwrap()),
            closing: closing.clone(),
            host: of_calls,
            metrics,
            key_files: None,
        };
        let challenge_key = Zeroizing::new(draw("challenges").random());
        let calls = Arc::new(Service::new(announcement, config.limits, challenge_key, means));
        Self { calls, rounds: rounds_task, closing, cut, tracker, deadlines }
    }

    /// What a connection speaks to.
    pub(super) fn service(&self) -> SottoServer<Service> {
        SottoServer::from_arc(Arc::clone(&self.calls))
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX)
    }

    /// Whether nobody's call holds a place that others may need.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_idle()
    }

    /// No round is open that should not be.
    pub(super) fn check_deadline(&self) {
        self.deadlines.check();
    }
}

/// Seeds for all rounds there can be: clocks that jump lead far.
pub(super) struct Drawn(pub(super) u64);

impl Seeds for Drawn {
    fn seed(&mut self, round: Round) -> Option<[u8; 32]> {
        Some(rng(self.0, format_args!("seed of round {round}")).random())
    }
}

/// What the first round of a new log counts from: the configuration of a server with a data directory.
pub(super) fn data() -> Option<PathBuf> {
    Some(PathBuf::new())
}

/// How long the disk takes, which now and then is very long.
fn pace(dice: StdRng, longest: u64, world: Arc<World>) -> impl Fn() -> Duration + Send + 'static {
    let dice = Mutex::new(dice);
    move || {
        let dice = &mut *dice.lock().unwrap();
        let long = dice.random_range(0..200) == 0;
        let duration = dice.random_range(0..=if long { 50 * longest } else { longest });
        let duration = Duration::from_millis(duration);
        world.busy(duration);
        duration
    }
}

/// Whether rounds end when they should: nothing may keep one open but the disk, and earlier ones that wait to be built. None is given up.
struct Deadlines {
    world: Arc<World>,
    length: Duration,
    open: Mutex<Option<(Round, Duration)>>,
    /// Sealed rounds that are not built, and when there were last too many.
    waiting: Mutex<(BTreeSet<Round>, Duration)>,
    most: usize,
}

/// Clocks of milliseconds, rounded.
const TOLERANCE: Duration = Duration::from_millis(5);

impl Deadlines {
    async fn follow(self: Arc<Self>, mut events: broadcast::Receiver<ServerEvent>) {
        while let Ok(event) = events.recv().await {
            match event {
                ServerEvent::RoundOpened { round } => {
                    self.world.note(format_args!("round {round} is open"));
                    *self.open.lock().unwrap() = Some((round, self.world.now()));
                }
                ServerEvent::RoundSealed { round, entries } => {
                    self.world.note(format_args!("round {round} is sealed with {entries}"));
                    self.check();
                    *self.open.lock().unwrap() = None;
                    self.waiting.lock().unwrap().0.insert(round);
                }
                ServerEvent::RoundPopulated { .. } => {}
                ServerEvent::RoundBuilt { round, bucket_size, mapping_bytes, setup_ms: _ } => {
                    self.world.note(format_args!("round {round} is built, {bucket_size} {mapping_bytes}"));
                    self.has_left(round);
                }
                ServerEvent::RoundAbandoned { round } => {
                    self.world.note(format_args!("round {round} is given up"));
                    self.world.violated(format_args!("round {round} is given up"));
                }
            }
        }
    }

    fn has_left(&self, round: Round) {
        let (waiting, full) = &mut *self.waiting.lock().unwrap();
        if waiting.len() >= self.most {
            *full = self.world.now();
        }
        waiting.remove(&round);
    }

    fn check(&self) {
        let Some((round, opened)) = *self.open.lock().unwrap() else { return };
        let full = {
            let (waiting, full) = &*self.waiting.lock().unwrap();
            if waiting.len() >= self.most { self.world.now() } else { *full }
        };
        let (now, deadline) = (self.world.now(), full.max(opened + self.length));
        let late = now.saturating_sub(deadline);
        let excused = if late.is_zero() { late } else { self.world.busy_between(deadline, now) };
        if late > excused + TOLERANCE {
            self.world.violated(format_args!(
                "round {round} was open for {late:?} too long, of which the disk took {excused:?}"
            ));
        }
    }
}
