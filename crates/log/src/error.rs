//! What goes wrong with a log.

use std::io;
use std::sync::Arc;

/// The log failed. Nothing in it tells anything about anybody.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// What a file holds is not what was written.
    #[error("{file}, byte {offset}: {what}")]
    Corrupt {
        /// Which file.
        file: String,
        /// Where in it.
        offset: u64,
        /// How it shows.
        what: &'static str,
    },
    /// It took no more orders: an earlier one has failed.
    #[error("the round log has ended: {0}")]
    Ended(String),
    /// The operating system could not do what a file needs.
    #[error("{file}: {action}: {source}")]
    File {
        /// Which file.
        file: String,
        /// What was to be done.
        action: &'static str,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// Rounds were to be changed in an order that makes no sense.
    #[error("the round log refused: {0}")]
    Refused(&'static str),
}

impl LogError {
    pub(super) fn file(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::File { file, action, source: Arc::new(source) }
    }

    pub(super) fn corrupt(file: &str, offset: u64, what: &'static str) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, what }
    }
}
