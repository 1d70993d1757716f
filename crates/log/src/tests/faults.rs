//! Crashes everywhere, and bits that flip.

use rand::RngExt;

use super::workload::{Life, rng, start};
use crate::offline::summarise;
use crate::testing::Simulated;
use crate::testing::Verbs;
use crate::{Feed, LogError, Phase, RoundLog};

/// Two in the gate; with `SOTTO_SEEDS` so many.
fn seeds() -> core::ops::RangeInclusive<u64> {
    let asked = std::env::var("SOTTO_SEEDS").map(|seeds| seeds.parse().expect("SOTTO_SEEDS is a number"));
    1..=asked.unwrap_or(2)
}

const STEPS: usize = 40;

/// Says which case it was when a test fails.
struct Case(u64, Option<usize>);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {} and a crash at operation {:?}", self.0, self.1);
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A life with this seed on a disk that crashes at this operation.
fn live(seed: u64, crash_at: Option<usize>) -> (Simulated, Life) {
    let disk = Simulated::default();
    disk.crash_at(crash_at);
    let mut life = Life::default();
    let lived = run(async {
        let log = start(&disk, seed).await?;
        let lived = life.live(&log, &mut rng(seed), STEPS).await;
        log.close().await;
        lived
    });
    // A crash behind the last of what was asked for shows to nobody.
    assert!(lived.is_ok() || disk.crashed(), "{lived:?}");
    (disk, life)
}

#[test]
fn a_crash_at_any_write_or_sync_loses_nothing_that_was_acknowledged() {
    for seed in seeds() {
        let (disk, _) = live(seed, None);
        let trace = disk.trace();
        assert_eq!(live(seed, None).0.trace(), trace, "seed {seed} does not repeat");
        assert!(
            trace.iter().any(|operation| operation.starts_with("remove segment")),
            "nothing is reclaimed"
        );
        assert!(trace.len() > 100, "the workload is too small");
        // In the gate at every other one, those that one seed leaves out with the next.
        let step = if std::env::var_os("SOTTO_SEEDS").is_some() { 1 } else { 2 };
        for crash_at in (seed as usize % step..trace.len()).step_by(step) {
            let _case = Case(seed, Some(crash_at));
            let (disk, life) = live(seed, Some(crash_at));
            assert_eq!(disk.trace(), trace[..=crash_at]);
            let mut found = disk.survivor(seed ^ crash_at as u64);
            if crash_at % 3 == 0 {
                // The next start crashes, too.
                found.crash_at(Some(crash_at % 7));
                let _ = run(start(&found, seed + 1));
                found = found.survivor(seed + crash_at as u64);
            }
            summarise(&found, |_| {}).unwrap();
            run(async {
                let log = start(&found, seed + 2).await.unwrap();
                life.check(&log).await;
                log.close().await;
                // What was found is found again.
                let log = start(&found, seed + 3).await.unwrap();
                let history = log.history();
                assert!(history.rounds.iter().all(|(_, phase)| *phase != Phase::Open));
                if let Some(newest) = history.newest {
                    assert!(matches!(log.open(newest).await, Err(LogError::Refused(_))));
                }
                log.close().await;
            });
        }
    }
}

#[test]
fn a_flipped_bit_is_reported_and_never_served() {
    for seed in seeds() {
        let _case = Case(seed, None);
        let (disk, _) = live(seed, None);
        summarise(&disk, |_| {}).unwrap();
        let mut rng = rng(seed ^ 0xf11b);
        for (name, bytes) in disk.sizes() {
            for _ in 0..40 {
                let bit = rng.random_range(0..bytes * 8);
                disk.flip(&name, bit);
                let found = summarise(&disk, |_| {}).err();
                assert!(matches!(found, Some(LogError::Corrupt { .. })), "bit {bit} of {name}: {found:?}");
                assert!(run(start(&disk, seed)).is_err(), "bit {bit} of {name}");
                disk.flip(&name, bit);
            }
        }
        summarise(&disk, |_| {}).unwrap();
    }
}

#[test]
fn a_bit_that_flips_while_the_log_is_open_is_not_served() {
    let seed = 11;
    let (disk, life) = live(seed, None);
    run(async {
        let log = start(&disk, seed).await.unwrap();
        life.check(&log).await;
        let mut refused = 0;
        let mut expected = Vec::new();
        for (round, _) in log.history().rounds {
            expected.push((round, log.sealed(round).await.unwrap()));
        }
        assert!(!expected.is_empty());
        for (name, bytes) in disk.sizes().into_iter().filter(|(name, _)| name.starts_with("segment")) {
            for byte in (64..bytes).step_by(97) {
                disk.flip(&name, byte * 8 + 3);
                for (round, expected) in &expected {
                    match log.sealed(*round).await {
                        Ok(found) => assert!(found == *expected, "byte {byte} of {name}: round {round}"),
                        Err(error) => {
                            assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
                            refused += 1;
                        }
                    }
                }
                disk.flip(&name, byte * 8 + 3);
            }
        }
        assert!(refused > 0);
    });
}
