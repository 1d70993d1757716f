//! The round log: where deposits live between their acknowledgement and the retirement of their round.
//!
//! [`MemoryLog`] forgets with its process. [`DurableLog`] is the log of a Raft group whose only member is this server;
//! from the bottom up:
//!
//! ```text
//! disk       files and directories, as far as the log needs them
//! frame      one append: a checksum around some entries; what a crash leaves of one is told from damage
//! segment    frames in a file of bounded size
//! store      all segments, the vote and the snapshot: the only code that changes files
//! writer     the thread that owns the store
//! replica    openraft's view of the store; the state that follows from the committed entries
//! durable    the round log, as the server uses it
//! ```

mod codec;
mod disk;
mod durable;
mod entry;
mod error;
mod frame;
pub mod fuzzing;
mod memory;
pub(crate) mod offline;
mod record;
mod replica;
mod segment;
mod snapshot;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use core::future::Future;
use std::collections::BTreeSet;

use sotto_protocol::manifest::{FormerManifest, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

#[cfg(test)]
pub(crate) use disk::DiskFile;
pub(crate) use disk::{Directory, Disk};
pub(crate) use durable::DurableLog;
pub use error::LogError;
pub(crate) use memory::MemoryLog;
pub(crate) use record::{TableSeal, TokenId};
pub(crate) use store::Options;
#[cfg(test)]
pub(crate) use tests::Simulated;

/// Storage of rounds.
///
/// The server calls it from one task: a round is opened before deposits are appended to it, appends end before that
/// round is sealed, and rounds are opened and sealed in order. Everything else a server holds of a round is a pure
/// function of what stands here. After an error the server stops: nothing is known about what was being stored.
pub(crate) trait RoundLog: Send + Sync + 'static {
    /// What stood in the log when it was opened.
    ///
    /// # Errors
    /// [`LogError`] if it cannot be told.
    fn history(&self) -> Result<History, LogError>;

    /// Uses up a round's number: it is never opened again, whatever happens to this process.
    ///
    /// # Errors
    /// [`LogError`].
    fn open(&self, round: Round) -> impl Future<Output = Result<(), LogError>> + Send;

    /// Adds deposits to an open round, accounts to those that are known, and lots to those of slots that were begun, whose
    /// number that is. Once it returns, they are durable; there
    /// is one call for many, so that they can share the wait for the disk.
    ///
    /// # Errors
    /// [`LogError`].
    fn append(
        &self,
        round: Round,
        deposits: Vec<Deposit>,
        accounts: Vec<Account>,
        lots: Option<u32>,
    ) -> impl Future<Output = Result<(), LogError>> + Send;

    /// Whether an account is among those that were appended.
    fn knows(&self, account: &Account) -> bool;

    /// Whether an account is known, or there is room for one more beside those that wait to be appended.
    fn admits(&self, account: &Account, waiting: &BTreeSet<Account>) -> bool;

    /// Whether a registration token is spent; true of every one if there is no room to write down that another is.
    fn is_spent(&self, token: &TokenId) -> bool;

    /// Marks registration tokens as spent, for ever. Once it returns, that is durable. Nothing says who spent them, or in
    /// which order.
    ///
    /// # Errors
    /// [`LogError`].
    fn spend(&self, tokens: Vec<TokenId>) -> impl Future<Output = Result<(), LogError>> + Send;

    /// Fixes a round's deposits, to which none can be added afterwards, together with the seed of its batch code, and its table
    /// if the server has slots.
    /// Returns the number of deposits.
    ///
    /// # Errors
    /// [`LogError`].
    fn seal(
        &self,
        round: Round,
        seed: [u8; 32],
        table: Option<TableSeal>,
        at: UnixMillis,
    ) -> impl Future<Output = Result<u64, LogError>> + Send;

    /// Reads a sealed round.
    ///
    /// # Errors
    /// [`LogError`], also if there is no such round or it is not sealed.
    fn sealed(&self, round: Round) -> impl Future<Output = Result<SealedRound, LogError>> + Send;

    /// Adds a sealed round's manifest to the chain. Nobody may see it before.
    ///
    /// # Errors
    /// [`LogError`].
    fn publish(
        &self,
        round: Round,
        manifest: SignedManifest,
    ) -> impl Future<Output = Result<(), LogError>> + Send;

    /// Forgets a round.
    ///
    /// # Errors
    /// [`LogError`].
    fn retire(&self, round: Round) -> impl Future<Output = Result<(), LogError>> + Send;

    /// How much there is of it.
    fn size(&self) -> Size;

    /// Ends all work on files, so that another process can go on.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// What a log takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    pub(crate) entries: usize,
}

/// What sealing fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedRound {
    /// Which round.
    pub(crate) round: Round,
    /// Seed of its batch code and its mapping.
    pub(crate) seed: [u8; 32],
    /// When it was sealed.
    pub(crate) at: UnixMillis,
    /// Its deposits, in no particular order.
    pub(crate) deposits: Vec<Deposit>,
    /// Of a server with slots.
    pub(crate) table: Option<TableSeal>,
}

/// How far rounds had come when the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The highest number that was ever opened.
    pub(crate) newest: Option<Round>,
    /// Lots of slots that were begun.
    pub(crate) lots: u32,
    /// The newest manifest of version 1: rounds up to this one are not served again.
    pub(crate) former: Option<(Round, Box<FormerManifest>)>,
    /// The newest manifests, ascending.
    pub(crate) manifests: Vec<(Round, SignedManifest)>,
    /// Rounds that were not retired, ascending.
    pub(crate) rounds: Vec<(Round, Phase)>,
}

/// How far a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Sealed,
    Published,
}
