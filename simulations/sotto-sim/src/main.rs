//! Measures Sotto's parts on the machine it runs on.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to people")]

mod closed_loop;
mod cpu;
mod engine;
mod figures;
mod listing;
mod machine;
mod model;
mod mpir;
mod pbc;
mod pir;
mod plan;
mod progress;
mod proxy;
mod table;

use clap::{Parser, Subcommand};

/// Measures Sotto's parts on the machine it runs on.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A real server and real clients, whose rounds go on as soon as all of them are done.
    ClosedLoop(closed_loop::Arguments),
    /// The server's process of such a loop.
    #[command(name = closed_loop::SUBCOMMAND, hide = true)]
    ClosedLoopServer { orders: String },
    /// Figures of the paper, measured again.
    Figures(figures::Arguments),
    /// One private retrieval, stage by stage, in CPU time of one thread.
    Pir(pir::Arguments),
    /// Many private retrievals at once, by any batch code or none.
    Mpir(mpir::Arguments),
    /// How often a batch code cannot serve a whole batch.
    Pbc(pbc::Arguments),
    /// What a server for so many users needs, or whom a machine can serve.
    Plan(Box<plan::Arguments>),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::ClosedLoop(arguments) => closed_loop::run(&arguments),
        Command::ClosedLoopServer { orders } => closed_loop::serve(&orders),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Pir(arguments) => pir::run(&arguments),
        Command::Mpir(arguments) => mpir::run(&arguments),
        Command::Pbc(arguments) => pbc::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
    }
}
