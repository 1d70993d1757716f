//! The rounds of a server as a state machine: what is open, sealed, ready, retired; who may do what in which round.
//!
//! The machine does nothing itself. Its caller tells it what happened and carries out the [`Action`]s it returns, in
//! their order.

mod clock;
mod quota;
mod seeds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Round, RoundMode, UnixMillis};

use clock::Stopwatch;
use quota::{Quota, Window};

pub use quota::{ATTEMPTS_MAX, UNITS_MAX, UNITS_WINDOW};
pub use seeds::{SeedChain, seeds_of, segment_end};

/// How long a closed loop waits for those who retrieve, from the moment a round is ready, ms.
pub const ANSWERS_MS: u64 = 60_000;

/// How rounds follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundConfig {
    /// When a round ends.
    pub mode: RoundMode,
    /// Length of a round, ms; in closed loop the least length.
    pub round_ms: u32,
    /// Ready rounds that stay retrievable (R), at least 1.
    pub retained: u8,
    /// Most deposits in one round.
    pub deposits_max: usize,
}

/// An account: its Ed25519 public key.
pub type Account = [u8; 32];

/// What the caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take deposits for this round.
    Open(Round),
    /// Take no more: fix the set of deposits, draw the round seed, build the database, then call
    /// [`RoundMachine::built`] or [`RoundMachine::abandoned`].
    Seal(Round),
    /// Forget this round. One that was never built is not to be published any more.
    Retire(Round),
}

/// What became of a call that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The first of its kind in this round.
    New,
    /// The same bytes again.
    Repeated,
}

/// Why a call is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The round is sealed, or no longer retrievable.
    #[error("the round is over")]
    Closed,
    /// The round is not open for this yet.
    #[error("the round is not open for this yet")]
    NotReady,
    /// This account has made this call in this round, with other bytes or too often.
    #[error("the quota of this round is used up")]
    Quota,
    /// The round has as many deposits as it can take.
    #[error("the round is full")]
    Full,
}

/// The rounds of one server.
///
/// At any time at most one round takes deposits; rounds open, and are sealed, one after the other by number without a
/// gap. With a deadline the next round opens at the moment a round is sealed, and databases are built meanwhile; a
/// build that is still not done when R further rounds are sealed is given up. In closed loop a round is sealed when
/// every registered account has deposited, and the next opens when every account that can retrieve has done so, can
/// do so no more, or has had [`ANSWERS_MS`].
#[derive(Debug)]
pub struct RoundMachine {
    config: RoundConfig,
    clock: Stopwatch,
    next: Round,
    open: Option<OpenRound>,
    /// Sealed, not ready; in closed loop with those who deposited.
    building: BTreeMap<Round, HashSet<Account>>,
    ready: BTreeMap<Round, ReadyRound>,
    /// Who asked for units lately.
    units: Window,
    /// Accounts that take part now, and whether their PIR keys are known.
    registered: HashMap<Account, bool>,
}

#[derive(Debug)]
struct OpenRound {
    round: Round,
    opened: u64,
    deposits: Quota,
}

#[derive(Debug, Default)]
struct ReadyRound {
    mappings: Quota,
    hints: Quota,
    queries: Quota,
    units: Quota,
    /// In closed loop: those who deposited in it and have not retrieved yet.
    awaited: HashSet<Account>,
    /// When it became ready, by the machine's clock.
    since: u64,
}

impl RoundMachine {
    /// A server whose first round is `first`. It opens with the first [`RoundMachine::tick`].
    #[must_use]
    pub fn new(config: RoundConfig, first: Round, now: UnixMillis) -> Self {
        Self {
            config: RoundConfig { retained: config.retained.max(1), ..config },
            clock: Stopwatch::new(now),
            next: first,
            open: None,
            building: BTreeMap::new(),
            ready: BTreeMap::new(),
            units: Window::default(),
            registered: HashMap::new(),
        }
    }

    /// A server that goes on after a restart, with `ready` rounds that can be retrieved again. Nobody is waited for in
    /// them, and quotas begin anew. They must be earlier than `first`.
    #[must_use]
    pub fn resume(
        config: RoundConfig,
        first: Round,
        ready: impl IntoIterator<Item = Round>,
        now: UnixMillis,
    ) -> Self {
        let mut machine = Self::new(config, first, now);
        machine.ready.extend(ready.into_iter().map(|round| (round, ReadyRound::default())));
        machine
    }

    /// The oldest round that is not over: one that can be retrieved or will be, or takes deposits, or does so next.
    #[must_use]
    pub fn oldest(&self) -> Round {
        let kept = self.ready.keys().chain(self.building.keys()).copied().min();
        kept.map_or(self.current(), |kept| kept.min(self.current()))
    }

