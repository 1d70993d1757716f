//! Which acknowledgements are believed, and what they change.

use super::{AHEAD_MAX, Inbox, Item, Outbox, check, next};
use crate::Round;
use crate::message::Kind;
use crate::reaction::REACTION_ROUNDS;
use crate::stream::WentBack;

/// Of so many texts of one part each, all of which were sent.
fn sent(texts: u32) -> Outbox {
    let mut outbox = Outbox::default();
    outbox.begin(Round(REACTION_ROUNDS));
    for _ in 0..texts {
        outbox.push(Kind::Text, b"x", 8).unwrap();
        next(&mut outbox, REACTION_ROUNDS, false);
    }
    outbox
}

fn check_of(outbox: &Outbox, sequence: u32) -> u32 {
    outbox.items.iter().find(|item| item.sequence == sequence).unwrap().check
}

/// What has arrived must show as arrived in the same block, whatever old box is read before it.
#[test]
fn what_was_acknowledged_before_holds_up_nothing() {
    let mut outbox = sent(3);
    for (sequence, arrived) in [(1, vec![1]), (1, vec![]), (2, vec![2])] {
        let check = check_of(&outbox, sequence);
        assert_eq!(outbox.compare(sequence, check), Ok(sequence));
        assert_eq!(outbox.acknowledge(sequence), arrived);
    }
    // Less than was acknowledged: the peer has gone back, or others have overtaken this, and which of them shows later.
    let check = check_of(&outbox, 1);
    assert_eq!(outbox.compare(1, check), Ok(1));
    let check = check_of(&outbox, 3);
    assert_eq!(outbox.compare(3, check), Ok(3));
    assert!(outbox.acknowledge(3).is_empty());
    // Unless all that was acknowledged is forgotten: then nobody needs it again.
    let mut outbox = sent(2);
    assert_eq!(outbox.acknowledge(1), [1]);
    outbox.begin(Round(2 * REACTION_ROUNDS));
    assert_eq!((outbox.forgotten.0, outbox.len()), (1, 1));
    assert_eq!(outbox.compare(0, 0), Ok(0));
    let check = check_of(&outbox, 2);
    assert_eq!((outbox.compare(2, check), outbox.acknowledge(2)), (Ok(2), vec![2]));
}

/// Beyond that a number is none that a sender can have reached with another copy of its state.
#[test]
fn an_acknowledgement_from_as_far_ahead_as_can_be_is_heeded() {
    let mut outbox = sent(1);
    assert_eq!(outbox.compare(1 + AHEAD_MAX, 7), Err(WentBack));
    outbox.begin(Round(2 * REACTION_ROUNDS));
    assert_eq!(next(&mut outbox, 2 * REACTION_ROUNDS, false), Some(3 + AHEAD_MAX));
}

/// In conversations from a time without checks the peer names none until it has read one. Whoever has nothing, though, has gone
/// back, or begun anew, and does not lack the check of something.
#[test]
fn an_acknowledgement_without_a_check_is_of_a_time_without_checks() {
    let of_before = || Outbox { unchecked: true, ..sent(3) };
    let mut outbox = of_before();
    assert_eq!([1, 2, 3].map(|sequence| outbox.compare(sequence, 0)), [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(outbox.compare(4, 0), Err(WentBack), "that was never sent");
    let mut outbox = of_before();
    let check = check_of(&outbox, 2);
    assert_eq!(outbox.compare(2, check), Ok(2));
    assert_eq!(outbox.compare(3, 0), Err(WentBack), "it has checks by now");
    let mut outbox = of_before();
    assert_eq!(outbox.compare(0, 0), Ok(0));
    assert_eq!(outbox.compare(1, 0), Err(WentBack), "it had nothing");
}

/// Keys for one group in place of those of another, or of a text that begins like them, would take it from who waits for it; and
/// what was sent already has its check.
#[test]
fn what_is_replaced_is_the_newest_of_its_kind_that_was_never_sent() {
    let rekey = |outbox: &mut Outbox, keys: &[u8]| outbox.push(Kind::Rekey, keys, 8).unwrap();
    let mut outbox = Outbox::default();
    rekey(&mut outbox, b"aa 1");
    next(&mut outbox, 1, false);
    rekey(&mut outbox, b"bb 1");
    outbox.push(Kind::Text, b"aa, ah", 8).unwrap();
    let before = postcard::to_allocvec(&outbox).unwrap();
    assert!(!outbox.replace_unsent(Kind::Rekey, b"aa", b"aa 2"));
    assert_eq!(postcard::to_allocvec(&outbox).unwrap(), before);
    for keys in [b"aa 2", b"aa 3", b"bb 2"] {
        rekey(&mut outbox, keys);
    }
    assert!(outbox.replace_unsent(Kind::Rekey, b"aa", b"aa 4"));
    let contents: Vec<&[u8]> = outbox.items.iter().map(|item| item.content.as_slice()).collect();
    assert_eq!(contents, [b"aa 1".as_slice(), b"bb 1", b"aa, ah", b"aa 2", b"aa 4", b"bb 2"]);
    // It is taken by who reads it all.
    let mut inbox = Inbox::default();
    let mut taken = Vec::new();
    for round in 1..=6 {
        let item = if round == 1 { outbox.send(0, Round(1)) } else { outbox.next(Round(round), true) };
        taken.extend(inbox.accept(item.unwrap()).0.into_iter().map(|whole| whole.sequence));
    }
    assert_eq!(taken, [1, 2, 3, 4, 5, 6]);
}

/// Nobody is told twice who has left, and whoever is told something else of the same kind, or the same as a text, is told.
#[test]
fn this_very_message_waits_until_it_has_arrived() {
    let mut outbox = Outbox::default();
    outbox.push(Kind::Leave, b"alice", 8).unwrap();
    let holds = |outbox: &Outbox| {
        [(Kind::Leave, b"alice"), (Kind::Leave, b"carol"), (Kind::Rekey, b"alice")]
            .map(|(kind, content)| outbox.holds(kind, content))
    };
    assert_eq!(holds(&outbox), [true, false, false]);
    assert_eq!([Kind::Leave, Kind::Rekey].map(|kind| outbox.awaits(kind)), [true, false]);
    next(&mut outbox, 1, false);
    assert_eq!(holds(&outbox), [true, false, false]);
    outbox.acknowledge(1);
    assert_eq!(holds(&outbox), [false; 3]);
}

/// The check follows from all before it, so that a sender who goes back is found out.
#[test]
fn a_check_is_of_number_kind_and_content_and_of_all_before() {
    let item = |sequence, kind, content: &[u8]| Item::received(0, sequence, kind, 0, content);
    let checks = [
        check(0, &item(1, Kind::Text, b"a")),
        check(1, &item(1, Kind::Text, b"a")),
        check(0, &item(2, Kind::Text, b"a")),
        check(0, &item(1, Kind::Rekey, b"a")),
        check(0, &item(1, Kind::Text, b"b")),
    ];
    for (number, one) in checks.iter().enumerate() {
        assert!(checks[number + 1..].iter().all(|other| other != one));
    }
}
