//! `sotto-sim closed-loop`: a real server, real clients, and rounds that go on as soon as all of them are done
//! (paper, section 7.4).

mod bench;
mod check;
mod child;
mod client;
mod lines;
mod observed;
mod report;
mod run;
mod server;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use sotto_protocol::{CodeKind, ServerParameters};

pub(crate) use child::SUBCOMMAND;
pub(crate) use report::Report;
pub(crate) use run::run_once;

use crate::cpu::cores;
use crate::engine::EngineName;
use crate::pbc::CodeName;
use crate::progress;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Config {
    /// Users, the real clients included: each has one message in every round.
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub(crate) users: u32,
    /// Real clients.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Messages that each of them retrieves per round (k).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) retrieve: u16,
    /// Rounds that are measured, after one that is not.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// The PIR engine.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineName,
    /// The batch code: single, hybrid or cuckoo.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) code: CodeName,
    /// Threads that compute in the server [default: as many as there are cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Seed of all messages, keys and choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Config {
    /// Whether it can be run.
    fn check(&self) -> anyhow::Result<()> {
        let Self { users, clients, retrieve, engine, .. } = *self;
        ensure!(users >= clients, "{clients} clients are among the users: there must be as many users");
        ensure!(
            users - clients >= u32::from(retrieve) - 1,
            "a client retrieves one message of another client and {} of simulated users, of whom there are {}",
            retrieve - 1,
            users - clients
        );
        ensure!(
            !engine.is_insecure(),
            "no server runs the paper's parameters: they offer less than 128 bits of security"
        );
        // There are at most 1,024 buckets.
        let most = match self.code.kind()? {
            CodeKind::Single | CodeKind::Cuckoo => ServerParameters::RETRIEVE_MAX,
            CodeKind::Hybrid => ServerParameters::BUCKETS_MAX / 9,
        };
        ensure!(
            retrieve <= most,
            "with this batch code a client retrieves at most {most} messages per round"
        );
        Ok(())
    }

    /// The server's threads.
    fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }
}

/// A real server in a process of its own, filled with the messages of simulated users, and real clients that send one
/// message and retrieve k in every round. A round ends when all of them are done.
///
/// Every message that is retrieved is compared, bit by bit, with what was sent. docs/CLOSED-LOOP.md says what is
/// measured, and what is not.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: Config,
    /// Codes to run one after the other, separated by commas, instead of one.
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "code")]
    compare: Vec<CodeName>,
    /// The directory for report.json, rounds.csv, stages.csv and report.md, made if need be.
    #[arg(long)]
    out: Option<PathBuf>,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { config, compare, out, json } = arguments;
    let codes = if compare.is_empty() { vec![config.code] } else { compare.clone() };
    let configs: Vec<Config> = codes.into_iter().map(|code| Config { code, ..config.clone() }).collect();
    // Before the first of them takes its time.
    for config in &configs {
        config.check().with_context(|| config.code.to_string())?;
    }
    let progress = progress::bar(0, "");
    let mut reports = Vec::new();
    for config in &configs {
        progress.reset();
        let report = run_once(config, &progress)?;
        progress.suspend(|| report.print());
        reports.push(report);
    }
    progress.finish_and_clear();
    if reports.len() > 1 {
        println!("{}", report::comparison(&reports).markdown());
    }
    if let Some(out) = out {
        for path in report::write(out, &reports)? {
            println!("{}", path.display());
        }
    }
    if *json {
        println!("{}", report::json(&reports)?);
    }
    for report in &reports {
        report.ensure_sound()?;
    }
    Ok(())
}

/// The server's process.
pub(crate) fn serve(orders: &str) -> anyhow::Result<()> {
    server::run(orders)
}
