//! Does a test fail for every change that cargo-mutants lists?
//!
//! To build anew for every change takes most of the time. Here all changes are woven into one build, each behind a question
//! whether it is the one that is tried; a first run of every test shows which changes it meets, and a change is tried with
//! those tests alone, the quick ones first. What cannot be woven (constants and the functions of which they are computed, what
//! the compiler refuses) is built and tried on its own, which `--alone` does and nothing else: after the others, as it also takes
//! what the compiler alone evaluates.
//!
//! `mutants TREE OUT --of PACKAGE ... [--with PACKAGE ...] [--sample N] [--names FILE] [--alone]`. `TREE` is a copy of the
//! repository that is changed. What was tried is in `OUT/outcomes.txt`, a line for each; what stands there is not tried
//! again. Of the changes of a package the sample is every n-th, so that there are no more than `N`. Tests and changes are tried
//! side by side, as many as there are processors. Tests of more than 10 s are left out, and a change that those of 45 s do not
//! catch counts as missed.

mod build;
mod evaluated;
mod list;
mod run;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use build::Tree;
use list::Mutant;
use run::{Outcome, Outcomes};

struct Arguments {
    tree: PathBuf,
    out: PathBuf,
    of: Vec<String>,
    with: Vec<String>,
    sample: usize,
    names: Option<BTreeSet<String>>,
    alone: bool,
}

fn arguments() -> Result<Arguments> {
    let mut all = std::env::args().skip(1);
    let mut path = || all.next().map(PathBuf::from).context("TREE OUT --of PACKAGE");
    let (tree, out) = (path()?, path()?);
    let mut arguments =
        Arguments { tree, out, of: vec![], with: vec![], sample: usize::MAX, names: None, alone: false };
    let mut list = "";
    for argument in all {
        match (argument.as_str(), list) {
            ("--of", _) => list = "--of",
            ("--with", _) => list = "--with",
            ("--sample", _) => list = "--sample",
            ("--names", _) => list = "--names",
            ("--alone", _) => arguments.alone = true,
            (_, "--of") => arguments.of.push(argument),
            (_, "--with") => arguments.with.push(argument),
            (_, "--sample") => arguments.sample = argument.parse()?,
            (_, "--names") => {
                arguments.names = Some(fs::read_to_string(argument)?.lines().map(str::to_owned).collect());
            }
            _ => bail!("{argument}?"),
        }
    }
    Ok(arguments)
}

fn main() -> Result<()> {
    let Arguments { tree, out, of, with, sample, names, alone } = arguments()?;
    fs::create_dir_all(&out)?;
    let tree = Tree::new(fs::canonicalize(tree)?);
    std::env::set_current_dir(tree.path())?;
    // Numbers begin with 1 and do not depend on what is tried.
    let all: BTreeMap<u32, Mutant> = (1..).zip(list::list(&of)?).collect();
    let mut outcomes = Outcomes::open(&out.join("outcomes.txt"))?;
    let mut chosen = BTreeSet::new();
    for package in &of {
        let own: Vec<u32> =
            all.iter().filter(|(_, mutant)| mutant.package == *package).map(|(number, _)| *number).collect();
        let step = own.len().div_ceil(sample.min(own.len()).max(1)).max(1);
        println!("{package}: {} changes, every {step} of them is tried", own.len());
        chosen.extend(own.into_iter().step_by(step));
    }
    let wanted = |number: &u32| {
        let name = &all[number].name;
        names.as_ref().map_or(chosen.contains(number), |names| names.contains(name)) && !outcomes.knows(name)
    };
    let mut queue: BTreeSet<u32> = all.keys().copied().filter(wanted).collect();
    let woven = tree.weave(&of, &all)?;
    println!(
        "{} of {} changes are woven, {} are not viable",
        woven.numbers.len(),
        all.len(),
        woven.refused.len()
    );
    for number in &woven.refused {
        if queue.remove(number) {
            outcomes.add(&all[number].name, Outcome::Unviable, "")?;
        }
    }
    // In no order, so that what was tried is a sample whenever it ends.
    let mut order: Vec<u32> = queue.iter().copied().collect();
    order.sort_by_key(|number| number.wrapping_mul(0x9e37_79b9));
    // Of a function that may be constant what no run has come to is evaluated by the compiler.
    let runs = |number: &u32| woven.numbers.contains(number) && !(alone && woven.constant.contains(number));
    let (order, left): (Vec<u32>, Vec<u32>) = order.into_iter().partition(runs);
    println!("{} changes are to be built on their own", left.len());
    let names: Vec<_> = left.iter().map(|number| all[number].name.as_str()).collect();
    write(&out, "left.txt", &names.join("\n"))?;
    if alone {
        tree.restore()?;
    }
    let packages: Vec<String> = of.iter().chain(&with).cloned().collect();
    let programs = tree.tests(&packages)?;
    let tests = run::trace(&programs, &out)?;
    if alone {
        let (outcome, by) = run::try_built(&programs, &programs, &tests)?;
        ensure!(outcome == Outcome::Missed, "without any change {by} fails, or takes too long");
        for number in left {
            tree.change_alone(&all[&number])?;
            let mut found = (Outcome::Missed, String::new());
            let mut tried = Vec::new();
            // A library's own tests, which are compiled first, catch most.
            for targets in [build::OWN, build::TESTS] {
                let Some(built) = tree.build(&packages, targets)? else {
                    found = (Outcome::Unviable, String::new());
                    break;
                };
                let new: Vec<PathBuf> =
                    built.into_iter().filter(|program| !tried.contains(program)).collect();
                found = run::try_built(&programs, &new, &tests)?;
                if found.0 != Outcome::Missed {
                    break;
                }
                tried.extend(new);
            }
            outcomes.add(&all[&number].name, found.0, &found.1)?;
        }
    } else {
        let shared = Mutex::new(&mut outcomes);
        run::each(&order, |number| {
            let (outcome, by) = run::try_woven(&programs, &tests, *number)?;
            if outcome == Outcome::Unmet && woven.constant.contains(number) {
                println!("{} is to be built on its own", all[number].name);
                return Ok(());
            }
            shared.lock().map_err(|_| anyhow!("a thread panicked"))?.add(&all[number].name, outcome, &by)
        })?;
    }
    tree.restore()?;
    for package in &of {
        let own = all.values().filter(|mutant| mutant.package == *package);
        println!("{package}: {}", outcomes.counts(own.map(|mutant| mutant.name.as_str())));
    }
    Ok(())
}

fn write(out: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(out.join(name), text).with_context(|| name.to_owned())
}
