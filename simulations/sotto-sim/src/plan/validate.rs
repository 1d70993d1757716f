//! Predictions beside runs.

use anyhow::ensure;
use serde::Serialize;

use crate::engine::EngineName;
use crate::model::{Calibration, RoundSize};
use crate::mpir::{self, Setting, Way};

/// The most that a prediction may be off, relatively.
const OFF_MAX: f64 = 0.2;

/// Of the runs, which are those of `sotto-sim mpir`.
pub(super) const THREADS: usize = 1;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Numbers of users to compare at, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [16_384, 65_536, 262_144], requires = "validate")]
    validate_users: Vec<usize>,
}

/// One number of users, CPU time of the server for each client-round, milliseconds.
#[derive(Serialize)]
struct Compared {
    users: usize,
    retrieve: usize,
    predicted_ms: f64,
    measured_ms: f64,
    /// Predicted beside measured, relatively.
    off: f64,
}

#[derive(Serialize)]
struct Validation {
    compared: Vec<Compared>,
    off_max: f64,
    passed: bool,
}

/// # Errors
/// If a prediction is off by more than a fifth.
pub(super) fn run(
    arguments: &Arguments,
    retrieve: usize,
    calibration: &Calibration,
    json: bool,
) -> anyhow::Result<()> {
    let mut compared = Vec::new();
    println!("{:>10} {:>4} {:>16} {:>16} {:>8}", "users", "k", "predicted, ms", "measured, ms", "off");
    for &users in &arguments.validate_users {
        let one = compare(users, retrieve, calibration)?;
        println!(
            "{users:>10} {retrieve:>4} {:>16.2} {:>16.2} {:>6.1} %",
            one.predicted_ms,
            one.measured_ms,
            100.0 * one.off
        );
        compared.push(one);
    }
    let passed = compared.iter().all(|one| one.off.abs() <= OFF_MAX);
    if json {
        println!("{}", serde_json::to_string(&Validation { compared, off_max: OFF_MAX, passed })?);
    }
    ensure!(passed, "a prediction is off by more than {:.0} %", 100.0 * OFF_MAX);
    Ok(())
}

fn compare(users: usize, retrieve: usize, calibration: &Calibration) -> anyhow::Result<Compared> {
    let predicted_ms = calibration.constants.client_round(&RoundSize::new(users, retrieve)?).total();
    let setting = Setting {
        engine: EngineName::Sealpir,
        way: Way::Cuckoo,
        k: retrieve,
        elements: users,
        bytes: 288,
        b: None,
        w: 3,
        runs: 3,
        seed: 1,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    let measured_ms = pool.install(|| mpir::measure(&setting, &format!("{users} users")))?.server_cpu_ms;
    Ok(Compared { users, retrieve, predicted_ms, measured_ms, off: predicted_ms / measured_ms - 1.0 })
}