    /// An account takes part from now on; `has_keys` says whether it can retrieve. May be repeated.
    pub fn registered(&mut self, account: Account, has_keys: bool) {
        self.registered.insert(account, has_keys);
    }

    /// An account takes part no longer, until it is registered again. Its deposits stay.
    pub fn gone(&mut self, account: &Account) {
        self.registered.remove(account);
    }

    /// A deposit arrives, of which `digest` is a digest.
    ///
    /// # Errors
    /// [`Refusal`], and the deposit is not part of any round.
    pub fn deposit(&mut self, account: Account, round: Round, digest: [u8; 32]) -> Result<Accepted, Refusal> {
        let late = round < self.next;
        let Some(open) = self.open.as_mut().filter(|open| open.round == round) else {
            return Err(if late { Refusal::Closed } else { Refusal::NotReady });
        };
        // A repetition costs nothing and must find its acknowledgement.
        match open.deposits.digest(&account) {
            Some(known) if known == digest => Ok(Accepted::Repeated),
            Some(_) => Err(Refusal::Quota),
            None if open.deposits.len() >= self.config.deposits_max => Err(Refusal::Full),
            None => open.deposits.take(account, digest),
        }
    }

    /// An account asks for a round's mapping.
    ///
    /// # Errors
    /// [`Refusal`] if it is not to be sent.
    pub fn mapping(&mut self, account: Account, round: Round) -> Result<Accepted, Refusal> {
        self.retrievable(round)?.mappings.take(account, [0; 32])
    }

    /// An account asks for a round's hint.
    ///
    /// # Errors
    /// [`Refusal`] if it is not to be sent.
    pub fn hint(&mut self, account: Account, round: Round) -> Result<Accepted, Refusal> {
        self.retrievable(round)?.hints.take(account, [0; 32])
    }

