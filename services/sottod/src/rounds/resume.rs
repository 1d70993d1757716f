//! Going on where an earlier process ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant as Clock;

use pir_core::Scheme;
use sotto_protocol::manifest::{MAPPING_BLOOM, Manifest, SignedManifest};
use sotto_protocol::server::{RoundConfig, RoundMachine};
use sotto_protocol::{CodeShape, Round, ServerParameters};
use tokio::time::Instant;

use super::watchers::Watchers;
use super::{Builder, RunError, Surroundings, Task, build, seal};
use crate::log::{History, Phase, RoundLog};
use crate::round_database::BuildError;

impl<S: Scheme, L: RoundLog> Task<S, L> {
    /// Takes up the rounds in the log: one that was open is sealed, those without a manifest get it, and those that can
    /// still be retrieved are served again. Only then do new rounds begin, under numbers that were never used.
    pub(super) async fn resume(surroundings: Surroundings, log: Arc<L>) -> Result<Self, RunError> {
        let began = Clock::now();
        let History { newest, manifests, rounds } = log.history()?;
        let parameters = &surroundings.parameters;
        let config = RoundConfig {
            mode: parameters.mode,
            round_ms: parameters.round_ms,
            retained: parameters.retained.max(1),
            deposits_max: surroundings.deposits_max,
        };
        let previous = match manifests.last() {
            Some((_, newest)) => {
                newest.verify(&parameters.manifest_key).map_err(|_| RunError::ForeignLog)?.digest()
            }
            None => [0; 32],
        };
        let now = surroundings.host.unix_now();
        let first = newest.map_or(surroundings.first, |newest| surroundings.least.max(newest.next()));
        let mut task = Self {
            machine: RoundMachine::new(config, first, now),
            started: (now, Instant::now()),
            served: BTreeMap::new(),
            manifests: VecDeque::from(manifests),
            previous,
            watchers: Watchers::default(),
            queue: VecDeque::new(),
            building: None,
            spent: BTreeSet::new(),
            has_sealed: false,
            opened: None,
            sealed: BTreeMap::new(),
            log,
            surroundings,
        };
        task.take_up(&rounds, config.retained.into()).await?;
        let ready: Vec<Round> = task.served.keys().copied().collect();
        if newest.is_some() {
            let ms = began.elapsed().as_millis() as u64;
            tracing::info!(rounds = ready.len(), next = %first, ms, "the rounds of an earlier start are served again");
        }
        let now = task.surroundings.host.unix_now();
        task.started = (now, Instant::now());
        task.machine = RoundMachine::resume(config, first, ready, now);
        Ok(task)
    }

    async fn take_up(&mut self, rounds: &[(Round, Phase)], retained: usize) -> Result<(), RunError> {
        let unpublished = rounds.iter().filter(|(_, phase)| *phase != Phase::Published).count();
        let published = rounds.len() - unpublished;
        // Rounds that nobody has seen yet come first.
        let forgotten = published.saturating_sub(retained.saturating_sub(unpublished));
        for (at, (round, phase)) in rounds.iter().enumerate() {
            if at < forgotten && *phase == Phase::Published {
                self.log.retire(*round).await?;
                continue;
            }
            if *phase == Phase::Open {
                let entries = seal(&*self.log, *round, &*self.surroundings.host).await?;
                tracing::info!(%round, entries, "the round that was open is sealed");
            }
            self.rebuild(*round, *phase == Phase::Published).await?;
        }
        Ok(())
    }

    async fn rebuild(&mut self, round: Round, published: bool) -> Result<(), RunError> {
        let parameters = &self.surroundings.parameters;
        let signed = if published { Some(self.published(round)?) } else { None };
        if let Some((_, manifest)) = &signed
            && shape(manifest) != shape_of::<S>(parameters)
        {
            tracing::warn!(%round, "the round was published with other parameters and is not served again");
            return Ok(self.log.retire(round).await?);
        }
        let built = build(Arc::clone(&self.log), Builder::of(&self.surroundings), round).await;
        let mut database = match built {
            Ok(database) => database,
            Err(BuildError::Log(error)) => return Err(error.into()),
            // It could be built once, and another start may manage.
            Err(error) if published => {
                return Err(RunError::NotRebuilt { round, reason: error.to_string() });
            }
            Err(error) => {
                tracing::error!(%round, %error, "the round cannot be built");
                return Ok(self.log.retire(round).await?);
            }
        };
        let Some((signed, manifest)) = signed else { return self.publish(round, database).await };
        database.manifest.previous = manifest.previous;
        if database.manifest != manifest {
            return Err(RunError::Rebuilt(round));
        }
        self.serve(round, database, signed);
        Ok(())
    }

    /// Under what a round was published.
    fn published(&self, round: Round) -> Result<(SignedManifest, Manifest), RunError> {
        let stored = self.manifests.iter().find(|(number, _)| *number == round);
        let signed = stored.ok_or(RunError::Rebuilt(round))?.1.clone();
        let manifest = signed.verify(&self.surroundings.parameters.manifest_key);
        Ok((signed, manifest.map_err(|_| RunError::ForeignLog)?))
    }
}

/// What an operator may change between two starts, as rounds are built now.
fn shape_of<S: Scheme>(parameters: &ServerParameters) -> (u16, &str, CodeShape, u8) {
    (parameters.protocol_version, S::NAME, parameters.shape(), MAPPING_BLOOM)
}

