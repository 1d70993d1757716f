//! How all change to other keys together, and what one of them can do about it.

use super::room::Room;
use super::{card, group, key};
use crate::group::change::{BEHIND_MAX, CHANGE_ROUNDS};
use crate::group::keys::{News, Task};
use crate::group::rekey::{Rekey, author_of, epoch_after};
use crate::group::{Group, GroupCard};
use crate::message::Kind;
use crate::secret::Secret;
use crate::{Error, Round};

#[test]
fn an_impossible_rekey_changes_nothing() {
    let mut bob = group(1);
    let rekey = group(0).propose(Secret::new([6; 32]), Round(2)).unwrap();
    let wrong = |change: fn(&mut Rekey)| {
        let mut rekey = rekey.clone();
        change(&mut rekey);
        rekey
    };
    for rekey in [
        wrong(|rekey| rekey.group = [0; 16]),
        wrong(|rekey| rekey.excluded = 1),
        wrong(|rekey| rekey.excluded = 8),
        wrong(|rekey| rekey.epoch = 0),
        wrong(|rekey| rekey.epoch = (1 << 29) + 1),
        wrong(|rekey| rekey.start = Round(1000)),
    ] {
        assert!(bob.offer(0, rekey, Round(2)).is_err());
    }
    assert!(bob.offer(9, rekey.clone(), Round(2)).is_err() && bob.offer(1, rekey.clone(), Round(2)).is_err());
    assert!(bob.offer.is_none() && bob.news().is_empty());
    assert!(Rekey::decode(&rekey.encode()[1..]).is_err());
    bob.offer(0, Rekey::decode(&rekey.encode()).unwrap(), Round(2)).unwrap();
    assert!(bob.offer.is_some());
}

#[test]
fn epochs_of_a_later_keeper_come_after_all_of_an_earlier_one() {
    let after =
        |newest, author, [start, round]: [u64; 2]| epoch_after((newest, Round(start)), author, Round(round));
    // Rounds have these numbers where they last 0.2 s and are counted from 1970.
    for first in [0, 1_790_000_000_000 / 200, u64::MAX >> 1] {
        assert_eq!(after(0, 0, [first, first]), Some(1));
        assert_eq!(after(0, 0, [first, first + 7]), Some(7));
        assert_eq!(after(7, 0, [first + 7, first + 70]), Some(70));
        assert_eq!(after(7, 2, [first + 7, first + 9]), Some((2 << 29) + 2));
        assert_eq!(after((2 << 29) + 9, 2, [first + 9, first + 9]), Some((2 << 29) + 10));
        assert_eq!(
            after((2 << 29) + 9, 1, [first + 9, first + 19]),
            None,
            "an earlier member takes nothing over"
        );
        // Used up, by time or by one who counts too fast; who comes after that one has all of its own.
        assert_eq!(after((1 << 29) - 100, 1, [first, first + 9]), Some((1 << 29) + 9));
        assert_eq!(after((1 << 29) - 1, 0, [first, first + 9]), None);
        assert_eq!(after((1 << 29) - 1, 1, [first, first + 9]), Some((1 << 29) + 9));
        assert_eq!(after(u32::MAX, 7, [first, first + 9]), None);
        assert_eq!(after(0, 0, [first, first + (1 << 29)]), None);
        assert_eq!(after(0, 0, [first, first + (1 << 32) + 5]), None);
    }
    assert_eq!(author_of((2 << 29) + 9), 2);
    // As of a time when it was counted below eight bits of the author: what comes now is above.
    assert!(after((3 << 24) + 5, 3, [8, 9]).is_some_and(|epoch| author_of(epoch) == 3));
}

