//! Going on where an earlier process ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sotto_log::{ACCOUNTS_MAX, RoundLog};
use sotto_protocol::Round;
use sotto_protocol::server::{RoundConfig, RoundMachine};
use sotto_protocol::table::LOT_SLOTS;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::accepting::{Accepting, InFlight};
use super::handle::Again;
use super::places::Places;
use super::watchers::Watchers;
use super::{RoundsDependencies, RunError, Task};
use crate::largest::{largest_round, most_lots};
use crate::population::Population;
use crate::round_database::Buffers;
use crate::slots::SlotPool;

impl Task {
    /// A task that has looked at nothing yet. It takes the rounds in the log up like those that come to stand there; new ones
    /// begin under numbers that were never used.
    pub(super) fn resume(
        surroundings: RoundsDependencies,
        log: Arc<dyn RoundLog>,
        again: Again,
    ) -> Result<Self, RunError> {
        let parameters = &surroundings.parameters;
        let (code, wanted) = (parameters.shape(), surroundings.deposits_max);
        let deposits_max = match code.kind.has_slots() {
            // As many as there are slots.
            true => wanted,
            false => largest_round(&*surroundings.engine, code, wanted),
        };
        if deposits_max < wanted {
            tracing::info!(deposits_max, "a round takes no more deposits than its engine can arrange");
        }
        let of_population = surroundings.population.map_or(0, Population::lots);
        let most_lots = match code.kind.has_slots() {
            // Whoever makes accounts and closes them at once must not fill a table that nobody could download.
            true => most_lots(&*surroundings.engine, code).min(of_population + 2 * ACCOUNTS_MAX / LOT_SLOTS),
            false => 0,
        };
        let config = RoundConfig { mode: parameters.mode, round_ms: parameters.round_ms, deposits_max };
        // A start may have ended between the log and the file.
        surroundings.take_up(log.state().announced())?;
        let said = surroundings.announcing.said();
        let key = |round: &Round| said.parameters.manifest_key_of(*round).ok_or(RunError::ForeignLog);
        let (newest, lots, resumed) = {
            let state = log.state();
            // Whatever else is in the log was signed by the same server.
            match (state.manifests().back(), state.former()) {
                (Some((round, newest)), _) => {
                    newest.verify(&key(round)?).map(drop).map_err(|_| RunError::ForeignLog)?;
                }
                (None, Some((round, former))) => {
                    former.digest(&key(round)?).map(drop).map_err(|_| RunError::ForeignLog)?;
                }
                (None, None) => {}
            }
            let resumed: BTreeSet<_> = state.rounds().map(|(round, _)| round).collect();
            (state.newest(), state.lots(), resumed)
        };
        let now = surroundings.host.unix_now();
        let first = newest.map_or(surroundings.first, |newest| surroundings.least.max(newest.next()));
        if newest.is_some() {
            tracing::info!(rounds = resumed.len(), next = %first, "the rounds of an earlier start are taken up");
        }
        let mut task = Self {
            changes: log.changes(),
            role: log.role(),
            machine: RoundMachine::new(config, first, now),
            started: (now, Instant::now()),
            known: BTreeMap::new(),
            queue: VecDeque::new(),
            building: None,
            buffers: Buffers::default(),
            built: BTreeMap::new(),
            served: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            watchers: Watchers::default(),
            leads: None,
            proposed: JoinSet::new(),
            in_flight: InFlight::default(),
            held: None,
            accepting: Accepting::default(),
            spent: BTreeSet::new(),
            slots: SlotPool::behind(lots.max(of_population), most_lots, surroundings.vacancy),
            places: Places::default(),
            directory: None,
            has_sealed: false,
            warned: None,
            heard: Instant::now(),
            applied: 0,
            told: Instant::now(),
            is_silent: false,
            opened: None,
            sealed: BTreeMap::new(),
            resumed,
            again,
            log,
            surroundings,
        };
        task.watchers.announced(task.surroundings.announcing.said().announced());
        // Whatever it looks at first is new to it.
        task.changes.mark_changed();
        Ok(task)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use ed25519_dalek::Signer;
    use mpir::{Engine, noop, sealpir};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
    use sotto_protocol::manifest::{FormerManifest, MAPPING_FORMER, Manifest, SignedManifest};
    use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};
    use sotto_wire::RootKey;