/// The same of a round that was built.
fn shape(manifest: &Manifest) -> (u16, &str, CodeShape, u8) {
    (manifest.version, &manifest.engine, manifest.shape(), manifest.mapping_kind)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use pir_core::{NoOp, SealPir};
    use rand::rngs::StdRng;
    use rand::{Rng, RngExt, SeedableRng};
    use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
    use sotto_protocol::manifest::{Manifest, SignedManifest};
    use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

    use crate::data::DataDirectory;
    use crate::log::RoundLog;
    use crate::round_database::RoundDatabase;
    use crate::{Config, RunError, ServerEvent};

    const ROUND: Round = Round(5);

    fn config(data: &Path) -> Config {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        (config.allow_no_privacy, config.data) = (true, Some(data.to_owned()));
        config
    }

    /// A log with a round that is published under what a change makes of its manifest.
    async fn publish(data: &Path, change: fn(&mut Manifest)) {
        let (identity, log) = DataDirectory::open(data, None).unwrap().split();
        let key = identity.manifest;
        let parameters = config(data).parameters::<NoOp>(key.verifying_key().to_bytes()).unwrap();
        let log = log.open().await.unwrap();
        log.open(ROUND).await.unwrap();
        let deposit = |label| Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) };
        log.append(ROUND, (1..9).map(deposit).collect(), vec![[1; 32]]).await.unwrap();
        log.seal(ROUND, [7; 32], UnixMillis(1)).await.unwrap();
        let sealed = log.sealed(ROUND).await.unwrap();
        let mut manifest = RoundDatabase::<NoOp>::build(sealed, &parameters).unwrap().manifest;
        change(&mut manifest);
        log.publish(ROUND, SignedManifest::sign(&manifest, &key)).await.unwrap();
        log.close().await;
    }

    #[tokio::test]
    async fn what_was_published_is_served_again_only_if_it_is_the_same() {
        let same = tempfile::tempdir().unwrap();
        publish(same.path(), |_| {}).await;
        let running = crate::start::<NoOp>(config(same.path())).unwrap();
        let mut events = running.events();
        assert!(matches!(events.recv().await, Ok(ServerEvent::RoundBuilt { round: ROUND, .. })));
        running.shutdown().await.unwrap();

        let changes: [fn(&mut Manifest); 5] = [
            |manifest| manifest.entries -= 1,
            |manifest| manifest.bucket_size += 1,
            |manifest| manifest.round_seed[0] ^= 1,
            |manifest| manifest.mapping_digest[0] ^= 1,
            |manifest| manifest.deposits_digest[0] ^= 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let data = tempfile::tempdir().unwrap();
            publish(data.path(), change).await;
            let before = crate::check_log(data.path()).unwrap();
            for start in 1..=2 {
                let mut running = crate::start::<NoOp>(config(data.path())).unwrap();
                let failed = running.failed().await;
                assert!(
                    matches!(failed, RunError::Rebuilt(ROUND)),
                    "change {number}, start {start}: {failed}"
                );
                let _ = running.shutdown().await;
            }
            // For whoever finds out why.
            let after = crate::check_log(data.path()).unwrap();
            assert_eq!((after.rounds, after.deposits), (before.rounds, before.deposits));
        }
    }

    /// `cargo test --release -p sottod --lib time_of_a_start -- --ignored --nocapture`
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "measures, and takes minutes and gigabytes"]
    async fn time_of_a_start_with_full_rounds() {
        const ROUNDS: u64 = 4;
        const DEPOSITS: usize = 1 << 18;
        const APPEND: usize = 1 << 14;
        let data = tempfile::tempdir().unwrap();
        let config = || Config { allow_no_privacy: false, retained: ROUNDS as u8, ..config(data.path()) };
        let log = DataDirectory::open(data.path(), None).unwrap().split().1.open().await.unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let began = Instant::now();
        for round in (1..=ROUNDS).map(Round) {
            log.open(round).await.unwrap();
            for _ in 0..DEPOSITS / APPEND {
                let mut deposits = Vec::with_capacity(APPEND);
                deposits.resize_with(APPEND, || {
                    let mut bytes = [0; DEPOSIT_BYTES];
                    rng.fill_bytes(&mut bytes);
                    Deposit::decode(&bytes).unwrap()
                });
                log.append(round, deposits, Vec::new()).await.unwrap();
            }
            log.seal(round, rng.random(), UnixMillis(1)).await.unwrap();
        }
        log.close().await;
        println!("{ROUNDS} rounds of {DEPOSITS} deposits of {} messages each", config().retrieve);
        println!("filling the log: {:?}", began.elapsed());
        for start in ["sealed", "published"] {
            let began = Instant::now();
            let log = DataDirectory::open(data.path(), None).unwrap().split().1.open().await.unwrap();
            println!("rounds {start}: the log is open after {:?}", began.elapsed());
            let began = Instant::now();
            for round in (1..=ROUNDS).map(Round) {
                assert_eq!(log.sealed(round).await.unwrap().deposits.len(), DEPOSITS);
            }
            println!("rounds {start}: all deposits are read again after {:?}", began.elapsed());
            log.close().await;
            let began = Instant::now();
            let running = crate::start::<SealPir>(config()).unwrap();
            let mut events = running.events();
            while !matches!(events.recv().await, Ok(ServerEvent::RoundOpened { .. })) {}
            println!("rounds {start}: calls are answered after {:?}", began.elapsed());
            running.shutdown().await.unwrap();
        }
    }
}
