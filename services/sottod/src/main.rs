//! The round server of Sotto.
//!
//! Exit codes: 0 after a shutdown that was asked for, or a log without fault; 1 if the server fails or cannot start, or
//! the log has a fault; 2 if it cannot run as configured.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the one place that talks to its operator")]

use std::io::IsTerminal;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sottod::{Config, DataError, Running, StartError, Summary};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

type Engine = pir_core::SealPir;

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

/// The round server of Sotto, a chat that hides who talks with whom.
///
/// Without a command it serves.
///
/// Exit codes: 0 after a shutdown that was asked for, or a log without fault; 1 if the server fails or cannot start, or
/// the log has a fault; 2 if it cannot run as configured.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Subcommand)]
enum Command {
    /// Serve rounds until told to stop.
    ///
    /// Example: sottod serve --data /var/lib/sottod
    Serve(Serve),
    /// Read and check every byte of a data directory's log, and print what is in it; no server may be using it.
    ///
    /// Example: sottod check-log --data /var/lib/sottod
    CheckLog {
        /// The data directory, or a copy of one.
        #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
        data: PathBuf,
    },
}

#[derive(Args)]
struct Serve {
    /// Where to listen; loopback only in this version; port 0 takes any free one.
    #[arg(long, default_value = "127.0.0.1:7370", env = "SOTTOD_LISTEN")]
    listen: SocketAddr,
    /// Length of a round, ms [default: 2000; 100 in closed loop, where it is the least length].
    #[arg(long)]
    round_ms: Option<u32>,
    /// Messages that a client retrieves per round, 1 to 256.
    #[arg(long, default_value_t = 16)]
    retrieve: u16,
    /// End a round when everybody is done; for simulations and demonstrations on one machine.
    #[arg(long)]
    closed_loop: bool,
    /// Rounds that stay retrievable, 1 to 4.
    #[arg(long, default_value_t = 2)]
    retained: u8,
    /// Buckets of the batch code [default: as many as are recommended].
    #[arg(long)]
    buckets: Option<u16>,
    /// Candidate buckets of a label, 1 to 8.
    #[arg(long, default_value_t = 3)]
    choices: u8,
    /// When clients deposit, ms after a round opens [default: 200; 0 in closed loop].
    #[arg(long)]
    deposit_ms: Option<u32>,
    /// When clients give up a look-up, ms after a round is ready [default: 300; 250 in closed loop].
    #[arg(long)]
    lookup_ms: Option<u32>,
    /// When clients send their queries, ms after a round is ready [default: 600; 400 in closed loop].
    #[arg(long)]
    query_ms: Option<u32>,
    /// Directory that keeps key, rounds and accounts over restarts; created if it is missing. Without it, everything is in
    /// memory and ends with the server.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: Option<PathBuf>,
    /// The data directory was restored from a backup that may not know of the newest rounds: go on with a number by the
    /// clock, so that none is used twice. For one start only.
    #[arg(long, requires = "data")]
    restored: bool,
}

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,openraft=warn"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    let result = match arguments.command {
        Some(Command::CheckLog { data }) => check_log(&data),
        Some(Command::Serve(serve)) => run(serve),
        None => run(arguments.serve),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, error }) => {
            eprintln!("sottod: {error:#}");
            ExitCode::from(code)
        }
    }
}

struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: FAILED, error: error.into() }
    }
}

fn check_log(data: &Path) -> Result<(), Failure> {
    let summary = sottod::check_log(data)?;
    let Summary { segments, bytes, entries, deposits, rounds, accounts, tokens, newest, last, torn } =
        summary;
    let or_none = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    println!("segments {segments}, bytes {bytes}, entries {entries}, deposits {deposits}");
    println!("rounds not retired {rounds}, accounts {accounts}, spent tokens {tokens}");
    println!("newest round {}, last entry {}", or_none(newest.map(|round| round.0)), or_none(last));
    if torn > 0 {
        println!(
            "CAUTION: the log ends with an incomplete append of {torn} bytes, which the next start cuts off."
        );
        println!(
            "A crash leaves that, and then it was never acknowledged; in a copy, its end may be missing."
        );
    }
    println!("every checksum of what is there holds");
    Ok(())
}

fn run(arguments: Serve) -> Result<(), Failure> {
    let config = config(&arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before anybody can know that there is a server to end.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut server = sottod::start::<Engine>(config).map_err(|error| match error {
            StartError::Config(_) | StartError::Data(DataError::Key { .. } | DataError::KeyMissing(_)) => {
                Failure { code: MISCONFIGURED, error: error.into() }
            }
            _ => error.into(),
        })?;
        announce(&server, arguments.data.is_some())?;
        tokio::select! {
            error = server.failed() => {
                let _ = server.shutdown().await;
                return Err(error.into());
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down");
        Ok(server.shutdown().await?)
    })
}

fn config(arguments: &Serve) -> Config {
    let defaults = if arguments.closed_loop {
        Config::closed_loop(arguments.listen)
    } else {
        Config::deadline(arguments.listen)
    };
    Config {
        round_ms: arguments.round_ms.unwrap_or(defaults.round_ms),
        retrieve: arguments.retrieve,
        buckets: arguments.buckets,
        choices: arguments.choices,
        retained: arguments.retained,
        deposit_ms: arguments.deposit_ms.unwrap_or(defaults.deposit_ms),
        lookup_ms: arguments.lookup_ms.unwrap_or(defaults.lookup_ms),
        query_ms: arguments.query_ms.unwrap_or(defaults.query_ms),
        data: arguments.data.clone(),
        restored: arguments.restored,
        ..defaults
    }
}

fn announce(server: &Running<Engine>, durable: bool) -> std::io::Result<()> {
    if !durable {
        tracing::info!("without --data everything is in memory: the address is a new one at every start");
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}", server.address())?;
    writeln!(out, "to join: sotto init --server {} --name NAME", server.address())?;
    out.flush()
}
