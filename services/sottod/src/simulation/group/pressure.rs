//! Builds, and disks, that cannot keep up with the rounds.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox};
use tokio::time::{Instant, sleep, timeout};

use super::breaches::{cluster, leader, play};
use super::node::Cluster;
use crate::metrics::SharedMetrics;
use crate::rounds::{RoundNews, Watch};
use crate::simulation::server::signing_key;
use crate::simulation::world::rng;

const ROUND_MS: u32 = 1000;
/// How long something is slow.
const SLOW: Duration = Duration::from_secs(60);
/// After so long nothing of it is left.
const RECOVERED: Duration = Duration::from_secs(30);
/// In this time rounds must have their length again.
const AFTER: Duration = Duration::from_secs(10);

/// What somebody hears who watches one node all the time.
#[derive(Default)]
struct Heard {
    opened: BTreeSet<Round>,
    ready: BTreeSet<Round>,
    ended: bool,
    /// The longest time without a word.
    silence: Duration,
}

async fn listen(mut watch: Watch, heard: Arc<Mutex<Heard>>) {
    let mut last = Instant::now();
    loop {
        let news = watch.next().await;
        let heard = &mut *heard.lock().unwrap();
        heard.silence = heard.silence.max(last.elapsed());
        last = Instant::now();
        match news {
            Ok(RoundNews::Opened { round, .. }) => drop(heard.opened.insert(round)),
            Ok(RoundNews::Ready { manifest, .. }) => drop(heard.ready.insert(manifest.claimed_round())),
            Ok(_) => {}
            Err(_) => {
                heard.ended = true;
                return;
            }
        }
    }
}

/// Brings a deposit in every round, to any node, for as long as the round is open or until it is stored.
async fn deposit(cluster: &Cluster, seed: u64, acknowledged: &mut usize, whole: Duration) {
    let mut dice = rng(seed, "depositor");
    let since = Instant::now();
    let mut done = None;
    while since.elapsed() < whole {
        sleep(Duration::from_millis(dice.random_range(20..200))).await;
        let rounds = cluster.net.rounds(dice.random_range(1..=3)).unwrap();
        let Ok(Ok(round)) = timeout(Duration::from_secs(1), rounds.current()).await else { continue };
        if done == Some(round) {
            continue;
        }
        if !matches!(timeout(Duration::from_secs(1), rounds.register([9; 32], None, None)).await, Ok(Ok(_))) {
            continue;
        }
        let mut label = [0; 16];
        label[..8].copy_from_slice(&round.0.to_le_bytes());
        let deposit = Deposit { label: Label(label), sealed: SealedBox([7; BOX_BYTES]) };
        cluster.ledger.sent(round, &deposit);
        if let Ok(Ok(())) =
            timeout(Duration::from_secs(2), rounds.deposit([9; 32], round, deposit.clone(), None)).await
        {
            cluster.ledger.acknowledged(round, &deposit);
            (done, *acknowledged) = (Some(round), *acknowledged + 1);
        }
    }
}

/// What is slow, and which measurement tells of it.
struct Case {
    name: &'static str,
    slow: fn(&Cluster, u64),
    tells: fn(&SharedMetrics) -> i64,
    ms: u64,
    /// How many rounds may open meanwhile; there is time for sixty.
    rounds: core::ops::RangeInclusive<usize>,
}

fn holds(case: &Case, seed: u64) {
    let mut cluster = cluster(false, ROUND_MS);
    cluster.seed = seed;
    let (world, ledger) = (Arc::clone(&cluster.world), Arc::clone(&cluster.ledger));
    let Case { name, slow, tells, ms, rounds } = case;
    let name = format!("{name}, seed {seed}");
    play(cluster, async |cluster, nodes| {
        let before = leader(&cluster);
        let heard: Vec<Arc<Mutex<Heard>>> = (1..=3).map(|_| Arc::default()).collect();
        for (number, heard) in (1..).zip(&heard) {
            let watch = cluster.net.rounds(number).unwrap().watch([200 + number as u8; 32], false).await;
            tokio::spawn(listen(watch.unwrap(), Arc::clone(heard)));
        }
        slow(&cluster, *ms);
        let metrics = &nodes[before.0 as usize - 1].as_ref().unwrap().metrics;
        let (mut said, mut acknowledged) = (false, 0);
        let look = async {
            loop {
                sleep(Duration::from_millis(50)).await;
                said |= tells(metrics) == 1;
            }
        };
        let of_leader = &heard[before.0 as usize - 1];
        let opened = || of_leader.lock().unwrap().opened.len();
        let first = opened();
        tokio::select! {
            () = look => {}
            () = deposit(&cluster, seed, &mut acknowledged, SLOW) => {}
        }
        let during = opened() - first;
        slow(&cluster, 0);
        sleep(RECOVERED).await;
        let first = opened();
        sleep(AFTER).await;
        let after = opened() - first;
        assert!(said && tells(metrics) == 0, "{name}: said {said}, says {}", tells(metrics));
        assert!(rounds.contains(&during), "{name}: {during} rounds while it was slow");
        assert!((9..=10).contains(&after), "{name}: {after} rounds in ten seconds after that");
        assert!(
            (acknowledged + 2) * 10 >= during * 8,
            "{name}: {acknowledged} acknowledged in {during} rounds"
        );
        assert_eq!(leader(&cluster), before, "{name}: the lead has moved");
        for (number, heard) in (1..).zip(&heard) {
            let Heard { ended, silence, .. } = &*heard.lock().unwrap();
            assert!(!ended, "{name}: node {number} has sent its people away");
            assert!(*silence < Duration::from_secs(10), "{name}: node {number} said nothing for {silence:?}");
        }
        let heard = of_leader.lock().unwrap();
        let newest = heard.opened.last().unwrap();
        let never: Vec<_> = heard
            .opened
            .iter()
            .filter(|round| round.0 + 2 < newest.0 && !heard.ready.contains(round))
            .collect();
        assert!(never.is_empty(), "{name}: never ready: {never:?}");
        println!("{name}: {during} rounds, {acknowledged} acknowledged");
    });
    ledger.judge(&signing_key().verifying_key().to_bytes());
    let (_, violations) = world.finish();
    assert!(violations.is_empty(), "{name}: {violations:?}");
}

