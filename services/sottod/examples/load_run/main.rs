//! Loads a server with clients that deposit and clients that retrieve, and says what it held.
//!
//! ```text
//! cargo run --release -p sottod --example load_run -- --seconds 600 --clients 2000 --retrievers 16 --twice
//! cargo run --release -p sottod --example load_run -- --seconds 600 --find
//! cargo run --release -p sottod --example load_run -- --seconds 600 --addressing slots
//! ```
//!
//! The server is a process of its own, with a durable data directory and the real engine. The clients share the machine
//! with it; what they use is said. Exit code 0 if nothing that was acknowledged was lost, no answer was wrong, and the
//! server lived.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to whoever runs it")]

#[path = "../common/asking.rs"]
mod asking;
#[path = "../common/child.rs"]
mod child;
mod depositors;
mod find;
mod ledger;
mod retrievers;
mod run;
/// The server itself, so that the child process is the same program without another build.
#[path = "../../src/main.rs"]
mod server;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rand::TryRng;
use rand::rngs::SysRng;

use run::Plan;
use summary::Summary;

/// Loads a server with clients that deposit and clients that retrieve, and says what it held.
#[derive(Parser)]
struct Arguments {
    /// How long a run lasts, once everybody is registered.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Accounts that deposit once in every round.
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Accounts that fetch the mapping and send one whole multi-query in every round.
    #[arg(long, default_value_t = 8)]
    retrievers: usize,
    /// Messages that a multi-query retrieves.
    #[arg(long, default_value_t = 16)]
    retrieve: u16,
    /// How clients find boxes.
    #[arg(long, value_enum, default_value = "labels")]
    addressing: sottod::Addressing,
    /// Length of a round, ms.
    #[arg(long, default_value_t = 2000)]
    round_ms: u32,
    /// Time over which the deposits of a round are spread, ms, from 200 ms after it opens.
    #[arg(long, default_value_t = 1000)]
    spread_ms: u64,
    /// Decides the deposits [default: by chance, and printed].
    #[arg(long)]
    seed: Option<u64>,
    /// After the run, another one with twice as many of both.
    #[arg(long)]
    twice: bool,
    /// First look, by short runs, for how many of both a server holds; then the run with those, then with twice as many.
    #[arg(long, conflicts_with_all = ["clients", "retrievers", "twice"])]
    find: bool,
    /// End with one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return server::main();
    }
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("load_run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => SysRng.try_next_u64().context("the operating system gives no randomness")?,
    };
    println!("seed {seed}");
    let mut plan = Plan {
        program: std::env::current_exe()?,
        seconds: arguments.seconds,
        clients: arguments.clients,
        retrievers: arguments.retrievers,
        retrieve: arguments.retrieve,
        addressing: arguments.addressing,
        round_ms: arguments.round_ms,
        spread_ms: arguments.spread_ms,
        seed,
        progress: true,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut summaries = Vec::new();
    if arguments.find {
        (plan.clients, plan.retrievers) = runtime.block_on(find::find(&plan))?;
    }
    summaries.push(("run", runtime.block_on(plan.clone().run())?));
    if arguments.twice || arguments.find {
        plan.clients *= 2;
        plan.retrievers *= 2;
        summaries.push(("twice", runtime.block_on(plan.run())?));
    }
    for (name, summary) in &summaries {
        println!("\n{name}: {summary}");
    }
    if arguments.json {
        println!("{}", json(&summaries, seed));
    }
    Ok(summaries.iter().all(|(_, summary)| summary.is_sound()))
}

fn json(summaries: &[(&str, Summary)], seed: u64) -> String {
    let runs: Vec<String> =
        summaries.iter().map(|(name, summary)| format!("\"{name}\":{}", summary.json())).collect();
    format!("{{\"seed\":{seed},{}}}", runs.join(","))
}

/// A fresh directory for a server.
fn data_directory() -> anyhow::Result<(tempfile::TempDir, PathBuf)> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    Ok((directory, data))
}
