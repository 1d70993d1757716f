//! A round log that tells the ledger what it is asked for and what it answers.

use std::sync::{Arc, MutexGuard};

use sotto_log::{
    Doing, Feed, LogError, Proposal, Record, Role, RoundLog, SealedRound, Sequencer, Size, State,
};
use sotto_protocol::{Deposit, Round};
use tokio::sync::watch;

use super::ledger::Ledger;

pub(super) struct Witness<L> {
    pub(super) log: L,
    pub(super) ledger: Arc<Ledger>,
    /// Whether a deposit that was brought to two nodes may be in the log twice.
    pub(super) repeats: bool,
}

impl<L: RoundLog> Sequencer for Witness<L> {
    fn role(&self) -> watch::Receiver<Role> {
        self.log.role()
    }

    #[expect(clippy::async_yields_async, reason = "as of every log")]
    fn propose(&self, records: Vec<Record>) -> Doing<'_, Proposal> {
        Box::pin(async move {
            for record in &records {
                match record {
                    Record::Publish(round, manifest) => self.ledger.publishing(*round, manifest),
                    Record::Retire(round) => {
                        if !self.ledger.knows_content_of(*round) {
                            // The last chance to see it.
                            let _ = self.sealed(*round).await;
                        }
                        self.ledger.retired(*round);
                    }
                    _ => {}
                }
            }
            self.log.propose(records).await
        })
    }

    fn hand_over(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.log.hand_over().await;
        })
    }
}

impl<L: RoundLog> Feed for Witness<L> {
    /// Nobody learns of what is in the log by another way.
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.log.state();
        self.ledger.stands(&state);
        state
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.log.changes()
    }

    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>> {
        Box::pin(async move {
            let sealed = self.log.sealed(round).await?;
            let mut read = sealed.clone();
            if self.repeats {
                // Equal deposits are one, see `arrange`.
                read.deposits.sort_by_key(Deposit::encode);
                read.deposits.dedup();
            }
            self.ledger.read(read);
            Ok(sealed)
        })
    }
}

impl<L: RoundLog> RoundLog for Witness<L> {
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>> {
        Box::pin(async move { self.log.reclaim().await })
    }

    fn size(&self) -> Size {
        self.log.size()
    }

    fn failure(&self) -> LogError {
        self.log.failure()
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.log.close().await;
        })
    }
}
