//! Who is asked for keys, by whom and how often.

use super::room::Room;
use super::{group, key};
use crate::Round;
use crate::group::Group;
use crate::group::change::{CHANGE_ROUNDS, HELD_UP_ROUNDS, RENEW_ROUNDS};
use crate::group::keys::{News, Task};
use crate::group::rekey::{Farewell, Rekey};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;

/// Who asks without end must not keep the others changing keys.
#[test]
fn the_keeper_is_asked_for_keys_as_often_as_a_member_likes_and_makes_them_once_in_256_rounds() {
    let mut alice = group(0);
    let rekey = alice.propose(Secret::new([6; 32]), Round(2)).unwrap();
    alice.begin(&rekey, Round(2)).unwrap();
    let mut made = Vec::new();
    for round in 3..3000 {
        alice.offer(2, alice.request(), Round(round)).unwrap();
        let size = postcard::to_allocvec(&alice.offer).unwrap().len();
        assert!(size < 80);
        if alice.tend(Round(round)) == Task::NewKeys {
            assert_eq!(round % REACTION_ROUNDS, 0);
            let rekey = alice.propose(Secret::new([7; 32]), Round(round)).unwrap();
            alice.begin(&rekey, Round(round)).unwrap();
            made.push(round);
        }
        // The others change over at once.
        if let Some(change) = alice.change.take() {
            alice.epoch = change.epoch;
        }
    }
    assert!(made.len() > 4 && made.windows(2).all(|two| two[1] - two[0] >= CHANGE_ROUNDS), "{made:?}");

    // One who was removed is not heeded, nor is anybody who asks one that is not the keeper, or for more than keys.
    let mut bob = group(1);
    assert!(bob.offer(2, bob.request(), Round(2)).is_ok() && bob.offer.is_none());
    let mut gone = group(0);
    gone.remove(2).unwrap();
    let rekey = gone.propose(Secret::new([6; 32]), Round(2)).unwrap();
    gone.begin(&rekey, Round(2)).unwrap();
    gone.tend(Round(400));
    assert!(gone.offer(2, gone.request(), Round(400)).is_ok() && gone.offer.is_none());
    let other = Rekey { excluded: 2, ..gone.request() };
    assert!(gone.offer(1, other, Round(400)).is_err());
}

/// Keys that came too late for a member are followed by others that do not.
#[test]
fn the_keeper_notices_who_came_too_late() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    room.run(CHANGE_ROUNDS + 16, &[2]);
    let late = |group: usize, round: u64| {
        let group = postcard::to_allocvec(&room.groups[group]).unwrap();
        postcard::from_bytes::<Group>(&group).unwrap().tend(Round(round))
    };
    assert_eq!(late(0, room.round + REACTION_ROUNDS), Task::Nothing);
    let later = room.round + RENEW_ROUNDS;
    assert_eq!(late(0, later), Task::NewKeysFor(vec![key(2).verifying_key().to_bytes()]));
    assert_eq!(late(1, later), Task::Nothing, "it is not bob's to make them");
    // Carol missed them, and hears nobody; bob is nobody to ask.
    assert_eq!(
        late(2, later),
        Task::Ask(vec![key(0).verifying_key().to_bytes(), key(1).verifying_key().to_bytes()])
    );
}

