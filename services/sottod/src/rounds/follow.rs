//! What every node does about what stands in the log: it builds, compares, serves and forgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use mpir::Profile;
use sotto_log::Phase;
use sotto_protocol::manifest::{Manifest, SignedManifest, mapping_kind};
use sotto_protocol::{CodeShape, MANIFEST_VERSION, Round, ServerParameters};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Builder, RoundsDependencies, RunError, Task, build};
use crate::events::ServerEvent;
use crate::metrics::{Outcome, gauge};
use crate::round_database::{BuildError, RoundDatabase, spec_of};

impl Task {
    /// Looks at the log, and does what follows from what is new there.
    pub(super) async fn follow(&mut self) -> Result<(), RunError> {
        self.changes.mark_unchanged();
        self.role.mark_unchanged();
        self.follow_announced()?;
        let (rounds, newest, directory, applied): (BTreeMap<Round, Phase>, _, _, _) = {
            let state = self.log.state();
            let directory = state.directory();
            let directory =
                directory.filter(|newest| Some(newest.claimed_number()) != self.directory).cloned();
            (state.rounds().collect(), state.newest(), directory, state.next_index())
        };
        if let Some(newest) = newest {
            // Of some rounds a node hears nothing else, if it was away.
            self.machine.used_up(newest);
        }
        if let Some(directory) = directory {
            self.directory = Some(directory.claimed_number());
            self.watchers.directory(directory);
        }
        self.hear_sign_of_life(applied);
        if rounds == self.known {
            return Ok(());
        }
        self.heard = Instant::now();
        let gone: Vec<Round> =
            self.known.keys().filter(|round| !rounds.contains_key(round)).copied().collect();
        let before = core::mem::replace(&mut self.known, rounds.clone());
        for (round, phase) in rounds {
            let was = before.get(&round).copied();
            match phase {
                Phase::Open if was.is_none() => self.has_opened(round)?,
                Phase::Sealed if was != Some(Phase::Sealed) => self.has_been_sealed(round)?,
                Phase::Published if was.is_none_or(|was| was == Phase::Open) => {
                    self.has_been_sealed(round)?;
                    self.has_been_published(round)?;
                }
                Phase::Published if was == Some(Phase::Sealed) => self.has_been_published(round)?,
                Phase::Open | Phase::Sealed | Phase::Published => {}
            }
        }
        for round in &gone {
            self.has_retired(*round);
        }
        self.notice_waiting();
        if !gone.is_empty() {
            self.log.reclaim().await?;
        }
        Ok(())
    }

    fn has_opened(&mut self, round: Round) -> Result<(), RunError> {
        self.machine.opened(round, self.now());
        if self.surroundings.seeds.seed(round).is_none() {
            if self.resumed.contains(&round) {
                tracing::warn!(%round, "the round has no seed among those that are signed now, and is given up");
                self.machine.retired(round);
                self.hopeless.insert(round);
                return Ok(());
            }
            return Err(RunError::SeedsEnded(round));
        }
        if self.resumed.contains(&round) && self.is_alone() {
            // Who has deposited in it is known no more, and so nobody shall do so again.
            self.machine.end_now();
            return Ok(());
        }
        self.resumed.remove(&round);
        self.watchers.opened(round);
        self.opened = Some(Instant::now());
        self.surroundings.metrics.open_round.set(gauge(round.0));
        self.notice_keys();
        self.tell(ServerEvent::RoundOpened { round });
        Ok(())
    }

    fn has_been_sealed(&mut self, round: Round) -> Result<(), RunError> {
        self.machine.sealed(round);
        let entries = self.log.state().deposits(round);
        if !self.may_build(round)? {
            self.hopeless.insert(round);
            return Ok(());
        }
        let is_new = self.known.get(&round) == Some(&Phase::Sealed) && !self.resumed.contains(&round);
        if is_new {
            let entries = entries.try_into().unwrap_or(usize::MAX);
            self.measure_sealed(round, entries);
            self.has_sealed = true;
            self.tell(ServerEvent::RoundSealed { round, entries });
        }
        self.queue.push_back(round);
        self.build_next();
        Ok(())
    }

