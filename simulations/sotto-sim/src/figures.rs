//! `sotto-sim figures`: figures of the paper, measured again, with its values beside ours, and the laws behind them.

mod case_study;
mod chart;
mod comparison;
mod engines;
mod figure10;
mod figure11;
mod figure12;
mod figure13;
mod figure14;
mod figure15;
mod figure5;
mod figure9;
mod item;
mod linear;
mod measured;
mod report;
mod scaling;
mod section;
mod spiral;
mod stateful;
mod voice;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::ValueEnum;

use item::Item;
use section::{Figure, Section};

/// Figures of the paper, measured again, with its values beside ours.
///
/// `scaling`, `engines`, `linear`, `stateful`, `spiral` and `voice` are none of the paper's: the first lays measurements beside a model
/// of the cost whose constants are measured apart, the second compares all engines in rounds of the chat, and the others have the claims
/// of SimplePIR's paper, the tables and latencies of PSIR's, and the tables and voice calls of Spiral's.
///
/// Each figure leaves a table (CSV, Markdown), a chart (SVG) and its part of the report (JSON) in the directory; the
/// report, README.md, is made of all figures that are there. Figures 12 and 13, and `engines`, keep what they have measured in
/// figure-12.measured.jsonl, figure-13.measured.jsonl and engines.measured.jsonl, and a run that was interrupted goes on from there; delete these
/// files to measure anew. What would read more than 6 GB of buckets for one multi-query is left out of figure 12.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of the paper's figures, or names of the others, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = Item::value_variants().to_vec())]
    only: Vec<Item>,
    /// The directory to write to, made if need be.
    #[arg(long)]
    out: PathBuf,
    /// Smaller collections, fewer batches and clients, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Round-trip times of figure 10's links, milliseconds: within a data center, between two, at home, mobile.
    #[arg(long, value_delimiter = ',', default_values_t = figure10::ROUND_TRIPS_MS)]
    rtt_ms: Vec<f64>,
    /// Messages in the rounds of `engines`.
    #[arg(long, value_delimiter = ',', default_values_t = comparison::SIZES)]
    users: Vec<u32>,
    /// Messages that its clients retrieve.
    #[arg(long, value_delimiter = ',', default_values_t = comparison::RETRIEVED)]
    retrieve: Vec<u16>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = &arguments.out;
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for &item in &arguments.only {
        let start = Instant::now();
        // Each on a thread of its own: a thread can be the only one of one pool.
        let made = std::thread::scope(|scope| scope.spawn(|| make(item, arguments)).join());
        let figure = made.map_err(|_| anyhow!("{} panicked", item.name()))??;
        let section = Section::new(item, figure, start.elapsed(), arguments.quick);
        let json = serde_json::to_string_pretty(&section)? + "\n";
        let (Figure { table, svg, .. }, name) = (section.figure, item.file_stem());
        let (csv, markdown) = (table.csv(), table.markdown());
        for (extension, content) in [("csv", &csv), ("md", &markdown), ("svg", &svg), ("json", &json)] {
            let path = out.join(&name).with_extension(extension);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            println!("{}", path.display());
        }
        println!("\n{markdown}");
    }
    println!("{}", report::write(out)?.display());
    Ok(())
}

fn make(item: Item, arguments: &Arguments) -> anyhow::Result<Figure> {
    match item {
        Item::Figure5 => figure5::make(arguments.quick),
        Item::Figure9 => figure9::make(arguments.quick),
        Item::Figure10 => figure10::make(arguments.quick, &arguments.rtt_ms),
        Item::Figure11 => figure11::make(arguments.quick),
        Item::Figure12 => figure12::make(arguments.quick, &arguments.out),
        Item::Figure13 => figure13::make(arguments.quick, &arguments.out),
        Item::Figure14 => figure14::make(arguments.quick),
        Item::Figure15 => figure15::make(arguments.quick),
        Item::Scaling => scaling::make(arguments.quick),
        Item::Engines => comparison::make(arguments),
        Item::Linear => linear::make(arguments.quick),
        Item::Stateful => stateful::make(arguments.quick),
        Item::Spiral => spiral::make(arguments.quick),
        Item::Voice => voice::make(arguments.quick),
    }
}
