//! What commands on the same machine ask a running server for, through a Unix socket in its data directory.
//!
//! ```text
//! socket     where it is, and who may reach it
//! serve      the server's side
//! ask        the side of the commands
//! transfer   has another node lead
//! node       changes who votes
//! backup     sends a backup
//! announce   announces the next manifest key
//! ```
//!
//! A connection carries one question and one answer, each a line of JSON, and behind the answer a backup, if that was asked for: `{"ask":"transfer","to":2}`, and then
//! `{"done":{"leader":2,"ms":31}}` or `{"refused":"node 2 leads; ask it there"}`. A new question is a variant of [`Request`]
//! and an arm in `serve`.

mod announce;
mod ask;
mod backup;
mod node;
mod serve;
mod socket;
mod transfer;

use serde::{Deserialize, Serialize};
use sotto_log::Change;

pub(crate) use announce::{NextKey, OpenRound, Rotated};
pub(crate) use ask::{AskError, ask};
pub(crate) use backup::Backups;
pub(crate) use node::Voters;
pub(crate) use serve::{Commands, serve};
pub(crate) use socket::Socket;
pub use socket::SocketError;
pub(crate) use transfer::Transferred;

/// Longest line, with its end.
const LINE_MAX: usize = 16 << 10;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// That another node leads: this one, or whichever has stored most.
    Transfer {
        /// Its number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
    /// That others vote.
    Node {
        /// Which.
        change: Change,
    },
    /// That the manifest key is announced which lies in the data directory.
    Announce,
    /// Which round is open.
    Round,
    /// A backup, which follows behind the answer, to the end of the connection.
    Backup,
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<T> {
    Done(T),
    /// In words for whoever asked.
    Refused(String),
}

#[cfg(test)]
mod tests;
