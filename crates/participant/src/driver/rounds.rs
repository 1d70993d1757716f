//! How far the rounds in progress are, and what is kept back until their calls are made.

use std::collections::BTreeMap;

use bytes::Bytes;
use sotto_protocol::Round;
use sotto_wire::Failure;
use tokio::task::AbortHandle;

use crate::person::is_said;
use crate::{Event, Phase, Trouble};

/// Rounds remembered: more than can be in progress, so that an announcement repeated late is known as such.
pub(super) const REMEMBERED: usize = 32;
/// How often a round's end is listened to. After a reconnection it is announced again; a server that goes on and on must
/// not pile up work for the client, which is to compose the next deposit.
const ANNOUNCED_MAX: u8 = 8;
/// Events kept back for a round, beside what was said in it.
const HELD_MAX: usize = 64;

/// How far a round's deposit is.
pub(super) enum Progress {
    /// Not announced: only the round's end was heard of.
    None,
    /// The client is at it.
    Composing,
    /// Ready for its time.
    Composed(Bytes),
    /// Under way, or waiting for its time.
    Sending(Bytes, AbortHandle),
    /// Received by the server.
    Received(Phase),
    /// Not taken.
    Failed(Bytes),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Retrieval {
    Waiting,
    Running,
    /// Its calls are made; the client reads what came.
    Answered,
    Done,
}

struct InProgress {
    deposit: Progress,
    /// Whether the round was heard of after the time of its deposit.
    late: bool,
    /// Whether its deposit was composed before this process began.
    inherited: bool,
    retrieval: Retrieval,
    /// How often it was announced as ready.
    announced: u8,
    held: Vec<Event>,
}

#[derive(Default)]
pub(super) struct Rounds {
    rounds: BTreeMap<Round, InProgress>,
}

impl Rounds {
    /// How far the deposit of an announced round is.
    pub(super) fn progress(&self, round: Round) -> Option<&Progress> {
        let progress = &self.rounds.get(&round)?.deposit;
        (!matches!(progress, Progress::None)).then_some(progress)
    }

    /// Begins a round and ends the deposits of those before it.
    pub(super) fn opened(&mut self, round: Round, late: bool) {
        for (older, place) in self.rounds.range_mut(..round) {
            if let Progress::Sending(bytes, call) = &place.deposit {
                call.abort();
                place.deposit = Progress::Failed(bytes.clone());
                let trouble = Trouble::Deposit(Failure::Unreachable);
                place.held.push(Event::Trouble { round: Some(*older), trouble });
            }
        }
        let place = self.at(round);
        place.deposit = Progress::Composing;
        place.late = late;
    }

    /// Whether a round was heard of after the time of its deposit.
    pub(super) fn is_late(&self, round: Round) -> bool {
        self.rounds.get(&round).is_some_and(|place| place.late)
    }

    /// Notes what to deposit, unless its time has come before.
    pub(super) fn composed(&mut self, round: Round, bytes: Bytes, inherited: bool) {
        if let Some(place) = self.rounds.get_mut(&round)
            && matches!(place.deposit, Progress::Composing)
        {
            place.deposit = Progress::Composed(bytes);
            place.inherited = inherited;
        }
    }

    /// Whether the server has taken, for this round, what this process and no other has deposited. It takes one deposit of
    /// an account, so of several copies of a client at most one can say so.
    pub(super) fn is_ours(&self, round: Round) -> bool {
        let place = self.rounds.get(&round);
        place.is_some_and(|place| matches!(place.deposit, Progress::Received(_)) && !place.inherited)
    }

    /// Forgets rounds so old that nothing more will come of them, and gives what was held back for them.
    pub(super) fn forget(&mut self) -> Vec<Event> {
        let mut held = Vec::new();
        while self.rounds.len() > REMEMBERED
            && let Some((_, oldest)) = self.rounds.pop_first()
        {
            held.extend(oldest.held);
        }
        held
    }