    use crate::announcement::Announced;
    use crate::data::DataDirectory;
    use crate::round_database::RoundDatabase;
    use crate::{Config, RunError, ServerEvent};
    use sotto_log::testing::Verbs;
    use sotto_log::{Feed, RoundLog};

    const ROUND: Round = Round(5);

    fn config(data: &Path) -> Config {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        (config.allow_no_privacy, config.data) = (true, Some(data.to_owned()));
        config.seed_segments = Some(1);
        config
    }

    /// A log with a round that is published under what a change makes of its manifest.
    async fn publish(data: &Path, change: fn(&mut Manifest)) {
        publish_by(noop(), data, change).await;
    }

    async fn publish_by(engine: Arc<dyn Engine>, data: &Path, change: fn(&mut Manifest)) {
        let directory = DataDirectory::open(data, None).unwrap();
        let Announced { parameters, mut seeds, .. } =
            directory.announce(&*engine, &config(data), ROUND).unwrap();
        let seed = seeds.seed(ROUND).unwrap();
        let (identity, _, log) = directory.split();
        let key = identity.manifest;
        let log = log.open().await.unwrap();
        log.open(ROUND).await.unwrap();
        let deposit = |label| Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) };
        log.append(ROUND, (1..9).map(deposit).collect(), vec![[1; 32]], None).await.unwrap();
        log.seal(ROUND, seed, None, UnixMillis(1)).await.unwrap();
        let sealed = log.sealed(ROUND).await.unwrap();
        let mut manifest =
            RoundDatabase::build(sealed, &*engine, &identity.root, &parameters).unwrap().manifest;
        change(&mut manifest);
        log.publish(ROUND, SignedManifest::sign(&manifest, &key)).await.unwrap();
        log.close().await;
    }

    #[tokio::test]
    async fn what_was_published_is_served_again_only_if_it_is_the_same() {
        let same = tempfile::tempdir().unwrap();
        publish(same.path(), |_| {}).await;
        let running = crate::start(noop(), config(same.path())).unwrap();
        let mut events = running.events();
        assert!(matches!(events.recv().await, Ok(ServerEvent::RoundBuilt { round: ROUND, .. })));
        running.shutdown().await.unwrap();

        let changes: [fn(&mut Manifest); 6] = [
            |manifest| manifest.entries -= 1,
            |manifest| manifest.bucket_size += 1,
            |manifest| manifest.round_seed[0] ^= 1,
            |manifest| manifest.mapping_digest[0] ^= 1,
            |manifest| manifest.deposits_digest[0] ^= 1,
            |manifest| manifest.buckets_digest[0] ^= 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let data = tempfile::tempdir().unwrap();
            publish(data.path(), change).await;
            let before = crate::check_log(data.path()).unwrap();
            for start in 1..=2 {
                let mut running = crate::start(noop(), config(data.path())).unwrap();
                let mut events = running.events();
                tokio::select! {
                    failed = running.failed() => assert!(
                        matches!(failed, RunError::Rebuilt(ROUND)),
                        "change {number}, start {start}: {failed}"
                    ),
                    event = events.recv() => panic!("change {number}, start {start}: {event:?}"),
                }
                let _ = running.shutdown().await;
            }
            // For whoever finds out why.
            let after = crate::check_log(data.path()).unwrap();
            assert_eq!((after.rounds, after.deposits), (before.rounds, before.deposits));
        }
    }

    #[tokio::test]
    async fn a_round_with_a_mapping_of_before_is_retired() {
        let data = tempfile::tempdir().unwrap();
        publish(data.path(), |manifest| manifest.mapping_kind = MAPPING_FORMER).await;
        let running = crate::start(noop(), config(data.path())).unwrap();
        let mut events = running.events();
        let event = events.recv().await;
        assert!(matches!(event, Ok(ServerEvent::RoundOpened { round }) if round > ROUND), "{event:?}");
        running.shutdown().await.unwrap();
        // Its manifest stays in the chain.
        assert!(crate::read_log(data.path()).unwrap()[&ROUND].manifest.is_some());
    }

    /// What no program has any more keeps no server from starting.
    #[tokio::test]
    async fn a_round_in_an_arrangement_that_is_not_there_is_retired() {
        let data = tempfile::tempdir().unwrap();
        publish_by(sealpir(), data.path(), |manifest| manifest.profile = [0xff; 16]).await;
        let mut running = crate::start(sealpir(), config(data.path())).unwrap();
        let mut events = running.events();
        tokio::select! {
            failed = running.failed() => panic!("{failed}"),
            event = events.recv() => {
                assert!(matches!(event, Ok(ServerEvent::RoundOpened { round }) if round > ROUND), "{event:?}");
            }
        }
        running.shutdown().await.unwrap();
    }

    /// What arrangement costs least is no part of the protocol: another version of this program may choose otherwise, and
    /// must serve what is published all the same.
    #[tokio::test]
    async fn what_was_published_under_another_arrangement_is_served_again_under_it() {
        let data = tempfile::tempdir().unwrap();
        publish_by(sealpir(), data.path(), |manifest| {
            // Another bit in every coefficient of the answers.
            manifest.profile[5] += 1;
            sotto_session::round_spec(&*sealpir(), &RootKey([0; 32]), manifest).unwrap();
        })
        .await;

        let mut running = crate::start(sealpir(), config(data.path())).unwrap();
        let mut events = running.events();
        tokio::select! {
            failed = running.failed() => panic!("{failed}"),
            event = events.recv() => {
                assert!(matches!(event, Ok(ServerEvent::RoundBuilt { round: ROUND, .. })), "{event:?}");
            }
        }
        running.shutdown().await.unwrap();
    }

    fn deposits() -> Vec<Deposit> {
        (1..9)
            .map(|label| Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) })
            .collect()
    }

    /// A log as servers of an earlier version wrote it: accounts and tokens, a round that is published, one that is sealed, and one
    /// that is open.
    async fn written_by_version(version: u16, data: &Path) -> FormerManifest {
        let (identity, _, log) = DataDirectory::open(data, None).unwrap().split();
        let log = log.open().await.unwrap();
        let next = |rounds| Round(ROUND.0 + rounds);
        for round in [ROUND, next(1), next(2)] {
            log.open(round).await.unwrap();
            log.append(round, deposits(), vec![[round.0 as u8; 32]], None).await.unwrap();
        }
        log.spend(vec![[7; 16]]).await.unwrap();
        log.seal(ROUND, [1; 32], None, UnixMillis(1)).await.unwrap();
        log.seal(next(1), [2; 32], None, UnixMillis(2)).await.unwrap();
        let bytes = vec![9; FormerManifest::bytes_of(version).unwrap()];
        let signed = [format!("sotto/manifest/v{version}/signature\0").as_bytes(), &bytes].concat();
        let signature = identity.manifest.sign(&signed).to_bytes();
        let former = FormerManifest::new(version, &bytes, signature).unwrap();
        log.publish_former(ROUND, former.clone()).await.unwrap();
        log.close().await;
        former
    }

    #[tokio::test]
    async fn a_log_of_an_earlier_version_goes_on_with_everything_but_the_rounds_of_then() {
        for (version, _) in FormerManifest::VERSIONS {
            goes_on(version).await;
        }
    }

    async fn goes_on(version: u16) {
        let data = tempfile::tempdir().unwrap();
        let former = written_by_version(version, data.path()).await;
        let running = crate::start(noop(), config(data.path())).unwrap();
        let mut events = running.events();
        let open = Round(ROUND.0 + 2);
        // What was open then is sealed and published now; the next number is one that was never used.
        assert!(matches!(events.recv().await, Ok(ServerEvent::RoundBuilt { round, .. }) if round == open));
        assert!(
            matches!(events.recv().await, Ok(ServerEvent::RoundOpened { round }) if round == open.next())
        );
        let parameters = running.parameters().clone();
        running.shutdown().await.unwrap();

        let summary = crate::check_log(data.path()).unwrap();
        assert_eq!((summary.accounts, summary.tokens), (3, 1));
        let logged = crate::read_log(data.path()).unwrap();
        let manifest = logged[&open].manifest.as_ref().unwrap().verify(&parameters.manifest_key).unwrap();
        assert_eq!(manifest.previous, former.digest(&parameters.manifest_key).unwrap(), "one chain");
        assert_eq!(manifest.entries, 8);

        // A second start finds the same.
        let again = crate::start(noop(), config(data.path())).unwrap();
        assert_eq!(*again.parameters(), parameters);
        let mut events = again.events();
        while !matches!(events.recv().await, Ok(ServerEvent::RoundOpened { .. })) {}
        again.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn a_log_of_an_earlier_version_of_another_server_is_refused() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        written_by_version(1, ours.path()).await;
        written_by_version(2, theirs.path()).await;
        std::fs::remove_dir_all(ours.path().join("log")).unwrap();
        std::fs::rename(theirs.path().join("log"), ours.path().join("log")).unwrap();
        let mut running = crate::start(noop(), config(ours.path())).unwrap();
        assert!(matches!(running.failed().await, RunError::ForeignLog));
    }

    /// A round that nobody has seen yet, sealed under a seed that was not fixed beforehand, is never published.
    #[tokio::test]
    async fn a_round_sealed_with_a_seed_of_its_own_is_given_up() {
        let data = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(data.path(), None).unwrap();
        let mut seeds = directory.announce(&*noop(), &config(data.path()), ROUND).unwrap().seeds;
        let log = directory.split().2.open().await.unwrap();
        for (round, seed) in [(ROUND, [3; 32]), (ROUND.next(), seeds.seed(ROUND.next()).unwrap())] {
            log.open(round).await.unwrap();
            log.append(round, deposits(), Vec::new(), None).await.unwrap();
            log.seal(round, seed, None, UnixMillis(1)).await.unwrap();
        }
        log.close().await;
        let running = crate::start(noop(), config(data.path())).unwrap();
        let mut events = running.events();
        let built = events.recv().await;
        assert!(
            matches!(built, Ok(ServerEvent::RoundBuilt { round, .. }) if round == ROUND.next()),
            "{built:?}"
        );
        running.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn no_round_opens_behind_the_last_seed() {
        let mut config = Config { data: None, round_ms: 200, ..config(Path::new("")) };
        (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
        // The seeds begin with the first round, and the clock of this log is at their end.
        let data = tempfile::tempdir().unwrap();
        config.data = Some(data.path().to_owned());
        let directory = DataDirectory::open(data.path(), None).unwrap();
        let seeds = directory.announce(&*noop(), &config, ROUND).unwrap().seeds;
        let end = seeds.tree().commitment().end();
        let log = directory.split().2.open().await.unwrap();
        log.open(end.back(2)).await.unwrap();
        log.close().await;
        let mut running = crate::start(noop(), config.clone()).unwrap();
        let mut events = running.events();
        let failed = running.failed().await;
        assert!(matches!(failed, RunError::SeedsEnded(round) if round == end), "{failed}");
        assert!(failed.to_string().contains("certify --seeds"));
        let mut opened = Vec::new();
        while let Ok(event) = events.try_recv() {
            opened.extend(matches!(event, ServerEvent::RoundOpened { .. }).then_some(event));
        }
        assert_eq!(opened.len(), 1, "the last round with a seed");
        let _ = running.shutdown().await;

        crate::data::certify(&*noop(), data.path(), None, &config, true).unwrap();
        let more = crate::start(noop(), config).unwrap();
        assert_eq!(more.parameters().serial, 2);
        let mut events = more.events();
        while !matches!(events.recv().await, Ok(ServerEvent::RoundOpened { round }) if round > end) {}
        more.shutdown().await.unwrap();
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
        let directory = DataDirectory::open(data.path(), None).unwrap();
        let mut seeds = directory.announce(&*sealpir(), &config(), Round(1)).unwrap().seeds;
        let log = directory.split().2.open().await.unwrap();
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
                log.append(round, deposits, Vec::new(), None).await.unwrap();
            }
            log.seal(round, seeds.seed(round).unwrap(), None, UnixMillis(1)).await.unwrap();
        }
        log.close().await;
        println!("{ROUNDS} rounds of {DEPOSITS} deposits of {} messages each", config().retrieve);
        println!("filling the log: {:?}", began.elapsed());
        for start in ["sealed", "published"] {
            let began = Instant::now();
            let log = DataDirectory::open(data.path(), None).unwrap().split().2.open().await.unwrap();
            println!("rounds {start}: the log is open after {:?}", began.elapsed());
            let began = Instant::now();
            for round in (1..=ROUNDS).map(Round) {
                assert_eq!(log.sealed(round).await.unwrap().deposits.len(), DEPOSITS);
            }
            println!("rounds {start}: all deposits are read again after {:?}", began.elapsed());
            log.close().await;
            let began = Instant::now();
            let running = crate::start(sealpir(), config()).unwrap();
            let mut events = running.events();
            while !matches!(events.recv().await, Ok(ServerEvent::RoundOpened { .. })) {}
            println!("rounds {start}: calls are answered after {:?}", began.elapsed());
            running.shutdown().await.unwrap();
        }
    }
}
