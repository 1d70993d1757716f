//! Kills a server again and again while many clients deposit, and counts what is left of what it acknowledged.
//!
//! ```text
//! cargo run --release -p sottod --example crash_drill -- [--kills N] [--seed S] [--clients C] [--alive-ms MIN..MAX] [--addressing slots]
//! cargo run --release -p sottod --example crash_drill -- --nodes 3 [--kills N] [--seed S] [--clients C] [--alive-ms MIN..MAX]
//! ```
//!
//! With `--nodes`, it kills the nodes of a cluster, one by one, two at a time and all at once.
//!
//! The last line is `acknowledged A, retrievable R, L lost`; the exit code is 0 if nothing is lost, or there twice.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to whoever runs it")]

mod drill;
/// The server itself, so that the child process is the same program without another build.
#[path = "../../src/main.rs"]
mod server;

use std::ops::Range;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rand::TryRng;
use rand::rngs::SysRng;

use drill::{GroupPlan, Plan};

#[derive(Parser)]
struct Arguments {
    /// How often the server is killed.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Decides the clients' deposits and the instants of the kills [default: by chance, and printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Clients that deposit once in every round.
    #[arg(
        long,
        default_value_t = 512,
        default_value_if("nodes", clap::builder::ArgPredicate::IsPresent, "48")
    )]
    clients: usize,
    /// The nodes of a cluster, 3 or 5, in place of a server alone.
    #[arg(long, conflicts_with = "addressing", value_parser = clap::value_parser!(u8).range(3..=5))]
    nodes: Option<u8>,
    /// How clients find boxes.
    #[arg(long, value_enum, default_value = "labels")]
    addressing: sottod::Addressing,
    /// How long a server lives once its clients are there, ms; for many kills, choose less.
    #[arg(long, value_name = "MIN..MAX", default_value = "500..3000", value_parser = range)]
    alive_ms: Range<u64>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(min, max)| Some(min.parse().ok()?..max.parse().ok()?));
    parsed.filter(|range| !range.is_empty()).ok_or_else(|| "expected MIN..MAX, such as 100..400".to_owned())
}

fn main() -> ExitCode {
    if matches!(std::env::args().nth(1).as_deref(), Some("serve" | "cluster" | "certify")) {
        return server::main();
    }
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crash_drill: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => SysRng.try_next_u64().context("the operating system gives no randomness")?,
    };
    println!("seed {seed}, {} kills, {} clients", arguments.kills, arguments.clients);
    let data = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(nodes) = arguments.nodes {
        let plan = GroupPlan {
            program: std::env::current_exe()?,
            directory: data.path().join("cluster"),
            nodes: nodes.into(),
            kills: arguments.kills,
            judge_every: 20,
            seed,
            clients: arguments.clients,
            alive_ms: arguments.alive_ms.clone(),
            sample: 32,
            verbose: true,
        };
        let outcome = runtime.block_on(plan.run())?;
        println!("{outcome}");
        return Ok(outcome.is_good());
    }
    let plan = Plan {
        program: std::env::current_exe()?,
        data: data.path().join("data"),
        kills: arguments.kills,
        judge_every: 10,
        seed,
        clients: arguments.clients,
        alive_ms: arguments.alive_ms.clone(),
        starting: 0.25,
        sample: 64,
        addressing: arguments.addressing,
        verbose: true,
    };
    let outcome = runtime.block_on(plan.run())?;
    println!("{outcome}");
    Ok(outcome.is_good())
}