    /// Notes the call by which a deposit is under way.
    pub(super) fn sending(&mut self, round: Round, bytes: Bytes, call: AbortHandle) {
        self.at(round).deposit = Progress::Sending(bytes, call);
    }

    pub(super) fn deposited(&mut self, round: Round, result: Result<Phase, Failure>) {
        if let Some(InProgress { deposit, .. }) = self.rounds.get_mut(&round)
            && let Progress::Sending(bytes, _) = deposit
        {
            *deposit = match result {
                Ok(phase) => Progress::Received(phase),
                Err(_) => Progress::Failed(bytes.clone()),
            };
        }
    }

    /// Whether this process has not deposited in a round: an earlier one may have retrieved it.
    pub(super) fn is_foreign(&self, round: Round) -> bool {
        self.progress(round).is_none()
    }

    /// What the deposit cost, if it was taken.
    pub(super) fn deposit(&self, round: Round) -> Option<Phase> {
        match self.rounds.get(&round)?.deposit {
            Progress::Received(phase) => Some(phase),
            _ => None,
        }
    }

    /// Keeps an event back until the round's calls are made; but not the same warning twice, and not warnings without
    /// end.
    pub(super) fn hold(&mut self, round: Round, event: Event) {
        let held = &mut self.at(round).held;
        let matters = is_said(&event) || matches!(event, Event::RoundReport(_));
        if matters || (held.len() < HELD_MAX && !held.contains(&event)) {
            held.push(event);
        }
    }

    /// Counts that a round is announced as ready; whether that is still worth listening to.
    pub(super) fn is_news(&mut self, round: Round) -> bool {
        let announced = &mut self.at(round).announced;
        *announced = announced.saturating_add(1);
        *announced <= ANNOUNCED_MAX
    }

    /// Whether the retrieval of a round has not begun.
    pub(super) fn is_waiting(&self, round: Round) -> bool {
        self.rounds.get(&round).is_none_or(|place| place.retrieval == Retrieval::Waiting)
    }

    /// Begins a round's retrieval.
    pub(super) fn retrieving(&mut self, round: Round) {
        self.at(round).retrieval = Retrieval::Running;
    }

    /// Ends a round's calls; what came is not read yet.
    pub(super) fn answered(&mut self, round: Round) {
        self.at(round).retrieval = Retrieval::Answered;
    }

    /// Whether a round is retrieved and read.
    pub(super) fn is_retrieved(&self, round: Round) -> bool {
        self.rounds.get(&round).is_some_and(|place| place.retrieval == Retrieval::Done)
    }

    /// Ends a round's retrieval and gives what was held back.
    pub(super) fn retrieved(&mut self, round: Round) -> Vec<Event> {
        let place = self.at(round);
        place.retrieval = Retrieval::Done;
        core::mem::take(&mut place.held)
    }

    /// Whether every round whose deposit was taken is asked for, and no call is under way.
    pub(super) fn are_called(&self) -> bool {
        let pending = |round: &InProgress| match (&round.deposit, round.retrieval) {
            (_, Retrieval::Running)
            | (Progress::Composing | Progress::Composed(_) | Progress::Sending(..), _) => true,
            (Progress::Received(_), retrieval) => retrieval == Retrieval::Waiting,
            (Progress::None | Progress::Failed(_), _) => false,
        };
        !self.rounds.values().any(pending)
    }

    /// Everything still held back.
    pub(super) fn drain(&mut self) -> Vec<Event> {
        self.rounds.values_mut().flat_map(|round| core::mem::take(&mut round.held)).collect()
    }

    fn at(&mut self, round: Round) -> &mut InProgress {
        self.rounds.entry(round).or_insert_with(|| InProgress {
            deposit: Progress::None,
            late: false,
            inherited: false,
            retrieval: Retrieval::Waiting,
            announced: 0,
            held: Vec::new(),
        })
    }
}
