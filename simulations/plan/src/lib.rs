//! `sotto-sim plan`: what so many users need, from constants measured on a machine.
//!
//! [`model`] is what a round costs: the constants (`constants.rs`), how they are measured (`calibrate.rs`, `voce.rs`,
//! `transport.rs`), fitted (`fit.rs`) and known (`uncertainty.rs`), and what they are multiplied with (`sizes.rs`). The planner
//! stands on it: `estimate.rs` is what a server needs of everything, `largest.rs` whom it can serve, `prices.rs` what that is in
//! money, and `report.rs` how it is told; `validate.rs` has predictions beside closed loops.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command that talks to people")]

mod estimate;
mod largest;
pub mod model;
mod prices;
mod report;
mod validate;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sotto_measuring::cpu::cores;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sottod::{Addressing, Preference};

use estimate::{Assumptions, Need};
use model::{Calibration, calibrate};
use prices::PriceArguments;
use report::Plan;

/// What a server for so many users needs: cores, memory, disk, bandwidth, money; or what a machine can serve.
///
/// The costs of the parts are measured on this machine first, with all of its cores at work, for one to three minutes; or
/// they are read from a file that an earlier run has saved. docs/PLANNING.md has the formulas.
#[derive(clap::Args)]
pub struct Arguments {
    /// Users, each of whom deposits one message in every round.
    #[arg(long, required_unless_present_any = ["largest", "validate"], conflicts_with = "largest")]
    users: Option<usize>,
    /// Messages that each of them retrieves per round (k).
    #[arg(long, default_value_t = 16)]
    retrieve: usize,
    /// The engine: `sealpir`, `voce`, `voce-hint` or `voce-apart` [default: that of the constants, or sealpir].
    #[arg(long, value_enum)]
    engine: Option<EngineName>,
    /// How clients find messages.
    #[arg(long, value_enum, default_value = "labels")]
    addressing: Addressing,
    /// Length of a round, seconds; or give `--cores` and learn it.
    #[arg(long)]
    round: Option<f64>,
    /// Cores that there are.
    #[arg(long)]
    cores: Option<f64>,
    /// Memory that there is, GiB; with `--largest`.
    #[arg(long, requires = "largest")]
    memory: Option<f64>,
    /// Find the most users that `--cores` and `--memory` can serve, in rounds of `--round` if that is given.
    #[arg(long, requires = "cores", requires = "memory")]
    largest: bool,
    #[command(flatten)]
    assumptions: Assumptions,
    #[command(flatten)]
    prices: PriceArguments,
    /// Take the constants from a file that `--save` has written [default: measure them on this machine].
    #[arg(long)]
    constants: Option<PathBuf>,
    /// Keep the constants in a file.
    #[arg(long, conflicts_with = "validate")]
    save: Option<PathBuf>,
    /// Compare predictions with closed loops, and fail if one is off by more than a fifth. Constants are measured before
    /// and after each of them.
    #[arg(long, conflicts_with_all = ["users", "largest", "cores", "round"])]
    validate: bool,
    #[command(flatten)]
    validation: validate::ValidationArguments,
    /// A calibration of a second that is good for nothing but tests.
    #[arg(long, hide = true)]
    quick: bool,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

/// The command: what is needed, or with `--validate` how far predictions are off.
///
/// # Errors
/// If what is asked for makes no sense, no server can do it, the constants cannot be had, or a prediction is off by more than a
/// fifth.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // What makes no sense is told before anything takes its time.
    arguments.assumptions.check()?;
    let prices = arguments.prices.read()?;
    for (name, value) in
        [("--round", arguments.round), ("--cores", arguments.cores), ("--memory", arguments.memory)]
    {
        ensure!(value.is_none_or(|value| value.is_finite() && value > 0.0), "{name} must be above 0");
    }
    if let Some(engine) = arguments.engine {
        ensure!(engine == EngineName::Sealpir || engine.packs(), "no server runs this engine");
    }
    if let Some(users) = arguments.users {
        ensure!(arguments.round.is_some() || arguments.cores.is_some(), "give --round, --cores, or both");
        let engine = arguments.engine.unwrap_or_default();
        model::RoundSize::new(users, arguments.retrieve, arguments.addressing, engine)?;
    }
    let calibration = constants(arguments)?;
    let need_by = |users, constants: &Calibration| {
        Need::of(users, (arguments.retrieve, arguments.addressing), &arguments.assumptions, constants)
    };
    if arguments.validate {
        // Constants from a file stay as they are.
        let again =
            || if arguments.constants.is_some() { Ok(calibration.clone()) } else { measured(arguments) };
        let prefer = arguments.assumptions.prefer;
        return validate::run(&arguments.validation, &calibration, &again, prefer, &need_by, arguments.json);
    }
    let need = |users| need_by(users, &calibration);
    let (users, bound) = match (arguments.users, arguments.cores, arguments.memory) {
        (Some(users), ..) => (users, None),
        (None, Some(cores), Some(memory)) => {
            let (users, bound) = largest::find(&need, cores, memory * f64::from(1 << 30), arguments.round)?;
            (users, Some(bound))
        }
        _ => bail!("give --users, or --largest with --cores and --memory"),
    };
    let plan = Plan::new(need(users)?, arguments.round, arguments.cores, bound, &prices, &calibration);
    plan.print();
    if arguments.json {
        println!("{}", serde_json::to_string(&plan)?);
    }
    Ok(())
}

/// From the file or from the machine.
fn constants(arguments: &Arguments) -> anyhow::Result<Calibration> {
    // Before a measurement that takes minutes.
    let arranges = |engine: EngineName| {
        ensure!(
            engine.packs() || arguments.assumptions.prefer == Preference::Balanced,
            "--prefer is for voce, voce-hint and voce-apart: sealpir has one arrangement"
        );
        Ok(())
    };
    let calibration = match &arguments.constants {
        Some(path) => read(path)?,
        None => {
            arranges(arguments.engine.unwrap_or_default())?;
            measured(arguments)?
        }
    };
    arranges(calibration.engine)?;
    let other = arguments.engine.is_some_and(|engine| engine != calibration.engine);
    ensure!(!other, "the constants are those of another engine");
    if let Some(path) = &arguments.save {
        let json = serde_json::to_string_pretty(&calibration)? + "\n";
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(calibration)
}

fn measured(arguments: &Arguments) -> anyhow::Result<Calibration> {
    let engine = arguments.engine.unwrap_or_default();
    let calibration = calibrate(engine, arguments.quick, cores(), &progress::bar(0, ""))?;
    // A quick one measures so little that what a part costs may be lost in it.
    if !arguments.quick {
        calibration.check().context("this machine did something else meanwhile: measure again")?;
    }
    Ok(calibration)
}

fn read(path: &Path) -> anyhow::Result<Calibration> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let calibration: Calibration = serde_json::from_str(&text)
        .with_context(|| format!("{} holds no constants of this version", path.display()))?;
    calibration.check().with_context(|| format!("{} holds constants that cannot be", path.display()))?;
    Ok(calibration)
}
