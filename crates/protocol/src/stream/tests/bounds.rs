//! How much is sent, kept and taken, to the last message.

use super::{AHEAD_MAX, Inbox, Item, Outbox, TEXT_MAX, WINDOW, check, following, next};
use crate::Round;
use crate::message::{FIRST, Kind, MORE, REST};
use crate::reaction::REACTION_ROUNDS;
use crate::stream::outbox::NUMBERS_KEPT;
use crate::stream::{Delivered, WentBack};

/// A text of the greatest size must arrive, and one that is longer by a byte must not.
#[test]
fn a_text_of_the_greatest_size_is_whole_and_a_longer_one_is_none() {
    for (excess, arrives) in [(0, true), (1, false)] {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let text = vec![b'x'; TEXT_MAX + excess];
        assert_eq!(outbox.push(Kind::Text, &text, 1000).is_ok(), arrives);
        let mut whole = Vec::new();
        for (sequence, part) in (1..).zip(text.chunks(1000)) {
            let rest = if sequence > 1 { REST } else { 0 };
            let more = if part.len() == 1000 { MORE } else { 0 };
            let item = following(&inbox, sequence, Kind::Text, rest | more, part);
            whole.extend(inbox.accept(item).0);
        }
        let content: Vec<_> = whole.iter().map(|whole| whole.content.as_deref()).collect();
        assert_eq!(content, [arrives.then_some(&text)]);
    }
}

/// What is as early as it can be is kept until its turn comes, and nothing that is earlier.
#[test]
fn a_window_of_messages_may_come_in_any_order() {
    let mut outbox = Outbox::default();
    for _ in 0..=WINDOW {
        outbox.push(Kind::Text, b"x", 8).unwrap();
    }
    let mut all: Vec<Item> = (0..WINDOW).map(|_| outbox.next(Round(0), false).unwrap()).collect();
    let head = outbox.items[WINDOW as usize - 1].check;
    all.push(Item::received(head, WINDOW + 1, Kind::Text, 0, b"x"));
    let mut inbox = Inbox::default();
    let mut taken = Vec::new();
    for item in all.into_iter().rev() {
        taken.extend(inbox.accept(item).0.into_iter().map(|whole| whole.sequence));
    }
    assert_eq!(taken, (1..=WINDOW).collect::<Vec<_>>());
    assert!(inbox.near.is_empty());
}

/// Who has gone back passes over what its contact keeps no more, and takes what it has of the messages behind that; what would be
/// further than any copy can have come is passed over.
#[test]
fn who_has_gone_back_goes_on_with_the_oldest_message_that_is_kept() {
    let oldest = |sequence| Item::received(5, sequence, Kind::Text, FIRST, b"a");
    let behind = |sequence, before: &Item| {
        Item::received(check(before.before(), before), sequence, Kind::Text, 0, b"b")
    };
    let numbers =
        |taken: Vec<Delivered>| -> Vec<u32> { taken.into_iter().map(|whole| whole.sequence).collect() };
    let fresh = || {
        let mut inbox = Inbox::default();
        for sequence in 1..=2 {
            let item = following(&inbox, sequence, Kind::Text, 0, b"x");
            assert!(inbox.accept(item).1.is_ok());
        }
        inbox
    };
    let mut inbox = fresh();
    // One that does not come any more, the oldest that comes, and one behind that, are there early.
    let kept = oldest(6);
    for early in [Item::received(7, 5, Kind::Text, 0, b"y"), behind(7, &kept)] {
        assert!(inbox.accept(early).0.is_empty());
    }
    let (taken, in_order) = inbox.accept(kept.clone());
    assert_eq!((numbers(taken), in_order), (vec![6, 7], Err(WentBack)));
    assert!(inbox.near.is_empty(), "nothing is kept of what does not come");
    let (taken, in_order) = inbox.accept(kept);
    assert!(taken.is_empty() && in_order == Ok(()), "it is behind nothing that is missing");
    for (ahead, taken) in [(AHEAD_MAX, true), (AHEAD_MAX + 1, false)] {
        let mut inbox = fresh();
        let (delivered, in_order) = inbox.accept(oldest(2 + ahead + 1));
        assert_eq!((delivered.len(), in_order.is_err()), (usize::from(taken), taken), "{ahead}");
    }
    // The oldest message that follows what was taken is as good as any.
    let mut inbox = fresh();
    let next = following(&inbox, 3, Kind::Text, FIRST, b"x");
    let (taken, in_order) = inbox.accept(next);
    assert_eq!((numbers(taken), in_order), (vec![3], Ok(())));
}

