//! What must hold whatever fails.

use rand::TryRng;
use rand::rngs::SysRng;

use super::member::Habit;
use super::network::Weather;
use super::scenario::{End, History, Scenario};
use super::world::VIOLATION;

/// The seeds to try: the one that is asked for, or these and as many others as are asked for, of which each takes as long
/// as `weight` of the shortest test. None is drawn unasked: whoever changes something else would have to look into it.
fn seeds(fixed: impl IntoIterator<Item = u64>, weight: usize) -> Vec<u64> {
    if let Ok(seed) = std::env::var("SOTTO_SEED") {
        return vec![seed.parse().expect("SOTTO_SEED is a number")];
    }
    let asked = |seeds: String| seeds.parse::<usize>().expect("SOTTO_SEEDS is a number") / weight;
    let random = std::env::var("SOTTO_SEEDS").map_or(0, asked);
    // Short enough to type.
    let drawn = (0..random).map(|_| u64::from(SysRng.try_next_u32().unwrap()));
    fixed.into_iter().chain(drawn).collect()
}

/// Whether seeds were asked for, one or many: then everything is played. Where none are, as in the gate, some of it stands for the
/// rest.
fn all_is_played() -> bool {
    ["SOTTO_SEED", "SOTTO_SEEDS"].iter().any(|name| std::env::var_os(name).is_some())
}

/// One in so many is played twice, where not everything is.
const TWICE: u64 = 6;

/// What to do about a failure.
fn repeat(seed: u64, test: &str) -> String {
    format!(
        "seed {seed}; repeat with: SOTTO_SEED={seed} cargo test -p sottod --lib simulation::tests::{test}"
    )
}

fn holds(history: &History, case: &str) {
    let Some(at) = history.trace.iter().position(|line| line.contains(VIOLATION)) else { return };
    let before = history.trace[at.saturating_sub(40)..=at].join("\n");
    panic!("{before}\n\nIn all:\n{}\n{case}", history.violations.join("\n"));
}

/// Two traces must be the same.
fn same(one: &[String], other: &[String], case: &str) {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    let Some(at) = differs.or((one.len() != other.len()).then_some(one.len().min(other.len()))) else {
        return;
    };
    let show = |trace: &[String]| trace[at.saturating_sub(5)..trace.len().min(at + 3)].join("\n");
    panic!("line {at} is another:\n{}\n---\n{}\n{case}", show(one), show(other));
}

#[test]
fn whatever_fails_no_promise_is_broken_and_all_of_it_happens_again() {
    let (mut acknowledged, mut rounds) = (0, 0);
    let seeds = seeds(1..=26, 1);
    for seed in &seeds {
        let case = repeat(*seed, "whatever_fails_no_promise_is_broken_and_all_of_it_happens_again");
        let scenario = Scenario::random(*seed);
        let history = scenario.run();
        holds(&history, &case);
        if all_is_played() || seed % TWICE == 0 {
            same(&history.trace, &scenario.run().trace, &case);
        }
        acknowledged += history.figures.acknowledged;
        rounds += history.figures.published;
    }
    println!("{} seeds: {acknowledged} deposits acknowledged, {rounds} rounds published", seeds.len());
    assert!(seeds.len() == 1 || acknowledged > 5 * seeds.len(), "nothing is promised, so nothing is proved");
}

/// The power fails, or the disk does and the server goes on; and again while the next server starts.
#[test]
fn a_crash_at_any_write_or_sync_breaks_no_promise() {
    for (seed, slots) in seeds([1], 100).into_iter().flat_map(|seed| [(seed, false), (seed, true)]) {
        let repeat = repeat(seed, "a_crash_at_any_write_or_sync_breaks_no_promise");
        let small = |ends: Vec<End>| Scenario { slots, ..Scenario::small(seed, ends) }.run();
        let whole = small(vec![End::NEVER]);
        holds(&whole, &repeat);
        let snapshots = whole.trace.iter().filter(|line| line.ends_with("snapshot.new snapshot")).count();
        assert!(snapshots > 1 && whole.operations[0] > 100, "the workload is too small");
        let operations = whole.trace.iter().enumerate().filter(|(_, line)| line.contains(" disk: "));
        let operations = operations.take(whole.operations[0]).enumerate();
        // With slots the log has two kinds of entries more, so not every moment is tried, but odd and even ones.
        let step = if slots { 5 } else { 1 } * if all_is_played() { 1 } else { 7 };
        for (at, (line, _)) in operations.step_by(step) {
            let lost = End::Power(usize::MAX);
            for (end, next) in [
                (End::Power(at), End::Power(at % 11)),
                (End::Disk(at), End::NEVER),
                (End::Kill(at), End::Power(at % 13)),
                (End::Kill(at), lost),
            ] {
                let case = format!("{end:?}, {next:?}, slots {slots}; {repeat}");
                let history = small(vec![end, next]);
                holds(&history, &case);
                // The first line tells how it will end.
                same(&whole.trace[1..=line], &history.trace[1..=line], &case);
            }
        }
    }
}

/// A member whose calls fail in every way, or somebody who does what no client should, or nobody: for all others it is
/// the same.
#[test]
fn no_client_learns_of_the_failure_of_another() {
    let storm = Weather {
        lost: 200,
        unanswered: 200,
        repeated: 300,
        abandoned: 200,
        torn: 200,
        cut: 500,
        late: 200,
        way_ms: 50,
        late_ms: 3000,
    };
    for seed in seeds(1..=6, 10) {
        let case = repeat(seed, "no_client_learns_of_the_failure_of_another");
        let with = |change: &dyn Fn(&mut Scenario)| {
            let mut scenario = Scenario::calm(seed);
            change(&mut scenario);
            let history = scenario.run();
            holds(&history, &case);
            history.views
        };
        let others = Scenario::calm(seed).members.len();
        let alone = with(&|_| {});
        assert!(alone.iter().all(|view| view.len() > 10));
        let reads = |weather| with(&|scenario| scenario.members.push((Habit::Reads, weather)));
        let deposits = |weather| with(&|scenario| scenario.members.push((Habit::Retrieves, weather)));
        let hostile = |weather| with(&|scenario| scenario.hostile = Some(weather));
        for views in [reads(Weather::CALM), reads(storm), hostile(Weather::CALM), hostile(storm)] {
            for (view, expected) in views[..others].iter().zip(&alone) {
                same(expected, view, &case);
            }
        }
        // How many deposits a round has is for everybody to see, and nothing else is.
        for (view, expected) in deposits(storm)[..others].iter().zip(&deposits(Weather::CALM)) {
            same(&without_contents(expected), &without_contents(view), &case);
        }
    }
}

/// What was answered and when, but not what stands in a manifest or an answer.
fn without_contents(view: &[String]) -> Vec<String> {
    let contents = |line: &str| line.contains(" manifest ") || line.contains(" answers ");
    view.iter().filter(|line| !contents(line)).cloned().collect()
}
