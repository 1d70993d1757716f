//! What people bring, from their calls to the log.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sotto_log::{ProposeError, Role, Tenure, TokenId, record};
use sotto_protocol::server::{Accepted, Account};
use sotto_protocol::{Deposit, Round};
use sotto_wire::Refused;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Task;
use super::command::{Command, Reply};
use super::lead::Settled;
use crate::forward::{Forward, Forwarded, Lost};

/// What waits for a leader, below which nothing is looked through.
const FORGETS_FROM: usize = 1024;
/// Tokens spent in one round; the log keeps room for so many.
const SPENT_MAX: usize = 4096;

type DepositReply = Reply<Result<(), Refused>>;
type SlotReply = Reply<Result<Option<Tenure>, Refused>>;
type CloseReply = Reply<Result<(), Refused>>;

/// What came and was not proposed or sent on yet.
#[derive(Default)]
pub(super) struct Accepting {
    deposits: Vec<Brought>,
    registrations: Vec<Registering>,
    closings: Vec<Closing>,
    /// At so many, those are forgotten of whom nobody waits any more.
    forgets_at: usize,
}

impl Accepting {
    /// While nobody leads, people give up and come again.
    fn forget(&mut self) {
        if self.waiting() < self.forgets_at.max(FORGETS_FROM) {
            return;
        }
        self.deposits.retain(|brought| brought.replies.iter().any(|reply| !reply.is_closed()));
        self.registrations.retain(|registering| !registering.reply.is_closed());
        self.closings.retain(|closing| !closing.reply.is_closed());
        self.forgets_at = 2 * self.waiting();
    }

    fn waiting(&self) -> usize {
        self.deposits.len() + self.registrations.len() + self.closings.len()
    }
}

struct Brought {
    account: Account,
    round: Round,
    deposit: Box<Deposit>,
    digest: [u8; 32],
    tenure: Option<Tenure>,
    /// Who waits for it; nobody here if whoever leads has taken note of them.
    replies: Vec<DepositReply>,
}

struct Registering {
    account: Account,
    token: Option<TokenId>,
    shown: Option<Tenure>,
    /// Its slot, if whoever leads has let it in.
    admitted: Option<Option<Tenure>>,
    reply: SlotReply,
}

struct Closing {
    account: Account,
    tenure: Option<Tenure>,
    /// Whoever leads has taken note of it.
    is_taken: bool,
    reply: CloseReply,
}

struct Registered {
    account: Account,
    token: Option<TokenId>,
    slot: Option<Tenure>,
    reply: SlotReply,
}

/// What one batch brought, as far as somebody waits for it.
pub(super) struct Batch {
    round: Round,
    /// With the digests of what they brought.
    depositors: Vec<(Account, [u8; 32])>,
    registrations: Vec<Registered>,
    closings: Vec<Closing>,
    began: Instant,
    /// What became of accounts and lots, whatever became of the deposits.
    others: Result<(), ProposeError>,
    /// What became of accounts that were to be closed.
    closed: Result<(), ProposeError>,
}

/// What is on its way to the log.
#[derive(Default)]
pub(super) struct InFlight {
    /// What is due by the clock, since when.
    pub(super) turn: Option<Instant>,
    pub(super) publication: Option<Round>,
    pub(super) sign_of_life: bool,
    pub(super) retirements: BTreeSet<Round>,
    pub(super) batches: usize,
    /// Who waits for a deposit that is not in the log yet.
    deposits: HashMap<(Account, Round, [u8; 32]), Vec<DepositReply>>,
    /// Accounts that are to be closed.
    closing: BTreeSet<Account>,
    /// Accounts that are not in the log yet, and the tokens that let them in.
    accounts: BTreeSet<Account>,
    tokens: BTreeSet<TokenId>,
    /// Tokens that are being written down as spent.
    pub(super) spent: BTreeSet<TokenId>,
}

