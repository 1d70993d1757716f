//! How far the rounds in progress are, and what is kept back until their calls are made.

use std::collections::BTreeMap;

use sotto_protocol::Round;
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_wire::Failure;
use tokio::task::AbortHandle;

use crate::participant::{Event, Phase, Trouble};

/// Rounds remembered: more than can be in progress, so that an announcement repeated late is known as such.
const REMEMBERED: usize = 32;

/// How far a round's deposit is.
pub(super) enum Progress {
    /// Not announced: only the round's end was heard of.
    None,
    /// Under way.
    Sending([u8; DEPOSIT_BYTES], Option<AbortHandle>),
    /// Taken by the server.
    Taken(Phase),
    /// Not taken.
    Failed([u8; DEPOSIT_BYTES]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Retrieval {
    Waiting,
    Running,
    Done,
}

struct InProgress {
    deposit: Progress,
    retrieval: Retrieval,
    held: Vec<Event>,
}

#[derive(Default)]
pub(super) struct Rounds {
    rounds: BTreeMap<Round, InProgress>,
    /// The newest round that the client went along with.
    accepted: Option<Round>,
}

impl Rounds {
    /// How far the deposit of an announced round is.
    pub(super) fn progress(&self, round: Round) -> Option<&Progress> {
        let progress = &self.rounds.get(&round)?.deposit;
        (!matches!(progress, Progress::None)).then_some(progress)
    }

    /// Whether the client has gone along with a later round.
    pub(super) fn is_past(&self, round: Round) -> bool {
        self.accepted.is_some_and(|accepted| round < accepted)
    }

    /// Whether the client has gone along with any round in this process.
    pub(super) fn any_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    pub(super) fn accepted(&mut self, round: Round) {
        self.accepted = self.accepted.max(Some(round));
    }

    /// Begins a round's deposit and ends those of rounds before it.
    pub(super) fn begin(&mut self, round: Round, bytes: [u8; DEPOSIT_BYTES]) {
        for (older, place) in self.rounds.range_mut(..round) {
            if let Progress::Sending(bytes, call) = &place.deposit {
                call.iter().for_each(AbortHandle::abort);
                place.deposit = Progress::Failed(*bytes);
                let trouble = Trouble::Deposit(Failure::Unreachable);
                place.held.push(Event::Trouble { round: Some(*older), trouble });
            }
        }
        self.at(round).deposit = Progress::Sending(bytes, None);
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
    pub(super) fn sending(&mut self, round: Round, call: AbortHandle) {
        if let Some(InProgress { deposit: Progress::Sending(_, place), .. }) = self.rounds.get_mut(&round) {
            *place = Some(call);
        }
    }

    pub(super) fn deposited(&mut self, round: Round, result: Result<Phase, Failure>) {
        if let Some(InProgress { deposit, .. }) = self.rounds.get_mut(&round)
            && let Progress::Sending(bytes, _) = deposit
        {
            *deposit = match result {
                Ok(phase) => Progress::Taken(phase),
                Err(_) => Progress::Failed(*bytes),
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
            Progress::Taken(phase) => Some(phase),
            _ => None,
        }
    }

    /// Keeps an event back until the round's calls are made.
    pub(super) fn hold(&mut self, round: Round, event: Event) {
        self.at(round).held.push(event);
    }

    /// Whether the retrieval of a round is to start now: it has not been, and not too many others are under way.
    pub(super) fn retrieve(&mut self, round: Round, most: usize) -> bool {
        let running = self.rounds.values().filter(|other| other.retrieval == Retrieval::Running).count();
        let place = self.at(round);
        if running >= most || place.retrieval != Retrieval::Waiting {
            return false;
        }
        place.retrieval = Retrieval::Running;
        true
    }

    /// Whether a round's calls are made.
    pub(super) fn is_retrieved(&self, round: Round) -> bool {
        self.rounds.get(&round).is_some_and(|place| place.retrieval == Retrieval::Done)
    }

    /// Ends a round's retrieval and gives what was held back.
    pub(super) fn retrieved(&mut self, round: Round) -> Vec<Event> {
        let place = self.at(round);
        place.retrieval = Retrieval::Done;
        core::mem::take(&mut place.held)
    }

    /// Whether every round whose deposit was taken is retrieved, and no call is under way.
    pub(super) fn are_done(&self) -> bool {
        let pending = |round: &InProgress| match (&round.deposit, round.retrieval) {
            (_, Retrieval::Running) | (Progress::Sending(..), _) => true,
            (Progress::Taken(_), retrieval) => retrieval != Retrieval::Done,
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
            retrieval: Retrieval::Waiting,
            held: Vec::new(),
        })
    }
}
