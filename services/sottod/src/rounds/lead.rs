//! What the node that leads writes into the log, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use sotto_log::{LogError, Phase, ProposeError, Record, Role, TableSeal, TokenId, record};
use sotto_protocol::Round;
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Turn;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::accepting::Batch;
use super::command::Reply;
use super::{RunError, Task};

/// A round that is open when a node begins to lead takes deposits for so long at least: those that were on their way come again.
const GRACE_MS: u64 = 1000;

/// How long nothing is proposed after a proposal that came to nothing.
const HOLD: Duration = Duration::from_millis(20);

/// A proposal of which it is known what became of it.
pub(super) enum Settled {
    /// Whether what was due stands in the log.
    Turn(Result<(), ProposeError>),
    /// The same of a round that was to be published.
    Publication(Result<(), ProposeError>),
    /// The same of a sign of life.
    SignOfLife(Result<(), ProposeError>),
    /// The same of a round that was to be forgotten.
    Retirement(Round, Result<(), ProposeError>),
    /// The same of where people find the nodes.
    Directory(Result<(), ProposeError>),
    /// The same of what people brought.
    Batch(Box<Batch>, Result<(), ProposeError>),
    /// The same of tokens that were spent.
    Spent(Vec<TokenId>, Result<(), ProposeError>),
    /// The same of slots that nobody has any more. If it came to nothing they stay empty.
    Vacant(Result<(), ProposeError>),
    /// The same of slots that are in use, whatever was known before.
    InUse(Result<(), ProposeError>),
    /// The same of another manifest key, with its first round.
    Announced(Round, Reply<Result<Round, String>>, Result<(), ProposeError>),
}

impl Task {
    /// Proposes what is due, if this node leads.
    pub(super) async fn lead(&mut self) -> Result<(), RunError> {
        let role = *self.role.borrow();
        let term = match role {
            Role::Leads { term } => Some(term),
            Role::Follows { .. } => None,
        };
        if self.leads != term {
            self.leads = term;
            self.surroundings.metrics.leads.set(term.is_some().into());
            self.begin_to_lead();
        }
        if term.is_none() {
            self.give_back(role);
            return Ok(());
        }
        if self.holds_back() {
            return Ok(());
        }
        self.propose_sign_of_life().await;
        if !self.can_sign().await {
            return Ok(());
        }
        // Looked at once: what was accepted goes before the end of its round.
        let turn = self.machine.turn(self.now()).filter(|_| self.in_flight.turn.is_none());
        self.propose_accepted(turn.is_some()).await;
        self.propose_turn(turn).await?;
        // Behind the opening of the next round, which nothing is to hold up.
        if core::mem::take(&mut self.has_sealed) {
            self.propose_spent().await;
            self.propose_vacant().await;
        }
        self.propose_publication().await;
        self.propose_retirement().await;
        Ok(())
    }

    /// Whether a proposal has just failed: whatever the reason is, it may still be there.
    pub(super) fn holds_back(&self) -> bool {
        self.held.is_some_and(|held| Instant::now() < held)
    }

    /// What whoever led before had in memory is gone. It may have begun lots of slots, and knows alone which are left of them.
    fn begin_to_lead(&mut self) {
        // What others, or this node, took in meanwhile is in the log or comes again.
        self.machine.ending(false);
        self.machine.forget_deposits();
        self.machine.stays_open(self.now(), GRACE_MS);
        self.forget_admissions();
        self.slots.go_on_behind(self.log.state().lots(), self.machine.current());
        self.places.begin_to_lead();
        if let Some(term) = self.leads
            && !self.is_alone()
        {
            tracing::info!(term, "this node leads");
        }
    }

    /// A node alone begins new rounds when those of an earlier start are served again: a log that is not what was published is
    /// not written on.
    pub(super) fn waits_for_builds(&self) -> bool {
        self.is_alone() && !self.resumed.is_empty()
    }

