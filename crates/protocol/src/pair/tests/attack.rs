//! Whoever loses, brings back, or says what it likes.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{
    ALICE, ANSWERS, BOB, Deposit, Error, Event, Kind, Pair, REACTION_ROUNDS, REQUESTS, Round, Secret, TALK,
    Turn, accepting, alice, answer, hello, key, parts, receive, tell, terms,
};
use crate::turn::Listening;

/// What was opened in a round by one side, and not read yet.
struct Unread {
    round: u64,
    reader: usize,
    listening: Vec<Listening>,
    sent: Option<Deposit>,
}

/// Two sides, and the rounds that they have opened and not read.
pub(super) struct Talk {
    pub(super) pairs: [Pair; 2],
    unread: VecDeque<Unread>,
    round: u64,
    /// Every box that was sealed, by its sender and label.
    sealed: BTreeMap<(usize, [u8; 16]), [u8; 288]>,
    pub(super) refused: usize,
}

impl Talk {
    pub(super) fn new() -> Self {
        Self {
            pairs: [alice(), accepting(BOB)],
            unread: VecDeque::new(),
            round: 0,
            sealed: BTreeMap::new(),
            refused: 0,
        }
    }

    /// The next round, in which these may speak and what they say reaches the other; what was opened `lag` rounds ago is read.
    pub(super) fn round(&mut self, mine: [bool; 2], heard: [bool; 2], lag: u64) -> [bool; 2] {
        self.round += 1;
        let round = self.round;
        let identities = [key(ALICE), key(BOB)];
        let mut opened = Vec::new();
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            let turn = Turn {
                round: Round(round),
                mine: mine[number],
                slot: None,
                head: None,
                identity: &identities[number],
            };
            let (deposit, listening) = pair.open_round(&turn);
            if let Some(deposit) = &deposit {
                let before = self.sealed.insert((number, deposit.label.0), deposit.sealed.0);
                assert!(before.is_none_or(|before| before == deposit.sealed.0), "a key has sealed two boxes");
            }
            opened.push((deposit, listening));
        }
        let said = [opened[0].0.is_some(), opened[1].0.is_some()];
        let (second, first) = (opened.pop().unwrap(), opened.pop().unwrap());
        for (reader, listening, sent) in [(0, first.1, second.0), (1, second.1, first.0)] {
            if heard[reader] {
                self.unread.push_back(Unread { round, reader, listening, sent });
            }
        }
        while self.unread.front().is_some_and(|unread| unread.round + lag <= round) {
            let Unread { round: of, reader, listening, sent } = self.unread.pop_front().unwrap();
            let Some(sent) = sent else { continue };
            for wanted in listening.into_iter().filter(|wanted| wanted.key.label() == sent.label) {
                let plaintext = wanted.key.open(&sent.sealed.0).unwrap();
                let (rounds, fresh) = ((Round(of), Round(round + 1)), Secret::new([9; 32]));
                let taken = self.pairs[reader].receive(wanted.epoch, &plaintext, rounds, &[], &fresh);
                self.refused += usize::from(taken.is_err());
            }
        }
        said
    }

    pub(super) fn is_settled(&self) -> bool {
        self.pairs.iter().all(|pair| pair.established() && pair.handshake.is_none() && !pair.unheard)
    }

    pub(super) fn stored(&self, number: usize) -> Vec<u8> {
        postcard::to_allocvec(&self.pairs[number]).unwrap()
    }

    /// A program that is started again with what it had stored.
    pub(super) fn restart(&mut self, number: usize, stored: &[u8]) {
        self.pairs[number] = postcard::from_bytes(stored).unwrap();
    }
}

