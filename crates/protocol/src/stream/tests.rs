//! Delivery between two.

mod acknowledgements;
mod bounds;

use proptest::prelude::{any, proptest};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{AHEAD_MAX, Inbox, Item, Outbox, TEXT_MAX, TEXTS_MAX, WINDOW, check};
use crate::Round;
use crate::message::{FIRST, Kind, MORE};
use crate::reaction::REACTION_ROUNDS;

/// What an honest sender says behind all that was taken.
fn following(inbox: &Inbox, sequence: u32, kind: Kind, flags: u8, content: &[u8]) -> Item {
    Item::received(inbox.check, sequence, kind, flags, content)
}

fn next(outbox: &mut Outbox, round: u64, owed: bool) -> Option<u32> {
    outbox.next(Round(round), owed).map(|item| item.sequence)
}

#[test]
fn the_window_bounds_what_a_silent_peer_costs() {
    let mut outbox = Outbox::default();
    for _ in 0..TEXTS_MAX {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    assert!(outbox.push(Kind::Text, b"x", 8).is_err());
    assert!(outbox.push(Kind::Text, &[0; TEXT_MAX + 1], 8).is_err());
    let sent: Vec<u32> = (0..40).filter_map(|round| next(&mut outbox, round, false)).collect();
    assert_eq!(sent.iter().max(), Some(&WINDOW));
    assert_eq!(sent.len(), 40);
}

#[test]
fn an_overdue_message_goes_before_new_ones_and_an_owed_sign_before_early_repeats() {
    let mut outbox = Outbox::default();
    outbox.push(Kind::Text, b"a", 8).unwrap();
    assert_eq!(next(&mut outbox, 1, false), Some(1));
    assert_eq!(next(&mut outbox, 2, true), None);
    assert_eq!(next(&mut outbox, 3, false), Some(1));
    for _ in 0..2 * REACTION_ROUNDS {
        outbox.push(Kind::Text, b"b", 8).unwrap();
    }
    let rest: Vec<_> = (4..=2 * REACTION_ROUNDS).map(|round| next(&mut outbox, round, true)).collect();
    // Sent again in round 3, so overdue when the block after the next begins.
    assert!(rest[..rest.len() - 1].iter().all(|item| item.is_some_and(|number| number > 1)));
    assert_eq!(rest.last(), Some(&Some(1)));
}

/// Parts of a text that was begun are of no use without the rest.
#[test]
fn of_texts_that_are_taken_back_none_was_begun() {
    let mut outbox = Outbox::default();
    assert!(outbox.retract_texts().is_empty());
    for text in [b"abc".as_slice(), b"defg", b"h"] {
        outbox.push(Kind::Text, text, 2).unwrap();
    }
    assert_eq!([1, 2, 3].map(|round| next(&mut outbox, round, true)), [Some(1), Some(2), Some(3)]);
    assert_eq!(outbox.retract_texts(), [5]);
    assert_eq!(outbox.push(Kind::Text, b"i", 2), Ok(5));
    assert_eq!([4, 5].map(|round| next(&mut outbox, round, true)), [Some(4), Some(5)]);
    assert!(outbox.retract_texts().is_empty());
    assert_eq!(outbox.acknowledge(5), [2, 4, 5]);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_loses_nothing() {
    let mut outbox = Outbox::default();
    outbox.push(Kind::Text, b"a", 8).unwrap();
    assert!(outbox.acknowledge(u32::MAX).is_empty());
    next(&mut outbox, 1, false);
    assert_eq!(outbox.acknowledge(u32::MAX), [1]);
    assert!(outbox.pending().next().is_none());
}

/// A contact must not see in the next box whether one round was read.
#[test]
fn what_is_said_in_a_block_does_not_depend_on_what_is_read_in_it() {
    let (mut outbox, inbox) = (Outbox::default(), Inbox::default());
    for _ in 0..4 {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    let said = |outbox: &mut Outbox, inbox: &mut Inbox, round: u64| {
        outbox.begin(Round(round));
        inbox.begin(Round(round));
        (next(outbox, round, inbox.owed()), inbox.acknowledgement().0, inbox.owed())
    };
    let mut quiet = Vec::new();
    let mut reads = Vec::new();
    let stored = postcard::to_allocvec(&(&outbox, &inbox)).unwrap();
    for (reading, said_in) in [(false, &mut quiet), (true, &mut reads)] {
        let (mut outbox, mut inbox): (Outbox, Inbox) = postcard::from_bytes(&stored).unwrap();
        for round in 8..17 {
            said_in.push(said(&mut outbox, &mut inbox, round));
            if reading && round < 16 {
                let item = following(&inbox, round as u32 - 7, Kind::Text, 0, b"y");
                assert!(inbox.accept(item).1.is_ok());
                outbox.acknowledge(4);
            }
        }
    }
    assert_eq!(quiet[..8], reads[..8]);
    assert_eq!((reads[8].0, reads[8].1, reads[8].2), (None, 8, true));
    assert!(quiet[8].0.is_some() && quiet[8].1 == 0);
}

/// A peer that is away in the same round of every block would otherwise miss each time the only acknowledgement.
#[test]
fn an_acknowledgement_is_given_again_where_there_is_nothing_else_to_say() {
    let mut inbox = Inbox::default();
    inbox.begin(Round(8));
    assert!(inbox.accept(following(&Inbox::default(), 1, Kind::Text, 0, b"y")).1.is_ok());
    assert!(!inbox.owed() && !inbox.acknowledges());
    inbox.begin(Round(16));
    assert!(inbox.owed() && inbox.acknowledges());
    inbox.settle();
    assert!(!inbox.owed() && inbox.acknowledges());
    inbox.settle();
    inbox.begin(Round(23));
    assert!(inbox.acknowledges());
    inbox.begin(Round(24));
    assert!(!inbox.owed() && !inbox.acknowledges());
    inbox.settle();
    assert!(!inbox.acknowledges());
}

/// A false acknowledgement made what follows be numbered anew in the same block: it showed at once that it was read.
#[test]
fn a_false_acknowledgement_shows_with_the_next_block_and_nothing_counts_as_arrived_until_then() {
    let mut outbox = Outbox::default();
    for _ in 0..40 {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    let stored = postcard::to_allocvec(&outbox).unwrap();
    let mut said = [Vec::new(), Vec::new()];
    for (lies, said) in [false, true].into_iter().zip(&mut said) {
        let mut outbox: Outbox = postcard::from_bytes(&stored).unwrap();
        for round in 8..17 {
            outbox.begin(Round(round));
            said.push(next(&mut outbox, round, false));
            if lies && round < 16 {
                let lie = outbox.compare(500 + round as u32, 7);
                assert_eq!(lie.is_err(), round == 8);
                assert!(outbox.acknowledge(500).is_empty());
            }
        }
    }
    let [honest, forged] = said;
    assert_eq!(honest[..8], forged[..8]);
    assert_eq!((honest[8], forged[8]), (Some(9), Some(517)));
}

/// It was passed over as an acknowledgement of something else, and then taken for one of everything.
#[test]
fn an_acknowledgement_from_far_ahead_is_passed_over() {
    let mut outbox = Outbox::default();
    outbox.push(Kind::Text, b"x", 8).unwrap();
    outbox.begin(Round(8));
    next(&mut outbox, 8, false);
    for far in [2 + AHEAD_MAX, u32::MAX] {
        assert_eq!(outbox.compare(far, 7), Ok(0));
        assert!(outbox.acknowledge(0).is_empty());
    }
    assert_eq!(outbox.texts(), 1);
    let check = outbox.items[0].check;
    assert_eq!(outbox.compare(1, check), Ok(1));
}

/// A peer who used them up made texts that it did not have disappear as if they had arrived.
#[test]
fn texts_for_which_no_numbers_are_left_are_not_lost() {
    let mut outbox = Outbox::default();
    for _ in 0..3 {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    for block in 1..400 {
        outbox.begin(Round(REACTION_ROUNDS * block));
        next(&mut outbox, REACTION_ROUNDS * block, false);
        let lie = outbox.newest.saturating_add(AHEAD_MAX);
        let _ = outbox.compare(lie, 7);
        assert_eq!(outbox.texts(), 3, "block {block}");
        let numbers: Vec<u32> = outbox.items.iter().map(|item| item.sequence).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }
    assert!(!outbox.has_numbers() || outbox.newest > u32::MAX - AHEAD_MAX);
}

/// What a sender who numbers eight messages as it likes, behind anything, sees in a block's acknowledgement of which of
/// them were read: which was the last that was taken, one of nine things, since each follows one other.
#[test]
fn an_acknowledgement_tells_one_message_of_its_block() {
    let answers = |messages: &[Item]| {
        let mut answers = std::collections::BTreeSet::new();
        for read in 0_u32..1 << messages.len() {
            let mut inbox = Inbox::default();
            inbox.begin(Round(REACTION_ROUNDS));
            for (number, item) in messages.iter().enumerate() {
                if read >> number & 1 == 1 {
                    let _ = inbox.accept(item.clone());
                }
            }
            inbox.begin(Round(2 * REACTION_ROUNDS));
            answers.insert(inbox.acknowledgement());
        }
        answers.len()
    };
    let mut most = 0;
    for seed in 0..300 {
        let mut coins = ChaCha20Rng::seed_from_u64(seed);
        let mut coin = |below: usize| usize::try_from(coins.next_u64()).unwrap() % below;
        let (mut messages, mut checks) = (Vec::new(), vec![(0, 0)]);
        for _ in 0..REACTION_ROUNDS {
            let (place, before) = checks[coin(checks.len())];
            let sequence = place + 1 + u32::try_from(coin(4) / 3 * coin(9)).unwrap();
            let flags = [0, FIRST, MORE, FIRST | MORE][coin(4)];
            let item = Item::received(before, sequence, Kind::Text, flags, &[coin(3) as u8]);
            checks.push((sequence, check(before, &item)));
            messages.push(item);
        }
        let counted = answers(&messages);
        assert!(counted <= messages.len() + 1, "{counted} answers, seed {seed}");
        most = most.max(counted);
    }
    assert_eq!(most, 9);
    // As an honest sender numbers them.
    let mut outbox = Outbox::default();
    for _ in 0..REACTION_ROUNDS {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    let honest: Vec<Item> =
        (0..REACTION_ROUNDS).filter_map(|round| outbox.next(Round(round), false)).collect();
    assert_eq!(answers(&honest), 9);
}

/// Who had acknowledged a part, and has gone back, took the others for a whole text.
#[test]
fn a_text_without_its_beginning_is_none() {
    let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
    outbox.push(Kind::Text, b"in three parts, you see", 8).unwrap();
    let mut parts = (0..3).filter_map(|round| outbox.next(Round(round), false));
    let older = postcard::to_allocvec(&inbox).unwrap();
    assert!(inbox.accept(parts.next().unwrap()).0.is_empty());
    drop(parts);
    inbox.begin(Round(8));
    let (sequence, check) = inbox.acknowledgement();
    assert!(outbox.compare(sequence, check).is_ok() && outbox.acknowledge(sequence).is_empty());
    outbox.begin(Round(16));
    // As a sender that keeps nothing of what was acknowledged.
    outbox.forget(1);
    for groups in [false, true] {
        let mut inbox: Inbox = postcard::from_bytes(&older).unwrap();
        let mut read = |item| if groups { inbox.follow(item) } else { inbox.accept(item) };
        let mut outbox: Outbox = postcard::from_bytes(&postcard::to_allocvec(&outbox).unwrap()).unwrap();
        let mut delivered = Vec::new();
        for round in 40..44 {
            delivered.extend(outbox.next(Round(round), false).map(&mut read).unwrap().0);
        }
        assert!(delivered.len() == 1 && delivered[0].content.is_none());
    }
}

/// What a restored sender says behind its older state must not be joined to what was said before.
#[test]
fn parts_of_two_texts_are_never_joined() {
    let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
    let older = postcard::to_allocvec(&outbox).unwrap();
    outbox.push(Kind::Text, b"before, and more of it", 8).unwrap();
    let first: Vec<Item> = (0..3).filter_map(|round| outbox.next(Round(round), false)).collect();
    for part in [0, 2] {
        assert!(inbox.accept(first[part].clone()).0.is_empty());
    }
    let mut outbox: Outbox = postcard::from_bytes(&older).unwrap();
    outbox.push(Kind::Text, b"behind, in other words", 8).unwrap();
    let mut said = Vec::new();
    for round in 8..800 {
        outbox.begin(Round(round));
        inbox.begin(Round(round));
        let Some(item) = outbox.next(Round(round), false) else { break };
        said.extend(inbox.accept(item).0);
        let (sequence, check) = inbox.acknowledgement();
        if let Ok(arrived) = outbox.compare(sequence, check) {
            outbox.acknowledge(arrived);
        }
    }
    let said: Vec<_> = said.iter().filter_map(|whole| whole.content.as_deref()).collect();
    assert_eq!(said, [b"behind, in other words"]);
    assert!(outbox.items.is_empty());
}

/// Who has not read what came is not told of more than there is room for, and misses nothing.
#[test]
fn without_room_nothing_is_taken_or_acknowledged() {
    let mut inbox = Inbox::default();
    inbox.make_room(false);
    assert!(inbox.accept(Item::received(0, 1, Kind::Text, 0, b"x")).0.is_empty());
    inbox.begin(Round(8));
    assert!(inbox.acknowledgement().0 == 0 && !inbox.owed());
    inbox.make_room(true);
    assert_eq!(inbox.accept(Item::received(0, 1, Kind::Text, 0, b"x")).0.len(), 1);
}

#[test]
fn repeats_and_numbers_beyond_the_window_take_no_memory() {
    let mut inbox = Inbox::default();
    for sequence in [1, 1, 0, 2, 1, 3 + WINDOW, u32::MAX] {
        let item = following(&inbox, sequence, Kind::Text, 0, b"x");
        assert!(inbox.accept(item).1.is_ok());
    }
    assert!(inbox.complete == 2 && inbox.near.is_empty());
}

#[test]
fn an_endless_text_is_dropped_whole() {
    let mut inbox = Inbox::default();
    for sequence in 1..=100 {
        let item = following(&inbox, sequence, Kind::Text, MORE, &[1; 200]);
        assert!(inbox.accept(item).0.is_empty());
    }
    let item = following(&inbox, 101, Kind::Text, 0, b"end");
    let end = inbox.accept(item).0;
    assert!(end.len() == 1 && end[0].content.is_none());
    let item = following(&inbox, 102, Kind::Text, 0, b"next");
    let after = inbox.accept(item).0;
    assert_eq!(after[0].content.as_deref().map(Vec::as_slice), Some(b"next".as_slice()));
}

proptest! {
    #[test]
    fn losses_repeats_and_reordering_do_not_show(
        lost in proptest::collection::vec(any::<bool>(), 200), sizes in proptest::collection::vec(0_usize..40, 1..20),
    ) {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let texts: Vec<Vec<u8>> = sizes.iter().zip(0_u8..).map(|(size, fill)| vec![fill; *size]).collect();
        for text in &texts {
            outbox.push(Kind::Text, text, 8).unwrap();
        }
        let (mut received, mut held) = (Vec::new(), None);
        for (round, lost) in (0..20_000).zip(lost.into_iter().chain(std::iter::repeat(false))) {
            outbox.begin(Round(round));
            inbox.begin(Round(round));
            let Some(item) = outbox.next(Round(round), false) else { break };
            let item =
                Item::received(item.before(), item.sequence, item.kind, item.flags, &item.content);
            // Every other lost message comes late instead.
            for item in [(!lost).then_some(item.clone()), (round % 4 == 0).then(|| held.take()).flatten()] {
                received.extend(item.into_iter().flat_map(|item| inbox.accept(item).0));
            }
            if lost && round % 2 == 0 {
                held = Some(item);
            } else if !lost {
                let (sequence, check) = inbox.acknowledgement();
                assert!(outbox.compare(sequence, check).is_ok());
                outbox.acknowledge(sequence);
            }
        }
        let received: Vec<Vec<u8>> = received.into_iter().map(|whole| whole.content.unwrap().to_vec()).collect();
        assert_eq!(received, texts);
        assert!(outbox.pending().next().is_none());
    }
}
