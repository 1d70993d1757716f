//! A node whose log does what a script says: proposals stand, fail, or wait, and who leads is told.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mpir::noop;
use sotto_log::{
    Batch, Doing, Feed, LogError, MemoryLog, Proposal, ProposeError, Record, Role, RoundLog, SealedRound,
    Sequencer, Size, State, Tenure, TokenId,
};
use sotto_protocol::{CodeKind, Deposit, Round};
use sotto_wire::Refused;
use tokio::runtime::Builder;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::NodeId;
use crate::compute::Compute;
use crate::config::Config;
use crate::forward::{Forward, Forwarded, Lost};
use crate::keys::Progress;
use crate::manifest_keys::Announcing;
use crate::metrics::Metrics;
use crate::rounds::{self, Place, Rounds, RoundsDependencies, RunError};
use crate::simulation::host::{Clock, Simulated as Machine};
use crate::simulation::server::{Drawn, data, signing_key};
use crate::simulation::world::{ROOT, rng};
use crate::slots::Vacancy;

/// What becomes of a proposal.
pub(super) enum Fate {
    Stands,
    /// As openraft says it if the lease is over, or another node leads.
    Elsewhere,
    /// It stands once the script's gate is opened.
    Waits,
    /// It stands, and is heard of once the gate is opened.
    HeardLate,
    /// It came to nothing, as is known once the gate is opened.
    Fails,
    /// Nothing is heard of it.
    Never,
}

pub(super) type Judge = Box<dyn FnMut(&[Record]) -> Fate + Send>;

#[derive(Clone)]
pub(super) struct Scripted {
    pub(super) log: Arc<MemoryLog>,
    pub(super) role: Arc<watch::Sender<Role>>,
    pub(super) gate: Arc<watch::Sender<bool>>,
    pub(super) judge: Arc<Mutex<Judge>>,
}

impl Scripted {
    pub(super) fn new(judge: impl FnMut(&[Record]) -> Fate + Send + 'static) -> Self {
        Self {
            log: Arc::default(),
            role: Arc::new(watch::Sender::new(Role::Leads { term: 1 })),
            gate: Arc::new(watch::Sender::new(false)),
            judge: Arc::new(Mutex::new(Box::new(judge))),
        }
    }
}

impl Sequencer for Scripted {
    fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    #[expect(clippy::async_yields_async, reason = "as of every log")]
    fn propose(&self, records: Vec<Record>) -> Doing<'_, Proposal> {
        Box::pin(async move {
            // Whatever is written must be read again, or no node could go on.
            assert!(Batch(records.clone()).is_read_again(), "{records:?}");
            let fate = (self.judge.lock().unwrap())(&records);
            match fate {
                Fate::Stands => self.log.propose(records).await,
                Fate::Elsewhere => Box::pin(async { Err(ProposeError::Elsewhere) }),
                Fate::Fails => {
                    let mut gate = self.gate.subscribe();
                    Box::pin(async move {
                        let _ = gate.wait_for(|open| *open).await;
                        Err(ProposeError::Elsewhere)
                    })
                }
                Fate::HeardLate => {
                    let (mut gate, standing) = (self.gate.subscribe(), self.log.propose(records).await);
                    Box::pin(async move {
                        let _ = gate.wait_for(|open| *open).await;
                        standing.await
                    })
                }
                Fate::Never => Box::pin(core::future::pending()),
                Fate::Waits => {
                    let (log, mut gate) = (Arc::clone(&self.log), self.gate.subscribe());
                    Box::pin(async move {
                        let _ = gate.wait_for(|open| *open).await;
                        log.propose(records).await.await
                    })
                }
            }
        })
    }

    fn hand_over(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}

impl Feed for Scripted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.log.state()
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.log.changes()
    }

    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>> {
        Box::pin(async move { self.log.sealed(round).await })
    }
}

impl RoundLog for Scripted {
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>> {
        Box::pin(async move { Ok(()) })
    }

    fn size(&self) -> Size {
        Size::default()
    }