/// A build takes four rounds in the mean, and at most eight.
#[test]
fn builds_that_cannot_keep_up_make_rounds_longer_and_lose_none() {
    let slow = |cluster: &Cluster, ms| cluster.compute_ms.store(ms, Ordering::Relaxed);
    let tells = |metrics: &SharedMetrics| metrics.held_up_by_builds.get();
    for seed in 1..=4 {
        holds(&Case { name: "builds", slow, tells, ms: 8000, rounds: 8..=30 }, seed);
    }
}

/// Builds that take up to forty rounds each: all that people hear meanwhile is that the round is open.
#[test]
fn one_long_build_sends_nobody_away() {
    let slow = |cluster: &Cluster, ms| cluster.compute_ms.store(ms, Ordering::Relaxed);
    let tells = |metrics: &SharedMetrics| metrics.held_up_by_builds.get();
    for seed in 1..=4 {
        holds(&Case { name: "long builds", slow, tells, ms: 40_000, rounds: 2..=10 }, seed);
    }
}

/// Every order to a disk takes up to 60 ms, of which a round has many, and one in a hundred up to two seconds.
#[test]
fn disks_that_cannot_keep_up_make_rounds_longer_and_lose_none() {
    let slow = |cluster: &Cluster, ms| cluster.disk_ms.store(ms, Ordering::Relaxed);
    let tells = |metrics: &SharedMetrics| metrics.held_up_by_commits.get();
    for seed in 1..=4 {
        holds(&Case { name: "disks", slow, tells, ms: 60, rounds: 8..=55 }, seed);
    }
}

/// A node that took calls for news of the others would keep its people for as long as they go on calling.
#[test]
fn a_node_that_is_cut_off_while_a_round_is_held_up_keeps_nobody_though_people_call_it() {
    let cluster = cluster(false, ROUND_MS);
    let world = Arc::clone(&cluster.world);
    play(cluster, async |cluster, nodes| {
        let (leads, _) = leader(&cluster);
        cluster.compute_ms.store(400_000, Ordering::Relaxed);
        let metrics = &nodes[leads as usize - 1].as_ref().unwrap().metrics;
        let held_up = async {
            while metrics.held_up_by_builds.get() != 1 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(30), held_up).await.expect("builds hold the rounds up");
        let apart = 1 + leads % 3;
        let rounds = cluster.net.rounds(apart).unwrap();
        let heard: Arc<Mutex<Heard>> = Arc::default();
        tokio::spawn(listen(rounds.watch([7; 32], false).await.unwrap(), Arc::clone(&heard)));
        let call = async |time: Duration| {
            let since = Instant::now();
            while since.elapsed() < time {
                let _ = timeout(Duration::from_secs(1), rounds.current()).await;
                sleep(Duration::from_millis(50)).await;
            }
        };
        call(Duration::from_secs(15)).await;
        assert!(!heard.lock().unwrap().ended, "as long as the others are there everybody stays");
        for other in (1..=3).filter(|other| *other != apart) {
            cluster.net.cut(other, apart);
            cluster.net.cut(apart, other);
        }
        call(Duration::from_secs(15)).await;
        assert!(heard.lock().unwrap().ended, "a node that is cut off keeps its people");
        cluster.compute_ms.store(0, Ordering::Relaxed);
        cluster.net.heal();
    });
    let (_, violations) = world.finish();
    assert!(violations.is_empty(), "{violations:?}");
}
