//! What is to be measured.

use serde::{Deserialize, Serialize};
use sotto_measuring::code::CodeName;
use sotto_measuring::engine::EngineName;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// The engine.
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub(crate) engine: EngineName,
    /// The batch code, or single queries.
    #[arg(long = "code", value_enum, default_value_t)]
    pub(crate) way: CodeName,
    /// Elements wanted at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) k: usize,
    /// Elements in the database.
    #[arg(long, default_value_t = 32_768)]
    pub(crate) elements: usize,
    /// Bytes of each element.
    #[arg(long, default_value_t = 288)]
    pub(crate) bytes: usize,
    /// Buckets; if it is left out, as in `sotto-sim pbc`.
    #[arg(long)]
    pub(crate) b: Option<usize>,
    /// Candidate buckets of a key (cuckoo), or groups (partitioned).
    #[arg(long, default_value_t = 3)]
    pub(crate) w: usize,
    /// Runs, of which the medians are reported. Each encodes and sets up everything, and asks for other elements.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    /// Seed of the database, the code, the keys and the indices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Setting {
    /// One run, of elements as large as a message's box.
    pub(crate) const fn of(engine: EngineName, way: CodeName, k: usize, elements: usize) -> Self {
        Self { engine, way, k, elements, bytes: 288, b: None, w: 3, runs: 1, seed: 1 }
    }
}
