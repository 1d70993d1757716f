//! A seed's world, and its history over several lives of a server.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sotto_log::testing::Simulated;
use sotto_protocol::{CodeKind, ServerParameters};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::host::Clock;
use super::hostile::torment;
use super::ledger::{Figures, Ledger};
use super::member::{Habit, Member, Presence};
use super::network::{Line, Weather};
use super::server::{Conditions, Server, data, signing_key};
use super::world::{World, rng};
use crate::config::{Config, Limits};

use mpir::noop;

/// How a life of a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The power fails in the disk operation with this number, or at the end of its time.
    Power(usize),
    /// The disk fails in this operation, and the server must notice.
    Disk(usize),
    /// The process is killed in this operation, or at the end of its time, and the machine goes on.
    Kill(usize),
    /// It is told to end.
    Shutdown,
}

impl End {
    /// Not before the end of its time.
    pub(super) const NEVER: Self = Self::Kill(usize::MAX);
}

/// One life of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) ms: u64,
    pub(super) end: End,
    pub(super) clock: Clock,
    pub(super) clock_base: i64,
    /// It is started as after a restored backup.
    pub(super) restored: bool,
}

/// Everything that a history follows from.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) round_ms: u32,
    pub(super) retained: u8,
    pub(super) retrieve: u16,
    pub(super) slots: bool,
    pub(super) segment_bytes: u64,
    pub(super) disk_ms: u64,
    pub(super) compute_ms: u64,
    pub(super) members: Vec<(Habit, Weather)>,
    pub(super) hostile: Option<Weather>,
    pub(super) lives: Vec<Life>,
}

/// What came of a scenario.
pub(super) struct History {
    pub(super) trace: Vec<String>,
    pub(super) violations: Vec<String>,
    /// What each member saw.
    pub(super) views: Vec<Vec<String>>,
    /// Disk operations in each life.
    pub(super) operations: Vec<usize>,
    pub(super) figures: Figures,
}

/// 2026, ms since 1970.
pub(super) const TODAY: i64 = 1_770_000_000_000;

impl Life {
    pub(super) fn calm(ms: u64, end: End) -> Self {
        Self { ms, end, clock: Clock::Right, clock_base: TODAY, restored: false }
    }

    fn random(dice: &mut StdRng, round_ms: u64) -> Self {
        let end = match dice.random_range(0..10) {
            0..=4 => End::Power(dice.random_range(0..200)),
            5 => End::Disk(dice.random_range(0..200)),
            6..=7 => End::Kill(dice.random_range(0..200)),
            _ => End::Shutdown,
        };
        Self {
            ms: dice.random_range(round_ms / 2..12 * round_ms),
            end,
            clock: Clock::ALL[dice.random_range(0..Clock::ALL.len())],
            clock_base: [0, TODAY / 2, TODAY, TODAY + TODAY / 100][dice.random_range(0..4)],
            restored: dice.random_range(0..5) == 0,
        }
    }
}

impl Scenario {
    /// Members that keep to the protocol, a server that is never interrupted, and nothing that fails.
    pub(super) fn calm(seed: u64) -> Self {
        let habits = [Habit::Deposits, Habit::Retrieves, Habit::Retrieves, Habit::Silent];
        Self {
            seed,
            round_ms: 1000,
            retained: 2,
            retrieve: 4,
            slots: false,
            segment_bytes: 1 << 20,
            disk_ms: 0,
            compute_ms: 0,
            members: habits.map(|habit| (habit, Weather::CALM)).to_vec(),
            hostile: None,
            lives: vec![Life::calm(8000, End::NEVER)],
        }
    }

    /// Anything that can happen.
    pub(super) fn random(seed: u64) -> Self {
        let dice = &mut rng(seed, "scenario");
        let round_ms: u32 = dice.random_range(300..2000);
        let member = |dice: &mut StdRng| {
            let habit = Habit::ALL[dice.random_range(0..Habit::ALL.len())];
            (habit, Weather::random(dice, round_ms.into()))
        };
        let members = (0..dice.random_range(4..11)).map(|_| member(dice)).collect();
        Self {
            seed,
            round_ms,
            retained: dice.random_range(1..=4),
            retrieve: dice.random_range(2..=4),
            slots: seed.is_multiple_of(2),
            segment_bytes: if dice.random() { 4 << 10 } else { 1 << 20 },
            disk_ms: [0, 1, 10, 40][dice.random_range(0..4)],
            compute_ms: [0, 50, u64::from(round_ms), 5 * u64::from(round_ms)][dice.random_range(0..4)],
            members,
            hostile: dice.random::<bool>().then(|| Weather::random(dice, round_ms.into())),
            lives: (0..dice.random_range(2..6)).map(|_| Life::random(dice, round_ms.into())).collect(),
        }
    }

