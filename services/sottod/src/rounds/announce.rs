//! Another manifest key: announced in the log, taken up by every node in front of the same round.

use sotto_log::{Record, Role};
use sotto_protocol::manifest::seed::SEGMENT_ROUNDS;
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::Announced;
use tokio::time::Instant;

use super::command::Reply;
use super::lead::Settled;
use super::{RoundsDependencies, RunError, Task};
use crate::certificate::NOTICE_DAYS;
use crate::metrics::gauge;

impl RoundsDependencies {
    /// Says what the log announces, if that is later than what is said.
    pub(super) fn take_up(&self, logged: Option<&Announced>) -> Result<bool, RunError> {
        let Some(logged) = logged else { return Ok(false) };
        let parameters = match self.announcing.judge(&self.root, logged) {
            Ok(Some(parameters)) => parameters,
            Ok(None) => {
                let said = self.announcing.said();
                let known = ServerParameters::decode(&logged.announcement).map(|known| known.key_epoch);
                let goes_back = known.is_ok_and(|known| known.number > said.parameters.key_epoch.number);
                return if goes_back { Err(RunError::FormerKey) } else { Ok(false) };
            }
            Err(_) => return Err(RunError::ForeignLog),
        };
        let (number, first) = (parameters.key_epoch.number, parameters.key_epoch.first);
        let stored = self.announcing.say(parameters, logged.endorsement);
        stored.map_err(|error| RunError::Announcement(error.to_string()))?;
        tracing::info!(number, %first, "another manifest key is announced, and signs from this round on");
        Ok(true)
    }
}

impl Task {
    /// The key that signs a round, as it is announced now.
    pub(super) fn manifest_key(&self, round: Round) -> Option<[u8; 32]> {
        self.surroundings.announcing.said().parameters.manifest_key_of(round)
    }

    /// Takes up what stands in the log.
    pub(super) fn follow_announced(&mut self) -> Result<(), RunError> {
        let logged = self.log.state().announced().cloned();
        if self.surroundings.take_up(logged.as_ref())? {
            self.watchers.announced(self.surroundings.announcing.said().announced());
            self.notice_keys();
        }
        Ok(())
    }

    /// Says in time, and with every round, that the next key is not here; deletes what is of no use.
    pub(super) fn notice_keys(&self) {
        let announcing = &self.surroundings.announcing;
        announcing.look_for_keys();
        let (said, newest) = (announcing.said(), self.machine.current());
        let epoch = &said.parameters.key_epoch;
        let metrics = &self.surroundings.metrics;
        metrics.manifest_key_missing.set(said.lacks_key().into());
        if let Some(end) = epoch.ends() {
            let left = end.0.saturating_sub(newest.0);
            metrics.manifest_key_left.set(gauge(left));
            let days = left.saturating_mul(said.parameters.round_ms.into()) / DAY_MS;
            if days < NOTICE_DAYS && left.is_multiple_of(SEGMENT_ROUNDS) {
                tracing::warn!(
                    days,
                    rounds = left,
                    "the manifest key ends soon; make the next with 'sottod keys rotate'"
                );
            }
        }
        if said.lacks_key() {
            let rounds = epoch.first.0.saturating_sub(newest.0);
            tracing::error!(
                file = crate::manifest_keys::file(epoch.number),
                rounds,
                "the secret of the next manifest key is not in the data directory: bring it there before so many rounds \
                 have passed, or this node cannot lead"
            );
        }
        let oldest = self.known.keys().next().copied();
        if oldest.is_some_and(|oldest| oldest >= epoch.first)
            && let Err(error) = announcing.forget_former()
        {
            tracing::warn!(%error, "the secret of the former manifest key cannot be deleted");
        }
    }

    /// Whether this node can sign what it would lead. If not, another one leads, or nobody does.
    pub(super) async fn can_sign(&mut self) -> bool {
        let (next, said) = (self.machine.current(), self.surroundings.announcing.said());
        // The oldest that is to be published, and the one that would be opened next.
        let waiting = self.known.iter().find(|(_, phase)| **phase == sotto_log::Phase::Sealed);
        let rounds = [waiting.map_or(next, |(round, _)| *round), next, next.next()];
        let unsigned = rounds.into_iter().find(|round| said.signing_key(*round).is_none());
        let Some(round) = unsigned else { return true };
        // Whoever brings a key does so while the server runs.
        self.held = Some(Instant::now() + WITHOUT_KEY);
        if round >= said.parameters.key_epoch.end {
            tracing::error!(%round, "the manifest key has ended, and rounds stand still: see 'sottod keys rotate'");
        } else if self.is_alone() {
            tracing::error!(%round, "the secret of the manifest key is not here, and rounds stand still");
        } else {
            tracing::error!(%round, "this node lacks the secret of the manifest key, and has another one lead");
            self.log.hand_over().await;
        }
        false
    }

    /// Puts an announcement of another manifest key into the log.
    pub(super) async fn announce(&mut self, announced: Announced, reply: Reply<Result<Round, String>>) {
        let answer = |refused: String| Err(refused);
        let refused = match *self.role.borrow() {
            Role::Leads { .. } => None,
            Role::Follows { leader: Some(leader) } => {
                Some(format!("node {leader} leads: run this on its machine"))
            }
            Role::Follows { leader: None } => Some("no node leads just now: see 'sottod status'".to_owned()),
        };
        if let Some(refused) = refused {
            drop(reply.send(answer(refused)));
            return;
        }
        let announcing = &self.surroundings.announcing;
        let parameters = match announcing.judge(&self.surroundings.root, &announced) {
            Ok(Some(parameters)) => parameters,
            Ok(None) => {
                return drop(reply.send(answer("it is announced already, or something later is".to_owned())));
            }
            Err(error) => return drop(reply.send(answer(error.to_string()))),
        };
        if !announcing.has_key_of(&parameters) {
            let file = crate::manifest_keys::file(parameters.key_epoch.number);
            return drop(reply.send(answer(format!(
                "{file} is not in the data directory of this node, or is another key's"
            ))));
        }
        let (first, newest) = (parameters.key_epoch.first, self.machine.current());
        let least = Round(newest.0 + AHEAD);
        if first < least {
            let refused = format!(
                "its key would sign from round {first} on, and round {newest} is open: make another one, with --from {least} or later"
            );
            return drop(reply.send(answer(refused)));
        }
        let round_ms = u64::from(parameters.round_ms.max(1));
        let most = Round(least.0.saturating_add(AHEAD_DAYS_MAX * DAY_MS / round_ms));
        if first > most {
            let refused = format!(
                "its key would sign from round {first} on, which is more than {AHEAD_DAYS_MAX} days from now, and until then no \
                 other one could be announced: make another one, with --from {most} or earlier"
            );
            return drop(reply.send(answer(refused)));
        }
        let proposal = self.log.propose(vec![Record::Announced(Box::new(announced))]).await;
        self.proposed.spawn(async move { Settled::Announced(first, reply, proposal.await.map(|_| ())) });
    }
}

const DAY_MS: u64 = 86_400_000;
/// A node that lacks a key proposes nothing for so long, while others come to lead.
const WITHOUT_KEY: core::time::Duration = core::time::Duration::from_secs(1);
/// A key signs so many rounds after the one that is open when it is announced, at the least: every node hears of it before.
const AHEAD: u64 = 4;
/// A key that signs only in more days than these is not announced: before it signs no other one can be.
const AHEAD_DAYS_MAX: u64 = 90;
