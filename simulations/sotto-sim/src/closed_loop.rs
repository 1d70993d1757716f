//! `sotto-sim closed-loop`: a real server, real clients, and rounds that go on as soon as all of them are done
//! (paper, section 7.4).

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

pub(crate) use bench::build;
pub(crate) use child::{Refused, SUBCOMMAND};
pub(crate) use client::Took;
pub(crate) use config::Config;
pub(crate) use lines::{GATHER_MS, Orders, Point, TILE, gather_ms};
pub(crate) use report::Report;
pub(crate) use run::run_once;
pub(crate) use system::System;
pub(crate) use turns::Turns;

/// A real server in a process of its own, filled with the messages of simulated users, and real clients that send one
/// message and retrieve k in every round. A round ends when all of them are done.
///
/// Every message that is retrieved is compared, bit by bit, with what was sent. docs/CLOSED-LOOP.md says what is
/// measured, and what is not.
#[derive(clap::Args)]
pub(crate) struct Arguments {
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

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
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

/// The server's process.
pub(crate) fn serve(orders: &str) -> anyhow::Result<()> {
    server::run(orders)
}