/// The reader has had messages without any check: the first check that it sees is the one of what it has.
#[test]
fn of_a_time_without_checks_the_peers_are_taken_for_right() {
    let said = |sequence, before| Item::received(before, sequence, Kind::Text, 0, b"x");
    let of_before = |complete| Inbox { complete, ..Inbox::default() };
    let takes = |mut inbox: Inbox, item: Item| inbox.accept(item).0.len();
    assert_eq!(takes(of_before(2), said(3, 5)), 1);
    assert_eq!(takes(of_before(2), said(4, 5)), 0, "one is missing");
    assert_eq!(takes(of_before(0), said(1, 5)), 0, "with nothing before there is nothing to take for right");
    assert_eq!(takes(Inbox { check: 7, ..of_before(2) }, said(3, 5)), 0, "that follows something else");
}

/// A peer who acknowledges what was never sent uses numbers up; the last ones are for farewells and keys.
#[test]
fn some_numbers_are_kept() {
    for (newest, has) in [(0, true), (u32::MAX - NUMBERS_KEPT, true), (u32::MAX - NUMBERS_KEPT + 1, false)] {
        assert_eq!(Outbox { newest, ..Outbox::default() }.has_numbers(), has, "{newest}");
    }
    let mut outbox = Outbox { newest: u32::MAX - 2, ..Outbox::default() };
    assert!(outbox.push(Kind::Text, b"threes", 2).is_err());
    assert_eq!(outbox.push(Kind::Text, b"four", 2), Ok(u32::MAX));
}

/// What one member has is not what another lacks.
#[test]
fn texts_are_missing_behind_what_has_arrived() {
    let mut outbox = Outbox::default();
    for text in [b"a".as_slice(), b"bcd", b"e"] {
        outbox.push(Kind::Text, text, 2).unwrap();
    }
    outbox.push(Kind::Leave, b"f", 2).unwrap();
    assert_eq!([0, 1, 2, 3, 4, 5].map(|has| outbox.texts_after(has)), [3, 2, 2, 1, 0, 0]);
    for round in 0..5 {
        next(&mut outbox, round, false);
    }
    assert_eq!((outbox.texts(), outbox.unacknowledged(), outbox.sent()), (3, 5, 5));
    assert_eq!(outbox.acknowledge(2), [1]);
    assert_eq!([0, 1, 2, 3].map(|has| outbox.texts_after(has)), [2, 2, 2, 1]);
    assert_eq!((outbox.texts(), outbox.unacknowledged(), outbox.acknowledged()), (2, 3, 2));
    let waits: Vec<_> = outbox.waiting_texts().collect();
    assert_eq!(waits, [(3, "bcd".to_owned()), (4, "e".to_owned())]);
    assert_eq!(outbox.give_back(), [3, 4]);
    assert!(outbox.is_settled());
}

/// A text is said again from its beginning as long as a part of it may be lacking, and a whole one is not.
#[test]
fn a_part_that_has_arrived_is_kept_and_not_said_again() {
    let mut outbox = Outbox::default();
    outbox.begin(Round(REACTION_ROUNDS));
    for text in [b"a".as_slice(), b"bcd", b"e"] {
        outbox.push(Kind::Text, text, 2).unwrap();
    }
    for _ in 0..4 {
        next(&mut outbox, REACTION_ROUNDS, false);
    }
    outbox.acknowledge(2);
    outbox.begin(Round(2 * REACTION_ROUNDS));
    assert_eq!((outbox.forgotten.0, outbox.len()), (1, 3));
    let said: Vec<_> = (0..4).map(|_| next(&mut outbox, 2 * REACTION_ROUNDS, false)).collect();
    assert_eq!(said, [Some(3), Some(4), Some(3), Some(4)], "and not the second");
    // Its reader has gone back behind the part.
    let beginning = outbox.forgotten.1;
    assert_eq!(outbox.compare(1, beginning), Ok(1));
    outbox.begin(Round(3 * REACTION_ROUNDS));
    assert_eq!((outbox.acknowledged(), next(&mut outbox, 3 * REACTION_ROUNDS, false)), (1, Some(2)));
}

/// Turns in which one who leaves says so are turns like others: what has waited for an acknowledgement for long is said again.
#[test]
fn a_goodbye_out_of_turn_is_a_turn() {
    let mut outbox = Outbox::default();
    for text in [b"a", b"b", b"c"] {
        outbox.push(Kind::Text, text, 2).unwrap();
    }
    assert_eq!(next(&mut outbox, 0, false), Some(1));
    for round in [REACTION_ROUNDS, REACTION_ROUNDS + 1] {
        assert_eq!(outbox.newest(Round(round)).map(|item| item.sequence), Some(3));
    }
    assert_eq!(next(&mut outbox, 2 * REACTION_ROUNDS, true), Some(1));
    assert_eq!(next(&mut outbox, 2 * REACTION_ROUNDS, true), Some(2));
}