impl Task {
    pub(super) fn deposit(
        &mut self,
        account: Account,
        round: Round,
        deposit: Box<Deposit>,
        digest: [u8; 32],
        tenure: Option<Tenure>,
        reply: DepositReply,
    ) {
        if self.leads.is_none() {
            let replies = vec![reply];
            self.accepting.deposits.push(Brought { account, round, deposit, digest, tenure, replies });
            return;
        }
        if !self.may_deposit(&account, tenure) {
            let _ = reply.send(Err(Refused::UnknownSession));
            return;
        }
        match self.machine.deposit(account, round, digest) {
            Ok(Accepted::New) => {
                self.in_flight.deposits.entry((account, round, digest)).or_default().push(reply);
                let replies = Vec::new();
                self.accepting.deposits.push(Brought { account, round, deposit, digest, tenure, replies });
            }
            // It is stored once the first of its kind is.
            Ok(Accepted::Repeated) => match self.in_flight.deposits.get_mut(&(account, round, digest)) {
                Some(waiting) => {
                    // Who repeats itself waits once.
                    waiting.retain(|reply| !reply.is_closed());
                    waiting.push(reply);
                }
                None => drop(reply.send(Ok(()))),
            },
            Err(refusal) => drop(reply.send(Err(refusal.into()))),
        }
    }

    /// Whether this account takes part, and the slot is its own still: the node that it talks to may not know what has become of it.
    fn may_deposit(&self, account: &Account, tenure: Option<Tenure>) -> bool {
        let (state, slots) = (self.log.state(), &self.slots);
        let is_had = |tenure: Tenure| {
            let is_had = (state.is_had(tenure) && !slots.is_over(tenure)) || slots.is_shown(tenure);
            !self.surroundings.parameters.code.has_slots() || (is_had && !slots.is_given_back(tenure.slot))
        };
        state.knows(account) && tenure.is_none_or(is_had)
    }

    pub(super) fn close(&mut self, account: Account, tenure: Option<Tenure>, reply: CloseReply) {
        let leads = self.leads.is_some();
        if leads && !self.log.state().knows(&account) && !self.in_flight.accounts.contains(&account) {
            // Whoever did not hear of it asks again.
            let _ = reply.send(Ok(()));
            return;
        }
        // One after the other: an account is either there or not.
        let is_busy = self.in_flight.accounts.contains(&account) || self.in_flight.closing.contains(&account);
        if leads && is_busy {
            let _ = reply.send(Err(Refused::Busy));
            return;
        }
        if leads {
            self.in_flight.closing.insert(account);
        }
        self.accepting.closings.push(Closing { account, tenure, is_taken: leads, reply });
    }

    pub(super) fn register(
        &mut self,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
        reply: SlotReply,
    ) {
        if self.leads.is_none() {
            // Who is known and has what it needs is let in by every node.
            let has_slots = self.surroundings.parameters.code.has_slots();
            let is_let_in = {
                let state = self.log.state();
                let is_begun = |shown: Tenure| {
                    shown.slot / sotto_protocol::table::LOT_SLOTS < state.lots() && state.is_had(shown)
                };
                state.knows(&account) && (!has_slots || shown.is_some_and(is_begun))
            };
            if is_let_in {
                let _ = reply.send(Ok(shown));
                return;
            }
            self.accepting.registrations.push(Registering { account, token, shown, admitted: None, reply });
            return;
        }
        match self.admit(account, token, shown) {
            Ok(slot) => {
                let admitted = Some(slot);
                self.accepting.registrations.push(Registering { account, token, shown, admitted, reply });
            }
            Err(refused) => drop(reply.send(Err(refused))),
        }
    }

    /// Lets a known account in, and a new one if there is room and its token, if it needs one, is unspent.
    fn admit(
        &mut self,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
    ) -> Result<Option<Tenure>, Refused> {
        if self.in_flight.closing.contains(&account) {
            return Err(Refused::Busy);
        }
        let known = self.in_flight.accounts.contains(&account) || self.log.state().knows(&account);
        let mut spent = None;
        if self.surroundings.token_required && !known {
            if self.spent.len() >= SPENT_MAX {
                return Err(Refused::Busy);
            }
            let unspent = |token: &TokenId| {
                let taken = [&self.spent, &self.in_flight.tokens, &self.in_flight.spent];
                !taken.iter().any(|taken| taken.contains(token)) && !self.log.state().is_spent(token)
            };
            spent = Some(token.filter(unspent).ok_or(Refused::Token)?);
        }
        if !self.log.state().admits_beside(&account, &self.in_flight.accounts) {
            return Err(Refused::Busy);
        }
        // Who gets no slot keeps its token.
        let slot = self.slot_of(account, known, shown)?;
        self.in_flight.tokens.extend(spent);
        self.in_flight.accounts.insert(account);
        Ok(slot)
    }