    async fn propose_turn(&mut self, turn: Option<Turn>) -> Result<(), RunError> {
        let Some(turn) = turn else { return Ok(()) };
        let waits = self.waits_for_builds();
        let mut records = Vec::new();
        let opens = match turn {
            Turn::Open(_) if waits => return Ok(()),
            Turn::Open(next) => Some(next),
            Turn::Seal(round, next) => {
                let seed = self.surroundings.seeds.seed(round).ok_or(RunError::SeedsEnded(round))?;
                let at = self.surroundings.host.unix_now();
                records.extend(self.table()?.map(|table| Record::Table(round, table)));
                records.push(Record::Seal(round, seed, at));
                next.filter(|_| !waits)
            }
        };
        if let Some(next) = opens {
            // Written in any case, so that all that was accepted is sealed.
            if self.surroundings.seeds.seed(next).is_none() && records.is_empty() {
                return Err(RunError::SeedsEnded(next));
            }
            self.warn_of_the_end(next);
            records.push(Record::Open(next));
        }
        self.machine.ending(true);
        self.in_flight.turn = Some(Instant::now());
        let proposal = self.log.propose(records).await;
        self.proposed.spawn(async { Settled::Turn(proposal.await.map(|_| ())) });
        Ok(())
    }

    /// What the table of a round is made of that is sealed now; none without slots.
    fn table(&self) -> Result<Option<TableSeal>, RunError> {
        if !self.surroundings.parameters.code.has_slots() {
            return Ok(None);
        }
        let mut cover = [0; 32];
        self.surroundings.host.fill(&mut cover).map_err(|_| RunError::Randomness)?;
        Ok(Some(TableSeal { lots: self.slots.lots(), cover }))
    }

    /// Publishes the oldest round that is not, once it is built: the chain of manifests goes by their numbers.
    async fn propose_publication(&mut self) {
        if self.in_flight.publication.is_some() {
            return;
        }
        let mut waiting = self.known.iter().filter(|(_, phase)| **phase == Phase::Sealed);
        let Some(round) = waiting.next().map(|(round, _)| *round) else { return };
        let Some(database) = self.built.get_mut(&round) else { return };
        let said = self.surroundings.announcing.said();
        let previous = {
            let state = self.log.state();
            let key = |round: &Round| said.parameters.manifest_key_of(*round);
            match (state.manifests().back(), state.former()) {
                (Some((round, newest)), _) => {
                    key(round).and_then(|key| newest.verify(&key).ok()).map(|manifest| manifest.digest())
                }
                (None, Some((round, former))) => key(round).and_then(|key| former.digest(&key).ok()),
                (None, None) => Some([0; 32]),
            }
        };
        // Whoever cannot sign does not lead.
        let Some(signing_key) = said.signing_key(round) else { return };
        // The log was checked when it was opened, and followed since.
        let Some(previous) = previous else { return };
        database.manifest.previous = previous;
        let signed = SignedManifest::sign(&database.manifest, signing_key);
        let mut records = vec![Record::Publish(round, Box::new(signed))];
        let retained = usize::from(self.surroundings.parameters.retained.max(1));
        let published: BTreeSet<Round> = self
            .known
            .iter()
            .filter(|(_, phase)| **phase == Phase::Published)
            .map(|(round, _)| *round)
            .collect();
        let outdated = (published.len() + 1).saturating_sub(retained);
        records.extend(published.into_iter().take(outdated).map(Record::Retire));
        self.in_flight.publication = Some(round);
        let proposal = self.log.propose(records).await;
        self.proposed.spawn(async { Settled::Publication(proposal.await.map(|_| ())) });
    }

    /// Takes a round out of the log that cannot be built or must not be served.
    async fn propose_retirement(&mut self) {
        let Some(round) = self.hopeless.difference(&self.in_flight.retirements).next().copied() else {
            return;
        };
        self.in_flight.retirements.insert(round);
        let proposal = self.log.propose(vec![Record::Retire(round)]).await;
        self.proposed.spawn(async move { Settled::Retirement(round, proposal.await.map(|_| ())) });
    }

