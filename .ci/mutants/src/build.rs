//! The changed tree, and its test programs.

use core::ops::Range;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::evaluated::evaluated;
use crate::list::{Genre, Mutant, Place};
use crate::weave::{self, ALLOWED, ASKED, Woven};

pub(crate) struct Tree {
    path: PathBuf,
    /// Files as they were.
    originals: RefCell<BTreeMap<String, String>>,
}

/// What is built.
pub(crate) struct All {
    pub(crate) numbers: BTreeSet<u32>,
    /// What the compiler refuses of itself, and not for the way it is woven.
    pub(crate) refused: BTreeSet<u32>,
    /// Those of functions that may be constant.
    pub(crate) constant: BTreeSet<u32>,
}

impl Tree {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, originals: RefCell::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn change(&self, file: &str, text: &str) -> Result<()> {
        let mut originals = self.originals.borrow_mut();
        if !originals.contains_key(file) {
            originals.insert(file.into(), fs::read_to_string(file)?);
        }
        Ok(fs::write(file, text)?)
    }

    fn original(&self, file: &str) -> Result<String> {
        let original = self.originals.borrow().get(file).cloned();
        original.map_or_else(|| fs::read_to_string(file).with_context(|| file.to_owned()), Ok)
    }

    pub(crate) fn restore(&self) -> Result<()> {
        for (file, text) in self.originals.take() {
            fs::write(file, text)?;
        }
        Ok(())
    }

    /// Weaves all changes that can be woven into these packages.
    pub(crate) fn weave(&self, packages: &[String], all: &BTreeMap<u32, Mutant>) -> Result<All> {
        let (mut out, mut refused) = (BTreeSet::new(), BTreeSet::new());
        let roots = roots(packages)?;
        for package in packages {
            loop {
                let woven = self.write(package, &roots[package], all, &out)?;
                let errors = errors(package)?;
                if errors.is_empty() {
                    break;
                }
                let before = out.len();
                for (code, file, span) in &errors {
                    let Some(pieces) = woven.get(file).map(|woven| &woven.pieces) else { continue };
                    let touching = pieces.iter().filter(|(at, _)| at.start < span.end && span.start < at.end);
                    let inner = touching.min_by_key(|(at, _)| at.len());
                    // Of a match without an arm for everything the value is named: one of the arms behind it.
                    let arm = |(at, numbers): &&(Range<usize>, Vec<u32>)| {
                        at.start >= span.end && numbers.iter().all(|number| all[number].genre == Genre::Arm)
                    };
                    let behind = || pieces.iter().filter(arm).min_by_key(|(at, _)| at.start);
                    let Some((_, numbers)) = inner.or_else(behind) else { continue };
                    out.extend(numbers);
                    if let [number] = numbers[..]
                        && of_itself(code, &all[&number])
                    {
                        refused.insert(number);
                    }
                }
                println!("{package}: {} errors, {} changes are out", errors.len(), out.len());
                ensure!(out.len() > before, "{package} does not compile: {errors:?}");
            }
        }
        let (mut numbers, mut constant) = (BTreeSet::new(), BTreeSet::new());
        for package in packages {
            for woven in self.write(package, &roots[package], all, &out)?.into_values() {
                numbers.extend(weave::numbers(&woven));
                refused.extend(woven.refused);
                constant.extend(woven.constant);
            }
        }
        Ok(All { numbers, refused, constant })
    }

    fn write(
        &self,
        package: &str,
        root: &str,
        all: &BTreeMap<u32, Mutant>,
        out: &BTreeSet<u32>,
    ) -> Result<BTreeMap<String, Woven>> {
        let mut files: BTreeMap<&str, BTreeMap<u32, &Mutant>> = BTreeMap::from([(root, BTreeMap::new())]);
        for (number, mutant) in all.iter().filter(|(_, mutant)| mutant.package == package) {
            let of_file = files.entry(&mutant.file).or_default();
            // Of a value of which only a trait is known there cannot be two kinds in one function.
            if !out.contains(number) && !(mutant.opaque && mutant.genre == Genre::Body) {
                of_file.insert(*number, mutant);
            }
        }
        let sources = sources(Path::new(root).parent().context("no folder")?)?;
        let texts: Vec<String> = sources.iter().map(|file| self.original(file)).collect::<Result<_>>()?;
        let evaluated = evaluated(&texts)?;
        let mut all_woven = BTreeMap::new();
        for (file, mutants) in files {
            let mut woven =
                weave::weave(&self.original(file)?, &mutants, &evaluated).with_context(|| file.to_owned())?;
            if file == root {
                woven.stand_behind(ALLOWED);
                woven.text.push_str(ASKED);
            }
            if fs::read_to_string(file)? != woven.text {
                self.change(file, &woven.text)?;
            }
            all_woven.insert(file.to_owned(), woven);
        }
        Ok(all_woven)
    }

