//! A log in memory: nothing survives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

use super::{History, LogError, RoundLog, SealedRound, Size, TableSeal, TokenId};

/// Rounds in memory. Accounts are not kept: whoever proves to hold a key may take part.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    rounds: Mutex<BTreeMap<Round, Entry>>,
    tokens: Mutex<BTreeSet<TokenId>>,
}

#[derive(Debug, Default)]
struct Entry {
    sealed: Option<([u8; 32], Option<TableSeal>, UnixMillis)>,
    deposits: Vec<Deposit>,
}

impl MemoryLog {
    fn with<T>(&self, operation: impl FnOnce(&mut BTreeMap<Round, Entry>) -> T) -> T {
        // No operation leaves the map half changed.
        operation(&mut self.rounds.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tokens(&self) -> MutexGuard<'_, BTreeSet<TokenId>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoundLog for MemoryLog {
    fn history(&self) -> Result<History, LogError> {
        Ok(History::default())
    }

    async fn open(&self, round: Round) -> Result<(), LogError> {
        self.with(|rounds| rounds.insert(round, Entry::default()));
        Ok(())
    }

    async fn append(
        &self,
        round: Round,
        mut deposits: Vec<Deposit>,
        _accounts: Vec<Account>,
        _lots: Option<u32>,
    ) -> Result<(), LogError> {
        if deposits.is_empty() {
            return Ok(());
        }
        self.with(|rounds| {
            let entry = rounds.get_mut(&round).ok_or(LogError::Refused("a deposit for no round"))?;
            if entry.sealed.is_some() {
                return Err(LogError::Refused("a deposit for a sealed round"));
            }
            entry.deposits.append(&mut deposits);
            Ok(())
        })
    }

    fn knows(&self, _account: &Account) -> bool {
        false
    }

    fn admits(&self, _account: &Account, _waiting: &BTreeSet<Account>) -> bool {
        true
    }

    fn is_spent(&self, token: &TokenId) -> bool {
        self.tokens().contains(token)
    }

    async fn spend(&self, tokens: Vec<TokenId>) -> Result<(), LogError> {
        self.tokens().extend(tokens);
        Ok(())
    }

    async fn seal(
        &self,
        round: Round,
        seed: [u8; 32],
        table: Option<TableSeal>,
        at: UnixMillis,
    ) -> Result<u64, LogError> {
        self.with(|rounds| {
            let entry = rounds.get_mut(&round).ok_or(LogError::Refused("no such round"))?;
            if entry.sealed.replace((seed, table, at)).is_some() {
                return Err(LogError::Refused("a round was sealed twice"));
            }
            Ok(entry.deposits.len() as u64)
        })
    }

    async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        self.with(|rounds| {
            let entry = rounds.get(&round).ok_or(LogError::Refused("no such round"))?;
            let (seed, table, at) = entry.sealed.ok_or(LogError::Refused("the round is not sealed"))?;
            Ok(SealedRound { round, seed, at, deposits: entry.deposits.clone(), table })
        })
    }

    async fn publish(&self, _round: Round, _manifest: SignedManifest) -> Result<(), LogError> {
        Ok(())
    }

    async fn retire(&self, round: Round) -> Result<(), LogError> {
        self.with(|rounds| rounds.remove(&round));
        Ok(())
    }

    fn size(&self) -> Size {
        Size::default()
    }

    async fn close(&self) {}
}
