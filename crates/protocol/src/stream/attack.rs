//! Random schedules of losses, delays, restored states and copies between two, against an oracle. `SOTTO_SEEDS=N` plays N of
//! them in place of 300, `SOTTO_SEED_FIRST=SEED` that one alone.

#![allow(clippy::needless_range_loop, reason = "both ends of a conversation by number, in several arrays")]

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::{Inbox, Inbox2, Item, Outbox, Outbox2, TEXTS_MAX};
use crate::Round;
use crate::message::Kind;

const PART: usize = 8;

#[derive(Serialize, Deserialize, Default)]
struct End {
    outbox: Outbox,
    inbox: Inbox,
}

impl End {
    fn copy(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap()
    }
    fn of(state: &[u8]) -> Self {
        postcard::from_bytes(state).unwrap()
    }
}

/// What travels: number, acknowledgement, item.
#[derive(Clone)]
struct Box_ {
    acknowledgement: (u32, u32),
    item: Option<(u32, Item)>,
}

#[derive(Default)]
struct Oracle {
    said: BTreeSet<Vec<u8>>,
    shown: BTreeMap<Vec<u8>, u32>,
    order: Vec<Vec<u8>>,
    /// Shown as arrived to who said it.
    arrived: BTreeSet<Vec<u8>>,
    dropped: u32,
}

