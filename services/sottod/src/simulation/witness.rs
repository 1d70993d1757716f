//! A round log that tells the ledger what it is asked for and what it answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

use super::ledger::Ledger;
use crate::log::{DurableLog, History, LogError, RoundLog, SealedRound, Size, TableSeal, TokenId};

pub(super) struct Witness {
    pub(super) log: DurableLog,
    pub(super) ledger: Arc<Ledger>,
}

impl RoundLog for Witness {
    fn history(&self) -> Result<History, LogError> {
        let history = self.log.history()?;
        self.ledger.found(&history);
        Ok(history)
    }

    async fn open(&self, round: Round) -> Result<(), LogError> {
        self.log.open(round).await?;
        self.ledger.opened(round);
        Ok(())
    }

    async fn append(
        &self,
        round: Round,
        deposits: Vec<Deposit>,
        accounts: Vec<Account>,
        lots: Option<u32>,
    ) -> Result<(), LogError> {
        self.log.append(round, deposits, accounts, lots).await
    }

    fn knows(&self, account: &Account) -> bool {
        self.log.knows(account)
    }

    fn is_spent(&self, token: &TokenId) -> bool {
        self.log.is_spent(token)
    }

    async fn spend(&self, tokens: Vec<TokenId>) -> Result<(), LogError> {
        self.log.spend(tokens).await
    }

    fn size(&self) -> Size {
        self.log.size()
    }

    fn admits(&self, account: &Account, waiting: &BTreeSet<Account>) -> bool {
        self.log.admits(account, waiting)
    }

    async fn seal(
        &self,
        round: Round,
        seed: [u8; 32],
        table: Option<TableSeal>,
        at: UnixMillis,
    ) -> Result<u64, LogError> {
        self.log.seal(round, seed, table, at).await
    }

    async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        let sealed = self.log.sealed(round).await?;
        self.ledger.read(sealed.clone());
        Ok(sealed)
    }

    async fn publish(&self, round: Round, manifest: SignedManifest) -> Result<(), LogError> {
        self.ledger.publishing(round, &manifest);
        self.log.publish(round, manifest.clone()).await?;
        self.ledger.published(round, &manifest);
        Ok(())
    }

    async fn retire(&self, round: Round) -> Result<(), LogError> {
        if !self.ledger.knows_content_of(round) {
            // The last chance to see it.
            self.ledger.read(self.log.sealed(round).await?);
        }
        self.ledger.retired(round);
        self.log.retire(round).await
    }

    async fn close(&self) {
        self.log.close().await;
    }
}
