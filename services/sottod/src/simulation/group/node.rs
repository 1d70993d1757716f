//! One life of one node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::Engine;
use rand::RngExt;
use sotto_log::testing::Simulated;
use sotto_log::{DurableLog, FollowingLog, Group, Options};
use sotto_protocol::ServerParameters;
use sotto_wire::RootKey;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::net::{Net, Way};
use super::upstream::Upstreams;
use crate::cluster::NodeId;
use crate::compute::Compute;
use crate::config::Config;
use crate::host::Host;
use crate::keys::Progress;
use crate::manifest_keys::Announcing;
use crate::metrics::{Metrics, SharedMetrics};
use crate::peers::Member;
use crate::rounds::{self, Place, RoundsDependencies, RunError};
use crate::simulation::host::{Clock, Simulated as Machine};
use crate::simulation::ledger::Ledger;
use crate::simulation::server::{Drawn, signing_key};
use crate::simulation::witness::Witness;
use crate::simulation::world::{World, rng};
use crate::slots::Vacancy;

/// What all nodes share.
pub(super) struct Cluster {
    pub(super) seed: u64,
    /// Those that vote, and then those that do not.
    pub(super) voters: u64,
    pub(super) answerers: u64,
    pub(super) config: Config,
    pub(super) parameters: ServerParameters,
    pub(super) root: RootKey,
    /// What the program of a node computes with.
    pub(super) engine_of: fn(u64) -> Arc<dyn Engine>,
    /// The manifest key that is to follow, and who lacks its secret.
    pub(super) next_key: Option<SigningKey>,
    pub(super) without: Option<u64>,
    pub(super) net: Net,
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) segment_bytes: u64,
    /// Longest time that a disk usually takes for an order, ms.
    pub(super) disk_ms: Longest,
    pub(super) compute_ms: Longest,
}

/// Longest time that something takes, ms; it may change while nodes live.
pub(super) type Longest = Arc<AtomicU64>;

pub(super) struct Node {
    pub(super) disk: Simulated,
    pub(super) rounds: JoinHandle<Result<(), RunError>>,
    pub(super) metrics: SharedMetrics,
    power: CancellationToken,
    stop: CancellationToken,
}

impl Cluster {
    /// How many there are.
    pub(super) fn nodes(&self) -> u64 {
        self.voters + self.answerers
    }
}

/// Every second machine has a clock that is wrong, in all its lives.
fn clock_of(seed: u64, number: u64) -> Clock {
    let dice = &mut rng(seed, format_args!("clock of node {number}"));
    if dice.random() { Clock::Right } else { Clock::ALL[dice.random_range(0..Clock::ALL.len())] }
}

/// Where people find a node.
pub(super) fn place(number: u64) -> String {
    format!("node{number}:7370")
}

impl Node {
    pub(super) fn start(cluster: &Cluster, number: u64, life: usize, disk: Simulated) -> Self {
        let Cluster { seed, voters, config, parameters, net, world, ledger, .. } = cluster;
        let draw = |purpose: &str| rng(*seed, format_args!("{purpose} of node {number} in life {life}"));
        let power = CancellationToken::new();
        {
            let (world, power) = (Arc::clone(world), power.clone());
            disk.observe(move |what, _| {
                if !power.is_cancelled() {
                    world.note(format_args!("node {number} disk: {what}"));
                }
            });
        }
        let host: Arc<dyn Host> =
            Arc::new(Machine::new(clock_of(*seed, number), 1_770_000_000_000, draw("host"), draw("clock")));
        let compute = {
            let (dice, longest) = (Mutex::new(draw("computing")), Arc::clone(&cluster.compute_ms));
            let duration = move || {
                let longest = longest.load(Ordering::Relaxed);
                Duration::from_millis(dice.lock().unwrap().random_range(0..=longest))
            };
            Compute::inline(config.limits.computing, duration)
        };
        let (first, least) = crate::server::first_rounds(config, host.unix_now());
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::new());
        let way = Way { net: net.clone(), from: number, power: power.clone() };
        let next_key = cluster.next_key.clone().filter(|_| cluster.without != Some(number));
        let keys = [signing_key()].into_iter().chain(next_key).collect();
        let surroundings = RoundsDependencies {
            engine: (cluster.engine_of)(number),
            root: cluster.root,
            parameters: parameters.clone(),
            announcing: Announcing::new(keys, None, parameters.clone(), [0; 64]),
            seeds: Box::new(Drawn(*seed)),
            progress: watch::Sender::new(Progress { oldest: first, open: first }),
            token_required: false,
            // So that it happens within a history.
            vacancy: Vacancy { epoch_rounds: 3, slots: 2 },
            first,
            least,
            deposits_max: config.limits.deposits,
            compute,
            population: None,
            events: broadcast::channel(256).0,
            tracker: TaskTracker::new(),
            stop: stop.clone(),
            host,
            metrics: Arc::clone(&metrics),
            forward: Some(Arc::new(way.clone())),
            place: Some(Place { this: NodeId::Voter(number), authority: place(number) }),
        };
        let options = {
            let mut salts = draw("salts");
            let salts = Box::new(move || Ok(salts.random()));
            Options { segment_bytes: cluster.segment_bytes, grouped: true, root: Some(cluster.root), salts }
        };
        let (dice, longest) = (Mutex::new(draw("disk")), Arc::clone(&cluster.disk_ms));
        let pace = move || {
            let (dice, longest) = (&mut *dice.lock().unwrap(), longest.load(Ordering::Relaxed));
            let long = dice.random_range(0..100) == 0;
            Duration::from_millis(dice.random_range(0..=if long { 30 * longest } else { longest }))
        };
        let (joined, alive) = (net.clone(), power.clone());
        let joining = move |raft, kept, role| {
            if !alive.is_cancelled() {
                joined.joined(number, Member { raft, kept, role });
            }
        };
        let (log_disk, ledger) = (Arc::new(disk.clone()), Arc::clone(ledger));
        let (handle, rounds) = if number <= *voters {
            let members: BTreeMap<u64, String> =
                (1..=*voters).map(|number| (number, format!("node{number}:1"))).collect();
            let joining = Box::new(move |raft, kept, role| joining(Some(raft), kept, role));
            let group = Group { number, members, joins: false, network: Box::new(way), joining };
            rounds::start(surroundings, async move {
                let log = DurableLog::start_in_inline(group, log_disk, options, pace).await?;
                Ok(Witness { log, ledger, repeats: true })
            })
        } else {
            let mut candidates: Vec<u64> = (1..number).collect();
            candidates.rotate_left((number % *voters) as usize);
            let upstreams = Upstreams { way, world: Arc::clone(world), candidates };
            let joining = move |kept, role| joining(None, kept, role);
            rounds::start(surroundings, async move {
                let log = FollowingLog::start_inline(upstreams, joining, log_disk, options, pace).await?;
                Ok(Witness { log, ledger, repeats: true })
            })
        };
        net.serves(number, handle);
        Self { disk, rounds, metrics, power, stop }
    }

    /// It is told to end; whether it does within the time that it has for that.
    pub(super) async fn end(&mut self) -> bool {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(3), &mut self.rounds).await.is_ok()
    }

    /// The machine loses its power: nothing leaves it any more, and its disk keeps what it has.
    pub(super) fn crash(self, net: &Net, number: u64, seed: u64, kill: bool) -> Simulated {
        self.power.cancel();
        net.gone(number);
        let left = if kill { self.disk.after_kill() } else { self.disk.survivor(seed) };
        // What the old process still does, it does to a disk that is not there.
        self.disk.crash_at(Some(0));
        self.stop.cancel();
        left
    }
}