    /// An account asks for the buckets of one unit of a round: of every round one, and of [`UNITS_WINDOW`] rounds at most
    /// [`UNITS_MAX`].
    ///
    /// # Errors
    /// [`Refusal`] if it is not to be sent.
    pub fn unit(&mut self, account: Account, round: Round, unit: u16) -> Result<Accepted, Refusal> {
        let window = self.current().0 / UNITS_WINDOW;
        self.units.begin(window);
        let has_room = self.units.has_room(&account);
        let mut which = [0; 32];
        which.iter_mut().zip(unit.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        let asked = &mut self.retrievable(round)?.units;
        if asked.digest(&account).is_none() && !has_room {
            return Err(Refusal::Quota);
        }
        let accepted = asked.take(account, which)?;
        if accepted == Accepted::New {
            self.units.count(account);
        }
        Ok(accepted)
    }

    /// An account's multi-query for a round arrives, of which `digest` is a digest.
    ///
    /// # Errors
    /// [`Refusal`] if it is not to be answered.
    pub fn retrieve(
        &mut self,
        account: Account,
        round: Round,
        digest: [u8; 32],
    ) -> Result<Accepted, Refusal> {
        let ready = self.retrievable(round)?;
        let accepted = ready.queries.take(account, digest);
        if accepted.is_err() {
            // It gives the call up, and nobody is to wait for it.
            ready.awaited.remove(&account);
        }
        accepted
    }

    /// An account has its answers of a round.
    #[must_use]
    pub fn retrieved(&mut self, account: &Account, round: Round, now: UnixMillis) -> Vec<Action> {
        if let Some(ready) = self.ready.get_mut(&round) {
            ready.awaited.remove(account);
        }
        self.tick(now)
    }

    /// A retrieval of an account has ended without all its answers.
    #[must_use]
    pub fn unanswered(&mut self, account: &Account, round: Round, now: UnixMillis) -> Vec<Action> {
        if let Some(ready) = self.ready.get_mut(&round)
            && ready.queries.is_spent(account)
        {
            ready.awaited.remove(account);
        }
        self.tick(now)
    }

    /// A sealed round's database is built and its manifest published.
    #[must_use]
    pub fn built(&mut self, round: Round, now: UnixMillis) -> Vec<Action> {
        let Some(awaited) = self.building.remove(&round) else { return self.tick(now) };
        self.clock.advance(now);
        let since = self.clock.elapsed();
        self.ready.insert(round, ReadyRound { awaited, since, ..ReadyRound::default() });
        let mut actions = Vec::new();
        while self.ready.len() > self.config.retained.into() {
            actions.extend(self.ready.pop_first().map(|(oldest, _)| Action::Retire(oldest)));
        }
        actions.extend(self.tick(now));
        actions
    }

    /// A sealed round's database cannot be built.
    #[must_use]
    pub fn abandoned(&mut self, round: Round, now: UnixMillis) -> Vec<Action> {
        let retired = self.building.remove(&round).map(|_| Action::Retire(round));
        retired.into_iter().chain(self.tick(now)).collect()
    }

    /// Whether a sealed round is still to be built and published.
    #[must_use]
    pub fn is_building(&self, round: Round) -> bool {
        self.building.contains_key(&round)
    }

    /// Time passes; to be called at [`RoundMachine::next_wakeup`] and after events.
    #[must_use]
    pub fn tick(&mut self, now: UnixMillis) -> Vec<Action> {
        self.clock.advance(now);
        let mut actions = Vec::new();
        if self.may_seal() {
            self.seal(&mut actions);
        }
        if self.open.is_none() && self.may_open() {
            let round = self.next;
            self.next = round.next();
            self.open = Some(OpenRound { round, opened: self.clock.elapsed(), deposits: Quota::default() });
            actions.push(Action::Open(round));
        }
        actions
    }

    /// When to call [`RoundMachine::tick`] if nothing else happens; `None` if only an event can change something.
    #[must_use]
    pub fn next_wakeup(&self, now: UnixMillis) -> Option<UnixMillis> {
        let Some(open) = &self.open else {
            return if self.may_open() {
                Some(now)
            } else {
                let waits = self.answers_due()?.saturating_sub(self.clock.elapsed_at(now));
                Some(UnixMillis(now.0.saturating_add(waits)))
            };
        };
        let deadline = open.opened.saturating_add(self.config.round_ms.into());
        let waits = deadline.saturating_sub(self.clock.elapsed_at(now));
        match self.config.mode {
            RoundMode::Deadline => Some(UnixMillis(now.0.saturating_add(waits))),
            // Past its least length only events matter, and every event is followed by a tick.
            RoundMode::ClosedLoop => (waits > 0).then(|| UnixMillis(now.0.saturating_add(waits))),
        }
    }

    /// The round that takes deposits and how long it has, ms.
    #[must_use]
    pub fn open(&self, now: UnixMillis) -> Option<(Round, u64)> {
        self.open.as_ref().map(|open| (open.round, self.clock.elapsed_at(now).saturating_sub(open.opened)))
    }

    /// The round that takes deposits, or the one that will be next.
    #[must_use]
    pub fn current(&self) -> Round {
        self.open.as_ref().map_or(self.next, |open| open.round)
    }

    fn retrievable(&mut self, round: Round) -> Result<&mut ReadyRound, Refusal> {
        let later = round >= self.current() || self.building.contains_key(&round);
        self.ready.get_mut(&round).ok_or(if later { Refusal::NotReady } else { Refusal::Closed })
    }

    fn may_seal(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let full_length = self.clock.elapsed().saturating_sub(open.opened) >= u64::from(self.config.round_ms);
        match self.config.mode {
            RoundMode::Deadline => full_length,
            RoundMode::ClosedLoop => {
                full_length
                    && open.deposits.len() > 0
                    && self.registered.keys().all(|account| open.deposits.digest(account).is_some())
            }
        }
    }

    fn seal(&mut self, actions: &mut Vec<Action>) {
        let Some(open) = self.open.take() else { return };
        actions.push(Action::Seal(open.round));
        let awaited = match self.config.mode {
            RoundMode::Deadline => HashSet::new(),
            RoundMode::ClosedLoop => open.deposits.accounts().collect(),
        };
        self.building.insert(open.round, awaited);
        // Too late to be of use: those sealed R rounds ago.
        let useful = open.round.0.saturating_sub(u64::from(self.config.retained) - 1);
        let still = self.building.split_off(&Round(useful));
        let given_up = core::mem::replace(&mut self.building, still);
        actions.extend(given_up.into_keys().map(Action::Retire));
    }

    fn may_open(&self) -> bool {
        match self.config.mode {
            RoundMode::Deadline => true,
            RoundMode::ClosedLoop => {
                let can_retrieve = |account| self.registered.get(account).copied().unwrap_or(false);
                let newest = self.ready.last_key_value();
                let due = self.answers_due().is_none_or(|due| due <= self.clock.elapsed());
                self.building.is_empty()
                    && (due || newest.is_none_or(|(_, ready)| !ready.awaited.iter().any(can_retrieve)))
            }
        }
    }

    /// When nobody is waited for any more who retrieves from the newest round; `None` while another is being built.
    fn answers_due(&self) -> Option<u64> {
        let (_, newest) = self.ready.last_key_value().filter(|_| self.building.is_empty())?;
        Some(newest.since.saturating_add(ANSWERS_MS))
    }
}
