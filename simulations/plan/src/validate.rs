//! Predictions beside closed loops: a real server, real clients, and a database of as many users.
//!
//! Unless they come from a file, constants are measured before and after every run, and a prediction is the mean of both: a
//! machine that others use changes its speed within a minute, which says nothing about the model.

use anyhow::ensure;
use serde::Serialize;
use sotto_closed_loop::Config;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sottod::Preference;

use crate::estimate::Need;
use crate::model::Calibration;

/// The most that a prediction may be off, relatively.
const OFF_MAX: f64 = 0.2;

#[derive(clap::Args)]
pub(crate) struct ValidationArguments {
    /// Numbers of users to compare at, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [16_384, 65_536, 262_144], requires = "validate")]
    validate_users: Vec<u32>,
    /// Real clients among them.
    #[arg(long, default_value_t = 32, requires = "validate")]
    clients: u32,
    /// Rounds that are measured.
    #[arg(long, default_value_t = 2, requires = "validate")]
    rounds: u32,
}

/// One number of users. CPU time of the server, milliseconds.
#[derive(Serialize)]
struct Compared {
    users: u32,
    retrieve: usize,
    /// For each client-round.
    predicted_ms: f64,
    /// By the constants from before the run, and by those from after it.
    predictions_ms: [f64; 2],
    measured_ms: f64,
    /// By how much the prediction is off, relatively.
    off: f64,
    /// Of transport, deposits and everything else that is no answer.
    predicted_other_ms: f64,
    measured_other_ms: f64,
    /// Once a round.
    predicted_build_ms: f64,
    measured_build_ms: f64,
}

#[derive(Serialize)]
struct Validation {
    compared: Vec<Compared>,
    off_max: f64,
    passed: bool,
}

/// # Errors
/// If a prediction is off by more than a fifth.
pub(crate) fn run(
    arguments: &ValidationArguments,
    first: &Calibration,
    again: &dyn Fn() -> anyhow::Result<Calibration>,
    prefer: Preference,
    need: &dyn Fn(usize, &Calibration) -> anyhow::Result<Need>,
    json: bool,
) -> anyhow::Result<()> {
    let mut compared = Vec::new();
    let mut before = first.clone();
    println!(
        "{:>8} {:>22} {:>22} {:>8} {:>20} {:>20}",
        "users", "client-round, predicted", "measured, ms", "off", "build, predicted", "measured, ms"
    );
    for &users in &arguments.validate_users {
        let early = need(users as usize, &before)?;
        let report = closed_loop(arguments, users, &early, (before.engine, prefer))?;
        before = again()?;
        let one = compare(users, &[early, need(users as usize, &before)?], &report);
        println!(
            "{users:>8} {:>23.2} {:>22.2} {:>+6.1} % {:>20.0} {:>20.0}",
            one.predicted_ms,
            one.measured_ms,
            100.0 * one.off,
            one.predicted_build_ms,
            one.measured_build_ms
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

fn closed_loop(
    arguments: &ValidationArguments,
    users: u32,
    need: &Need,
    (engine, prefer): (EngineName, Preference),
) -> anyhow::Result<sotto_closed_loop::Report> {
    let config = Config {
        users,
        clients: arguments.clients,
        retrieve: need.round.retrieve.try_into()?,
        rounds: arguments.rounds,
        engine,
        prefer,
        code: need.round.code_name(),
        threads: None,
        gather_ms: sotto_closed_loop::gather_ms(arguments.clients),
        without_bare: true,
        seed: 1,
    };
    let progress = progress::bar(0, "");
    let report = sotto_closed_loop::run_once(&config, &progress)?;
    progress.finish_and_clear();
    report.ensure_sound()?;
    Ok(report)
}

fn compare(users: u32, needs: &[Need; 2], report: &sotto_closed_loop::Report) -> Compared {
    let mean = |of: &dyn Fn(&Need) -> f64| needs.iter().map(of).sum::<f64>() / needs.len() as f64;
    let (predicted_ms, measured_ms) =
        (mean(&Need::every_round_ms), 1e3 * report.core_seconds_per_client_round);
    Compared {
        users,
        retrieve: needs[0].round.retrieve,
        predicted_ms,
        predictions_ms: needs.each_ref().map(Need::every_round_ms),
        measured_ms,
        off: predicted_ms / measured_ms - 1.0,
        predicted_other_ms: mean(&|need| need.transport_ms),
        measured_other_ms: report.stages_ms.other + report.stages_ms.deposits,
        predicted_build_ms: mean(&|need| need.build_ms),
        measured_build_ms: report.setup_cpu_ms,
    }
}
