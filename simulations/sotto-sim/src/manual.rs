//! Manual pages and completions of all programs, from their command lines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

/// Where they go.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The directory; made if it is missing. Pages go to man1 in it, completions to bash, zsh and fish.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, own: Command) -> anyhow::Result<()> {
    let pages = arguments.out.join("man1");
    make(&pages)?;
    for program in [sottod::cli::command(), sotto::cli::command(), own] {
        let name = program.get_name().to_owned();
        for (shell, directory) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let directory = arguments.out.join(directory);
            make(&directory)?;
            clap_complete::generate_to(shell, &mut program.clone(), &name, &directory)
                .with_context(|| format!("cannot write to {}", directory.display()))?;
        }
        clap_mangen::generate_to(program, &pages)
            .with_context(|| format!("cannot write to {}", pages.display()))?;
    }
    println!("manual pages and completions are in {}", arguments.out.display());
    Ok(())
}

fn make(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}
