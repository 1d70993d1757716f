//! The round server of Sotto.
#![forbid(unsafe_code)]

pub(crate) fn main() -> std::process::ExitCode {
    sottod::cli::main()
}