/// Losses, overlapping rounds, turns that are seldom, restarts between any two steps, and long silences of either.
#[test]
fn both_settle_whatever_is_lost_by_chance() {
    for seed in 0..200_u64 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut draw = |below: u32| rng.next_u32() % below;
        let (places, lag) = ([1 + draw(9), 1 + draw(9)], u64::from(draw(3)));
        let (loss, mute, begins) = ([draw(80), draw(80)], draw(3), draw(300));
        let mut talk = Talk::new();
        for round in 0..6000_u32 {
            let silent = (begins..begins + 50).contains(&round);
            let mine = places.map(|places| draw(places) == 0);
            let mut heard = [0, 1].map(|side: usize| draw(100) >= loss[side]);
            if silent && mute < 2 {
                heard[mute as usize] = false;
            }
            talk.round(mine, heard, lag);
            // A crash: the same state again.
            if draw(4) == 0 {
                let number = draw(2) as usize;
                let stored = talk.stored(number);
                talk.restart(number, &stored);
            }
            if talk.is_settled() {
                break;
            }
        }
        assert!(talk.is_settled(), "seed {seed}: places {places:?}, losses {loss:?}, lag {lag}");
        // And they talk.
        for number in 0..2 {
            talk.pairs[number].queue(Kind::Text, b"hello").unwrap();
        }
        for _ in 0..4000 {
            talk.round(
                places.map(|places| draw(places) == 0),
                [0, 1].map(|side: usize| draw(100) >= loss[side]),
                lag,
            );
            if talk.pairs.iter().all(|pair| pair.outbox.texts() == 0) {
                break;
            }
        }
        assert!(talk.pairs.iter().all(|pair| pair.outbox.texts() == 0), "seed {seed}");
    }
}

/// The power may fail between reading and storing: what was read is read again, or another part instead.
#[test]
fn a_crash_between_reading_and_storing_seals_nothing_twice() {
    for seed in 0..50_u64 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut talk = Talk::new();
        let mut ciphertext: Option<Vec<u8>> = None;
        for _ in 0..20 * REACTION_ROUNDS {
            // What is stored is what was opened: `round` reads what was opened before, and then forgets that.
            talk.round([true; 2], [rng.next_u32() % 4 > 0, rng.next_u32() % 4 > 0], 1);
            let stored = [talk.stored(0), talk.stored(1)];
            let unread: Vec<Unread> = talk.unread.drain(..).collect();
            // Read, and lost: it is as if it had not been read.
            for unread in unread {
                let Some(sent) = unread.sent else { continue };
                for wanted in unread.listening.iter().filter(|wanted| wanted.key.label() == sent.label) {
                    let plaintext = wanted.key.open(&sent.sealed.0).unwrap();
                    let (rounds, fresh) =
                        ((Round(unread.round), Round(talk.round + 1)), Secret::new([9; 32]));
                    let _ = talk.pairs[unread.reader].receive(wanted.epoch, &plaintext, rounds, &[], &fresh);
                }
            }
            if rng.next_u32() % 3 == 0 {
                talk.restart((seed % 2) as usize, &stored[(seed % 2) as usize]);
            }
            let now = talk.pairs[0].handshake.as_ref().and_then(|old| old.answering.as_ref());
            if let Some(now) = now {
                assert_eq!(ciphertext.get_or_insert_with(|| now.ciphertext.clone()), &now.ciphertext);
            }
        }
        assert!(talk.is_settled(), "seed {seed}");
    }
}

/// States that were damaged so that they still decode, and parts of any form.
#[test]
fn nothing_that_is_stored_or_said_makes_it_panic() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let identities = [key(ALICE), key(BOB)];
    let mut decoded = 0;
    for moment in [0, 3, 6, 8, 12, 16, 20, 30] {
        let mut talk = Talk::new();
        for _ in 0..moment {
            talk.round([true; 2], [true; 2], 0);
        }
        for (number, identity) in identities.iter().enumerate() {
            let stored = talk.stored(number);
            for _ in 0..60 {
                let mut damaged = stored.clone();
                for _ in 0..=rng.next_u32() % 3 {
                    let at = rng.next_u32() as usize % damaged.len();
                    damaged[at] = rng.next_u32() as u8;
                }
                let Ok(mut pair) = postcard::from_bytes::<Pair>(&damaged) else { continue };
                decoded += 1;
                for round in 41..60 {
                    let turn = Turn {
                        round: Round(round),
                        mine: true,
                        slot: (round % 2 == 0).then_some(3),
                        head: None,
                        identity,
                    };
                    pair.open_round(&turn);
                    let mut part = vec![0; (rng.next_u32() % 233) as usize];
                    rng.fill_bytes(&mut part);
                    if let Some(first) = part.first_mut() {
                        *first %= 8;
                    }
                    for epoch in [REQUESTS, TALK, ANSWERS, 2, 6, 99] {
                        let _ = receive(&mut pair, epoch, &hello(&part));
                    }
                    let _ = pair.pending();
                }
            }
        }
    }
    assert!(decoded > 100);
}

