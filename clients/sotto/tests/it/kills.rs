//! Real `sotto run` processes that are killed at random instants, for which no operating system asks them: the state opens
//! every time, and what was typed and taken is shown, in order.
//!
//! `SOTTO_SIGKILLS=N` kills N processes in place of a few; a failure names the seed, and `SOTTO_SEED_FIRST=SEED` is the seed
//! of another drill. The instants are of real time, so the same seed does not meet the same moment twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::{Home, Program, Server, config, loopback, signal};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A process lives no longer than this. It takes about four rounds of 0.7 s until it says something of its own.
const LIFE_MS: u64 = 9000;
const PAUSE_MS: u64 = 1500;
/// Until what waited has arrived.
const SETTLED: Duration = Duration::from_secs(600);
/// Kills after which the count is printed.
const COUNTED: u64 = 50;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

fn below(rng: &mut ChaCha20Rng, bound: u64) -> Duration {
    Duration::from_millis(rng.next_u64() % bound)
}

/// What one person typed and saw.
#[derive(Default)]
struct Screen {
    /// Texts, and whether the program said that they are stored.
    typed: Vec<(String, bool)>,
    /// Texts of the other, in the order in which they were shown, and whether each was said to have been shown before, perhaps.
    shown: Vec<(String, bool)>,
    /// Why a text was not taken, and how often.
    complaints: BTreeMap<String, usize>,
}

impl Screen {
    fn show(&mut self, printed: &str) {
        for line in printed.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let again = object["again"].as_bool().unwrap();
            self.shown.push((object["text"].as_str().unwrap().to_owned(), again));
        }
    }

    /// Types a text into a chat of its own, which shows what has come; whether the text was taken.
    fn type_in(&mut self, home: &Home, [me, other]: [&str; 2]) -> bool {
        let text = format!("{me} {:05}", self.typed.len());
        let output = home.output(&["chat", other, "--json"], &format!("{text}\n"));
        let told = String::from_utf8_lossy(&output.stderr);
        complains_of_nothing_else(&told);
        let is_taken = output.status.success();
        if !is_taken {
            *self.complaints.entry(told.lines().last().unwrap_or_default().to_owned()).or_default() += 1;
        }
        self.typed.push((text, is_taken));
        self.show(&String::from_utf8(output.stdout).unwrap());
        is_taken
    }
}

/// A process may be gone, but never the state.
fn complains_of_nothing_else(told: &str) {
    for wrong in ["panicked", "damaged", "newer sotto", "there is no state"] {
        assert!(!told.contains(wrong), "{told}");
    }
}

/// Lets the person's processes live and die until so many have been killed by both.
#[allow(clippy::print_stdout, reason = "a drill of a quarter of an hour says how far it is")]
fn kill(home: &Home, rng: &mut ChaCha20Rng, (killed, wanted): (&AtomicU64, u64)) {
    loop {
        let before = killed.fetch_add(1, Ordering::Relaxed);
        if before >= wanted {
            return;
        }
        if before > 0 && before.is_multiple_of(COUNTED) {
            println!("{before} of {wanted} killed");
        }
        let online = Program::start(home, &["run"]);
        thread::sleep(below(rng, LIFE_MS));
        // A chat may have brought its person online before.
        if let Some(process) = home.process().filter(|process| *process != online.process()) {
            signal("-KILL", process);
        }
        let told = online.killed();
        complains_of_nothing_else(&told);
        home.succeeds(&["contacts"]);
        thread::sleep(below(rng, PAUSE_MS));
    }
}

/// What was taken was seen, and what was seen once more, because a process died between its being shown and its being stored as
/// shown, was said to be; what was not taken may have been seen; everything in order.
fn check(what: &str, sender: &Screen, receiver: &Screen) {
    let mut seen = BTreeSet::new();
    let (first, more): (Vec<_>, Vec<_>) = receiver.shown.iter().partition(|(text, _)| seen.insert(text));
    assert!(more.iter().all(|(_, again)| *again), "{what}: shown twice without a word: {more:?}");
    let first: Vec<&String> = first.into_iter().map(|(text, _)| text).collect();
    let due = sender.typed.iter().filter(|(text, taken)| *taken || seen.contains(text));
    assert_eq!(first, due.map(|(text, _)| text).collect::<Vec<_>>(), "{what}");
}

/// Every text that was taken is kept once, and every one that was shown, in the order in which it was said; of each one what became of it.
fn remembers(what: &str, home: &Home, other: &str, mine: &Screen, theirs: &Screen) {
    let kept = home.json(&["history", other, "--last", "100000", "--json"]);
    let (own, heard): (Vec<_>, Vec<_>) = kept.iter().partition(|past| past["from"].is_null());
    let texts = |kept: &[&serde_json::Value]| -> Vec<String> {
        kept.iter().map(|past| past["text"].as_str().unwrap().to_owned()).collect()
    };
    let of = |screen: &Screen, kept: &[String]| -> Vec<String> {
        let due = screen.typed.iter().filter(|(text, taken)| *taken || kept.contains(text));
        due.map(|(text, _)| text.clone()).collect()
    };
    let (own, heard) = (texts(&own), texts(&heard));
    assert_eq!(own, of(mine, &own), "{what}");
    assert_eq!(heard, of(theirs, &heard), "{what}");
    let shown: BTreeSet<&String> = mine.shown.iter().map(|(text, _)| text).collect();
    assert!(shown.iter().all(|text| heard.contains(text)), "{what}");
    assert!(kept.iter().all(|past| past["mark"] != "not_sent"), "{what}");
}