/// Carol was given keys and has gone back to before that: she speaks on without them, and all others would wait for ever.
#[test]
fn the_keeper_makes_keys_anew_for_one_who_holds_up_a_change() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    let since = room.round;
    let carol = key(2).verifying_key().to_bytes();
    let mut made = Vec::new();
    while room.round < since + 4 * HELD_UP_ROUNDS {
        let round = Round(room.round);
        let at_this_round = |member: usize| {
            let group = postcard::to_allocvec(&room.groups[member]).unwrap();
            postcard::from_bytes::<Group>(&group).unwrap().tend(round)
        };
        let task = at_this_round(0);
        assert_eq!(at_this_round(1), Task::Nothing, "alice has the keys, and it is not bob's to make others");
        assert_ne!(task, Task::NewKeys);
        if task == Task::NewKeysFor(vec![carol]) {
            made.push(room.round - since);
            let rekey = room.propose(0, 7);
            room.groups[0].begin(&rekey, round).unwrap();
            room.groups[1].offer(0, rekey.clone(), round).unwrap();
            if made.len() == 2 {
                room.groups[2].offer(0, rekey, round).unwrap();
            }
        }
        room.run(1, &[]);
    }
    let blocks = |made: u64| made.div_ceil(HELD_UP_ROUNDS) * HELD_UP_ROUNDS;
    assert!(made.len() == 2 && made.iter().all(|made| blocks(*made) - made < HELD_UP_ROUNDS), "{made:?}");
    assert!(made[0] >= HELD_UP_ROUNDS && made[1] - made[0] >= HELD_UP_ROUNDS, "{made:?}");
    let epochs = room.epochs();
    assert!(epochs[0] > 0 && epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
    let told = |news: &Vec<News>| news.iter().filter(|news| **news == News::KeysDiffer).count();
    assert!(room.news.iter().take(2).all(|news| told(news) == 1), "{:?}", room.news);
}

/// Whoever holds a change up may be the keeper, who has gone back and does not know who left.
#[test]
fn a_member_asks_a_keeper_who_holds_up_a_change() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    for member in [1, 2] {
        room.groups[member].offer(0, rekey.clone(), Round(room.round)).unwrap();
        room.groups[member].take_farewell(&Farewell::new([4; 16], 0, &key(0))).unwrap();
    }
    // Bob, who is the keeper now, has forgotten both.
    room.groups[1] = group(1);
    room.run(RENEW_ROUNDS - room.round, &[0]);
    let group = postcard::to_allocvec(&room.groups[2]).unwrap();
    let mut carol: Group = postcard::from_bytes(&group).unwrap();
    assert_eq!(carol.tend(Round(RENEW_ROUNDS)), Task::Ask(vec![key(1).verifying_key().to_bytes()]));
}

#[test]
fn the_next_member_takes_over_from_a_keeper_who_said_farewell_and_from_no_other() {
    let mut carol = group(2);
    let rekey = Rekey {
        group: [4; 16],
        epoch: (1 << 29) + 1,
        start: Round(2),
        excluded: 1,
        fresh: Secret::new([9; 32]),
    };
    carol.offer(1, rekey.clone(), Round(2)).unwrap();
    assert_eq!(carol.news(), [News::RekeyRefused]);
    let genuine = Farewell::new([4; 16], 0, &key(0));
    for forged in [
        Farewell::new([4; 16], 0, &key(1)),
        Farewell::new([5; 16], 0, &key(0)),
        Farewell { member: 1, ..genuine.clone() },
        Farewell { group: [5; 16], ..genuine.clone() },
        Farewell { member: 9, ..genuine.clone() },
    ] {
        assert!(carol.take_farewell(&forged).is_err());
    }
    let handed_on = Farewell::decode(&genuine.encode()).unwrap();
    carol.take_farewell(&handed_on).unwrap();
    carol.take_farewell(&handed_on).unwrap();
    assert_eq!(carol.news(), [News::Left(0)]);
    assert_eq!(carol.keeper(), Some(1));
    carol.offer(1, rekey, Round(2)).unwrap();
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.excluded), Some(1));
    assert!(carol.news().is_empty(), "alice left, and nobody removed her");
    // What alice may have said before she left is passed over without alarm.
    let late = Rekey { epoch: 5, excluded: 0, group: [4; 16], start: Round(2), fresh: Secret::new([1; 32]) };
    carol.offer(0, late, Round(9)).unwrap();
    assert!(carol.news().is_empty() && carol.offer.is_none());
}
