//! The changes, as `cargo mutants --list` says them.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Line and column, both from 1, the column in characters.
pub(crate) type Place = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genre {
    /// A function returns something at once.
    Body,
    Binary,
    Unary,
    Arm,
    Guard,
    /// One that is not woven.
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
    /// Whether the function says only which trait its value has.
    pub(crate) opaque: bool,
    pub(crate) start: Place,
    pub(crate) end: Place,
}

pub(crate) fn list(packages: &[String]) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json"]);
    packages.iter().for_each(|package| {
        command.args(["--package", package]);
    });
    let output = command.output().context("cargo mutants")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    all.iter().map(|mutant| read(mutant).with_context(|| mutant.to_string())).collect()
}

fn read(mutant: &Value) -> Option<Mutant> {
    let text = |key: &str| Some(mutant[key].as_str()?.to_owned());
    let place = |key: &str| {
        let place = &mutant["span"][key];
        Some((place["line"].as_u64()? as usize, place["column"].as_u64()? as usize))
    };
    let genre = match mutant["genre"].as_str()? {
        "FnValue" => Genre::Body,
        "BinaryOperator" => Genre::Binary,
        "UnaryOperator" => Genre::Unary,
        "MatchArm" => Genre::Arm,
        "MatchArmGuard" => Genre::Guard,
        _ => Genre::Other,
    };
    let returned = mutant["function"]["return_type"].as_str().unwrap_or_default();
    Some(Mutant {
        name: text("name")?,
        package: text("package")?,
        file: text("file")?,
        genre,
        replacement: text("replacement")?,
        opaque: returned.contains("impl "),
        start: place("start")?,
        end: place("end")?,
    })
}
