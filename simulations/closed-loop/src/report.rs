//! What a closed loop has measured, for people and for programs.

use anyhow::ensure;
use hdrhistogram::Histogram;
use pir_core::ring::Backend;
use serde::Serialize;
use sotto_measuring::cpu::Stages;
use sotto_measuring::machine::Machine;
use sotto_measuring::proxy::Traffic;

use crate::check::Check;
use crate::client::{Counts, Payload};
use crate::config::Config;
use crate::lines::{Bench, Snapshot, Spent};

/// The most that a server may add to the bare stages.
pub(crate) const OVERHEAD_MAX: f64 = 1.15;
/// Below so much CPU time, all rounds together say nothing about what a server adds.
const OVERHEAD_MS_MIN: f64 = 2000.0;

/// What a whole run has measured.
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    pub(crate) rounds: Vec<Round>,
    pub(crate) buckets: usize,
    pub(crate) bucket_size: usize,
    pub(crate) latencies: Histogram<u64>,
    pub(crate) key_bytes: u64,
    /// In the sockets while clients registered and uploaded keys.
    pub(crate) entering: Traffic,
    /// Before any client, when all of them had uploaded their keys, and at the end.
    pub(crate) memory: [Snapshot; 3],
    /// Of one answer of the last round.
    pub(crate) check: Check,
    pub(crate) warnings: Vec<String>,
}

/// One round of all clients.
pub(crate) struct Round {
    pub(crate) round: u64,
    /// From the release of the clients to the last answer judged.
    pub(crate) all: Spent,
    /// Until the round was sealed: deposits.
    pub(crate) deposits: Spent,
    /// Making up the simulated users' deposits.
    pub(crate) population: Spent,
    pub(crate) setup: Spent,
    /// From the publication of the round until every client had its answers.
    pub(crate) retrieval: Spent,
    pub(crate) counts: Counts,
    pub(crate) payload: Payload,
    pub(crate) traffic: Traffic,
    pub(crate) clients_cpu_ms: f64,
    /// The bare stages after this round, if they are wanted.
    pub(crate) bench: Option<Bench>,
}

/// Means over the measured rounds, unless it says otherwise. Server times are CPU time of the server's process.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    /// What was run.
    pub config: Config,
    pub(crate) engine: &'static str,
    pub(crate) threads: usize,
    /// The arithmetic kernel in use.
    pub kernel: &'static str,
    pub(crate) machine: Machine,
    /// Of a round.
    pub buckets: usize,
    /// Elements of each, padding included.
    pub bucket_size: usize,
    /// Retrieved by all real clients, by the clock on the wall, with all they do themselves.
    pub(crate) messages_per_minute: f64,
    /// What the server's time for deposits and retrieval allows on all its threads, when clients take none of it.
    pub(crate) messages_per_minute_by_server_cpu: f64,
    /// Of the server, from deposits to answers; set-up is apart, since it is shared by all users.
    pub core_seconds_per_client_round: f64,
    pub(crate) core_ms_per_message: f64,
    /// The same with the set-up shared by all users.
    pub(crate) core_ms_per_message_with_setup: f64,
    pub(crate) setup_wall_ms: f64,
    /// Of a round.
    pub setup_cpu_ms: f64,
    pub(crate) round_wall_ms: f64,
    /// Of all clients, per client and round.
    pub client_cpu_ms: f64,
    /// Per client and round.
    pub stages_ms: ServerStages,
    pub(crate) latency_ms: Latency,
    /// Per client and round, keys once.
    pub bytes: Bytes,
    /// One, by one client, after the last round.
    pub(crate) check: Check,
    /// At the end, unless it says otherwise.
    pub memory: Memory,
    /// What the server takes over the bare stages, as all of these of them; None without them.
    pub(crate) overhead: Option<f64>,
    pub(crate) overhead_retrieval: Option<f64>,
    pub(crate) overhead_setup: Option<f64>,
    /// Whether there was enough work to say anything about it.
    pub(crate) overhead_meaningful: bool,
    pub(crate) bench_ms: Option<Bench>,
    pub(crate) retrieved_per_client_round: f64,
    /// In all rounds together.
    #[serde(flatten)]
    pub counts: Counts,
    pub(crate) by_round: Vec<RoundReport>,
    pub(crate) warnings: Vec<String>,
}