pub(super) struct Play {
    ends: [End; 2],
    /// Of what each end says.
    oracles: [Oracle; 2],
    flight: Vec<(u64, usize, Box_)>,
    round: u64,
    coins: ChaCha20Rng,
    next_text: u32,
    silent: [bool; 2],
    went_back: u32,
    /// Whole texts that were taken without their beginning, and are shown as arrived.
    problems: Vec<String>,
    late: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        Self {
            ends: Default::default(),
            oracles: Default::default(),
            flight: Vec::new(),
            round: 8,
            coins: ChaCha20Rng::seed_from_u64(seed),
            next_text: 0,
            silent: [false; 2],
            went_back: 0,
            problems: Vec::new(),
            late: 0,
        }
    }

    fn coin(&mut self, below: u64) -> u64 {
        self.coins.next_u64() % below
    }

    fn say(&mut self, end: usize, parts: usize) -> Option<Vec<u8>> {
        self.next_text += 1;
        let text = format!("{:06}{end};", self.next_text).repeat(parts).into_bytes();
        if self.ends[end].outbox.texts() >= TEXTS_MAX {
            return None;
        }
        self.ends[end].outbox.push(Kind::Text, &text, PART).unwrap();
        self.oracles[end].said.insert(text.clone());
        Some(text)
    }

    /// Text of an outbox that ends with this number; by what is there.
    fn text_ending(outbox: &Outbox, sequence: u32) -> Vec<u8> {
        let at = outbox.items.iter().position(|item| item.sequence == sequence).unwrap();
        outbox.items[at].content.clone()
    }

    fn step(&mut self, lost: [u64; 2]) {
        let round = Round(self.round);
        for end in 0..2 {
            let me = &mut self.ends[end];
            me.inbox.begin(round);
            me.outbox.begin(round);
            if self.silent[end] {
                self.silent[end] = false;
                continue;
            }
            let owed = me.inbox.owed();
            let acknowledgement = me.inbox.acknowledgement();
            let item = match me.outbox.next(round, owed) {
                Some(item) => Some((item.before(), item)),
                None if me.inbox.acknowledges() => None,
                None => continue,
            };
            me.inbox.settle();
            let said = Box_ { acknowledgement, item };
            if self.coin(100) >= lost[end] {
                let late = if self.late > 0 && self.coin(4) == 0 { self.coin(self.late) } else { 0 };
                self.flight.push((self.round + late, 1 - end, said));
            }
        }
        let now = self.round;
        let (mut here, there): (Vec<_>, Vec<_>) = self.flight.drain(..).partition(|(at, _, _)| *at <= now);
        self.flight = there;
        if here.len() > 1 && self.late > 0 && self.coin(2) == 0 {
            here.reverse();
        }
        for (_, end, said) in here {
            self.read(end, said);
        }
        self.round += 1;
    }

    fn read(&mut self, end: usize, said: Box_) {
        let me = &mut self.ends[end];
        let (sequence, check) = said.acknowledgement;
        match me.outbox.compare(sequence, check) {
            Ok(arrived) => {
                for done in me.outbox.acknowledge(arrived) {
                    let tail = Self::text_ending(&me.outbox, done);
                    let full: Vec<u8> = {
                        // By its end: unique numbers are in every part.
                        let at = me.outbox.items.iter().position(|item| item.sequence == done).unwrap();
                        let mut parts = vec![me.outbox.items[at].content.clone()];
                        let mut at = at;
                        while me.outbox.items[at].flags & crate::message::REST != 0 && at > 0 {
                            at -= 1;
                            parts.push(me.outbox.items[at].content.clone());
                        }
                        parts.reverse();
                        parts.concat()
                    };
                    let oracle = &mut self.oracles[end];
                    let found: Vec<Vec<u8>> =
                        oracle.said.iter().filter(|text| text.ends_with(&full)).cloned().collect();
                    assert!(!found.is_empty(), "unknown text {tail:?}");
                    if found.len() == 1 {
                        if !oracle.shown.contains_key(&found[0]) {
                            self.problems.push(format!(
                                "round {}: {} is shown as arrived and was never shown",
                                self.round,
                                String::from_utf8_lossy(&found[0][..found[0].len().min(12)])
                            ));
                        }
                        oracle.arrived.insert(found[0].clone());
                    }
                }
            }
            Err(_) => self.went_back += 1,
        }
        let Some((before, item)) = said.item else { return };
        let item = Item::received(before, item.sequence, item.kind, item.flags, &item.content);
        let (delivered, in_order) = me.inbox.accept(item);
        self.went_back += u32::from(in_order.is_err());
        let oracle = &mut self.oracles[1 - end];
        for whole in delivered {
            match &whole.content {
                None => oracle.dropped += 1,
                Some(text) => {
                    assert!(
                        oracle.said.contains(&text[..]),
                        "nobody said {:?}",
                        String::from_utf8_lossy(text)
                    );
                    *oracle.shown.entry(text.to_vec()).or_default() += 1;
                    oracle.order.push(text.to_vec());
                }
            }
        }
    }

    /// Everything that waits now arrives, and then what is said new, exactly once and in order.
    fn settles(&mut self, seed: u64) {
        self.late = 0;
        let waiting: usize = self.ends.iter().map(|end| end.outbox.items.len()).sum();
        let limit = self.round + 400 + 12 * waiting as u64;
        while self.round < limit && !self.ends.iter().all(|end| end.outbox.items.is_empty()) {
            self.step([0, 0]);
        }
        for end in 0..2 {
            assert!(self.ends[end].outbox.items.is_empty(), "seed {seed}: end {end} does not settle");
        }
        for _ in 0..20 {
            self.step([0, 0]);
        }
        let (from, back) = ([self.oracles[0].order.len(), self.oracles[1].order.len()], self.went_back);
        let mut new: [Vec<Vec<u8>>; 2] = Default::default();
        for number in 0..6 {
            for end in 0..2 {
                new[end].extend(self.say(end, 1 + number));
            }
        }
        for _ in 0..200 {
            self.step([0, 0]);
        }
        for end in 0..2 {
            // Nobody who has gone back and not spoken since is noticed before it speaks.
            let shown = &self.oracles[end].order[from[end]..];
            let mut once: Vec<Vec<u8>> = Vec::new();
            for text in shown {
                if !once.contains(text) {
                    once.push(text.clone());
                }
            }
            assert_eq!(once, new[end], "seed {seed}");
            if back == self.went_back && shown.len() != new[end].len() {
                self.problems.push(format!("twice without a sign, seed {seed}"));
            }
            for text in &new[end] {
                assert!(self.oracles[end].arrived.contains(text), "seed {seed}");
            }
        }
    }
}

struct Disturbance {
    restores: bool,
    copies: bool,
    late: u64,
    max_parts: u64,
    full: bool,
}

fn play(seed: u64, what: &Disturbance, start: Option<[End; 2]>) -> Play {
    let mut play = Play::new(seed);
    if let Some(ends) = start {
        play.ends = ends;
    }
    play.late = what.late;
    let mut backups: [Vec<Vec<u8>>; 2] = [vec![play.ends[0].copy()], vec![play.ends[1].copy()]];
    let mut others: [Option<Vec<u8>>; 2] = [None, None];
    let phases = 1 + play.coin(8);
    for _ in 0..phases {
        let lost = [play.coin(4) * 30, play.coin(4) * 30];
        let rounds = 1 + play.coin(60);
        let chatty = 1 + play.coin(12);
        for _ in 0..rounds {
            for end in 0..2 {
                if play.coin(chatty) == 0 {
                    let parts = 1 + play.coin(what.max_parts);
                    play.say(end, parts as usize);
                }
                if what.full && play.coin(20) == 0 {
                    let room = play.coin(2) == 0;
                    play.ends[end].inbox.make_room(room);
                }
                if play.coin(15) == 0 {
                    let state = play.ends[end].copy();
                    backups[end].push(state);
                }
            }
            play.step(lost);
            if what.restores && play.coin(40) == 0 {
                let which = play.coin(3);
                for end in 0..2 {
                    if which == 2 || which == end as u64 {
                        let at = play.coin(backups[end].len() as u64) as usize;
                        if what.copies && play.coin(2) == 0 {
                            others[end] = Some(play.ends[end].copy());
                        }
                        play.ends[end] = End::of(&backups[end][at]);
                        play.silent[end] = true;
                    }
                }
            }
            if what.copies && play.coin(20) == 0 {
                let end = play.coin(2) as usize;
                if let Some(other) = others[end].take() {
                    others[end] = Some(play.ends[end].copy());
                    play.ends[end] = End::of(&other);
                    play.silent[end] = true;
                }
            }
        }
    }
    for end in 0..2 {
        play.ends[end].inbox.make_room(true);
    }
    play
}