    /// The slot of an account that is let in: what it has shown, or what it was given and has not shown yet, or a new one. None
    /// without slots.
    fn slot_of(
        &mut self,
        account: Account,
        known: bool,
        shown: Option<Tenure>,
    ) -> Result<Option<Tenure>, Refused> {
        if !self.surroundings.parameters.code.has_slots() {
            return Ok(None);
        }
        let state = self.log.state();
        if let Some(tenure) = shown {
            if self.slots.is_over(tenure) {
                return Err(Refused::Slot);
            } else if state.is_to_come(tenure) {
                // One that was brought back from a backup does not know who was given what since, but that it has given it.
                self.slots.begin(tenure);
            } else if !state.is_had(tenure) {
                return Err(Refused::Slot);
            } else if self.slots.is_vacating(tenure.slot) {
                return Err(Refused::Busy);
            }
            self.slots.heard(&account, tenure);
            self.slots.begin_up_to(tenure.slot);
            return Ok(shown);
        }
        if let Some(unheard) = self.slots.unheard(&account) {
            return Ok(Some(unheard));
        }
        let (open, host) = (self.machine.current(), &*self.surroundings.host);
        let (slot, refused) = match known {
            true => (self.slots.take_other(account, state.vacant(), (open, host)), Refused::Slot),
            false => (self.slots.take(account, state.vacant(), (open, host)), Refused::Busy),
        };
        slot.map_err(|_| Refused::Internal)?.map(Some).ok_or(refused)
    }

    /// Who was let in and not proposed is let in anew by whoever leads now: what that one has in memory counts.
    pub(super) fn forget_admissions(&mut self) {
        for registering in &mut self.accepting.registrations {
            if registering.admitted.take().is_some() {
                self.in_flight.accounts.remove(&registering.account);
                if let Some(token) = &registering.token {
                    self.in_flight.tokens.remove(token);
                }
            }
        }
        for closing in &mut self.accepting.closings {
            if core::mem::take(&mut closing.is_taken) {
                self.in_flight.closing.remove(&closing.account);
            }
        }
        for brought in &mut self.accepting.deposits {
            let key = (brought.account, brought.round, brought.digest);
            if brought.replies.is_empty() {
                brought.replies = self.in_flight.deposits.remove(&key).unwrap_or_default();
            }
        }
    }

    /// Proposes what was accepted, but while something is on its way already. What comes meanwhile goes with the next batch, in
    /// the order of its bytes: the fewer batches there are, the less does the disk tell of who came when.
    pub(super) async fn propose_accepted(&mut self, is_due: bool) {
        if !is_due && self.in_flight.batches > 0 {
            return;
        }
        // What came before this node began to lead.
        for brought in core::mem::take(&mut self.accepting.deposits) {
            if brought.replies.is_empty() {
                self.accepting.deposits.push(brought);
                continue;
            }
            let Brought { account, round, deposit, digest, tenure, replies } = brought;
            for reply in replies {
                self.deposit(account, round, deposit.clone(), digest, tenure, reply);
            }
        }
        for Registering { account, token, shown, admitted, reply } in
            core::mem::take(&mut self.accepting.registrations)
        {
            match admitted {
                None => self.register(account, token, shown, reply),
                Some(_) => {
                    let registering = Registering { account, token, shown, admitted, reply };
                    self.accepting.registrations.push(registering);
                }
            }
        }
        for closing in core::mem::take(&mut self.accepting.closings) {
            match closing {
                Closing { account, tenure, is_taken: false, reply } => self.close(account, tenure, reply),
                taken => self.accepting.closings.push(taken),
            }
        }
        let Accepting { deposits, registrations, closings, .. } = core::mem::take(&mut self.accepting);
        if deposits.is_empty() && registrations.is_empty() && closings.is_empty() {
            return;
        }
        let round = deposits.first().map_or(self.machine.current(), |first| first.round);
        let depositors = deposits.iter().map(|brought| (brought.account, brought.digest)).collect();
        let registrations: Vec<Registered> = registrations
            .into_iter()
            .map(|Registering { account, token, admitted, reply, .. }| Registered {
                account,
                token,
                slot: admitted.flatten(),
                reply,
            })
            .collect();
        let begun_again = {
            let state = self.log.state();
            self.slots.begun(|tenure| state.is_to_come(tenure))
        };
        let (accounts, lots) = {
            let state = self.log.state();
            let accounts = registrations.iter().map(|registered| registered.account);
            let new = accounts.filter(|account| !state.knows(account)).collect();
            // With everybody whose slot may be of a lot that is not stored yet: what was proposed before may come to nothing.
            let begun = self.slots.lots() > state.lots() || !begun_again.is_empty();
            let begun = begun && !registrations.is_empty();
            // Nothing else would be written for an account that is known, and it must not be told of its slot before something is:
            // somebody else may lead meanwhile, and give it away.
            let other = |registered: &Registered| {
                state.knows(&registered.account) && self.slots.is_unstored(&registered.account)
            };
            let written = begun || registrations.iter().any(other);
            (new, written.then_some(self.slots.lots()))
        };
        let deposits = deposits.into_iter().map(|brought| *brought.deposit).collect();
        let (deposits, others) = record::entries(round, deposits, accounts, lots, begun_again);
        let of_closings = record::closed(closings.iter().map(|closing| closing.account).collect());
        let began = Instant::now();
        let (mut of_deposits, mut of_others, mut of_closed) = (Vec::new(), Vec::new(), Vec::new());
        for records in deposits {
            of_deposits.push(self.log.propose(records).await);
        }
        for records in others {
            of_others.push(self.log.propose(records).await);
        }
        for records in of_closings {
            of_closed.push(self.log.propose(records).await);
        }
        self.in_flight.batches += 1;
        self.proposed.spawn(async move {
            let mut results = [Ok(()), Ok(()), Ok(())];
            for (result, proposals) in results.iter_mut().zip([of_deposits, of_others, of_closed]) {
                for proposal in proposals {
                    let settled = proposal.await.map(|_| ());
                    if result.is_ok() {
                        *result = settled;
                    }
                }
            }
            let [deposits, others, closed] = results;
            let batch = Batch { round, depositors, registrations, closings, began, others, closed };
            Settled::Batch(Box::new(batch), deposits)
        });
    }

