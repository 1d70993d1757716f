//! A log in memory: nothing survives the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use openraft::EntryPayload;
use sotto_protocol::Round;
use tokio::sync::watch;

use super::entry::{Entry, log_id};
use super::record::{Batch, Record, split};
use super::state::State;
use super::{Doing, Feed, LogError, Proposal, ProposeError, Role, RoundLog, SealedRound, Sequencer, Size};

/// The only term of a log without a group.
const TERM: u64 = 1;

/// A state, and the deposits of its rounds. It is always led.
#[derive(Debug)]
pub struct MemoryLog {
    state: Mutex<State>,
    deposits: Mutex<BTreeMap<Round, Vec<Bytes>>>,
    role: watch::Sender<Role>,
    changes: watch::Sender<()>,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            deposits: Mutex::default(),
            role: watch::Sender::new(Role::Leads { term: TERM }),
            changes: watch::Sender::new(()),
        }
    }
}

impl MemoryLog {
    fn deposits(&self) -> MutexGuard<'_, BTreeMap<Round, Vec<Bytes>>> {
        // No operation leaves the map half changed.
        self.deposits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, record: Record) {
        match record {
            Record::Deposits(round, bytes) => self.deposits().entry(round).or_default().push(bytes),
            Record::Retire(round) => drop(self.deposits().remove(&round)),
            _ => {}
        }
    }
}

impl Sequencer for MemoryLog {
    fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    #[expect(
        clippy::async_yields_async,
        reason = "what becomes of an entry is waited for apart from handing it in"
    )]
    fn propose(&self, records: Vec<Record>) -> Doing<'_, Proposal> {
        Box::pin(async move {
            let mut state = self.state();
            let log_id = log_id(TERM, 1, state.next_index());
            let entry = Entry { log_id, payload: EntryPayload::Normal(Batch(records)) };
            let applied = state.apply(&entry);
            let result = match applied.refused {
                Some(refused) => Err(ProposeError::Refused(refused)),
                None => Ok(applied),
            };
            if let (Ok(_), EntryPayload::Normal(Batch(records))) = (&result, entry.payload) {
                records.into_iter().for_each(|record| self.keep(record));
            }
            drop(state);
            self.changes.send_replace(());
            let proposal: Proposal = Box::pin(async { result });
            proposal
        })
    }

    fn hand_over(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}

impl Feed for MemoryLog {
    fn state(&self) -> MutexGuard<'_, State> {
        // An entry is applied without anything that could panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>> {
        Box::pin(async move {
            let (sealed, _) = self.state().sealed(round)?;
            let deposits = self.deposits().get(&round).cloned().unwrap_or_default();
            Ok(SealedRound { deposits: deposits.iter().flat_map(|bytes| split(bytes)).collect(), ..sealed })
        })
    }
}

impl RoundLog for MemoryLog {
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>> {
        Box::pin(async move { Ok(()) })
    }

    fn size(&self) -> Size {
        Size::default()
    }

    fn failure(&self) -> LogError {
        LogError::Ended("it was closed".to_owned())
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}
