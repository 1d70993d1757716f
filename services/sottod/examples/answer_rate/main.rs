//! How many retrievals nodes without a vote answer per second: one, two and four of them, each with a share of a core, in turns.
//!
//! ```text
//! cargo run --release -p sottod --example answer_rate
//! ```
//!
//! Three nodes that vote and the clients share the rest of the machine. Every answerer has clients of its own, which send one whole
//! multi-query after the other, each of them once a round, so that it always has something to do. Limits are those of control groups
//! (version 1 or 2), which takes root.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to whoever runs it")]

#[path = "../common/asking.rs"]
#[allow(dead_code, reason = "here nobody reads answers")]
mod asking;
mod clients;
#[path = "../common/nodes.rs"]
#[allow(dead_code, reason = "here nobody counts bytes")]
mod nodes;
#[path = "../common/ports.rs"]
mod ports;
/// The server itself, so that the child process is the same program without another build.
#[path = "../../src/main.rs"]
mod server;
mod share;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::time::sleep;

use clients::Clients;
use nodes::Nodes;
use share::Share;

/// Nodes that vote.
const VOTERS: usize = 3;

/// How many retrievals nodes without a vote answer per second.
#[derive(Parser)]
struct Arguments {
    /// How many of them there are, one turn after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,1,2,4")]
    answerers: Vec<usize>,
    /// The share of a core that each has.
    #[arg(long, default_value_t = 0.3)]
    cpu: f64,
    /// Clients of each.
    #[arg(long, default_value_t = 250)]
    clients: usize,
    /// Messages that a multi-query retrieves.
    #[arg(long, default_value_t = 4)]
    retrieve: u16,
    /// Deposits in every round.
    #[arg(long, default_value_t = 256)]
    deposits: usize,
    /// Length of a round, ms.
    #[arg(long, default_value_t = 4000)]
    round_ms: u32,
    /// How long answers are counted, after as long in which they are not, s.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| ["serve", "cluster"].contains(&first.as_str())) {
        return server::main();
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("answer_rate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut of_one: Option<f64> = None;
    for answerers in &arguments.answerers {
        let rate = runtime.block_on(measure(arguments, *answerers))?;
        let each = rate / *answerers as f64;
        if *answerers == 1 {
            of_one = Some(rate);
        }
        let share = of_one.map_or_else(String::new, |one| format!(", {:.2} of one alone", each / one));
        println!("{answerers} answerers: {rate:.2} retrievals/s, {each:.2} each{share}");
    }
    Ok(())
}

async fn measure(arguments: &Arguments, answerers: usize) -> anyhow::Result<f64> {
    let Arguments { cpu, clients, retrieve, deposits, round_ms, seconds, .. } = arguments;
    let directory = tempfile::tempdir()?;
    let (round_ms, retrieve) = (round_ms.to_string(), retrieve.to_string());
    let options = ["--round-ms", &round_ms, "--retrieve", &retrieve, "--retained", "4"];
    let nodes = Nodes::start(directory.path(), (VOTERS, answerers), &options)?;
    let mut clients = Clients::begin(&nodes, VOTERS, *clients, *deposits).await?;
    let shares: Vec<Share> =
        nodes.ids()[VOTERS..].iter().map(|id| Share::give(*id, *cpu)).collect::<Result<_, _>>()?;
    sleep(Duration::from_secs(*seconds)).await;
    let before = clients.answered()?;
    sleep(Duration::from_secs(*seconds)).await;
    let answered = clients.answered()? - before;
    drop(nodes);
    drop(shares);
    Ok(answered as f64 / *seconds as f64)
}
