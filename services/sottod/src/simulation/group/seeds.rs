//! Many histories. Each is played in a process of its own, whose chance follows from the seed: what one finds, the command that
//! it names finds again, step by step.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sotto_protocol::base32::BASE32;

use super::play::{History, Play};

/// Seeds that the gate plays.
const SEEDS: u64 = 22;
/// And those that have found something. The first: all nodes end at once, and one leads on in the term of its earlier start before it
/// knows that the newest lot of slots was begun.
const FOUND: [u64; 1] = [1_640_949_218];
/// One in so many of them is played twice.
const TWICE: u64 = 10;
/// Lines of the trace that are shown when something is wrong.
const SHOWN: usize = 120;
/// How the line with the outcome begins.
const OUTCOME: &str = "outcome ";

/// What a history comes to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Outcome {
    /// SHA-256 of the trace, base32.
    trace: String,
    steps: usize,
    crashes: usize,
    /// Disks that failed.
    failures: usize,
    admitted: usize,
    slots: usize,
    closed: usize,
    had_again: usize,
    acknowledged: usize,
    published: usize,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "plays SOTTO_SEED, in this process"]
fn a_seed() {
    let seed = number("SOTTO_SEED").expect("SOTTO_SEED=N");
    assert!(cfg!(not(target_os = "linux")) || sotto_chance::is_seeded());
    let History { trace, violations, figures, crashes, failures } = Play::of(seed).run();
    let shown = trace.len().saturating_sub(SHOWN);
    assert!(violations.is_empty(), "{}\n\n{}", trace[shown..].join("\n"), violations.join("\n"));
    let outcome = Outcome {
        trace: BASE32.encode(&Sha256::digest(trace.join("\n"))),
        steps: trace.len(),
        crashes,
        failures,
        admitted: figures.admitted,
        slots: figures.slots,
        closed: figures.closed,
        had_again: figures.had_again,
        acknowledged: figures.acknowledged,
        published: figures.published,
    };
    println!("{OUTCOME}{}", serde_json::to_string(&outcome).unwrap());
}

/// Plays a seed in a process of its own.
fn played(seed: u64) -> Outcome {
    let test = concat!(module_path!(), "::a_seed");
    let (_, test) = test.split_once("::").unwrap();
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("SOTTO_SEED", seed.to_string())
        .output()
        .unwrap();
    let [said, errors] =
        [process.stdout, process.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(
        process.status.success(),
        "{said}\n{errors}\nseed {seed}; repeat with: SOTTO_SEED={seed} cargo test -p sottod --lib {test} -- --exact --ignored"
    );
    // The name of the test stands before it.
    let outcome = said.lines().find_map(|line| Some(line.split_once(OUTCOME)?.1));
    serde_json::from_str(outcome.expect("an outcome")).unwrap()
}

/// With `SOTTO_SEEDS` so many more, drawn now, and all of them twice.
#[test]
fn whatever_nodes_fail_no_promise_of_the_cluster_is_broken() {
    use rand::TryRng;
    use rand::rngs::SysRng;

    let more = number("SOTTO_SEEDS");
    let drawn = (0..more.unwrap_or(1)).map(|_| u64::from(SysRng.try_next_u32().unwrap()));
    let seeds: Vec<u64> = (1..=SEEDS).chain(FOUND).chain(drawn).collect();
    let next = AtomicUsize::new(0);
    let outcomes = scope(|scope| {
        let play = || {
            let mut outcomes = Vec::new();
            while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = played(*seed);
                if cfg!(target_os = "linux") && (more.is_some() || seed % TWICE == 0) {
                    assert_eq!(
                        outcome,
                        played(*seed),
                        "seed {seed} is another history when it is played again"
                    );
                }
                outcomes.push(outcome);
            }
            outcomes
        };
        let threads = available_parallelism().map_or(1, usize::from);
        let playing: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        playing.into_iter().flat_map(|playing| playing.join().unwrap()).collect::<Vec<_>>()
    });
    let sum = |figure: fn(&Outcome) -> usize| outcomes.iter().map(figure).sum::<usize>();
    let (acknowledged, crashes) = (sum(|outcome| outcome.acknowledged), sum(|outcome| outcome.crashes));
    let (admitted, slots) = (sum(|outcome| outcome.admitted), sum(|outcome| outcome.slots));
    let (closed, had_again) = (sum(|outcome| outcome.closed), sum(|outcome| outcome.had_again));
    let failures = sum(|outcome| outcome.failures);
    println!(
        "{} seeds: {crashes} crashes, {failures} disks that failed, {admitted} accounts let in and {slots} slots given, \
         {closed} accounts closed, {had_again} of their slots given again, {acknowledged} deposits acknowledged, {} rounds published",
        outcomes.len(),
        sum(|outcome| outcome.published)
    );
    assert_eq!(outcomes.len(), seeds.len());
    assert!(acknowledged > 50 * seeds.len(), "nothing is promised, so nothing is proved");
    assert!(closed > seeds.len() && had_again > 0, "nobody leaves");
    assert!(crashes > seeds.len() && failures > 0 && admitted > seeds.len() && slots > seeds.len());
}
