//! A copy of a data directory in one file, taken while the server runs or not, and the way back.
//!
//! ```text
//! archive    the file: written, read, checked
//! take       what goes into it
//! restore    a data directory from it
//! ```
//!
//! The file is a tar archive:
//!
//! ```text
//! sotto-backup    what it is a backup of, JSON
//! NAME            files of the data directory: keys, certificates, settings
//! log/NAME        the round log, as it was at one moment
//! SHA256SUMS      the SHA-256 of all files before, as 'sha256sum' writes and checks it
//! ```
//!
//! The root key is none of them: a server goes on without it, and whoever has it can be the server.

mod archive;
mod restore;
mod take;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sotto_log::LogError;

use crate::announcement::NEXT;
use crate::data::DataError;
use crate::manifest_keys::is_file;

pub(crate) use archive::{Checked, check};
pub(crate) use restore::{Restored, restore};
pub(crate) use take::{Taken, at_rest, read_small};

/// The files of a data directory that a node needs to come back. `identity` is the last: with it, all is there.
pub(crate) const NAMES: [&str; 13] = [
    "sottod.toml",
    "manifest.key",
    "token.key",
    "slot.key",
    "node.pem",
    "node.key",
    "announcement",
    "seeds",
    "seed.key",
    "cluster",
    "peer.pem",
    "peer.key",
    "identity",
];
/// Whether a file that is not always there is one more of them: it belongs to manifest keys that follow on the first.
pub(crate) fn is_of_keys(name: &str) -> bool {
    name == NEXT || (is_file(name) && !NAMES.contains(&name))
}

/// Longer files are none of these.
const BYTES_MAX: u64 = 16 << 20;
/// Where the log is in the archive, as in the data directory.
const LOG: &str = "log/";
const VERSION: u32 = 1;

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// Of this format.
    version: u32,
    /// Of the program that took it.
    program: String,
    /// When, ms since 1970.
    made_ms: u64,
}

/// Why there is no backup, or nothing restored from it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its log cannot be read, or is not what was written.
    #[error("round log: {0}")]
    Log(#[from] LogError),
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is damaged, cut short, or no backup.
    #[error("{}: {what}; nothing was restored from it: use another backup", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The same of the log in it.
    #[error("{}: the round log in it is damaged, use another backup", path.display())]
    DamagedLog {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        source: LogError,
    },
    /// Somebody made keys anew all the time.
    #[error("the keys or certificates are being changed; try again when 'sottod certify' has ended")]
    Changing,
    /// There is something in the directory that was named.
    #[error("{}: it is not empty; name a directory that is new, or move away what is there", .0.display())]
    NotEmpty(PathBuf),
    /// A node of several.
    #[error(
        "{}: it is of a node of a cluster of {nodes}, which is replaced and never restored: since the backup it has promised \
         the others what it would not know any more, and what people were told is stored could be lost; start the other \
         nodes, which have everything, and put a new node in the place of this one",
        path.display()
    )]
    OfCluster {
        /// The backup.
        path: PathBuf,
        /// How many nodes vote.
        nodes: u64,
    },
}
