//! `sotto-sim ledger`: clients that deposit in every round of a running server, retrieve all of it again, and keep a ledger of
//! what was acknowledged and what came back.

mod account;
mod book;
mod manifests;
mod node;
mod page;
mod run;
mod tell;

use std::process::ExitCode;

use crate::target::Target;

/// Clients that deposit a random box in every round of a running server or cluster, and retrieve every box that was acknowledged,
/// bit by bit. A client whose node is lost goes on at the next node of the address.
///
/// Ends with failure if anything that was acknowledged is lost, or two nodes have different manifests of one round.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Accounts, which deposit in every round.
    #[arg(long, default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// Boxes that a client retrieves at a time, at most as many as the server allows.
    #[arg(long, default_value_t = 4, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=256))]
    retrieve: u16,
    /// Rounds, after which it ends by itself [default: until Ctrl-C].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// One JSON object a round, and one at the end.
    #[arg(long)]
    json: bool,
}

/// The command, until its rounds are over or somebody asks it to end; with success if nothing is lost.
///
/// # Errors
/// If the server is none to work with.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let sound = runtime.block_on(run::run(arguments));
    // Calls that nobody waits for any more.
    runtime.shutdown_background();
    Ok(if sound? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