#[test]
fn all_change_together_and_no_text_is_lost() {
    let mut room = Room::new();
    room.groups[2].queue(Kind::Text, b"before").unwrap();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].queue(Kind::Text, b"meanwhile").unwrap();
    room.groups[1].offer(0, rekey.clone(), Round(room.round)).unwrap();
    room.run(30, &[]);
    assert_eq!(room.epochs(), [0, 0, 0], "nobody changes before carol has the keys");
    let epoch = rekey.epoch;
    room.groups[2].offer(0, rekey, Round(room.round)).unwrap();
    room.run(40, &[]);
    assert_eq!(room.epochs(), [epoch; 3]);
    assert!(room.groups.iter().all(|group| group.members().all(|member| member.confirmed)));
    assert!(room.news.iter().all(|news| news.iter().filter(|news| **news == News::NewKeys).count() == 1));
    room.groups[1].queue(Kind::Text, b"after").unwrap();
    room.run(10, &[]);
    assert_eq!(room.texts[2], [b"meanwhile".to_vec(), b"after".to_vec()]);
    assert_eq!(room.texts[0], [b"before".to_vec(), b"meanwhile".to_vec(), b"after".to_vec()]);
}

/// Any member could make it look as if another had gone.
#[test]
fn attack_a7_nobody_but_the_keeper_removes_anybody() {
    for excluded in [1, 4, 5] {
        let mut carol_or_alice = if excluded == 1 { group(2) } else { group(0) };
        let forged = Rekey {
            group: [4; 16],
            epoch: (1 << 29) + 1,
            start: Round(2),
            excluded,
            fresh: Secret::new([9; 32]),
        };
        carol_or_alice.offer(1, forged, Round(2)).unwrap();
        assert_eq!(carol_or_alice.tend(Round(8)), Task::Nothing);
        assert_eq!(carol_or_alice.news(), [News::RekeyRefused]);
        assert!(carol_or_alice.members().all(|member| member.present) && !carol_or_alice.is_ended());
        assert!(carol_or_alice.change.is_none() && carol_or_alice.epoch == 0);
    }
    assert!(matches!(group(1).remove(2), Err(Error::Input(_))));
}

/// Keys handed to bob alone would put him where only their author hears him.
#[test]
fn attack_a7_keys_given_to_one_member_alone_take_it_nowhere() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    room.groups[1].queue(Kind::Text, b"can you hear me?").unwrap();
    room.run(2 * CHANGE_ROUNDS, &[]);
    assert_eq!(room.epochs(), [0, 0, 0]);
    assert_eq!(room.news[1], [News::KeysDiffer]);
    assert_eq!(room.texts[2], [b"can you hear me?".to_vec()]);
    let shown: Vec<bool> = room.groups[1].members().map(|member| member.confirmed).collect();
    assert_eq!(shown, [false, true, false]);
    // Should the keeper pretend to have changed, carol alone holds him where she is.
    let secret = room.propose(0, 6);
    room.groups[0].begin(&secret, Round(room.round)).unwrap();
    room.run(2 * CHANGE_ROUNDS, &[]);
    assert_eq!(room.groups[1].epoch, 0);
}

#[test]
fn attack_a7_different_keys_for_different_members_are_told_to_both() {
    let mut room = Room::new();
    room.run(10, &[]);
    for (member, fresh) in [(1, 6), (2, 7)] {
        let rekey = room.propose(0, fresh);
        room.groups[member].offer(0, rekey, Round(room.round)).unwrap();
    }
    room.run(2 * CHANGE_ROUNDS, &[0]);
    assert_eq!(room.epochs(), [0, 0, 0]);
    assert_eq!([&room.news[1][..], &room.news[2][..]], [[News::KeysDiffer]; 2]);
    room.groups[1].queue(Kind::Text, b"we two").unwrap();
    room.run(4, &[0]);
    assert_eq!(room.texts[2], [b"we two".to_vec()]);
}