    /// Stores which tokens were spent: once a round and in order, so that none is beside the account it admitted. A crash
    /// before that lets a token serve once more.
    pub(super) async fn propose_spent(&mut self) {
        let tokens = core::mem::take(&mut self.spent);
        for records in record::spent(tokens.into_iter().collect()) {
            let tokens: Vec<TokenId> = records
                .iter()
                .flat_map(|record| match record {
                    Record::Spent(tokens) => tokens.as_slice(),
                    _ => &[],
                })
                .copied()
                .collect();
            self.in_flight.spent.extend(&tokens);
            let proposal = self.log.propose(records).await;
            self.proposed.spawn(async move { Settled::Spent(tokens, proposal.await.map(|_| ())) });
        }
    }

    /// Stores which slots nobody has any more, where an epoch has begun.
    async fn propose_vacant(&mut self) {
        // What was shown after a backup was brought back is collected, and stands apart from whom it was shown by.
        let shown = {
            let state = self.log.state();
            self.slots.shown(|tenure| state.is_to_come(tenure))
        };
        for records in record::in_use(shown) {
            let proposal = self.log.propose(records).await;
            self.proposed.spawn(async move { Settled::InUse(proposal.await.map(|_| ())) });
        }
        let vacated = record::vacant(self.slots.vacated(self.machine.current()));
        if vacated.is_empty() {
            return;
        }
        let mut proposals = Vec::new();
        for records in vacated {
            proposals.push(self.log.propose(records).await);
        }
        self.proposed.spawn(async move {
            let mut result = Ok(());
            for proposal in proposals {
                result = result.and(proposal.await.map(|_| ()));
            }
            Settled::Vacant(result)
        });
    }

    /// Takes note of what became of a proposal.
    pub(super) fn settle(&mut self, settled: Option<Result<Settled, JoinError>>) -> Result<(), RunError> {
        let Some(settled) = settled else { return Ok(()) };
        let result = match settled.map_err(|_| RunError::Rounds)? {
            Settled::Turn(result) => {
                self.in_flight.turn = None;
                self.machine.ending(false);
                result
            }
            Settled::Publication(result) => {
                self.in_flight.publication = None;
                result
            }
            Settled::SignOfLife(result) => {
                self.in_flight.sign_of_life = false;
                result
            }
            Settled::Retirement(round, result) => {
                self.in_flight.retirements.remove(&round);
                result
            }
            Settled::Spent(tokens, result) => {
                self.in_flight.spent.retain(|token| !tokens.contains(token));
                if result.is_err() {
                    self.spent.extend(tokens);
                }
                result
            }
            Settled::Vacant(result) => {
                self.slots.vacated_is_settled(self.machine.current());
                result
            }
            Settled::InUse(result) => result,
            Settled::Directory(result) => {
                self.directory_is_settled();
                result
            }
            Settled::Announced(first, reply, result) => {
                let answer = result.as_ref().map(|()| first).map_err(ToString::to_string);
                let _ = reply.send(answer);
                // What the log refuses was nothing that had to be.
                result.or_else(|error| match error {
                    ProposeError::Log(error) => Err(ProposeError::Log(error)),
                    ProposeError::Refused(_) | ProposeError::Elsewhere => Ok(()),
                })
            }
            Settled::Batch(batch, result) => {
                self.in_flight.batches -= 1;
                self.answer(*batch, &result);
                result
            }
        };
        match result {
            Ok(()) => Ok(()),
            // Another node leads now, or did; what was due is due there.
            Err(error @ (ProposeError::Elsewhere | ProposeError::Refused(_))) if !self.is_alone() => {
                tracing::debug!(%error, "a proposal came to nothing");
                self.held = Some(Instant::now() + HOLD);
                Ok(())
            }
            Err(ProposeError::Log(error)) => Err(error.into()),
            Err(ProposeError::Refused(refused)) => Err(LogError::Refused(refused).into()),
            Err(ProposeError::Elsewhere) => Err(RunError::Rounds),
        }
    }

    /// What was accepted and not yet proposed is for whoever leads now.
    fn give_back(&mut self, role: Role) {
        if let (Some(forward), Role::Follows { leader }) = (self.surroundings.forward.clone(), role) {
            self.send_on(&forward, leader);
        }
    }
}
