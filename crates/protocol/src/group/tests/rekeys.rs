//! What a member makes of keys that others hand over, or show to have been given.

use super::{card, group, key};
use crate::error::Malformed;
use crate::group::change::RENEW_ROUNDS;
use crate::group::keys::{News, Task};
use crate::group::rekey::{Echo, Farewell, Rekey};
use crate::group::{Group, GroupCard};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::{Error, Round};

/// A round in which it is looked for members that seem to have other keys.
const LOOKS: u64 = 2 * RENEW_ROUNDS;

fn rekey(epoch: u32, excluded: u8, fresh: u8) -> Rekey {
    Rekey { group: [4; 16], epoch, start: Round(2), excluded, fresh: Secret::new([fresh; 32]) }
}

/// A number beyond those of the members is nobody's, and of two rekeys with one epoch the first stands.
#[test]
fn a_rekey_is_by_a_member_and_takes_the_place_of_older_ones_alone() {
    let mut carol = group(2);
    let nobodys = carol.offer(3, rekey((3 << 29) + 1, 0, 6), Round(2));
    assert_eq!(nobodys.err(), Some(Error::Malformed(Malformed::Rekey)));
    let waits = |carol: &Group| carol.offer.as_ref().map(|rekey| (rekey.epoch, *rekey.fresh.bytes()));
    for (epoch, fresh, expected) in [(5, 6, (5, 6)), (5, 7, (5, 6)), (4, 8, (5, 6)), (6, 9, (6, 9))] {
        carol.offer(0, rekey(epoch, 0, fresh), Round(2)).unwrap();
        let (epoch, fresh) = expected;
        assert_eq!(waits(&carol), Some((epoch, [fresh; 32])));
    }
    // Nor do others of the epoch to which the group changes, or has changed.
    carol.tend(Round(REACTION_ROUNDS));
    for _ in 0..2 {
        carol.offer(0, rekey(6, 0, 7), Round(9)).unwrap();
        assert_eq!(waits(&carol), None);
        if let Some(change) = carol.change.take() {
            carol.epoch = change.epoch;
        }
    }
    carol.offer(0, rekey(7, 0, 7), Round(9)).unwrap();
    assert_eq!(waits(&carol), Some((7, [7; 32])));
}

/// Otherwise it would not be known that one who was removed reads again; and it would be said of everybody.
#[test]
fn that_one_who_was_removed_is_given_keys_again_is_told_once() {
    let mut bob = group(1);
    bob.begin(&rekey(1, 0b100, 6), Round(2)).unwrap();
    assert_eq!(bob.news(), [News::Removed { by: 0, member: 2 }]);
    for epoch in [2, 3] {
        bob.begin(&rekey(epoch, 0, 6), Round(2)).unwrap();
    }
    assert_eq!(bob.news(), [News::RekeyNeeded]);
    let mut bob = group(1);
    bob.begin(&rekey(1, 0, 6), Round(2)).unwrap();
    assert!(bob.news().is_empty(), "nobody was removed");
    bob.take_farewell(&Farewell::new([4; 16], 2, &key(2))).unwrap();
    bob.begin(&rekey(2, 0, 6), Round(2)).unwrap();
    assert_eq!(bob.news(), [News::Left(2)], "who left by itself is waited for until the keeper has heard it");
}

/// Whoever took other keys for its own would believe members to be with it who are not; and whoever took none would wait for
/// them.
#[test]
fn a_member_has_the_keys_whose_epoch_and_mark_it_shows() {
    let mut alice = group(0);
    let rekey = alice.propose(Secret::new([6; 32]), Round(2)).unwrap();
    alice.begin(&rekey, Round(2)).unwrap();
    let (epoch, mark) = alice.change.as_ref().map(|change| (change.epoch, change.mark)).unwrap();
    let confirmed = |alice: &Group| [1, 2].map(|member| alice.change.as_ref().unwrap().has_confirmed(member));
    alice.take_echo(1, Echo { epoch: epoch + 1, mark });
    assert!(confirmed(&alice) == [false; 2] && alice.news().is_empty(), "what is behind that is not known");
    for told in [vec![News::KeysDiffer], Vec::new()] {
        alice.take_echo(1, Echo { epoch, mark: [9; 32] });
        assert_eq!((confirmed(&alice), alice.news()), ([false; 2], told));
    }
    alice.take_echo(2, Echo { epoch, mark });
    assert_eq!((confirmed(&alice), alice.news()), ([false, true], Vec::new()));
    assert!(alice.offer.is_none());
}

