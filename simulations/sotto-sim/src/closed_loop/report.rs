//! What a closed loop has measured, for people and for programs.

mod files;

use anyhow::ensure;
use pir_core::ring::Backend;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::lines::Bench;
use super::measured::{Measured, RoundMeasured};
use super::{Code, Config};
use crate::machine::Machine;

pub(super) use files::{comparison, json, write};

/// The most that a server may add to the bare stages.
pub(crate) const OVERHEAD_MAX: f64 = 1.15;
/// Below so much CPU time, all rounds together say nothing about what a server adds.
const OVERHEAD_MS_MIN: f64 = 2000.0;

/// Means over the measured rounds, unless it says otherwise. Server times are CPU time of the server's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) users: u32,
    pub(crate) clients: u32,
    pub(crate) retrieve: u16,
    pub(crate) rounds: u32,
    pub(crate) engine: String,
    pub(crate) code: Code,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) kernel: String,
    pub(crate) machine: Machine,
    pub(crate) buckets: usize,
    pub(crate) bucket_size: usize,
    /// Retrieved by all real clients, by the clock on the wall, with all they do themselves.
    pub(crate) messages_per_minute: f64,
    /// What the server's time for deposits and retrieval allows on all its threads, when clients take none of it.
    pub(crate) messages_per_minute_by_server_cpu: f64,
    /// Of the server, from deposits to answers; set-up is apart, since it is shared by all users.
    pub(crate) core_seconds_per_client_round: f64,
    pub(crate) core_ms_per_message: f64,
    /// The same with the set-up shared by all users.
    pub(crate) core_ms_per_message_with_setup: f64,
    pub(crate) setup_wall_ms: f64,
    pub(crate) setup_cpu_ms: f64,
    pub(crate) round_wall_ms: f64,
    /// Of all clients, per client and round.
    pub(crate) client_cpu_ms: f64,
    /// Per client and round.
    pub(crate) stages_ms: Stages,
    pub(crate) latency_ms: Latency,
    /// Per client and round, keys once.
    pub(crate) bytes: Bytes,
    /// One, by one client, after the last round.
    #[serde(default)]
    pub(crate) check: Check,
    pub(crate) memory: Memory,
    pub(crate) overhead: f64,
    pub(crate) overhead_retrieval: f64,
    pub(crate) overhead_setup: f64,
    /// Whether there was enough work to say anything about it.
    pub(crate) overhead_meaningful: bool,
    /// CPU time of the bare stages of one round, milliseconds.
    pub(crate) bench_ms: BenchTimes,
    pub(crate) retrieved_per_client_round: f64,
    /// In all rounds together, as are the next ones.
    pub(crate) retrieved: u64,
    pub(crate) wrong: u64,
    pub(crate) missing: u64,
    pub(crate) ambiguous: u64,
    pub(crate) ambiguous_unread: u64,
    pub(crate) deferred: u64,
    pub(crate) by_round: Vec<RoundReport>,
    pub(crate) warnings: Vec<String>,
}

/// Where the server's time goes, per client and round, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stages {
    /// EXPAND; of engines that do not expand, parsing.
    pub(crate) expand: f64,
    pub(crate) first_dimension: f64,
    /// What follows the first dimension.
    pub(crate) rest: f64,
    /// Everything else between publication and last answer: TLS, HTTP, mappings, queries.
    pub(crate) other: f64,
    /// Everything until the round is sealed.
    pub(crate) deposits: f64,
}

/// From a client's multi-query to the last byte of its answers, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// What goes over the network.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Bytes {
    pub(crate) keys_once: f64,
    pub(crate) deposit: f64,
    pub(crate) mapping: f64,
    pub(crate) query: f64,
    pub(crate) answer: f64,
    /// In the TCP streams, beyond those.
    pub(crate) overhead: f64,
    pub(crate) socket_up: f64,
    pub(crate) socket_down: f64,
    /// In the TCP streams for connection, registration and keys, once.
    pub(crate) socket_once: f64,
}

/// What the server's process holds, bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// VmHWM at the end: two rounds at a time, while one is built, and what building takes.
    pub(crate) peak: u64,
    /// Prepared buckets of the round that is kept.
    pub(crate) databases: u64,
    pub(crate) mappings: u64,
    /// By how much uploading all keys made the process grow.
    pub(crate) keys: u64,
    /// At the end of the last round.
    pub(crate) resident: u64,
}