/// One who is away must not keep the others from removing somebody, nor be shut out itself.
#[test]
fn a_member_who_is_silent_holds_the_others_up_for_a_while_and_catches_up() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    let epoch = rekey.epoch;
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey.clone(), Round(room.round)).unwrap();
    room.run(CHANGE_ROUNDS, &[2]);
    room.run(16, &[2]);
    assert_eq!(room.epochs(), [epoch, epoch, 0]);
    assert!(!room.groups[0].members().nth(2).unwrap().confirmed);
    room.groups[0].queue(Kind::Text, b"carol?").unwrap();
    room.run(100, &[2]);
    assert_eq!(room.groups[0].members().nth(2).unwrap().missing, 1);
    room.groups[2].offer(0, rekey, Round(room.round)).unwrap();
    room.run(40, &[]);
    assert_eq!(room.epochs(), [epoch; 3]);
    assert_eq!(room.texts[2], [b"carol?".to_vec()]);
    assert!(room.groups[0].members().all(|member| member.confirmed && member.missing == 0));
}

/// Rekeys of epochs that never come took all the places there were, and later ones were lost.
#[test]
fn attack_b4_no_number_of_rekeys_takes_the_place_of_the_keepers_next() {
    let mut carol = group(2);
    let rekey = |epoch, start| Rekey {
        group: [4; 16],
        epoch,
        start: Round(start),
        excluded: 0,
        fresh: Secret::new([9; 32]),
    };
    for more in 1..100 {
        carol.offer(1, rekey((1 << 29) + more, 2), Round(2)).unwrap();
    }
    assert!(carol.offer.is_none());
    let size = postcard::to_allocvec(&carol).unwrap().len();
    carol.offer(0, rekey(1, 2), Round(2)).unwrap();
    assert!(postcard::to_allocvec(&carol).unwrap().len() < size + 80);
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.epoch), Some(1));

    // The keeper itself, however many it makes, begins a change each time the last has had its time and no oftener.
    let mut begun = Vec::new();
    for round in 9..9 + 10 * CHANGE_ROUNDS {
        carol.offer(0, rekey(u32::try_from(round).unwrap(), round), Round(round)).unwrap();
        let before = carol.taken;
        carol.tend(Round(round));
        if carol.taken != before {
            begun.push(round);
        }
        assert!(postcard::to_allocvec(&carol).unwrap().len() < size + 500);
    }
    assert_eq!(begun.len(), 10);
}

/// Of several rekeys that wait the newest is taken: an older one must not keep its place.
#[test]
fn of_the_keepers_rekeys_the_newest_is_taken() {
    let mut carol = group(2);
    for epoch in [1, 3, 2] {
        let fresh = Secret::new([9; 32]);
        let rekey = Rekey { group: [4; 16], epoch, start: Round(2), excluded: 0, fresh };
        carol.offer(0, rekey, Round(2)).unwrap();
    }
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.epoch), Some(3));
}

/// A member chooses where new chains begin; steps from long ago would delay the other calls of all who are in a group
/// with it, and so show who they are.
#[test]
fn attack_b4_a_rekey_begins_near_the_present() {
    let now = 5_000_000;
    for (behind, taken) in [(0, true), (BEHIND_MAX, true), (BEHIND_MAX + 1, false), (1 << 22, false)] {
        let mut carol = group(2);
        let rekey = Rekey {
            group: [4; 16],
            epoch: 1,
            start: Round(now - behind),
            excluded: 0,
            fresh: Secret::new([9; 32]),
        };
        carol.offer(0, rekey, Round(now)).unwrap();
        carol.tend(Round(now));
        assert_eq!(carol.change.is_some(), taken, "{behind}");
    }
    let old = GroupCard { start: Round(1), ..card() };
    assert!(Group::new(&old, key(0).verifying_key().to_bytes(), Round((1 << 19) + 1)).is_ok());
    let late = Group::new(&old, key(0).verifying_key().to_bytes(), Round((1 << 19) + 2));
    assert_eq!(late.err(), Some(Error::RoundTooFar(Round(1))));
}
