//! What becomes of rounds when databases are not built, or entries not stored, as fast as rounds end: the open one lasts longer, for
//! everybody alike, and nothing that was acknowledged is given up.

use std::time::Duration;

use sotto_log::Phase;
use tokio::time::Instant;

use super::Task;
use super::lead::Settled;

/// So many sealed rounds may wait for their databases while one more is open; one if a node keeps only one. One build may thus take
/// longer than a round before people notice.
const WAITING_MAX: usize = 2;
/// While a round is held up whoever leads writes this often that it is there: silence would look like a node that is cut off.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// People who hear nothing for longer than this look for another node.
const REPEAT: Duration = Duration::from_secs(4);
/// The end of a round that is not stored after so long is late.
const STORED_WITHIN: Duration = Duration::from_millis(500);

impl Task {
    /// Has the open round wait while too many others do. All nodes see the same, as it stands in the log.
    pub(super) fn notice_waiting(&mut self) {
        let waiting = self.known.values().filter(|phase| **phase == Phase::Sealed).count();
        let retained = usize::from(self.surroundings.parameters.retained.max(1));
        self.machine.hold(waiting >= WAITING_MAX.min(retained));
    }

    /// If something was stored since the last time, in a round that is held up, whoever leads is there. A node alone is always
    /// there for itself; in a cluster, what its clients call tells a node nothing.
    pub(super) fn hear_sign_of_life(&mut self, applied: u64) {
        let moved = core::mem::replace(&mut self.applied, applied) != applied;
        if !(moved || self.is_alone()) || !self.machine.is_held_up(self.now()) {
            return;
        }
        self.heard = Instant::now();
        if self.told.elapsed() >= REPEAT {
            self.told = Instant::now();
            self.watchers.still_open();
        }
    }

    /// An entry without records, which every node takes for what it is.
    pub(super) async fn propose_sign_of_life(&mut self) {
        if self.next_sign_of_life().is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.in_flight.sign_of_life = true;
        let proposal = self.log.propose(Vec::new()).await;
        self.proposed.spawn(async { Settled::SignOfLife(proposal.await.map(|_| ())) });
    }

    /// When the next one is due; a node alone needs none.
    pub(super) fn next_sign_of_life(&self) -> Option<Instant> {
        let tells =
            self.leads.is_some() && !self.is_alone() && !self.in_flight.sign_of_life && !self.holds_back();
        (tells && self.machine.is_held_up(self.now())).then(|| self.heard + SIGN_OF_LIFE)
    }

    /// When the end of the open round is late that is on its way.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.in_flight.turn.map(|since| since + STORED_WITHIN).filter(|late| *late > Instant::now())
    }

    /// Tells operators what rounds wait for.
    pub(super) fn measure_pressure(&self) {
        let metrics = &self.surroundings.metrics;
        metrics.held_up_by_builds.set(self.machine.is_held_up(self.now()).into());
        let late = self.in_flight.turn.is_some_and(|since| since.elapsed() >= STORED_WITHIN);
        metrics.held_up_by_commits.set(late.into());
    }
}
