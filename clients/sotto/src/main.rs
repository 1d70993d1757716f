//! `sotto`: the client's command line.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sotto::cli::main()
}