fn seeds() -> core::ops::Range<u64> {
    let from = std::env::var("SOTTO_SEED_FIRST").ok().and_then(|seed| seed.parse().ok());
    from.map_or(0..std::env::var("SOTTO_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300), |seed| {
        seed..seed + 1
    })
}

fn many(name: &str, what: &Disturbance, start: impl Fn(u64) -> Option<[End; 2]>) -> Vec<(u64, String)> {
    let mut problems = Vec::new();
    let (mut backs, mut dropped, mut panics) = (0, 0, 0);
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut play = play(seed, what, start(seed));
            play.settles(seed);
            let dropped = play.oracles[0].dropped + play.oracles[1].dropped;
            let twice: u32 =
                play.oracles.iter().flat_map(|o| o.shown.values()).filter(|n| **n > 1).count() as u32;
            (play.problems, play.went_back, dropped, twice)
        }));
        match outcome {
            Ok((found, back, drop, twice)) => {
                backs += back;
                dropped += drop;
                if back == 0 && twice > 0 && !what.restores {
                    problems.push((seed, format!("{twice} texts twice and nobody told")));
                }
                problems.extend(found.into_iter().map(|problem| (seed, problem)));
            }
            Err(panic) => {
                panics += 1;
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                problems.push((seed, format!("panic: {}", text.chars().take(300).collect::<String>())));
            }
        }
    }
    println!("{name}: {} problems, {panics} panics, {backs} warnings, {dropped} dropped", problems.len());
    for (seed, problem) in problems.iter().take(12) {
        println!("  seed {seed}: {problem}");
    }
    problems
}

#[test]
fn fuzz_losses_alone() {
    let what = Disturbance { restores: false, copies: false, late: 0, max_parts: 40, full: false };
    assert!(many("losses", &what, |_| None).is_empty());
    let what = Disturbance { restores: false, copies: false, late: 4, max_parts: 40, full: true };
    assert!(many("losses, late, full", &what, |_| None).is_empty());
}

#[test]
fn fuzz_restores_of_single_messages() {
    let what = Disturbance { restores: true, copies: false, late: 0, max_parts: 1, full: false };
    assert!(many("restores, one part", &what, |_| None).is_empty());
    let what = Disturbance { restores: true, copies: true, late: 0, max_parts: 1, full: false };
    assert!(many("restores and copies, one part", &what, |_| None).is_empty());
    let what = Disturbance { restores: true, copies: true, late: 4, max_parts: 1, full: true };
    assert!(many("restores and copies, late, full, one part", &what, |_| None).is_empty());
}

/// A text whose beginning a reader had acknowledged before it went back was not shown, and counted as arrived.
#[test]
fn fuzz_restores_of_long_texts() {
    let what = Disturbance { restores: true, copies: false, late: 0, max_parts: 30, full: false };
    let one = many("restores, many parts", &what, |_| None);
    let what = Disturbance { restores: true, copies: true, late: 4, max_parts: 30, full: true };
    let two = many("restores and copies, late, full, many parts", &what, |_| None);
    assert!(one.is_empty() && two.is_empty());
}

