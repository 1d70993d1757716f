//! When a member changes over, to the round.

use super::{group, key};
use crate::Round;
use crate::group::Group;
use crate::group::change::{CHANGE_ROUNDS, RENEW_ROUNDS};
use crate::group::keys::{News, Task, bit};
use crate::group::rekey::{Farewell, Rekey};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;

/// When the change began.
const SINCE: u64 = REACTION_ROUNDS;

fn rekey(epoch: u32, excluded: u8) -> Rekey {
    Rekey { group: [4; 16], epoch, start: Round(SINCE), excluded, fresh: Secret::new([6; 32]) }
}

/// Alice in a change that carol has confirmed; when bob was heard last.
fn changing(bob: Option<u64>) -> Group {
    let mut alice = group(0);
    alice.begin(&rekey(7, 0), Round(SINCE)).unwrap();
    alice.change.as_mut().unwrap().confirmed = bit(2);
    alice.members[1].heard = bob.map(Round);
    alice
}

/// Who is away must not hold the others up for ever, and who is there and has no keys must not be left behind.
#[test]
fn one_who_is_silent_is_waited_for_and_one_who_speaks_is_not_left_behind() {
    let end = SINCE + CHANGE_ROUNDS;
    for (bob, round, changes) in [
        (None, end - REACTION_ROUNDS, false),
        (None, end, true),
        // Not since the change began, or not lately.
        (Some(SINCE), end, true),
        (Some(SINCE + 1), end, true),
        (Some(end - CHANGE_ROUNDS / 2), end, true),
        (Some(end - CHANGE_ROUNDS / 2 + 1), end, false),
        (Some(end - 1), end, false),
        (Some(end), end + CHANGE_ROUNDS, true),
    ] {
        let mut alice = changing(bob);
        alice.tend(Round(round));
        assert_eq!(alice.epoch, if changes { 7 } else { 0 }, "{bob:?}, {round}");
        let told = match (changes, round < end) {
            (true, _) => vec![News::NewKeys],
            (false, true) => vec![],
            (false, false) => vec![News::KeysDiffer],
        };
        assert_eq!(alice.news(), told, "{bob:?}, {round}");
    }
    // When all have confirmed nobody is waited for, and where nobody is left who could.
    let mut alice = changing(Some(SINCE + 1));
    alice.change.as_mut().unwrap().confirmed |= bit(1);
    alice.tend(Round(SINCE + REACTION_ROUNDS));
    assert_eq!((alice.epoch, alice.start, alice.excluded), (7, Round(SINCE), 0));
}

/// Of the keys that it was heard under a member is known to have the new ones, and one who has gone is not listened for.
#[test]
fn who_was_heard_under_new_keys_has_them() {
    let mut alice = changing(None);
    alice.heard_changed(1);
    assert!(alice.members().all(|member| member.confirmed));
    alice.tend(Round(2 * SINCE));
    assert_eq!(alice.members().map(|member| member.confirmed).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(
        alice.members.iter().map(|peer| peer.heard).collect::<Vec<_>>(),
        [None, Some(Round(2 * SINCE)), None]
    );
    assert_eq!(
        alice.members.iter().map(|peer| peer.chain.is_some()).collect::<Vec<_>>(),
        [false, true, true]
    );
    let mut alice = changing(None);
    alice.heard_changed(1);
    alice.take_farewell(&Farewell::new([4; 16], 2, &key(2))).unwrap();
    alice.tend(Round(2 * SINCE));
    assert_eq!(
        alice.members.iter().map(|peer| peer.chain.is_some()).collect::<Vec<_>>(),
        [false, true, false]
    );
}

/// A member that does not take the keys must not keep its keeper from removing it, and a removal begins no change anew while there
/// is hope.
#[test]
fn a_removal_waits_for_a_change_that_is_under_way_for_a_time_only() {
    let removes = |round: u64, member: Option<u8>| {
        let mut alice = changing(Some(round - 1));
        if let Some(member) = member {
            alice.remove(member).unwrap();
        }
        alice.tend(Round(round))
    };
    let end = SINCE + CHANGE_ROUNDS;
    assert_eq!(removes(end - REACTION_ROUNDS, Some(1)), Task::Nothing);
    assert_eq!(removes(end, Some(1)), Task::NewKeys);
    assert_eq!(removes(end, None), Task::Nothing);
    // Whoever holds a change up for 512 rounds, time enough for two, is given others, though nobody is removed.
    let bob = vec![key(1).verifying_key().to_bytes()];
    assert_eq!(removes(SINCE + 512 - REACTION_ROUNDS, None), Task::Nothing);
    assert_eq!(removes(SINCE + 512, None), Task::NewKeysFor(bob));
}

/// The one who is removed is told, also if nobody but the keeper remains; and keys for the keeper alone are made for nothing else.
#[test]
fn keys_for_one_alone_are_made_to_remove_somebody_and_for_nothing_else() {
    let mut alice = group(0);
    alice.take_farewell(&Farewell::new([4; 16], 2, &key(2))).unwrap();
    assert_eq!(alice.tend(Round(SINCE)), Task::NewKeys, "one remains beside her");
    alice.remove(1).unwrap();
    assert_eq!(alice.tend(Round(2 * SINCE)), Task::NewKeys);
    alice.keep(1);
    alice.take_farewell(&Farewell::new([4; 16], 1, &key(1))).unwrap();
    assert_eq!(alice.tend(Round(3 * SINCE)), Task::Nothing);
    assert_eq!(alice.remove(1).err(), Some(crate::Error::Unknown(crate::error::Unknown::Member)));
}

/// A member that is held up asks the keeper, who alone makes others, and seldom: whoever holds it up may be the keeper itself.
#[test]
fn who_is_held_up_by_its_keeper_asks_it_for_keys() {
    let alice = vec![key(0).verifying_key().to_bytes()];
    for (round, lacks, expected) in [
        (RENEW_ROUNDS - REACTION_ROUNDS, [0, 2], Task::Nothing),
        (RENEW_ROUNDS, [0, 2], Task::Ask(alice)),
        (RENEW_ROUNDS, [2, 2], Task::Nothing),
    ] {
        let mut bob = group(1);
        bob.begin(&rekey(7, 0), Round(SINCE)).unwrap();
        bob.change.as_mut().unwrap().confirmed = bit(0) | bit(2);
        for member in lacks {
            bob.members[member].heard = Some(Round(round - 1));
            bob.change.as_mut().unwrap().confirmed &= !bit(member as u8);
        }
        assert_eq!(bob.tend(Round(round)), expected, "{round}, {lacks:?}");
    }
}
