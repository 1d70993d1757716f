//! The round server of Sotto: takes one deposit per account and round, publishes every sealed round under a signed
//! manifest, and answers private retrievals from it.
//!
//! A deposit's way: [`service`](start) -> round log -> sealed round -> batch-coded database -> answers.
#![forbid(unsafe_code)]
// What commands alone call stands beside what it belongs to, and is left out with them.
#![cfg_attr(not(feature = "program"), allow(dead_code, unused_imports))]

// The hostile clients of the integration tests are played here too, and know the crate by its name.
#[cfg(test)]
extern crate self as sottod;

mod accounts;
mod announcement;
mod answering;
mod backup;
mod calls;
mod certificate;
#[cfg(feature = "program")]
pub mod cli;
mod cluster;
mod compute;
mod config;
mod connections;
mod control;
mod data;
mod engine_name;
mod events;
mod forward;
mod host;
#[cfg(test)]
mod hostile;
mod identity;
mod incoming;
mod key_file;
mod keys;
mod largest;
mod machine;
mod manifest_keys;
mod members;
mod membership;
mod memory;
mod metrics;
mod operations;
mod outgoing;
mod pace;
mod peer_certificate;
mod peers;
mod population;
mod reused;
mod rotation;
mod round_database;
mod rounds;
mod secrets;
mod seeds;
mod server;
mod service;
#[cfg(test)]
mod simulation;
mod slots;
mod standing;
mod tokens;
mod usage;

pub use certificate::CertificateError;
pub use config::{Addressing, Config, ConfigError, Limits, Registration};
pub use control::SocketError;
pub use data::{DataError, check_log, issue_token, read_log};
pub use engine_name::{EngineName, Preference};
pub use events::ServerEvent;
pub use host::unix_now;
pub use identity::CertificateFiles;
pub use key_file::KeyFileError;
pub use keys::key_memory_bytes;
pub use members::MemberStatus;
pub use membership::{Followed, NodeStatus};
pub use operations::Status;
pub use population::Population;
pub use rounds::{RoundPhase, RoundStatus, RunError};
pub use secrets::IdentityError;
pub use seeds::SEGMENTS;
pub use server::{Running, StartError, start};
pub use sotto_log::LogError;
pub use sotto_log::offline::{LoggedRound, Summary};
pub use usage::Usage;
