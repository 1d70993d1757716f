//! What does not hold: each fails.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::attack::Talk;
use super::{
    ALICE, BOB, Kind, Pair, REACTION_ROUNDS, REQUESTS, Round, Secret, Turn, accepting, alice, hello, key,
    parts, request, terms,
};

/// Between any two parts of a request that is said in every other round there is room for a part of somebody else's, who has
/// the invitation, hears which parts were said, and says garbage under the same name.
#[test]
fn attack_a_second_bearer_with_garbage_does_not_keep_the_first_one_out_for_ever() {
    for places in [1_u64, 2, 4] {
        let (mut alice, mut bob, mut rng) = (alice(), accepting(BOB), ChaCha20Rng::seed_from_u64(places));
        let genuine = request(BOB, &terms(BOB), BOB);
        let (mut turns, mut rounds) = (0_u32, 0);
        for round in 1..=20_000_u64 {
            rounds = round;
            let turn = Turn {
                round: Round(round),
                mine: round % places == 0,
                slot: None,
                head: None,
                identity: &key(BOB),
            };
            let (deposit, _) = bob.open_round(&turn);
            let turn = Turn { mine: true, identity: &key(ALICE), ..turn };
            let (_, listening) = alice.open_round(&turn);
            let wanted = listening.iter().find(|wanted| wanted.epoch == REQUESTS).unwrap();
            // One of two boxes under a label is read, by a coin.
            let plaintext = match deposit.filter(|_| rng.next_u32() & 1 == 0) {
                Some(bobs) => wanted.key.open(&bobs.sealed.0).unwrap(),
                None => {
                    let mut part = parts::part_of_request(&genuine, turns.saturating_sub(1));
                    part[10..].fill(0xaa);
                    let mut frame = hello(&part);
                    frame.round = Round(round);
                    frame.encode().unwrap()
                }
            };
            if round % places == 0 {
                turns += 1;
            }
            let (rounds, fresh) = ((Round(round), Round(round + 1)), Secret::new([9; 32]));
            let _ = alice.receive(REQUESTS, &plaintext, rounds, &[], Some(&fresh));
            if alice.chains.is_some() {
                break;
            }
        }
        println!(
            "{places} places: {} after {rounds} rounds",
            if alice.chains.is_some() { "heard" } else { "NOT heard" }
        );
        // On average 2 places, when a request was one message.
        assert!(alice.chains.is_some(), "{places} places: not heard in {rounds} rounds");
    }
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