    /// Tells everybody who waits for a batch what became of it.
    pub(super) fn answer(&mut self, batch: Batch, deposits: &Result<(), ProposeError>) {
        let Batch { round, depositors, registrations, closings, began, others, closed } = batch;
        if deposits.is_ok() {
            let metrics = &self.surroundings.metrics;
            metrics.append.observe(began.elapsed().as_secs_f64());
            metrics.deposits.inc_by(depositors.len() as u64);
        }
        for (account, digest) in depositors {
            let result = deposits.as_ref().copied().map_err(|error| {
                self.machine.not_stored(&account, round, &digest);
                refused(error)
            });
            for reply in self.in_flight.deposits.remove(&(account, round, digest)).into_iter().flatten() {
                let _ = reply.send(result);
            }
        }
        if others.is_err() {
            // Of lots that are not stored, nobody else is given a slot.
            self.slots.go_on_behind(self.log.state().lots(), self.machine.current());
        }
        for Registered { account, token, slot, reply } in registrations {
            self.in_flight.accounts.remove(&account);
            if others.is_ok() && slot.is_some() && slot == self.slots.unheard(&account) {
                self.slots.stored(&account);
            }
            if let Some(token) = token
                && self.in_flight.tokens.remove(&token)
                && others.is_ok()
            {
                self.spent.insert(token);
            }
            // Whoever asks again is let in anew.
            let _ = reply.send(others.as_ref().map(|()| slot).map_err(not_yet));
        }
        for Closing { account, tenure, reply, .. } in closings {
            self.in_flight.closing.remove(&account);
            let given_back = {
                let state = self.log.state();
                let is_closed = closed.is_ok() && self.leads.is_some() && !state.knows(&account);
                // Not what a session shows from a tenure that is over.
                let is_had = |tenure: &Tenure| state.is_had(*tenure) || self.slots.is_shown(*tenure);
                tenure.filter(|tenure| is_closed && is_had(tenure) && !self.slots.is_over(*tenure))
            };
            if let Some(tenure) = given_back {
                self.slots.close(&account, tenure, self.machine.current());
            }
            let _ = reply.send(closed.as_ref().copied().map_err(not_yet));
        }
    }