    /// A small one with all that goes to the disk: deposits, accounts, all that becomes of rounds, snapshots.
    pub(super) fn small(seed: u64, ends: impl IntoIterator<Item = End>) -> Self {
        let rough = Weather { unanswered: 100, repeated: 100, way_ms: 30, late_ms: 1500, ..Weather::CALM };
        let calm = Self::calm(seed);
        let members = calm.members.iter().map(|(habit, _)| (*habit, rough));
        Self {
            retained: 1,
            segment_bytes: 2 << 10,
            disk_ms: 3,
            compute_ms: 100,
            members: members.collect(),
            lives: ends.into_iter().map(|end| Life::calm(5500, end)).collect(),
            ..calm
        }
    }

    fn config(&self) -> Config {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        config.allow_no_privacy = true;
        config.round_ms = self.round_ms;
        config.retrieve = self.retrieve;
        if self.slots {
            config.code = CodeKind::Partitioned;
        }
        config.retained = self.retained;
        (config.deposit_ms, config.lookup_ms, config.query_ms) = (self.round_ms / 8, 0, 0);
        config.data = data();
        // What the machine that runs this has does not count.
        (config.limits.threads, config.limits.computing) = (1, 2);
        config.limits.stall = Duration::from_secs(2);
        config.limits.call = Duration::from_secs(5);
        config
    }

    /// Lets it happen, restarts the server once more with nothing failing, and judges.
    pub(super) fn run(&self) -> History {
        let config = self.config();
        let key = signing_key().verifying_key().to_bytes();
        let parameters = config.parameters(&*noop(), key).unwrap();
        let world = Arc::new(World::default());
        let ledger = Arc::new(Ledger::new(Arc::clone(&world), parameters.clone()));
        let member = |(number, (habit, weather)): (u8, &(Habit, Weather))| {
            (Arc::new(Member::new(self.seed, number, *habit, parameters.clone())), *weather)
        };
        let mut play = Play {
            scenario: self,
            config,
            members: (1..).zip(&self.members).map(member).collect(),
            parameters,
            world,
            ledger,
            disk: Simulated::default(),
        };
        let mut operations: Vec<usize> = self.lives.iter().map(|life| play.live(life, true)).collect();
        let quiet = Scenario { disk_ms: 0, compute_ms: 0, hostile: None, ..self.clone() };
        let mut last = Play { scenario: &quiet, ..play };
        operations.push(last.live(&Life::calm(3 * u64::from(self.round_ms), End::Shutdown), false));
        let figures = last.ledger.judge(&key);
        let (trace, violations) = last.world.finish();
        let views = last.members.iter().map(|(member, _)| member.view()).collect();
        History { trace, violations, views, operations, figures }
    }
}

impl Weather {
    fn random(dice: &mut StdRng, round_ms: u64) -> Self {
        let mut often = || [0, 0, 20, 50, 100, 300][dice.random_range(0..6)];
        Self {
            lost: often(),
            unanswered: often(),
            repeated: often(),
            abandoned: often(),
            torn: often(),
            cut: often(),
            late: often(),
            way_ms: dice.random_range(1..round_ms / 10),
            late_ms: 3 * round_ms,
        }
    }
}

/// A scenario under way.
struct Play<'a> {
    scenario: &'a Scenario,
    config: Config,
    parameters: ServerParameters,
    members: Vec<(Arc<Member>, Weather)>,
    world: Arc<World>,
    ledger: Arc<Ledger>,
    disk: Simulated,
}