    /// Whether a sealed round can be served as this node is configured now.
    fn may_build(&mut self, round: Round) -> Result<bool, RunError> {
        let former = self.log.state().former().map(|(former, _)| *former);
        if former >= Some(round) {
            tracing::warn!(%round, "the round was published under a manifest of an earlier version and is not served again");
            return Ok(false);
        }
        if self.surroundings.seeds.seed(round).is_none() {
            tracing::warn!(%round, "the round has no seed among those that are signed now, and is given up");
            return Ok(false);
        }
        if let Some((_, manifest)) = self.published(round)? {
            let RoundsDependencies { engine, parameters, root, .. } = &self.surroundings;
            if shape(&manifest) != shape_of(&**engine, parameters) {
                tracing::warn!(%round, "the round was published with other parameters and is not served again");
                return Ok(false);
            }
            if let Err(error) = engine.sizes(&spec_of(&manifest, root)) {
                tracing::warn!(%round, %error, "the round was published in an arrangement that this program does not have, and is not served");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Under what a round was published, if it was.
    pub(super) fn published(&self, round: Round) -> Result<Option<(SignedManifest, Manifest)>, RunError> {
        let Some(signed) = self.log.state().manifest(round).cloned() else { return Ok(None) };
        let key = self.manifest_key(round).ok_or(RunError::ForeignLog)?;
        let manifest = signed.verify(&key);
        Ok(Some((signed, manifest.map_err(|_| RunError::ForeignLog)?)))
    }

    pub(super) fn build_next(&mut self) {
        if self.building.is_some() {
            return;
        }
        let Some(round) = self.queue.pop_front() else { return };
        // What costs least now may be something else.
        let profile = self.published(round).ok().flatten().map(|(_, manifest)| Profile(manifest.profile));
        let (reply, built) = oneshot::channel();
        let builder = Builder { profile, ..Builder::of(&self.surroundings, &self.buffers) };
        let build = build(Arc::clone(&self.log), builder, round);
        self.surroundings.tracker.spawn(async move {
            let _ = reply.send(build.await);
        });
        self.building = Some((round, built));
    }

    /// Keeps what was built, if it still matters, and goes on with the next.
    pub(super) fn finish(&mut self, built: Result<RoundDatabase, BuildError>) -> Result<(), RunError> {
        let Some((round, _)) = self.building.take() else { return Ok(()) };
        let phase = self.log.state().rounds().find(|(number, _)| *number == round).map(|(_, phase)| phase);
        let is_published = phase == Some(Phase::Published);
        match built {
            _ if phase.is_none() => {}
            Ok(database) if Some(database.manifest.round_seed) != self.surroundings.seeds.seed(round) => {
                tracing::warn!(%round, "the round was sealed with a seed that is not signed now, and is given up");
                self.hopeless.insert(round);
            }
            Ok(database) => {
                self.built.insert(round, database);
                if self.known.get(&round) == Some(&Phase::Published) {
                    self.has_been_published(round)?;
                }
            }
            Err(BuildError::Log(error)) => return Err(error.into()),
            // It could be built once, and another start may manage.
            Err(error) if is_published => {
                return Err(RunError::NotRebuilt { round, reason: error.to_string() });
            }
            Err(error) => {
                tracing::error!(%round, %error, "the round cannot be built");
                self.hopeless.insert(round);
                // Who waits for it hears it at once.
                self.surroundings.metrics.round(Outcome::Abandoned);
                self.tell(ServerEvent::RoundAbandoned { round });
            }
        }
        self.build_next();
        Ok(())
    }

    /// Serves a round that was published, if it is built, and the same.
    fn has_been_published(&mut self, round: Round) -> Result<(), RunError> {
        let Some(mut database) = self.built.remove(&round) else { return Ok(()) };
        let (signed, manifest) = self.published(round)?.ok_or(RunError::Rebuilt(round))?;
        if database.manifest.profile != manifest.profile {
            // The node that leads runs another version of this program, to which another arrangement is the cheapest.
            if self.may_build(round)? {
                self.queue.push_front(round);
                self.build_next();
            } else {
                self.hopeless.insert(round);
            }
            return Ok(());
        }
        database.manifest.previous = manifest.previous;
        if database.manifest != manifest {
            return Err(RunError::Rebuilt(round));
        }
        self.measure_ready(round, &database);
        self.tell(ServerEvent::RoundBuilt {
            round,
            bucket_size: manifest.bucket_size,
            mapping_bytes: database.mapping.len(),
            setup_ms: database.setup_ms,
        });
        tracing::debug!(%round, entries = manifest.entries, setup_ms = database.setup_ms, "round ready");
        self.served.insert(round, Arc::new(database));
        self.resumed.remove(&round);
        self.machine.ready(round, self.now());
        self.watchers.ready(signed);
        Ok(())
    }

    fn has_retired(&mut self, round: Round) {
        self.queue.retain(|queued| *queued != round);
        self.built.remove(&round);
        self.machine.retired(round);
        let is_hopeless = self.hopeless.remove(&round);
        self.resumed.remove(&round);
        if self.served.remove(&round).is_none() && !is_hopeless {
            tracing::warn!(%round, "the round is over before this node has built its database: it is too slow for the others");
            self.surroundings.metrics.round(Outcome::Abandoned);
            self.tell(ServerEvent::RoundAbandoned { round });
        }
        self.sealed.remove(&round);
    }
}

/// What an operator may change between two starts, as rounds are built now.
fn shape_of<'a>(
    engine: &dyn mpir::Engine,
    parameters: &'a ServerParameters,
) -> (u16, &'a str, CodeShape, u8) {
    (MANIFEST_VERSION, engine.name(), parameters.shape(), mapping_kind(parameters.code))
}

/// The same of a round that was built.
fn shape(manifest: &Manifest) -> (u16, &str, CodeShape, u8) {
    (manifest.version, &manifest.engine, manifest.shape(), manifest.mapping_kind)
}