/// A keeper who has gone back does not know the keys that it has made since, which others wait with: by their mark it learns to
/// make some again. Whoever does so for keys that are none of its own lets any member have keys made without end.
#[test]
fn a_keeper_makes_keys_again_when_it_is_shown_some_that_it_has_forgotten() {
    let shown = |mut group: Group, epoch: u32| {
        group.take_echo(2, Echo { epoch, mark: [9; 32] });
        let asked = group.offer.as_ref().is_some_and(Rekey::is_request);
        (asked, group.tend(Round(REACTION_ROUNDS)))
    };
    assert_eq!(shown(group(0), 5), (true, Task::NewKeys));
    assert_eq!(shown(group(0), 0), (false, Task::Nothing), "those of the card");
    let bobs = (1 << 29) + 5;
    assert_eq!(shown(group(0), bobs), (false, Task::Nothing));
    assert_eq!(shown(group(1), bobs), (false, Task::Nothing), "bob is not the keeper");
    let mut bob = group(1);
    bob.take_farewell(&Farewell::new([4; 16], 0, &key(0))).unwrap();
    assert!(shown(bob, bobs).0, "now he is");
    let mut changing = group(0);
    changing.begin(&rekey(3, 0, 6), Round(2)).unwrap();
    assert!(!shown(changing, 5).0, "there are keys to change to");
}

/// Until all have joined, whoever has not would miss the keys; and when they have, whoever finds the card must not read on.
#[test]
fn keys_of_the_card_are_replaced_when_everybody_was_heard_and_not_before() {
    let tends = |heard: &[u8], round: u64| {
        let mut alice = group(0);
        for member in heard {
            alice.members[usize::from(*member)].heard = Some(Round(1));
        }
        alice.tend(Round(round))
    };
    assert_eq!(tends(&[1], REACTION_ROUNDS), Task::Nothing);
    assert_eq!(tends(&[1, 2], REACTION_ROUNDS), Task::NewKeys);
    assert_eq!(tends(&[1, 2], REACTION_ROUNDS - 1), Task::Nothing, "no block begins");
    // Who is heard by nobody on an old card has gone back to it; whoever hears somebody asks those it does not hear.
    let old = LOOKS;
    for (heard, expected) in [
        (old - RENEW_ROUNDS, Task::NewKeys),
        (old - RENEW_ROUNDS + 1, Task::Ask(vec![key(2).verifying_key().to_bytes()])),
    ] {
        let mut alice = group(0);
        alice.members[1].heard = Some(Round(heard));
        assert_eq!(alice.tend(Round(old)), expected);
    }
    // Nobody but the keeper makes any, and nobody for itself alone.
    let mut bob = group(1);
    bob.members.iter_mut().for_each(|peer| peer.heard = Some(Round(1)));
    assert_eq!(bob.tend(Round(REACTION_ROUNDS)), Task::Nothing);
    let two = GroupCard { members: card().members[..2].to_vec(), ..card() };
    let mut alice = Group::new(&two, key(0).verifying_key().to_bytes(), Round(1)).unwrap();
    alice.take_farewell(&Farewell::new([4; 16], 1, &key(1))).unwrap();
    assert_eq!(alice.tend(Round(REACTION_ROUNDS)), Task::Nothing);
}

/// Whoever makes keys now may not have heard who left, and nobody else tells it.
#[test]
fn a_keeper_that_has_not_heard_who_left_is_asked_for_keys_seldom() {
    let alice = Task::Ask(vec![key(0).verifying_key().to_bytes()]);
    for (left, round, expected) in [
        (true, RENEW_ROUNDS - REACTION_ROUNDS, Task::Nothing),
        (true, RENEW_ROUNDS, alice),
        (false, RENEW_ROUNDS, Task::Nothing),
    ] {
        let mut bob = group(1);
        if left {
            bob.take_farewell(&Farewell::new([4; 16], 2, &key(2))).unwrap();
        }
        assert_eq!(bob.tend(Round(round)), expected, "{left}, {round}");
    }
    // Who is gone is no company for one who hears nobody else.
    let mut alice = group(0);
    (alice.members[1].present, alice.members[1].heard, alice.excluded) =
        (false, Some(Round(LOOKS - 1)), 0b010);
    assert_eq!(alice.tend(Round(LOOKS)), Task::NewKeys);
}

/// On the card everybody finds the same keys; a keeper that is asked makes others where somebody can have missed some, or it has
/// gone back itself.
#[test]
fn a_keeper_heeds_who_asks_where_there_are_other_keys_than_those_of_the_card() {
    let heeds = |epoch: u32, round: u64| {
        let mut alice = group(0);
        alice.epoch = epoch;
        alice.offer(2, alice.request(), Round(round)).unwrap();
        alice.offer.is_some()
    };
    let old = 1 + RENEW_ROUNDS;
    assert_eq!(
        [(0, 9), (0, old - 1), (0, old), (5, 9)].map(|(epoch, round)| heeds(epoch, round)),
        [false, false, true, true]
    );
}

/// With slots a card says for each member where it is heard, and for nobody else.
#[test]
fn a_card_has_a_slot_for_each_member_or_none() {
    for (slots, is_read) in [(0, true), (1, false), (2, false), (3, true), (4, false)] {
        let card = GroupCard { slots: (7..7 + slots).collect(), ..card() };
        let copied = card.to_string().parse::<GroupCard>();
        assert_eq!(copied.is_ok(), is_read, "{slots} slots");
        assert!(copied.is_err() || copied.unwrap().slots == card.slots);
    }
}