/// Where the server's time goes, per client and round, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerStages {
    #[serde(flatten)]
    pub(crate) answer: Stages,
    /// Everything else between publication and last answer: TLS, HTTP, mappings, queries.
    pub other: f64,
    /// Everything until the round is sealed.
    pub deposits: f64,
}

/// From a client's multi-query to the last byte of its answers, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// What goes over the network.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bytes {
    /// Public keys.
    pub keys_once: f64,
    /// Label or knock, and box.
    pub deposit: f64,
    /// From labels to positions; none with slots.
    pub mapping: f64,
    /// Public, the same for everybody; none with most engines.
    pub hint: f64,
    /// The multi-query.
    pub query: f64,
    /// To all of it.
    pub answer: f64,
    /// In the TCP streams, beyond those.
    pub(crate) overhead: f64,
    /// In the TCP streams, all in all, from the client.
    pub socket_up: f64,
    /// The same, to the client.
    pub socket_down: f64,
    /// In the TCP streams for connection, registration and keys, once.
    pub(crate) socket_once: f64,
}

/// What the server's process holds, bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// VmHWM at the end: two rounds at a time, while one is built, and what building takes.
    pub peak: u64,
    /// Prepared buckets of the round that is kept.
    pub(crate) databases: u64,
    pub(crate) mappings: u64,
    /// By how much uploading all keys made the process grow.
    pub(crate) keys: u64,
    /// At the end of the last round.
    pub(crate) resident: u64,
}

/// One round. CPU time is the server's.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RoundReport {
    pub(crate) round: u64,
    pub(crate) wall_ms: f64,
    pub(crate) deposits_cpu_ms: f64,
    pub(crate) setup_wall_ms: f64,
    pub(crate) setup_cpu_ms: f64,
    pub(crate) retrieval_wall_ms: f64,
    pub(crate) retrieval_cpu_ms: f64,
    pub(crate) expand_ms: f64,
    pub(crate) first_dimension_ms: f64,
    pub(crate) rest_ms: f64,
    pub(crate) clients_cpu_ms: f64,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    pub(crate) retrieved: u64,
    pub(crate) bare_setup_cpu_ms: Option<f64>,
    pub(crate) bare_retrieval_cpu_ms: Option<f64>,
}

