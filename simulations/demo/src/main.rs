//! `sotto-demo`: a server, six people and a crowd, all in one process, over real connections on loopback. With success every
//! line has arrived everywhere, unaltered and once.
//!
//! It is what `cargo run --release -- demo` runs, being the only default member of the workspace.
#![forbid(unsafe_code)]

mod cast;
mod crowd;
mod demonstration;
mod disk;
mod options;
mod report;
mod screen;
mod script;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::runtime::Builder;

use options::Options;

/// Show a server, six people and a crowd on this machine, and check that every text arrives
#[derive(Debug, Parser)]
#[command(
    name = "sotto-demo",
    version,
    after_help = "Example:\n  cargo run --release -- demo --users 2000 --rounds 5"
)]
struct Cli {
    /// There is one scene, and whoever runs the workspace names it: `cargo run -- demo`.
    #[arg(hide = true, value_parser = ["demo"])]
    _scene: Option<String>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    demonstrate(Cli::parse().options).unwrap_or_else(|error| {
        // Without standard error there is nobody to tell.
        let _ = writeln!(io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

fn demonstrate(options: Options) -> anyhow::Result<ExitCode> {
    let runtime = Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let done = runtime.block_on(demonstration::run(options));
    // Whoever interrupts does not wait for a round that is being built.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
