//! The rounds of a server as a state machine: what is open, sealed, ready, retired; who may do what in which round; and
//! when, by its clock, the next step is due.
//!
//! The machine takes no step itself. Steps stand in a log that may have been written elsewhere; whoever reads it tells the
//! machine what stands there, and whoever writes it asks the machine what is to be written next ([`RoundMachine::turn`]).

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
    /// Most deposits in one round.
    pub deposits_max: usize,
}

/// An account: its Ed25519 public key.
pub type Account = [u8; 32];

/// What is to be written into the log now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This round takes deposits.
    Open(Round),
    /// This round takes no more, and from the same moment on the second one does, if there is one.
    Seal(Round, Option<Round>),
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
/// At any time at most one round takes deposits; rounds open, and are sealed, one after the other, with ascending numbers.
/// With a deadline the next round opens at the moment a round is sealed, and databases are built meanwhile. In closed loop a
/// round is sealed when every registered account has deposited, and the next opens when every account that can retrieve has
/// done so, can do so no more, or has had [`ANSWERS_MS`].
#[derive(Debug)]
pub struct RoundMachine {
    config: RoundConfig,
    clock: Stopwatch,
    /// The least number that the next round may have.
    next: Round,
    open: Option<OpenRound>,
    /// The open round goes on past its length: enough others wait to be built.
    held: bool,
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
    /// It is to end now, whoever has deposited and whatever the clock says.
    over: bool,
    /// Its end is being written.
    ending: bool,
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
    /// A server of which no round is open, sealed or ready, and whose next round has the number `first`.
    #[must_use]
    pub fn new(config: RoundConfig, first: Round, now: UnixMillis) -> Self {
        Self {
            config,
            clock: Stopwatch::new(now),
            next: first,
            open: None,
            held: false,
            building: BTreeMap::new(),
            ready: BTreeMap::new(),
            units: Window::default(),
            registered: HashMap::new(),
        }
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
        let Some(open) = self.open.as_mut().filter(|open| open.round == round && !open.ending) else {
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

    /// What an account deposited in a round, of which `digest` is a digest, could not be stored: it may deposit again, and
    /// something else.
    pub fn not_stored(&mut self, account: &Account, round: Round, digest: &[u8; 32]) {
        if let Some(open) = self.open.as_mut().filter(|open| open.round == round)
            && open.deposits.digest(account).as_ref() == Some(digest)
        {
            open.deposits.give_back(account);
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
    pub fn retrieved(&mut self, account: &Account, round: Round) {
        if let Some(ready) = self.ready.get_mut(&round) {
            ready.awaited.remove(account);
        }
    }

    /// A retrieval of an account has ended without all its answers.
    pub fn unanswered(&mut self, account: &Account, round: Round) {
        if let Some(ready) = self.ready.get_mut(&round)
            && ready.queries.is_spent(account)
        {
            ready.awaited.remove(account);
        }
    }

    /// No round gets this number any more, or one below it.
    pub fn used_up(&mut self, round: Round) {
        self.next = self.next.max(round.next());
    }

    /// A round takes deposits from now on.
    pub fn opened(&mut self, round: Round, now: UnixMillis) {
        self.clock.advance(now);
        self.next = self.next.max(round.next());
        let opened = self.clock.elapsed();
        let deposits = Quota::default();
        self.open = Some(OpenRound { round, opened, over: false, ending: false, deposits });
    }

    /// The round that is open is to end now: nobody can tell how long it has been open, or who has deposited in it.
    pub fn end_now(&mut self) {
        if let Some(open) = &mut self.open {
            open.over = true;
        }
    }

    /// Whoever has deposited in the open round may do so again: what came of it is not known here.
    pub fn forget_deposits(&mut self) {
        if let Some(open) = &mut self.open {
            open.deposits = Quota::default();
        }
    }

    /// The open round ends by the clock in so many milliseconds at the earliest.
    pub fn stays_open(&mut self, now: UnixMillis, ms: u64) {
        self.clock.advance(now);
        let least = self.clock.elapsed().saturating_add(ms).saturating_sub(self.config.round_ms.into());
        if let Some(open) = &mut self.open {
            open.opened = open.opened.max(least);
        }
    }

    /// What [`RoundMachine::turn`] said is being written: until it stands in the log, no more deposits come into a round that
    /// ends, and nothing else is due. `false` takes that back.
    pub fn ending(&mut self, ending: bool) {
        if let Some(open) = &mut self.open {
            open.ending = ending;
        }
    }

    /// So many sealed rounds wait for their databases that with a deadline the open one goes on past its length, until this is
    /// taken back. In closed loop no round opens before that anyway.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether the open round should have ended and goes on, because of [`RoundMachine::hold`].
    #[must_use]
    pub fn is_held_up(&self, now: UnixMillis) -> bool {
        let over = |(_, open): (Round, u64)| open >= u64::from(self.config.round_ms);
        self.held && self.config.mode == RoundMode::Deadline && self.open(now).is_some_and(over)
    }

    /// A round takes no more deposits.
    pub fn sealed(&mut self, round: Round) {
        self.next = self.next.max(round.next());
        let open = self.open.take_if(|open| open.round == round);
        let awaited = match (self.config.mode, open) {
            (RoundMode::ClosedLoop, Some(open)) => open.deposits.accounts().collect(),
            _ => HashSet::new(),
        };
        self.building.insert(round, awaited);
    }

    /// A sealed round can be retrieved from now on.
    pub fn ready(&mut self, round: Round, now: UnixMillis) {
        let Some(awaited) = self.building.remove(&round) else { return };
        self.clock.advance(now);
        let since = self.clock.elapsed();
        self.ready.insert(round, ReadyRound { awaited, since, ..ReadyRound::default() });
    }

    /// A round is forgotten.
    pub fn retired(&mut self, round: Round) {
        self.next = self.next.max(round.next());
        self.open.take_if(|open| open.round == round);
        self.building.remove(&round);
        self.ready.remove(&round);
    }

    /// Whether a sealed round is still to become ready.
    #[must_use]
    pub fn is_building(&self, round: Round) -> bool {
        self.building.contains_key(&round)
    }

    /// What is due now, if anything is; to be asked at [`RoundMachine::next_wakeup`] and after events.
    #[must_use]
    pub fn turn(&mut self, now: UnixMillis) -> Option<Turn> {
        self.clock.advance(now);
        match &self.open {
            None => self.may_open().then_some(Turn::Open(self.next)),
            Some(open) if self.may_seal(open) => {
                let at_once = self.config.mode == RoundMode::Deadline;
                Some(Turn::Seal(open.round, at_once.then_some(self.next)))
            }
            Some(_) => None,
        }
    }

    /// When to ask for [`RoundMachine::turn`] if nothing else happens; `None` if only an event can change something.
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
        if open.ending {
            return None;
        }
        if open.over {
            return Some(now);
        }
        let deadline = open.opened.saturating_add(self.config.round_ms.into());
        let waits = deadline.saturating_sub(self.clock.elapsed_at(now));
        match self.config.mode {
            // Whoever takes the hold back looks again.
            RoundMode::Deadline if self.held && waits == 0 => None,
            RoundMode::Deadline => Some(UnixMillis(now.0.saturating_add(waits))),
            RoundMode::ClosedLoop if waits > 0 => Some(UnixMillis(now.0.saturating_add(waits))),
            // Past its least length only events matter, and every event is followed by a look. But that length may have been reached
            // since the last look.
            RoundMode::ClosedLoop => self.all_have_deposited(open).then_some(now),
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

    fn may_seal(&self, open: &OpenRound) -> bool {
        if open.ending || open.over {
            return !open.ending;
        }
        let full_length = self.clock.elapsed().saturating_sub(open.opened) >= u64::from(self.config.round_ms);
        match self.config.mode {
            RoundMode::Deadline => full_length && !self.held,
            RoundMode::ClosedLoop => full_length && self.all_have_deposited(open),
        }
    }

    fn all_have_deposited(&self, open: &OpenRound) -> bool {
        let deposits = &open.deposits;
        deposits.len() > 0 && self.registered.keys().all(|account| deposits.digest(account).is_some())
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
