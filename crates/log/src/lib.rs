//! The round log: where deposits live between their acknowledgement and the retirement of their round.
//!
//! [`MemoryLog`] forgets with its process. [`DurableLog`] is the log of a Raft group, of one node or of several;
//! from the bottom up:
//!
//! ```text
//! record     what is logged: deposits, and what becomes of rounds, slots, tokens
//! entry      some records in the order of the log, as openraft has them
//! tenure     who has a slot, one account after the other
//! state      what follows from all entries that count; a snapshot is one of its values on the disk
//! disk       files and directories, as far as the log needs them
//! frame      one append: a checksum around some entries; what a crash leaves of one is told from damage
//! segment    frames in a file of bounded size
//! store      all segments, the vote and the snapshot: the only code that changes files
//! writer     the thread that owns the store
//! pinned     all files as they were at one moment
//! replica    openraft's view of the store; the state that follows from the committed entries
//! kept       both, as the node itself reads them, and those that follow it
//! durable    the round log of a node that has a vote in its order
//! voters     changing who votes
//! following  the round log of a node that follows what others have committed
//! memory     the round log that forgets
//! offline    what stands in the files of a log that nobody has open
//! ```

#![forbid(unsafe_code)]

mod codec;
mod disk;
mod durable;
mod entry;
mod error;
mod following;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kept;
mod memory;
pub mod offline;
mod pinned;
pub mod record;
mod replica;
mod segment;
mod snapshot;
mod state;
mod store;
mod tenure;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod voters;
mod writer;

use core::future::Future;
use core::pin::Pin;
use std::sync::MutexGuard;

use sotto_protocol::{Deposit, Round, UnixMillis};
use tokio::sync::watch;

pub use codec::Malformed;
pub use disk::{Directory, Disk, DiskFile};
pub use durable::{DurableLog, Group};
pub use entry::{
    Entry, LogId, TypeConfig, Vote, check_number, decode_one as decode_entry, encode as encode_entry, log_id,
};
pub use error::LogError;
pub use following::{Fed, Feeding, FollowingLog, Food, SIGN_OF_LIFE, Upstream};
pub use kept::{Behind, Kept};
pub use memory::MemoryLog;
pub use offline::summarise;
pub use pinned::{LogFiles, PinnedFile, is_of_a_log, pin_at_rest};
pub use record::{Batch, Record, TableSeal, TokenId};
pub use replica::{Called, GroupLink, GroupNetwork, RaftSnapshot, Sent, StateMachine, snapshot_of};
pub use state::{ACCOUNTS_MAX, Applied, State};
pub use store::Options;
pub use tenure::Tenure;
pub use voters::{Change, ChangeError};

/// What takes time. In a box, so that what uses a log, or openraft, is compiled once, whatever the log or the way to others is.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What became of an entry, once that is known.
pub type Proposal = Doing<'static, Result<Applied, ProposeError>>;

/// Why nothing is known to have come of an entry.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProposeError {
    /// The state refuses it, here and on every other node.
    #[error("the round log refused: {0}")]
    Refused(&'static str),
    /// Another node puts entries in order, or none does just now. It may be stored all the same.
    #[error("another node writes the round log")]
    Elsewhere,
    /// The log of this node has failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Who puts entries in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This node, which has applied all that was in the log when it began to.
    Leads {
        /// Every time that a node begins has a number of its own.
        term: u64,
    },
    /// Another one, if it is known.
    Follows {
        /// Its number.
        leader: Option<u64>,
    },
}

/// Puts entries in order, and makes them durable.
pub trait Sequencer: Send + Sync + 'static {
    /// Who does that now.
    fn role(&self) -> watch::Receiver<Role>;

    /// Hands an entry in. Entries are in the order of these calls, as far as they come to be in the log.
    ///
    /// The entry is durable, and applied to the state of this node, once what is returned says so.
    fn propose(&self, records: Vec<Record>) -> Doing<'_, Proposal>;

    /// Has another node do that from now on, if there is one that can and this one does; nobody then waits until it is missed.
    fn hand_over(&self) -> Doing<'_, ()>;
}

/// What has been put in order.
pub trait Feed: Send + Sync + 'static {
    /// What follows from the entries that were applied here. It is the same on every node that has applied as many.
    fn state(&self) -> MutexGuard<'_, State>;

    /// Changes with the state.
    fn changes(&self) -> watch::Receiver<()>;

    /// Reads a sealed round.
    ///
    /// # Errors
    /// [`LogError`], also if there is no such round or it is not sealed.
    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>>;
}

/// Storage of rounds. Everything else that a server holds of a round is a pure function of what stands here.
pub trait RoundLog: Sequencer + Feed {
    /// Gives up the space of what the state needs no more, if that is worth it.
    ///
    /// # Errors
    /// [`LogError`].
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>>;

    /// How much there is of it.
    fn size(&self) -> Size;

    /// Why it tells nothing any more.
    fn failure(&self) -> LogError;

    /// Ends all work on files, so that another process can go on.
    fn close(&self) -> Doing<'_, ()>;
}

/// Longest snapshot.
pub const SNAPSHOT_MAX: usize = snapshot::BYTES_MAX as usize;

/// What a log takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its files of entries.
    pub segments: usize,
    /// Their sizes together.
    pub bytes: u64,
    /// Entries in them.
    pub entries: usize,
}

/// What sealing fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRound {
    /// Which round.
    pub round: Round,
    /// Seed of its batch code and its mapping.
    pub seed: [u8; 32],
    /// When it was sealed.
    pub at: UnixMillis,
    /// Its deposits, in no particular order.
    pub deposits: Vec<Deposit>,
    /// Of a server with slots.
    pub table: Option<TableSeal>,
}

/// How far a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes deposits.
    Open,
    /// It takes no more.
    Sealed,
    /// Its manifest is stored.
    Published,
}