    /// Sends what came on to whoever leads; it waits while nobody does.
    pub(super) fn send_on(&mut self, forward: &Arc<dyn Forward>, leader: Option<u64>) {
        let Some(leader) = leader else { return self.accepting.forget() };
        let Accepting { deposits, registrations, closings, .. } = core::mem::take(&mut self.accepting);
        let mut waiting = Vec::new();
        let mut sent = Vec::new();
        for Brought { account, round, deposit, digest, tenure, mut replies } in deposits {
            // It was accepted while this node led.
            replies.extend(self.in_flight.deposits.remove(&(account, round, digest)).into_iter().flatten());
            sent.push((account, round, (*deposit).clone(), tenure));
            waiting.push((account, round, deposit, digest, tenure, replies));
        }
        let again = self.again.clone();
        if !sent.is_empty() {
            let forwarding = while_it_leads(forward.deposits(leader, sent), leader, self.log.role());
            self.surroundings.tracker.spawn(async move {
                let results = forwarding.await;
                let mut lost = Vec::new();
                for (at, (account, round, deposit, digest, tenure, replies)) in
                    waiting.into_iter().enumerate()
                {
                    for reply in replies {
                        match results.as_ref().map(|results| results.get(at).copied()) {
                            Ok(Some(result)) => drop(reply.send(result)),
                            Ok(None) => drop(reply.send(Err(Refused::Internal))),
                            Err(Lost) if reply.is_closed() => {}
                            Err(Lost) => {
                                let deposit = deposit.clone();
                                lost.push(Command::Deposit {
                                    account,
                                    round,
                                    deposit,
                                    digest,
                                    tenure,
                                    reply,
                                });
                            }
                        }
                    }
                }
                if !lost.is_empty() {
                    again.bring(lost).await;
                }
            });
        }
        for Registering { account, token, shown, admitted: _, reply } in registrations {
            self.in_flight.accounts.remove(&account);
            let forwarding = forward.register(leader, account, token, shown);
            let forwarding = while_it_leads(forwarding, leader, self.log.role());
            let again = self.again.clone();
            self.surroundings.tracker.spawn(async move {
                match forwarding.await {
                    Ok(result) => drop(reply.send(result)),
                    Err(Lost) if reply.is_closed() => {}
                    Err(Lost) => again.bring([Command::Register { account, token, shown, reply }]).await,
                }
            });
        }
        for Closing { account, tenure, reply, .. } in closings {
            self.in_flight.closing.remove(&account);
            let forwarding = forward.close(leader, account, tenure);
            let forwarding = while_it_leads(forwarding, leader, self.log.role());
            let again = self.again.clone();
            self.surroundings.tracker.spawn(async move {
                match forwarding.await {
                    Ok(result) => drop(reply.send(result)),
                    Err(Lost) if reply.is_closed() => {}
                    Err(Lost) => again.bring([Command::Close { account, tenure, reply }]).await,
                }
            });
        }
    }
}

/// What becomes of something that was sent on. A machine that is gone says nothing, and a connection to it ends after seconds only:
/// what it has not answered when another node leads goes there.
async fn while_it_leads<T>(
    forwarding: Forwarded<T>,
    leader: u64,
    mut role: watch::Receiver<Role>,
) -> Result<T, Lost> {
    let another_leads = role.wait_for(|role| match role {
        Role::Leads { .. } => true,
        Role::Follows { leader: now } => now.is_some_and(|now| now != leader),
    });
    tokio::select! {
        biased;
        answer = forwarding => answer,
        Ok(_) = another_leads => Err(Lost),
    }
}

/// What those hear who came or left, and may ask again.
fn not_yet(error: &ProposeError) -> Refused {
    match error {
        ProposeError::Log(_) => Refused::Internal,
        ProposeError::Refused(_) | ProposeError::Elsewhere => Refused::Busy,
    }
}

/// What callers hear when what they brought could not be stored.
fn refused(error: &ProposeError) -> Refused {
    match error {
        ProposeError::Refused(_) => Refused::RoundClosed,
        // It may be stored all the same: the same bytes again are the same deposit.
        ProposeError::Elsewhere => Refused::Busy,
        ProposeError::Log(_) => Refused::Internal,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_goes_to_whoever_leads_next_as_soon_as_that_is_known() {
        for next in [Role::Leads { term: 2 }, Role::Follows { leader: Some(3) }] {
            let (tell, role) = watch::channel(Role::Follows { leader: Some(1) });
            let silence: Forwarded<()> = Box::pin(core::future::pending());
            let mut sent_on = Box::pin(while_it_leads(silence, 1, role));
            // Nobody else leads yet.
            for role in [Role::Follows { leader: Some(1) }, Role::Follows { leader: None }] {
                tell.send_replace(role);
                assert!(timeout(Duration::from_secs(10), &mut sent_on).await.is_err(), "{role:?}");
            }
            tell.send_replace(next);
            assert_eq!(timeout(Duration::ZERO, sent_on).await, Ok(Err(Lost)), "{next:?}");
        }
    }
}