    fn failure(&self) -> LogError {
        self.log.failure()
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}

/// Nobody else answers: calls fail, or nothing is heard of them.
struct Nobody {
    silent: bool,
}

impl Nobody {
    fn answer<T: Send + 'static>(&self) -> Forwarded<T> {
        if self.silent { Box::pin(core::future::pending()) } else { Box::pin(async { Err(Lost) }) }
    }
}

impl Forward for Nobody {
    fn deposits(
        &self,
        _: u64,
        _: Vec<([u8; 32], Round, Deposit, Option<Tenure>)>,
    ) -> Forwarded<Vec<Result<(), Refused>>> {
        self.answer()
    }

    fn register(
        &self,
        _: u64,
        _: [u8; 32],
        _: Option<TokenId>,
        _: Option<Tenure>,
    ) -> Forwarded<Result<Option<Tenure>, Refused>> {
        self.answer()
    }

    fn close(&self, _: u64, _: [u8; 32], _: Option<Tenure>) -> Forwarded<Result<(), Refused>> {
        self.answer()
    }

    fn place(&self, _: u64, _: Place) -> Forwarded<()> {
        self.answer()
    }
}

pub(super) struct Stage {
    pub(super) rounds: Rounds,
    pub(super) task: JoinHandle<Result<(), RunError>>,
    pub(super) stop: CancellationToken,
}

pub(super) struct Setting {
    pub(super) tokens: bool,
    pub(super) slots: bool,
    pub(super) grouped: bool,
    pub(super) round_ms: u32,
    pub(super) silent: bool,
}

pub(super) const SLOTS: Setting =
    Setting { tokens: false, slots: true, grouped: true, round_ms: 600_000, silent: false };
pub(super) const TOKENS: Setting =
    Setting { tokens: true, slots: false, grouped: true, round_ms: 600_000, silent: false };

pub(super) fn start(setting: &Setting, log: Scripted, life: usize) -> Stage {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.allow_no_privacy = true;
    config.round_ms = setting.round_ms;
    (config.retrieve, config.retained) = (2, 2);
    (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
    config.data = data();
    (config.limits.threads, config.limits.computing) = (1, 2);
    if setting.slots {
        config.code = CodeKind::Partitioned;
    }
    let key = signing_key().verifying_key().to_bytes();
    let parameters = config.parameters(&*noop(), key).unwrap();
    let draw = |purpose: &str| rng(1, format_args!("{purpose} in life {life}"));
    let host = Machine::new(Clock::Right, 1_770_000_000_000, draw("host"), draw("clock"));
    let first = Round(100);
    let stop = CancellationToken::new();
    let surroundings = RoundsDependencies {
        engine: noop(),
        root: ROOT,
        parameters: parameters.clone(),
        announcing: Announcing::new(vec![signing_key()], None, parameters.clone(), [0; 64]),
        seeds: Box::new(Drawn(1)),
        progress: watch::Sender::new(Progress { oldest: first, open: first }),
        token_required: setting.tokens,
        vacancy: Vacancy { epoch_rounds: 2, slots: 2 },
        first,
        least: first,
        deposits_max: config.limits.deposits,
        compute: Compute::inline(config.limits.computing, || Duration::ZERO),
        population: None,
        events: broadcast::channel(256).0,
        tracker: TaskTracker::new(),
        stop: stop.clone(),
        host: Arc::new(host),
        metrics: Arc::new(Metrics::new()),
        forward: setting.grouped.then(|| Arc::new(Nobody { silent: setting.silent }) as Arc<dyn Forward>),
        place: setting.grouped.then(|| Place { this: NodeId::Voter(1), authority: "node1:7370".into() }),
    };
    let (rounds, task) = rounds::start(surroundings, async { Ok(log) });
    Stage { rounds, task, stop }
}

pub(super) fn play(history: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(history);
}

pub(super) async fn soon() {
    sleep(Duration::from_millis(5)).await;
}

pub(super) fn has(records: &[Record], which: fn(&Record) -> bool) -> bool {
    records.iter().any(which)
}

pub(super) const A: [u8; 32] = [1; 32];
pub(super) const B: [u8; 32] = [2; 32];
pub(super) const TOKEN: TokenId = [7; 16];
