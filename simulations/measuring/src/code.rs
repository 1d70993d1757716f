//! The batch codes by name.

use core::fmt;

use anyhow::bail;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sotto_protocol::CodeKind;

/// How a batch is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeName {
    /// No code: k queries, one after the other, of the whole database.
    Single,
    /// Every bucket holds everything.
    Replication,
    /// One hash, shards in several copies.
    Sharding,
    /// Two hashes, shards in several copies.
    #[value(alias = "2-choice")]
    TwoChoice,
    /// Pung's own: two hashes, nine buckets of the subcube code.
    Hybrid,
    /// w hashes, buckets for one key each: what Sotto runs.
    #[default]
    Cuckoo,
    /// Cuckoo over indices, with one bucket in each of w groups.
    Partitioned,
    /// The same, with places and queries that stand for eight rounds.
    Standing,
}

impl CodeName {
    /// As the protocol names it.
    ///
    /// # Errors
    /// If no server runs it.
    pub fn kind(self) -> anyhow::Result<CodeKind> {
        match self {
            Self::Single => Ok(CodeKind::Single),
            Self::Hybrid => Ok(CodeKind::Hybrid),
            Self::Cuckoo => Ok(CodeKind::Cuckoo),
            Self::Partitioned => Ok(CodeKind::Partitioned),
            Self::Standing => Ok(CodeKind::Standing),
            _ => {
                bail!(
                    "no server runs the code `{self}`: single, hybrid, cuckoo, partitioned and standing are those of the protocol"
                )
            }
        }
    }
}

/// As on the command line, in names of files and in JSON.
impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
