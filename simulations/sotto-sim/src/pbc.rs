//! `sotto-sim pbc`: how often a batch code cannot serve a whole batch.

mod code;
mod interval;
mod trials;

use anyhow::ensure;
use serde::Serialize;

pub(crate) use code::{Code, Dimensions};
pub(crate) use interval::clopper_pearson;
pub(crate) use trials::{Source, count_failures};

use crate::listing::listing;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    dimensions: Dimensions,
    /// Batches to try, rounded up to whole seeds of 1,000 each.
    #[arg(long, default_value_t = 1_000_000)]
    trials: u64,
    /// Number of the first seed; every thousand batches take the next.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Hash keys as clients do, a new round seed every thousand batches, instead of drawing the hashes from a generator
    /// of random numbers. The distributions are the same; hashing takes several times as long.
    #[arg(long)]
    hashed: bool,
    /// Try nothing; only state the bound or the exact probability where one is known.
    #[arg(long)]
    bound: bool,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    code: String,
    n: usize,
    k: usize,
    b: usize,
    w: usize,
    copies: usize,
    search: String,
    /// The share of batches that were not served completely; with `--bound` the exact probability or its bound.
    failure: f64,
    /// 95 % (Clopper and Pearson); with `--bound` what is certain.
    interval: [f64; 2],
    failure_log2: Option<f64>,
    failures: u64,
    trials: u64,
    first_seed: u64,
    last_seed: u64,
    /// Rigorous.
    bound_log2: Option<f64>,
    /// Sharding and replication only.
    exact: Option<f64>,
    method: &'static str,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let code = Code::new(arguments.dimensions, [0; 32])?;
    let (bound_log2, exact) = (code.bound_log2(), code.exact_failure());
    let mut report = Report {
        code: code.name.to_string(),
        n: arguments.dimensions.n,
        k: code.batch.batch_size(),
        b: code.batch.bucket_count(),
        w: code.choices,
        copies: code.copies,
        search: code.search(),
        failure: f64::NAN,
        interval: [0.0, 1.0],
        failure_log2: None,
        failures: 0,
        trials: 0,
        first_seed: arguments.seed,
        last_seed: arguments.seed,
        bound_log2,
        exact,
        method: "",
    };
    if arguments.bound {
        ensure!(
            bound_log2.is_some() || exact.is_some(),
            "no bound is known for this code; leave out --bound to simulate it"
        );
        let bound = bound_log2.map_or(1.0, f64::exp2);
        report.failure = exact.unwrap_or(bound);
        report.interval = exact.map_or([0.0, bound], |exact| [exact, exact]);
        report.method = if exact.is_some() { "exact" } else { "union bound over minimal Hall violators" };
    } else {
        let source = if arguments.hashed { Source::Hashed } else { Source::Drawn };
        let count = count_failures(arguments.dimensions, source, arguments.seed, arguments.trials)?;
        report.failures = count.failures;
        report.trials = count.trials;
        report.last_seed = count.last_seed;
        report.failure = count.failures as f64 / count.trials as f64;
        report.interval = clopper_pearson(count.failures, count.trials);
        report.method = source.name();
    }
    report.failure_log2 = (report.failure > 0.0).then(|| report.failure.log2());
    println!("{}", listing(&report)?);
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}