/// Ends as of a program of version 2, one of which had sent what the other had read in part.
fn of_version2(seed: u64) -> Option<[End; 2]> {
    let mut coins = ChaCha20Rng::seed_from_u64(seed ^ 0xffff);
    let mut coin = |below: u64| (coins.next_u64() % below) as u32;
    let mut ends: [End; 2] = Default::default();
    for end in 0..2 {
        let forgotten = coin(2) * coin(20);
        let waiting = coin(2) * coin(20);
        let taken = coin(u64::from(waiting.min(16)) + 1);
        let sent = taken.max(coin(u64::from(waiting.min(16)) + 1));
        #[derive(Serialize)]
        struct I2 {
            sequence: u32,
            kind: Kind,
            flags: u8,
            content: Vec<u8>,
            sent: Option<super::item::Sent>,
        }
        #[derive(Serialize)]
        struct O2 {
            newest: u32,
            turn: u64,
            items: Vec<I2>,
        }
        let item = |number: u32| I2 {
            sequence: number,
            kind: Kind::Text,
            flags: 0,
            content: format!("v2 {end} {number}").into_bytes(),
            sent: (number <= forgotten + sent).then_some(super::item::Sent { turn: 1, round: Round(1) }),
        };
        let out = O2 {
            newest: forgotten + waiting,
            turn: 40,
            items: (forgotten + 1..=forgotten + waiting).map(item).collect(),
        };
        let bytes = postcard::to_allocvec(&out).unwrap();
        ends[end].outbox = postcard::from_bytes::<Outbox2>(&bytes).unwrap().into();
        #[derive(Serialize)]
        struct In2 {
            complete: u32,
            early: BTreeMap<u32, I2>,
            partial: super::inbox::Partial,
            owed: bool,
        }
        let mut early = BTreeMap::new();
        for number in forgotten + taken + 2..=forgotten + sent {
            if coin(3) == 0 {
                early.insert(number, item(number));
            }
        }
        let inbox = In2 {
            complete: forgotten + taken,
            early,
            partial: super::inbox::Partial::default(),
            owed: coin(2) == 0,
        };
        let bytes = postcard::to_allocvec(&inbox).unwrap();
        ends[1 - end].inbox = postcard::from_bytes::<Inbox2>(&bytes).unwrap().into();
    }
    Some(ends)
}

fn version2(name: &str, what: &Disturbance) -> Vec<(u64, String)> {
    let mut problems = Vec::new();
    let (mut backs, mut twices) = (0, 0);
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let ends = of_version2(seed).unwrap();
            let mut oracles: [Oracle; 2] = Default::default();
            let mut expect: [Vec<Vec<u8>>; 2] = Default::default();
            for end in 0..2 {
                for number in 1..=ends[end].outbox.newest {
                    oracles[end].said.insert(format!("v2 {end} {number}").into_bytes());
                    if number <= ends[1 - end].inbox.complete {
                        oracles[end].shown.insert(format!("v2 {end} {number}").into_bytes(), 1);
                    } else {
                        expect[end].push(format!("v2 {end} {number}").into_bytes());
                    }
                }
            }
            let mut play = play_from(seed, what, ends, oracles);
            play.settles(seed);
            for end in 0..2 {
                for text in &expect[end] {
                    assert!(
                        play.oracles[end].shown.contains_key(text),
                        "lost {}",
                        String::from_utf8_lossy(text)
                    );
                }
            }
            let twice: usize = play.oracles.iter().flat_map(|o| o.shown.values()).filter(|n| **n > 1).count();
            (play.problems, play.went_back, twice)
        }));
        match outcome {
            Ok((found, back, twice)) => {
                if !what.restores && back > 0 {
                    backs += 1;
                    if backs < 6 {
                        println!(
                            "  {name} seed {seed}: warned {back}, {twice} texts twice, though nobody went back"
                        );
                    }
                }
                twices += twice;
                problems.extend(found.into_iter().map(|problem| (seed, problem)));
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                problems.push((seed, format!("panic: {}", text.chars().take(300).collect::<String>())));
            }
        }
    }
    println!("{name}: {} problems; {backs} seeds warned, {twices} texts twice", problems.len());
    for (seed, problem) in problems.iter().take(12) {
        println!("  seed {seed}: {problem}");
    }
    if backs > 0 {
        problems.push((0, format!("{backs} seeds warned though nobody went back, {twices} texts twice")));
    }
    problems
}

fn play_from(seed: u64, what: &Disturbance, ends: [End; 2], oracles: [Oracle; 2]) -> Play {
    let mut play = Play::new(seed);
    play.ends = ends;
    play.oracles = oracles;
    play.late = what.late;
    let rounds = 1 + play.coin(60);
    let lost = [play.coin(4) * 30, play.coin(4) * 30];
    let chatty = 1 + play.coin(40);
    for _ in 0..rounds {
        for end in 0..2 {
            if play.coin(chatty) == 0 {
                play.say(end, 1);
            }
        }
        play.step(lost);
    }
    play
}

#[test]
fn fuzz_states_of_version_2() {
    let what = Disturbance { restores: false, copies: false, late: 0, max_parts: 1, full: false };
    assert!(version2("version 2", &what).is_empty());
}