impl Report {
    pub(crate) fn new(config: &Config, measured: Measured) -> anyhow::Result<Self> {
        let Measured { engine, rounds, buckets, bucket_size, latencies, memory, check, warnings, .. } =
            measured;
        ensure!(!rounds.is_empty(), "no round was measured");
        let (count, clients) = (rounds.len() as f64, f64::from(config.clients));
        let mean = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>() / count;
        let per_client = |of: fn(&Round) -> f64| mean(of) / clients;
        let counts: Counts = rounds.iter().map(|round| round.counts).sum();
        let payload: Payload = rounds.iter().map(|round| round.payload).sum();
        let traffic: Traffic = rounds.iter().map(|round| round.traffic).sum();
        let bench: Option<Vec<Bench>> = rounds.iter().map(|round| round.bench).collect();
        let bench_ms = bench.map(|bench| bench.into_iter().sum::<Bench>() * (1.0 / count));

        // Making up messages is the simulation's work, not the server's, and takes none of its time.
        let round_wall_ms = mean(|round| round.all.wall_ms - round.population.wall_ms);
        let retrieval = mean(|round| round.retrieval.cpu_ms);
        let setup_cpu_ms = mean(|round| round.setup.cpu_ms);
        let serving = per_client(|round| round.deposits.cpu_ms + round.retrieval.cpu_ms);
        let per_message = serving / f64::from(config.retrieve);
        let in_users = f64::from(config.users) * f64::from(config.retrieve);
        let answers = rounds.iter().map(|round| round.retrieval.stages).sum::<Stages>();
        let percentile = |share| latencies.value_at_quantile(share) as f64 / 1e3;
        let each = |bytes: u64| bytes as f64 / (count * clients);
        let once = |bytes: u64| bytes as f64 / clients;
        let contents = payload.deposit + payload.mapping + payload.hint + payload.query + payload.answer;
        let [empty, entered, end] = memory;
        Ok(Self {
            config: config.clone(),
            engine,
            threads: config.threads(),
            kernel: Backend::active().name(),
            machine: Machine::here(),
            buckets,
            bucket_size,
            messages_per_minute: counts.retrieved as f64 / count / (round_wall_ms / 60e3),
            messages_per_minute_by_server_cpu: config.threads() as f64 * 60e3 / per_message,
            core_seconds_per_client_round: serving / 1e3,
            core_ms_per_message: per_message,
            core_ms_per_message_with_setup: per_message + setup_cpu_ms / in_users,
            setup_wall_ms: mean(|round| round.setup.wall_ms),
            setup_cpu_ms,
            round_wall_ms,
            client_cpu_ms: per_client(|round| round.clients_cpu_ms),
            stages_ms: ServerStages {
                answer: answers * (1.0 / count / clients),
                other: per_client(|round| round.retrieval.cpu_ms - round.retrieval.stages.total()),
                deposits: per_client(|round| round.deposits.cpu_ms),
            },
            latency_ms: Latency {
                p50: percentile(0.5),
                p90: percentile(0.9),
                p99: percentile(0.99),
                max: latencies.max() as f64 / 1e3,
            },
            bytes: Bytes {
                keys_once: once(measured.key_bytes),
                deposit: each(payload.deposit),
                mapping: each(payload.mapping),
                hint: each(payload.hint),
                query: each(payload.query),
                answer: each(payload.answer),
                overhead: each(traffic.up) + each(traffic.down) - each(contents),
                socket_up: each(traffic.up),
                socket_down: each(traffic.down),
                socket_once: once(measured.entering.up + measured.entering.down),
            },
            check,
            memory: Memory {
                peak: end.peak_bytes,
                databases: end.database_bytes,
                mappings: each(payload.mapping) as u64,
                keys: entered.resident_bytes.saturating_sub(empty.resident_bytes),
                resident: end.resident_bytes,
            },
            overhead: bench_ms.map(|bench| (retrieval + setup_cpu_ms) / (bench.answer + bench.setup())),
            overhead_retrieval: bench_ms.map(|bench| retrieval / bench.answer),
            overhead_setup: bench_ms.map(|bench| setup_cpu_ms / bench.setup()),
            overhead_meaningful: retrieval * count >= OVERHEAD_MS_MIN,
            bench_ms,
            retrieved_per_client_round: each(counts.retrieved),
            counts,
            by_round: rounds.iter().map(RoundReport::of).collect(),
            warnings,
        })
    }

    /// Whether everything that was retrieved is what was sent, and nothing that was sent is gone.
    ///
    /// # Errors
    /// If not.
    pub fn ensure_sound(&self) -> anyhow::Result<()> {
        let Counts { wrong, missing, .. } = self.counts;
        ensure!(wrong == 0, "{wrong} retrieved messages are not what was sent");
        ensure!(missing == 0, "{missing} messages were sent and are not in their rounds");
        Ok(())
    }
}

impl RoundReport {
    fn of(round: &Round) -> Self {
        let Stages { expand, first_dimension, rest } = round.retrieval.stages;
        Self {
            round: round.round,
            wall_ms: round.all.wall_ms - round.population.wall_ms,
            deposits_cpu_ms: round.deposits.cpu_ms,
            setup_wall_ms: round.setup.wall_ms,
            setup_cpu_ms: round.setup.cpu_ms,
            retrieval_wall_ms: round.retrieval.wall_ms,
            retrieval_cpu_ms: round.retrieval.cpu_ms,
            expand_ms: expand,
            first_dimension_ms: first_dimension,
            rest_ms: rest,
            clients_cpu_ms: round.clients_cpu_ms,
            bytes_up: round.traffic.up,
            bytes_down: round.traffic.down,
            retrieved: round.counts.retrieved,
            bare_setup_cpu_ms: round.bench.map(|bench| bench.setup()),
            bare_retrieval_cpu_ms: round.bench.map(|bench| bench.answer),
        }
    }
}
