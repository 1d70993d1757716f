//! The round server of Sotto: takes one deposit per account and round, publishes every sealed round under a signed
//! manifest, and answers private retrievals from it.
//!
//! A deposit's way: [`service`](start) -> round log -> sealed round -> batch-coded database -> answers.
#![forbid(unsafe_code)]

mod accounts;
mod compute;
mod config;
mod connections;
mod data;
mod events;
mod host;
mod incoming;
mod key_file;
mod keys;
mod log;
mod outgoing;
mod retrieve;
mod round_database;
mod rounds;
mod server;
mod service;
#[cfg(test)]
mod simulation;

pub use config::{Config, ConfigError, Limits};
pub use data::{DataError, check_log, read_log};
pub use events::ServerEvent;
pub use host::unix_now;
pub use key_file::KeyFileError;
pub use log::LogError;
pub use log::offline::{LoggedRound, Summary};
pub use rounds::RunError;
pub use server::{Running, StartError, start};
