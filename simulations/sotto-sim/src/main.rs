//! Measures Sotto's parts on the machine it runs on, and loads and watches servers that run.
//!
//! What it measures of parts alone stands here, a file for each command, and so do the figures, which are made of all that it
//! measures. The closed loop, the planner, and the clients that meet a running server are packages of their own.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to people")]

mod figures;
mod listing;
mod manual;
mod mpir;
mod pbc;
mod pir;
mod psir;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use sotto_meeting::{demo, ledger};

/// Measures Sotto's parts on the machine it runs on.
#[derive(Parser)]
#[command(name = "sotto-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A real server and real clients, whose rounds go on as soon as all of them are done.
    ClosedLoop(sotto_closed_loop::Arguments),
    /// The server's process of such a loop.
    #[command(name = sotto_closed_loop::SUBCOMMAND, hide = true)]
    ClosedLoopServer { orders: String },
    /// A person who talks with another over a server that runs.
    Demo(demo::Arguments),
    /// Figures of the paper, measured again.
    Figures(figures::Arguments),
    /// Clients that keep a ledger of what a running server acknowledges and gives back.
    Ledger(ledger::Arguments),
    /// Manual pages and shell completions of sotto, sottod and sotto-sim.
    Manual(manual::Arguments),
    /// One private retrieval, stage by stage, in CPU time of one thread.
    Pir(pir::Arguments),
    /// Many private retrievals at once, by any batch code or none.
    Mpir(mpir::Arguments),
    /// How often a batch code cannot serve a whole batch.
    Pbc(pbc::Arguments),
    /// How many queries the blocks of a client of PSIR serve.
    Psir(psir::Arguments),
    /// What a server for so many users needs, or whom a machine can serve.
    Plan(Box<sotto_plan::Arguments>),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::ClosedLoop(arguments) => sotto_closed_loop::run(&arguments)?,
        Command::ClosedLoopServer { orders } => sotto_closed_loop::serve(&orders)?,
        Command::Demo(arguments) => demo::run(&arguments)?,
        Command::Ledger(arguments) => return ledger::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments)?,
        Command::Manual(arguments) => manual::run(&arguments, Arguments::command())?,
        Command::Pir(arguments) => pir::run(&arguments)?,
        Command::Mpir(arguments) => mpir::run(&arguments)?,
        Command::Pbc(arguments) => pbc::run(&arguments)?,
        Command::Psir(arguments) => psir::run(&arguments)?,
        Command::Plan(arguments) => sotto_plan::run(&arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}
