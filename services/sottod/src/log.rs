//! The round log: where deposits live between their acknowledgement and the retirement of their round.

use core::future::Future;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sotto_protocol::{Deposit, Round};

/// Storage of rounds.
///
/// The server calls it from one task: appends to a round end before that round is sealed, and rounds are sealed in
/// order. Everything else a server holds of a round is a pure function of what stands here.
pub trait RoundLog: Send + Sync + 'static {
    /// Adds deposits to an open round. Once it returns, they are durable; there is one call for many deposits, so that
    /// they can share the wait for the disk.
    ///
    /// # Errors
    /// [`LogError`], after which nothing is known about these deposits and the server stops.
    fn append(
        &self,
        round: Round,
        deposits: Vec<Deposit>,
    ) -> impl Future<Output = Result<(), LogError>> + Send;

    /// Fixes a round's deposits, to which none can be added afterwards, together with the seed of its batch code.
    /// Returns the number of deposits.
    ///
    /// # Errors
    /// [`LogError`], after which the server stops.
    fn seal(&self, round: Round, seed: [u8; 32]) -> impl Future<Output = Result<usize, LogError>> + Send;

    /// Reads a sealed round.
    ///
    /// # Errors
    /// [`LogError`], also if there is no such round or it is not sealed.
    fn sealed(&self, round: Round) -> impl Future<Output = Result<SealedRound, LogError>> + Send;

    /// Forgets a round.
    ///
    /// # Errors
    /// [`LogError`], after which the server stops.
    fn retire(&self, round: Round) -> impl Future<Output = Result<(), LogError>> + Send;
}

/// What sealing fixed.
#[derive(Clone, Debug)]
pub struct SealedRound {
    /// Which round.
    pub round: Round,
    /// Seed of its batch code and its mapping.
    pub seed: [u8; 32],
    /// Its deposits, in no particular order.
    pub deposits: Vec<Deposit>,
}

/// The log failed.
#[derive(Debug, thiserror::Error)]
#[error("the round log failed: {0}")]
pub struct LogError(pub &'static str);

/// A log in memory: nothing survives the process.
#[derive(Debug, Default)]
pub struct MemoryLog {
    rounds: Mutex<BTreeMap<Round, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    seed: Option<[u8; 32]>,
    deposits: Vec<Deposit>,
}

impl MemoryLog {
    fn with<T>(&self, operation: impl FnOnce(&mut BTreeMap<Round, Entry>) -> T) -> T {
        // No operation leaves the map half changed.
        operation(&mut self.rounds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RoundLog for MemoryLog {
    async fn append(&self, round: Round, mut deposits: Vec<Deposit>) -> Result<(), LogError> {
        self.with(|rounds| {
            let entry = rounds.entry(round).or_default();
            if entry.seed.is_some() {
                return Err(LogError("a deposit for a sealed round"));
            }
            entry.deposits.append(&mut deposits);
            Ok(())
        })
    }

    async fn seal(&self, round: Round, seed: [u8; 32]) -> Result<usize, LogError> {
        self.with(|rounds| {
            let entry = rounds.entry(round).or_default();
            if entry.seed.replace(seed).is_some() {
                return Err(LogError("a round was sealed twice"));
            }
            Ok(entry.deposits.len())
        })
    }

    async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        self.with(|rounds| {
            let entry = rounds.get(&round).ok_or(LogError("no such round"))?;
            let seed = entry.seed.ok_or(LogError("the round is not sealed"))?;
            Ok(SealedRound { round, seed, deposits: entry.deposits.clone() })
        })
    }

    async fn retire(&self, round: Round) -> Result<(), LogError> {
        self.with(|rounds| rounds.remove(&round));
        Ok(())
    }
}