/// The bare stages of one round, CPU time, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BenchTimes {
    pub(crate) arrange: f64,
    pub(crate) encode: f64,
    pub(crate) prepare: f64,
    pub(crate) mapping: f64,
    pub(crate) expand: f64,
    pub(crate) first_dimension: f64,
    pub(crate) rest: f64,
    pub(crate) answer: f64,
}

/// One round. CPU time is the server's.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
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
    /// Of the bare stages after this round.
    pub(crate) bare_setup_cpu_ms: f64,
    pub(crate) bare_retrieval_cpu_ms: f64,
}

impl Report {
    pub(super) fn new(config: &Config, engine: &str, measured: &Measured) -> anyhow::Result<Self> {
        let Measured { rounds, benches, .. } = measured;
        let last = rounds.last().ok_or_else(|| anyhow::anyhow!("no round was measured"))?;
        let sub_queries = u64::from(config.clients) * last.buckets as u64;
        for answered in
            rounds.iter().map(|round| round.all.answers).chain(benches.iter().map(|bench| bench.answers))
        {
            ensure!(answered == sub_queries, "{answered} sub-queries answered of {sub_queries}");
        }
        let clients = f64::from(config.clients);
        let mean = |of: fn(&RoundMeasured) -> f64| rounds.iter().map(of).sum::<f64>() / rounds.len() as f64;
        let per_client = |of: fn(&RoundMeasured) -> f64| mean(of) / clients;
        let total = |of: fn(&RoundMeasured) -> u64| rounds.iter().map(of).sum::<u64>();

        let bench = benches.iter().copied().fold(Bench::default(), core::ops::Add::add);
        let benched = |of: fn(&Bench) -> f64| of(&bench) / benches.len() as f64;
        let (bare_retrieval, bare_setup) = (benched(|bench| bench.answer_ms), benched(Bench::setup_ms));

        let retrieved = total(|round| round.counts.retrieved);
        // Making up messages is the simulation's work, not the server's, and takes none of its time.
        let wall_ms = mean(|round| round.all.wall_ms - round.population.wall_ms);
        let retrieval = mean(|round| round.retrieval.cpu_ms);
        let setup_cpu_ms = mean(|round| round.setup.cpu_ms);
        let serving = per_client(|round| round.deposits.cpu_ms + round.retrieval.cpu_ms);
        let per_message = serving / f64::from(config.retrieve);
        let in_users = f64::from(config.users) * f64::from(config.retrieve);
        let threads = config.threads();
        let percentile = |share| measured.latencies.value_at_quantile(share) as f64 / 1e3;
        let payload = |of: fn(&RoundMeasured) -> u64| total(of) as f64 / (rounds.len() as f64 * clients);
        let (up, down) = (payload(|round| round.traffic.up), payload(|round| round.traffic.down));
        let (deposit, mapping) =
            (payload(|round| round.payload.deposit), payload(|round| round.payload.mapping));
        let (query, answer) = (payload(|round| round.payload.query), payload(|round| round.payload.answer));
        let [empty, entered, end] = measured.memory;
        Ok(Self {
            users: config.users,
            clients: config.clients,
            retrieve: config.retrieve,
            rounds: config.rounds,
            engine: engine.to_owned(),
            code: config.code,
            seed: config.seed,
            threads,
            kernel: Backend::active().name().to_owned(),
            machine: Machine::here(),
            buckets: last.buckets,
            bucket_size: last.bucket_size,
            messages_per_minute: retrieved as f64 / rounds.len() as f64 / (wall_ms / 60e3),
            messages_per_minute_by_server_cpu: threads as f64 * 60e3 / per_message,
            core_seconds_per_client_round: serving / 1e3,
            core_ms_per_message: per_message,
            core_ms_per_message_with_setup: per_message + setup_cpu_ms / in_users,
            setup_wall_ms: mean(|round| round.setup.wall_ms),
            setup_cpu_ms,
            round_wall_ms: wall_ms,
            client_cpu_ms: per_client(|round| round.clients_cpu_ms),
            stages_ms: Stages {
                expand: per_client(|round| round.retrieval.expand_ms),
                first_dimension: per_client(|round| round.retrieval.first_dimension_ms),
                rest: per_client(|round| round.retrieval.rest_ms),
                other: per_client(other),
                deposits: per_client(|round| round.deposits.cpu_ms),
            },
            latency_ms: Latency {
                p50: percentile(0.5),
                p90: percentile(0.9),
                p99: percentile(0.99),
                max: measured.latencies.max() as f64 / 1e3,
            },
            bytes: Bytes {
                keys_once: measured.key_bytes as f64 / clients,
                deposit,
                mapping,
                query,
                answer,
                overhead: up + down - deposit - mapping - query - answer,
                socket_up: up,
                socket_down: down,
                socket_once: (measured.entering.up + measured.entering.down) as f64 / clients,
            },
            check: measured.check,
            memory: Memory {
                peak: end.peak_bytes,
                databases: measured.database_bytes,
                mappings: mapping as u64,
                keys: entered.resident_bytes.saturating_sub(empty.resident_bytes),
                resident: end.resident_bytes,
            },
            overhead: (retrieval + setup_cpu_ms) / (bare_retrieval + bare_setup),
            overhead_retrieval: retrieval / bare_retrieval,
            overhead_setup: setup_cpu_ms / bare_setup,
            overhead_meaningful: retrieval * rounds.len() as f64 >= OVERHEAD_MS_MIN,
            bench_ms: BenchTimes {
                arrange: benched(|bench| bench.arrange_ms),
                encode: benched(|bench| bench.encode_ms),
                prepare: benched(|bench| bench.prepare_ms),
                mapping: benched(|bench| bench.mapping_ms),
                expand: benched(|bench| bench.expand_ms),
                first_dimension: benched(|bench| bench.first_dimension_ms),
                rest: benched(|bench| bench.rest_ms),
                answer: bare_retrieval,
            },
            retrieved_per_client_round: retrieved as f64 / (clients * rounds.len() as f64),
            retrieved,
            wrong: total(|round| round.counts.wrong),
            missing: total(|round| round.counts.missing),
            ambiguous: total(|round| round.counts.ambiguous),
            ambiguous_unread: total(|round| round.counts.ambiguous_unread),
            deferred: total(|round| round.counts.deferred),
            by_round: rounds.iter().zip(benches).map(|(round, bench)| of_round(round, bench)).collect(),
            warnings: measured.warnings.clone(),
        })
    }

