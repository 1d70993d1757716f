//! `sotto-sim closed-loop`: a real server, real clients, and rounds that go on as soon as all of them are done
//! (paper, section 7.4); and the parts of it, of which other measurements are made.
//!
//! [`run_once`] takes a [`Config`] to a [`Report`] (`config.rs`, `run.rs`, `report.rs`; `files.rs` writes it). It plays rounds in
//! a [`System`] (`system.rs`): clients (`client.rs`), who take [`Turns`] (`turns.rs`) and tell what each of them [`Took`], and a
//! server in a process of its own, seen from outside (`child.rs`) and from inside (`server.rs`, `observed.rs`). The two
//! processes speak in lines (`lines.rs`), the first of which are the [`Orders`]. `bench.rs` has the bare stages of a round, by
//! which the server is judged, and `check.rs` has one answer computed again.
//!
//! The server's process is the program itself, started again under [`SUBCOMMAND`]: a program that plays closed loops calls
//! [`serve`] there.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command that talks to people, and a process that talks by lines"
)]

mod bench;
mod check;
mod child;
mod client;
mod config;
mod files;
mod lines;
mod observed;
mod report;
mod run;
mod server;
mod system;
mod turns;

use std::path::PathBuf;

use anyhow::Context;
use sotto_measuring::code::CodeName;
use sotto_measuring::progress;
use sottod::Addressing;

pub use bench::build;
pub use child::{Refused, SUBCOMMAND, ServerProcess};
pub use client::{Client, Counts, Took};
pub use config::Config;
pub use lines::{Bench, GATHER_MS, Orders, Point, Snapshot, Spent, TILE, gather_ms};
pub use report::{Bytes, Memory, Report, ServerStages};
pub use run::run_once;
pub use system::System;
pub use turns::Turns;

/// A real server in a process of its own, filled with the messages of simulated users, and real clients that send one
/// message and retrieve k in every round. A round ends when all of them are done.
///
/// Every message that is retrieved is compared, bit by bit, with what was sent. docs/CLOSED-LOOP.md says what is
/// measured, and what is not.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    config: Config,
    /// Codes to run one after the other, separated by commas, instead of one.
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "code")]
    compare: Vec<CodeName>,
    /// How boxes are found: by labels, as with `--code cuckoo`, by slots, as with `--code partitioned`, or by both one after the
    /// other, separated by a comma.
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = ["code", "compare"])]
    addressing: Vec<Addressing>,
    /// The directory for report.json, rounds.csv, stages.csv and report.md, made if need be.
    #[arg(long)]
    out: Option<PathBuf>,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

/// The code that goes with a way to find boxes.
const fn code_of(addressing: Addressing) -> CodeName {
    match addressing {
        Addressing::Labels => CodeName::Cuckoo,
        Addressing::Slots => CodeName::Partitioned,
        Addressing::Standing => CodeName::Standing,
    }
}

/// The command: a closed loop for every code that is asked for, each told as soon as it is over.
///
/// # Errors
/// If one of them cannot be run or written down, or has lost a message.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { config, compare, addressing, out, json } = arguments;
    let codes = match (compare.as_slice(), addressing.as_slice()) {
        ([], []) => vec![config.code],
        ([], addressing) => addressing.iter().map(|way| code_of(*way)).collect(),
        (compare, _) => compare.to_vec(),
    };
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
        progress.suspend(|| println!("{}", report.markdown()));
        reports.push(report);
    }
    progress.finish_and_clear();
    if reports.len() > 1 {
        println!("{}", files::comparison(&reports).markdown());
    }
    if let Some(out) = out {
        for path in files::write(out, &reports)? {
            println!("{}", path.display());
        }
    }
    if *json {
        println!("{}", files::json(&reports)?);
    }
    for report in &reports {
        report.ensure_sound()?;
    }
    Ok(())
}

/// The server's process, which takes its orders as the JSON of [`Orders`] and says what it says on its standard output.
///
/// # Errors
/// If the orders are none.
pub fn serve(orders: &str) -> anyhow::Result<()> {
    server::run(orders)
}