#[test]
fn people_who_are_killed_again_and_again_lose_no_text() {
    let (seed, wanted) = (number("SOTTO_SEED_FIRST", 0), number("SOTTO_SIGKILLS", 4));
    let what = format!("seed {seed}, {wanted} kills");
    let server = Server::start(config(loopback()));
    let names = [["alice", "bob"], ["bob", "alice"]];
    let homes = names.map(|[name, _]| Home::join(&server.address(), name, 1));
    let invitation = homes[0].succeeds(&["invite", "bob"]);
    homes[1].succeeds_with(&["accept", "alice"], &invitation);
    homes.iter().for_each(Home::kill);

    let (began, killed) = (Instant::now(), AtomicU64::new(0));
    let screens = thread::scope(|scope| {
        let people: Vec<_> = (0_u64..)
            .zip(&homes)
            .zip(names)
            .map(|((place, home), names)| {
                let killed = &killed;
                scope.spawn(move || {
                    let mut rng = ChaCha20Rng::seed_from_u64(seed * 2 + place);
                    rng.set_stream(1);
                    let mut dice = ChaCha20Rng::seed_from_u64(seed * 2 + place);
                    let mut screen = Screen::default();
                    thread::scope(|scope| {
                        let killing = scope.spawn(|| kill(home, &mut rng, (killed, wanted)));
                        while !killing.is_finished() {
                            screen.type_in(home, names);
                            thread::sleep(below(&mut dice, 3000));
                        }
                        killing.join().unwrap();
                    });
                    screen
                })
            })
            .collect();
        people.into_iter().map(|person| person.join().unwrap()).collect::<Vec<_>>()
    });
    let mut screens: [Screen; 2] = screens.try_into().ok().unwrap();
    // Nobody dies any more: everything arrives. Both are online first, as what is typed is not taken while too much of what was
    // typed before waits for the other one. Who is online already stays so, and too many sessions in a round are refused: then
    // a person tries again.
    let until = Instant::now() + SETTLED;
    let mut online = Vec::new();
    for home in &homes {
        while home.process().is_none() {
            assert!(Instant::now() < until, "{what}: nobody comes online");
            online.push(Program::start(home, &["run"]));
            thread::sleep(Duration::from_secs(2));
        }
    }
    let before = screens.each_ref().map(|screen| screen.complaints.clone());
    for ((home, screen), names) in homes.iter().zip(&mut screens).zip(names) {
        while !screen.type_in(home, names) {
            assert!(Instant::now() < until, "{what}: {:?}", screen.complaints);
            thread::sleep(Duration::from_millis(300));
        }
    }
    for (before, screen) in before.iter().zip(&screens) {
        let mut late = screen.complaints.iter().filter(|(reason, count)| before.get(*reason) != Some(count));
        // What was typed while the other was away may still wait.
        let passes = |reason: &str| reason.contains("quota") || reason.contains("waiting to be delivered");
        assert!(late.all(|(reason, _)| passes(reason)), "{what}: {:?}", screen.complaints);
    }
    let last = screens.each_ref().map(|screen| screen.typed.last().unwrap().0.clone());
    for (place, home) in homes.iter().enumerate() {
        while !screens[place].shown.iter().any(|(text, _)| *text == last[1 - place]) {
            assert!(Instant::now() < until, "{what}: {:?}", home.json(&["status", "--json"]));
            thread::sleep(Duration::from_millis(300));
            let printed = home.succeeds(&["read", "--json"]);
            screens[place].show(&printed);
        }
    }
    check(&what, &screens[0], &screens[1]);
    check(&what, &screens[1], &screens[0]);
    for (place, home) in homes.iter().enumerate() {
        remembers(&what, home, names[place][1], &screens[place], &screens[1 - place]);
    }
    let of = |screen: &Screen| (screen.typed.len(), screen.typed.iter().filter(|(_, taken)| *taken).count());
    let typed = screens.each_ref().map(of);
    let again = screens.each_ref().map(|screen| screen.shown.iter().filter(|(_, again)| *again).count());
    println!("{what}: said to have been shown before, perhaps: {again:?}");
    println!("{what}: texts typed and taken {typed:?}, in {} s", began.elapsed().as_secs());
    screens.iter().for_each(|screen| println!("{what}: not taken because {:#?}", screen.complaints));
    assert!(
        wanted < COUNTED || typed.iter().all(|(_, taken)| *taken > 1),
        "{what}: texts are taken between kills"
    );
    drop(online);
    server.shutdown();
}