    /// Whether everything that was retrieved is what was sent, and nothing that was sent is gone.
    pub(crate) fn ensure_sound(&self) -> anyhow::Result<()> {
        let Self { wrong, missing, .. } = self;
        ensure!(*wrong == 0, "{wrong} retrieved messages are not what was sent");
        ensure!(*missing == 0, "{missing} messages were sent and are not in their rounds");
        Ok(())
    }

    /// For people.
    pub(super) fn print(&self) {
        println!("{}", self.markdown());
    }
}

/// What the server does in a retrieval phase beside the engine's stages.
fn other(round: &RoundMeasured) -> f64 {
    let spent = round.retrieval;
    spent.cpu_ms - spent.expand_ms - spent.first_dimension_ms - spent.rest_ms
}

fn of_round(round: &RoundMeasured, bench: &Bench) -> RoundReport {
    RoundReport {
        round: round.round,
        wall_ms: round.all.wall_ms - round.population.wall_ms,
        deposits_cpu_ms: round.deposits.cpu_ms,
        setup_wall_ms: round.setup.wall_ms,
        setup_cpu_ms: round.setup.cpu_ms,
        retrieval_wall_ms: round.retrieval.wall_ms,
        retrieval_cpu_ms: round.retrieval.cpu_ms,
        expand_ms: round.retrieval.expand_ms,
        first_dimension_ms: round.retrieval.first_dimension_ms,
        rest_ms: round.retrieval.rest_ms,
        clients_cpu_ms: round.clients_cpu_ms,
        bytes_up: round.traffic.up,
        bytes_down: round.traffic.down,
        retrieved: round.counts.retrieved,
        bare_setup_cpu_ms: bench.setup_ms(),
        bare_retrieval_cpu_ms: bench.answer_ms,
    }
}
