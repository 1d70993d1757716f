//! The command line.
//!
//! Exit codes: 0 after a shutdown that was asked for, or if all is well; 1 if the server fails or cannot start, or what
//! was looked at has a fault; 2 if it cannot run as configured.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the one place that talks to its operator")]

mod backup;
mod cluster;
mod keys;
mod logging;
mod node;
mod rotate;
mod serve;
mod settings;
mod status;
mod transfer;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{Summary, check_log};

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

/// The round server of Sotto, a chat that hides who talks with whom.
///
/// Start with 'sottod init', then 'sottod serve', then 'sottod token' for every person who is to join. Without a command
/// it serves.
///
/// Exit codes: 0 after a shutdown that was asked for, or if all is well; 1 if the server fails or cannot start, or what
/// was looked at has a fault; 2 if it cannot run as configured.
#[derive(Parser)]
#[command(name = "sottod", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Options,
}

#[derive(Subcommand)]
enum Command {
    /// Make a data directory: keys, certificate, and a configuration with every setting explained.
    ///
    /// Example: sottod init --data /var/lib/sottod --public chat.example.org:7370
    Init(keys::InitOptions),
    /// Serve rounds until told to stop.
    ///
    /// Settings come from the command line, else from SOTTOD_... in the environment, else from the configuration
    /// (sottod.toml in the data directory), else they have their defaults.
    ///
    /// Example: sottod serve --data /var/lib/sottod
    Serve(serve::Options),
    /// Make registration tokens, one a line. Each admits one new account, and says nothing about whom it is for.
    ///
    /// They can be made while the server runs.
    ///
    /// Example: sottod token --data /var/lib/sottod --count 20
    Token {
        #[command(flatten)]
        data: Data,
        /// How many.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        count: u32,
    },
    /// Several nodes that are one server.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Make the node's certificate and its key anew, and sign what the configuration announces, with the cluster's root
    /// key. The server uses them from its next start on.
    ///
    /// After a change of parameters, and before the seeds of rounds end ('--seeds'), the root key has to sign.
    ///
    /// Example: sottod certify --data /var/lib/sottod --root /media/stick/root.key
    Certify(keys::CertifyOptions),
    /// The key that signs manifests: replace it while people go on.
    #[command(subcommand)]
    Keys(rotate::Command),
    /// Ask a running server how it is. Exit code 0 if it serves, 1 if not.
    ///
    /// Example: sottod status --data /var/lib/sottod
    Status(status::Options),
    /// Have another node of the cluster lead, as before this one is ended for long. Asked of the node that leads, on its machine.
    ///
    /// Nothing is lost or refused meanwhile; the open round may end some tenths of a second late.
    ///
    /// Example: sottod transfer --data /var/lib/sottod --to 2
    Transfer(transfer::Options),
    /// Change who votes in a cluster that runs.
    #[command(subcommand)]
    Node(node::Command),
    /// Copy a data directory into one file, whether its server runs or not: keys, certificates, settings and the round log.
    ///
    /// Everything that was acknowledged before is in it. The file is checked, and only then has its name.
    ///
    /// Example: sottod backup --data /var/lib/sottod --out /media/backup/sottod-monday.tar
    Backup(backup::BackupOptions),
    /// Make a data directory of a backup of a server that is alone. All of it is checked before anything is written.
    ///
    /// Start it once with 'sottod serve --restored'. A node of a cluster of several is replaced, not restored.
    ///
    /// Example: sottod restore --from /media/backup/sottod-monday.tar --data /var/lib/sottod
    Restore(backup::RestoreOptions),
    /// Read and check every byte of a data directory's log, and print what is in it; no server may be using it.
    ///
    /// Example: sottod check-log --data /var/lib/sottod
    CheckLog {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Args)]
struct Data {
    /// The data directory.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: PathBuf,
}

/// The command line, for whoever writes about it.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let told_of = match logging::told_of(std::env::var_os("RUST_LOG")) {
        Ok(told_of) => told_of,
        Err(error) => {
            eprintln!("sottod: {error}");
            return ExitCode::from(MISCONFIGURED);
        }
    };
    let ansi = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    tracing_subscriber::registry().with(lines).with(told_of).init();
    let result = match arguments.command {
        Some(Command::Init(options)) => keys::init(&options),
        Some(Command::Cluster(command)) => cluster::run(&command),
        Some(Command::Serve(options)) => serve::run(options),
        Some(Command::Token { data, count }) => keys::tokens(&data.data, count),
        Some(Command::Certify(options)) => keys::certify(&options),
        Some(Command::Keys(command)) => rotate::run(&command),
        Some(Command::Status(options)) => status::run(&options),
        Some(Command::Transfer(options)) => transfer::run(&options),
        Some(Command::Node(command)) => node::run(command),
        Some(Command::Backup(options)) => backup::backup(&options),
        Some(Command::Restore(options)) => backup::restore(&options),
        Some(Command::CheckLog { data }) => check(&data.data),
        None => serve::run(arguments.serve),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, error }) => {
            eprintln!("sottod: {}", told(&error));
            ExitCode::from(code)
        }
    }
}

/// An error and its causes, each once: some name their cause themselves.
fn told(error: &anyhow::Error) -> String {
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    fn misconfigured(error: impl Into<anyhow::Error>) -> Self {
        Self { code: MISCONFIGURED, error: error.into() }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: FAILED, error: error.into() }
    }
}

fn check(data: &Path) -> Result<(), Failure> {
    let Summary {
        segments,
        bytes,
        entries,
        deposits,
        rounds,
        accounts,
        tokens,
        newest,
        last,
        torn,
        voters: _,
    } = check_log(data)?;
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_cause_that_an_error_names_itself_is_not_told_twice() {
        let full = std::io::Error::other("no space");
        let error = anyhow::Error::new(full).context("write: no space").context("the log failed");
        assert_eq!(super::told(&error), "the log failed: write: no space");
    }
}
