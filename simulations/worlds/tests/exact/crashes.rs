//! Processes that are killed at every write, and at random instants; disks that are full. What must hold is in `drill`.
//!
//! `SOTTO_KILLS=N` kills N processes at random instants in place of a few, and one at every write in place of some; a failure
//! names the seed, and `SOTTO_SEED_FIRST=SEED` begins with it.

use mpir::{Engine, voce, voce_hint};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::drill::{Company, Fates, Played, play, play_with};
use crate::mortal::{Death, Fate};

/// Milliseconds until a dead process is started again: at once, in the same round, in the next, when the round is gone.
const PAUSES: [u64; 4] = [0, 60, 900, 3300];

/// Whether somebody asked for deaths at all writes, and not at some.
fn all_are_tried() -> bool {
    std::env::var_os("SOTTO_KILLS").is_some()
}

/// The step from write to write: so many, or one, so that none is left out.
fn one_in(many: usize) -> usize {
    if all_are_tried() { 1 } else { many }
}

fn undisturbed(company: Company) -> Played {
    let played = play("nobody dies", 0, company, [vec![], vec![]]);
    assert!(played.deaths == 0 && played.done.saves > 60 && played.done.sends > 150, "{:?}", played.done);
    played
}

/// Alice dies once, and is back after a pause.
fn dies(death: Death, lost: bool, pause: u64) {
    let what = format!("{death:?}, lost {lost}, back after {pause} ms");
    let fate = Fate { death, lost, ..Fate::NONE };
    let played = play(&what, 0, Company::Two, [vec![(fate, pause)], vec![]]);
    assert_eq!(played.deaths, 1, "{what}");
}

#[test]
fn a_death_at_any_write_to_the_disk_uses_no_key_twice_and_loses_no_text() {
    let writes = (0..undisturbed(Company::Two).done.saves).step_by(one_in(5));
    for (number, pause) in writes.zip(PAUSES.into_iter().cycle()) {
        dies(Death::BeforeSaving(number), false, pause);
        dies(Death::AfterSaving(number), false, pause);
    }
}

/// Whole, in part, and lost.
#[test]
fn a_death_at_any_write_to_the_wire_uses_no_key_twice_and_loses_no_text() {
    let writes = (0..undisturbed(Company::Two).done.sends).step_by(one_in(61));
    for (number, pause) in writes.zip(PAUSES.into_iter().cycle()) {
        for part in [0, 20, 200, usize::MAX] {
            dies(Death::Sending(number, part), false, pause);
        }
        dies(Death::Sending(number, usize::MAX), true, pause);
    }
}

/// An engine has what a session asked for in memory alone: whoever is started again asks under another secret, in a round that was
/// asked for, too, and reads what comes.
fn dies_with(engine: &dyn Engine, in_gate: (Death, u64)) {
    let all = undisturbed(Company::Two).done.saves;
    let deaths: Vec<_> = if all_are_tried() {
        let deaths = (0..all).map(Death::BeforeSaving).chain((0..all).map(Death::AfterSaving));
        deaths.zip(PAUSES.into_iter().cycle()).collect()
    } else {
        vec![in_gate]
    };
    for (death, pause) in deaths {
        let what = format!("{death:?} with {}, back after {pause} ms", engine.name());
        let fate = Fate { death, ..Fate::NONE };
        let played = play_with(engine, &what, 0, Company::Two, [vec![(fate, pause)], vec![]]);
        assert_eq!(played.deaths, 1, "{what}");
        assert!(all_are_tried() || played.done.asked > 0, "{what}: it had asked for nothing");
    }
}

#[test]
fn a_death_with_an_engine_whose_secrets_last_loses_no_text() {
    // What was read is stored by these writes, in the round that it was asked for in.
    dies_with(&*voce(), (Death::BeforeSaving(30), PAUSES[0]));
    dies_with(&*voce_hint(), (Death::AfterSaving(47), PAUSES[1]));
}

/// Numbers below a bound, from a seed.
struct Dice(ChaCha20Rng);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// What becomes of a process that does about so much.
    fn fate(&mut self, of: &Played) -> (Fate, u64) {
        let death = match self.below(4) {
            0 => Death::BeforeSaving(self.below(of.done.saves)),
            1 => Death::AfterSaving(self.below(of.done.saves)),
            2 => Death::Sending(self.below(of.done.sends), self.below(600) as usize),
            _ => Death::At(self.below(of.ms)),
        };
        let fails = if self.below(4) == 0 { (self.below(of.done.saves), 1 + self.below(6)) } else { (0, 0) };
        let pause = match self.below(3) {
            0 => 0,
            1 => self.below(1000),
            _ => self.below(6000),
        };
        (Fate { death, lost: self.below(2) == 0, fails }, pause)
    }

    fn fates(&mut self, of: &Played, least: u64) -> Fates {
        (0..least + self.below(3)).map(|_| self.fate(of)).collect()
    }
}

#[test]
fn deaths_at_random_instants_use_no_key_twice_and_lose_no_text() {
    let number = |name, usual: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => usual,
    };
    let (first, wanted) = (number("SOTTO_SEED_FIRST", 0), number("SOTTO_KILLS", 50));
    let (two, group) = (undisturbed(Company::Two), undisturbed(Company::Group));
    let (mut deaths, mut seed) = (0, first);
    while deaths < wanted {
        let (company, usual) = if seed % 16 == 15 { (Company::Group, &group) } else { (Company::Two, &two) };
        let mut dice = Dice(ChaCha20Rng::seed_from_u64(seed));
        let fates = [dice.fates(usual, 1), dice.fates(usual, 0)];
        deaths += play(&format!("seed {seed}, {company:?}, {fates:?}"), seed, company, fates).deaths;
        seed += 1;
    }
    println!("{deaths} processes died; seeds {first} to {}", seed - 1);
}

/// What cannot be stored is told, is not taken from the person, and nothing that follows from it leaves.
#[test]
fn a_write_that_fails_is_told_and_nothing_leaves_that_depends_on_it() {
    for number in (0..undisturbed(Company::Two).done.saves).step_by(one_in(3)) {
        let what = format!("write {number} fails");
        let fate = Fate { fails: (number, 1), ..Fate::NONE };
        play(&what, 0, Company::Two, [vec![(fate, 0)], vec![]]);
    }
}

/// The same, and the process dies while the disk is full.
#[test]
fn a_death_while_the_disk_is_full_uses_no_key_twice_and_loses_no_text() {
    let saves = undisturbed(Company::Two).done.saves;
    for (number, pause) in (0..saves).step_by(one_in(11)).zip(PAUSES.into_iter().cycle()) {
        let what = format!("writes from {number} on fail, back after {pause} ms");
        let count = 2 + number % 5;
        let fate = Fate { death: Death::BeforeSaving(number + count), fails: (number, count), ..Fate::NONE };
        let played = play(&what, 0, Company::Two, [vec![(fate, pause)], vec![]]);
        assert_eq!(played.deaths, 1, "{what}");
    }
}