/// Two inviters who both have the exchange secret say parts of two answers: of a mixture nothing is taken, and a whole answer
/// in a row is.
#[test]
fn parts_of_two_answers_are_no_answer() {
    let mut bob = accepting(BOB);
    let ours = answer(&terms(BOB), ALICE);
    let theirs: Vec<u8> = ours.iter().map(|byte| byte ^ 1).collect();
    let (mut refused, mut rng) = (0, ChaCha20Rng::seed_from_u64(1));
    for _ in 0..300 {
        let number = rng.next_u32() % 5;
        // The third is always the others'.
        let of = if number == 2 || rng.next_u32() & 1 == 0 { &theirs } else { &ours };
        let taken: Result<Vec<Event>, Error> =
            receive(&mut bob, ANSWERS, &hello(&parts::part_of_answer(of, number).unwrap()));
        refused += usize::from(taken.is_err());
        assert!(bob.chains.is_none() && !bob.established());
    }
    assert!(refused > 10);
    for turn in 0..5 {
        let _ = receive(&mut bob, ANSWERS, &hello(&parts::part_of_answer(&ours, turn).unwrap()));
    }
    assert!(bob.established());
    // What comes later changes nothing.
    assert!(tell(&mut bob, &theirs, &[]).is_ok() && bob.established());
}

/// Rounds overlap: those that were opened before the answer was whole are read after the handshake has ended.
#[test]
fn attack_an_answer_of_a_round_that_was_open_already_is_no_reason_for_a_warning() {
    for first in 0..2 * REACTION_ROUNDS {
        let mut talk = Talk::new();
        for round in 0..12 * REACTION_ROUNDS {
            talk.round([true; 2], [true, round >= first], 2);
        }
        assert!(talk.is_settled());
        assert_eq!(talk.refused, 0, "heard from round {first} on");
    }
}

/// Of the other's there was a sign to every answer when it came under the keys of the conversation.
#[test]
fn attack_an_inviter_that_goes_back_to_its_answer_is_heard() {
    let mut talk = Talk::new();
    let mut answering = None;
    for _ in 0..8 * REACTION_ROUNDS {
        talk.round([true; 2], [true; 2], 0);
        if answering.is_none() && talk.pairs[0].handshake.as_ref().is_some_and(|old| old.answering.is_some())
        {
            answering = Some(talk.stored(0));
        }
    }
    assert!(talk.is_settled());
    talk.restart(0, &answering.unwrap());
    talk.pairs[0].queue(Kind::Text, b"can you hear me?").unwrap();
    for _ in 0..100 * REACTION_ROUNDS {
        talk.round([true; 2], [true; 2], 0);
    }
    assert!(
        talk.pairs[0].established(),
        "nothing that it says is heard, and it ends when the invitation has"
    );
    assert_eq!(talk.pairs[0].outbox.texts(), 0);
}

/// Of every so many rounds one is heard.
#[test]
fn attack_a_handshake_is_heard_however_seldom_a_round_is() {
    let mut deaf = Vec::new();
    for period in 1..=16_u64 {
        let mut talk = Talk::new();
        for round in 0..period * 100 {
            talk.round([true; 2], [round % period == 0; 2], 0);
        }
        if !talk.pairs.iter().all(Pair::established) {
            deaf.push(period);
        }
    }
    assert!(deaf.is_empty(), "never settled when one of so many rounds is heard: {deaf:?}");
}