impl Play<'_> {
    /// One life of the server; the number of its disk operations.
    fn live(&mut self, life: &Life, visited: bool) -> usize {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let power = self.world.begin();
            self.world.note(format_args!("life {} {life:?}", self.world.life()));
            self.watch_disk(life.end);
            let mut server =
                Server::start(&self.conditions(life), self.disk.clone(), &self.world, &self.ledger);
            let mut clients = if visited { self.clients(&server) } else { JoinSet::new() };
            let ended = tokio::select! {
                biased;
                () = power.cancelled() => None,
                ended = &mut server.rounds => Some(ended),
                () = sleep(Duration::from_millis(life.ms)) => None,
            };
            match ended {
                None if life.end == End::Shutdown => self.shut_down(server, &mut clients).await,
                None if power.is_cancelled() => {}
                None => server.check_deadline(),
                Some(ended) if self.disk.crashed() && matches!(&ended, Ok(Err(_))) => {
                    self.world.note(format_args!("the server ends: {ended:?}"));
                    // Until the process has ended, its calls are answered as they are.
                    sleep(Duration::from_millis(100)).await;
                }
                Some(ended) => self.world.violated(format_args!("the server ended by itself: {ended:?}")),
            }
            while let Some(client) = clients.try_join_next() {
                if client.is_err_and(|error| error.is_panic()) {
                    self.world.violated("a client did not understand its server");
                }
            }
            self.world.end();
        });
        drop(runtime);
        let operations = self.disk.trace().len();
        let torn = self.scenario.seed ^ (operations as u64) << 32;
        self.disk = match life.end {
            End::Power(_) | End::Disk(_) => self.disk.survivor(torn),
            End::Kill(_) | End::Shutdown => self.disk.after_kill(),
        };
        operations
    }

    fn conditions(&self, life: &Life) -> Conditions {
        let Scenario { seed, segment_bytes, disk_ms, compute_ms, .. } = *self.scenario;
        Conditions {
            seed,
            config: Config { restored: life.restored, ..self.config.clone() },
            parameters: self.parameters.clone(),
            segment_bytes,
            disk_ms,
            compute_ms,
            clock: life.clock,
            clock_base: life.clock_base,
        }
    }

    fn watch_disk(&self, end: End) {
        let world = Arc::clone(&self.world);
        self.disk.observe(move |what, crashed| {
            world.note(format_args!("disk: {what}"));
            match end {
                End::Power(_) | End::Kill(_) if crashed => world.cut_power(),
                _ if crashed => world.ending(),
                _ => {}
            }
        });
        if let End::Power(at) | End::Disk(at) | End::Kill(at) = end {
            self.disk.crash_at(Some(at));
        }
    }

    fn clients(&self, server: &Server) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        let shared = || (Arc::clone(&self.world), Arc::clone(&self.ledger));
        let life = self.world.life();
        let line = |name: String, weather| {
            let dice = rng(self.scenario.seed, format_args!("line {name} in life {life}"));
            Line::new(name, server.service(), weather, dice, shared())
        };
        for (number, (member, weather)) in self.members.iter().enumerate() {
            let line = line(format!("member {}", number + 1), *weather);
            clients.spawn(Presence::new(member, line, shared()).live());
        }
        if let Some(weather) = self.scenario.hostile {
            let line = line("hostile".to_owned(), weather);
            let world = Arc::clone(&self.world);
            clients.spawn(torment(self.scenario.seed, line, world, self.parameters.clone()));
        }
        clients
    }

    /// As [`Running::shutdown`](crate::Running::shutdown) does it, after all clients have gone.
    async fn shut_down(&self, server: Server, clients: &mut JoinSet<()>) {
        if !clients.is_empty() {
            clients.abort_all();
            let Limits { call, stall, .. } = self.config.limits;
            // What arrives late, and then all that it may take.
            sleep(Duration::from_millis(4 * u64::from(self.scenario.round_ms)) + 2 * (call + stall)).await;
            if !server.is_idle() {
                self.world.violated("a call holds its place for ever");
            }
        }
        server.check_deadline();
        self.world.ending();
        server.closing.cancel();
        sleep(Duration::from_millis(u64::from(self.scenario.round_ms) / 4)).await;
        server.cut.cancel();
        let ended = timeout(Duration::from_secs(60), server.rounds).await;
        if !matches!(ended, Ok(Ok(Ok(())))) {
            self.world.violated(format_args!("the server did not end in order: {ended:?}"));
        }
        server.tracker.close();
    }
}
