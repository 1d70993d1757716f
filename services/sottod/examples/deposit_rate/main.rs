//! How fast deposits are acknowledged by one node and by a cluster of three, in turns, and what the node that leads
//! sends to the others for them.
//!
//! ```text
//! cargo run --release -p sottod --example deposit_rate
//! ```
//!
//! Processes of their own on this machine, with TLS, durable data directories and the real engine; the clients share the machine
//! with them. In every round all accounts deposit at once, as soon as it opens; the rate is their number over the time until the
//! last one is acknowledged. Bytes are those of the connections to the other nodes, as `ss` counts them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to whoever runs it")]

#[path = "../common/asking.rs"]
#[allow(dead_code, reason = "here nothing is retrieved")]
mod asking;
#[path = "../common/nodes.rs"]
#[allow(dead_code, reason = "here nobody asks for processes")]
mod nodes;
#[path = "../common/ports.rs"]
mod ports;
/// The server itself, so that the child process is the same program without another build.
#[path = "../../src/main.rs"]
mod server;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng, TryRng, rngs::SysRng};
use sotto_session::{Connection, RoundNews, Session};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use nodes::Nodes;

/// Accounts on one connection.
const SESSIONS: usize = 64;
/// Between the opening of a round and its deposits: every node has heard of it.
const HEARD: Duration = Duration::from_millis(200);

/// How fast deposits are acknowledged by one node and by three.
#[derive(Parser)]
struct Arguments {
    /// Accounts, each of which deposits once in every round.
    #[arg(long, default_value_t = 2048)]
    accounts: usize,
    /// Rounds that count in each turn, after two that do not.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Turns of each of the two.
    #[arg(long, default_value_t = 2)]
    turns: usize,
    /// Length of a round, ms: all deposits must come within it.
    #[arg(long, default_value_t = 6000)]
    round_ms: u32,
    /// Decides the deposits [default: by chance, and printed].
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| ["serve", "cluster"].contains(&first.as_str())) {
        return server::main();
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("deposit_rate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => SysRng.try_next_u64()?,
    };
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut rates = [Vec::new(), Vec::new()];
    for turn in 1..=arguments.turns {
        for (rates, nodes) in rates.iter_mut().zip([1, 3]) {
            let measured = runtime.block_on(measure(arguments, nodes, rng.random()))?;
            for Measured { seconds, sent } in measured {
                let rate = arguments.accounts as f64 / seconds;
                let sent = sent as f64 / arguments.accounts as f64;
                println!("turn {turn}: {nodes} nodes, {rate:.0} deposits/s, {sent:.0} bytes sent for each");
                rates.push(rate);
            }
        }
    }
    let [alone, three] = rates.map(median);
    println!("medians: {alone:.0} deposits/s by one node, {three:.0} by three: {:.2} of that", three / alone);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One round.
struct Measured {
    /// Until the last deposit was acknowledged.
    seconds: f64,
    /// By the node that leads to the others, bytes.
    sent: u64,
}

async fn measure(arguments: &Arguments, count: usize, seed: u64) -> anyhow::Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    // One is what others can join: a cluster of one.
    let round_ms = arguments.round_ms.to_string();
    let nodes = Nodes::start(directory.path(), (count, 0), &["--round-ms", &round_ms])?;
    let sessions = Arc::new(sessions(&nodes, arguments.accounts).await?);
    let mut listeners = Vec::new();
    for settings in nodes.settings() {
        let connection = Connection::open(settings).await?;
        let info = connection.info().await?;
        listeners.push(connection.session(&[0xee; 32], &info, None, None).await?);
    }
    let listener = listeners.first().context("no node")?;
    let mut news = core::pin::pin!(listener.watch().await?);
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut measured, mut seen) = (Vec::new(), 0);
    while measured.len() < arguments.rounds {
        let news = news.next().await.context("the node ends its watch")??;
        let RoundNews::Opened { round, .. } = news else { continue };
        tokio::time::sleep(HEARD).await;
        let (before, began) = (nodes.sent_by_the_leader()?, Instant::now());
        let mut storing = JoinSet::new();
        for number in 0..sessions.len() {
            let (sessions, (_, bytes)) = (Arc::clone(&sessions), asking::deposit(&mut rng, None));
            storing.spawn(async move { sessions[number].deposit(round, &bytes).await });
        }
        while let Some(stored) = storing.join_next().await {
            stored?.with_context(|| format!("a deposit in round {round}; are rounds long enough?"))?;
        }
        let seconds = began.elapsed().as_secs_f64();
        seen += 1;
        if seen > 2 {
            measured.push(Measured { seconds, sent: nodes.sent_by_the_leader()? - before });
        }
    }
    Ok(measured)
}

/// A session for each account, at one node after the other.
async fn sessions(nodes: &Nodes, accounts: usize) -> anyhow::Result<Vec<Session>> {
    let mut sessions = Vec::new();
    for (at, settings) in nodes.settings().iter().cycle().enumerate() {
        let first = at * SESSIONS;
        if first >= accounts {
            break;
        }
        let connection = nodes.connect(settings).await?;
        let info = connection.info().await?;
        let mut opening = JoinSet::new();
        for number in first..accounts.min(first + SESSIONS) {
            let (connection, info) = (connection.clone(), info.clone());
            let mut seed = [0x5a; 32];
            seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
            opening.spawn(async move { connection.session(&seed, &info, None, None).await });
        }
        while let Some(opened) = opening.join_next().await {
            sessions.push(opened??);
        }
    }
    ensure!(sessions.len() == accounts, "not all accounts have sessions");
    Ok(sessions)
}