    /// The test programs of these packages.
    pub(crate) fn tests(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let (tests, success) = test_programs(packages, TESTS)?;
        ensure!(success, "the tests do not compile");
        Ok(tests)
    }

    /// Makes this change and no other.
    pub(crate) fn change_alone(&self, mutant: &Mutant) -> Result<()> {
        self.restore()?;
        let text = self.original(&mutant.file)?;
        let (start, end) = (offset(&text, mutant.start)?, offset(&text, mutant.end)?);
        self.change(&mutant.file, &format!("{} {} {}", &text[..start], mutant.replacement, &text[end..]))
    }

    /// Builds test programs of what is there; none if they do not compile.
    pub(crate) fn build(&self, packages: &[String], targets: &[&str]) -> Result<Option<Vec<PathBuf>>> {
        let (programs, success) = test_programs(packages, targets)?;
        Ok(success.then_some(programs))
    }
}

/// Whether the compiler refuses the change wherever it stands.
fn of_itself(code: &str, mutant: &Mutant) -> bool {
    match mutant.genre {
        Genre::Body => true,
        Genre::Binary | Genre::Unary => matches!(code, "E0277" | "E0368" | "E0369" | "E0600" | "E0308"),
        _ => false,
    }
}

fn offset(text: &str, (line, column): Place) -> Result<usize> {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = &text[start..];
    Ok(start + rest.char_indices().nth(column - 1).context("beyond the line")?.0)
}

/// All sources in a folder.
fn sources(folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path.to_str().context("path")?.to_owned());
        }
    }
    Ok(all)
}

/// Of each package the file of its library.
fn roots(packages: &[String]) -> Result<BTreeMap<String, String>> {
    let output = Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let here = std::env::current_dir()?;
    let mut roots = BTreeMap::new();
    for package in metadata["packages"].as_array().context("packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        if packages.iter().any(|package| package == name) {
            let targets = package["targets"].as_array().context("targets")?;
            let library = targets.iter().find(|target| target["kind"][0] == "lib").context("no library")?;
            let path = Path::new(library["src_path"].as_str().context("path")?).strip_prefix(&here)?;
            roots.insert(name.to_owned(), path.to_str().context("path")?.to_owned());
        }
    }
    Ok(roots)
}

type Error = (String, String, Range<usize>);

/// Codes and places of what the compiler finds wrong with a package.
fn errors(package: &str) -> Result<Vec<Error>> {
    let output = Command::new("cargo")
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["check", "--locked", "--message-format", "json", "--lib", "--package", package])
        .output()?;
    let mut errors = Vec::new();
    let mut other = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        let code = message["code"]["code"].as_str().unwrap_or_default();
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let primary = spans.iter().find(|span| span["is_primary"] == true);
        match primary {
            Some(mut span) => {
                // What stands in a macro counts where it is called.
                while span["expansion"].is_object() {
                    span = &span["expansion"]["span"];
                }
                let byte = |key: &str| span[key].as_u64().unwrap_or(0) as usize;
                let file = span["file_name"].as_str().unwrap_or_default().to_owned();
                errors.push((code.to_owned(), file, byte("byte_start")..byte("byte_end")));
            }
            None => other.push(message["rendered"].as_str().unwrap_or_default().to_owned()),
        }
    }
    if !output.status.success() && errors.is_empty() {
        bail!("{other:?} {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(errors)
}

/// The libraries' own tests, and all.
pub(crate) const OWN: &[&str] = &["--lib"];
pub(crate) const TESTS: &[&str] = &["--lib", "--tests"];

/// Builds test programs; whether that succeeds.
fn test_programs(packages: &[String], targets: &[&str]) -> Result<(Vec<PathBuf>, bool)> {
    let mut command = Command::new("cargo");
    // Always, so that nothing is compiled again for it.
    command.env("RUSTC_BOOTSTRAP", "1");
    command.args(["test", "--locked", "--no-run", "--message-format", "json"]).args(targets);
    packages.iter().for_each(|package| {
        command.args(["--package", package]);
    });
    let output = command.output()?;
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        if message["profile"]["test"] == true
            && let Some(program) = message["executable"].as_str()
        {
            programs.push(program.into());
        }
    }
    Ok((programs, output.status.success()))
}
