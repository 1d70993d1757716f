//! A round log that tells the ledger what it is asked for and what it answers.

use std::sync::{Arc, MutexGuard};

use sotto_protocol::Round;
use tokio::sync::watch;

use super::ledger::Ledger;
use crate::log::{
    DurableLog, Feed, LogError, Proposal, Record, Role, RoundLog, SealedRound, Sequencer, Size, State,
};

pub(super) struct Witness {
    pub(super) log: DurableLog,
    pub(super) ledger: Arc<Ledger>,
}

impl Sequencer for Witness {
    fn role(&self) -> watch::Receiver<Role> {
        self.log.role()
    }

    async fn propose(&self, records: Vec<Record>) -> Proposal {
        for record in &records {
            match record {
                Record::Publish(round, manifest) => self.ledger.publishing(*round, manifest),
                Record::Retire(round) => {
                    if !self.ledger.knows_content_of(*round) {
                        // The last chance to see it.
                        if let Ok(sealed) = self.log.sealed(*round).await {
                            self.ledger.read(sealed);
                        }
                    }
                    self.ledger.retired(*round);
                }
                _ => {}
            }
        }
        self.log.propose(records).await
    }
}

impl Feed for Witness {
    /// Nobody learns of what is in the log by another way.
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.log.state();
        self.ledger.stands(&state);
        state
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.log.changes()
    }

    async fn sealed(&self, round: Round) -> Result<SealedRound, LogError> {
        let sealed = self.log.sealed(round).await?;
        self.ledger.read(sealed.clone());
        Ok(sealed)
    }
}

impl RoundLog for Witness {
    async fn reclaim(&self) -> Result<(), LogError> {
        self.log.reclaim().await
    }

    fn size(&self) -> Size {
        self.log.size()
    }

    async fn close(&self) {
        self.log.close().await;
    }
}
