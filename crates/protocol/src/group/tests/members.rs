//! Who is removed, leaves and stays.

use super::{group, key, speak};
use crate::error::{InputError, Unknown};
use crate::group::keys::News;
use crate::group::rekey::{Farewell, Rekey};
use crate::group::{Group, Member};
use crate::message::Kind;
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::turn::Turn;
use crate::{Deposit, Error, Round};

fn turn(group: &mut Group, member: usize, round: u64) -> Option<Deposit> {
    let identity = key(member);
    let turn = Turn {
        round: Round(round),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    group.open_round(&turn).0
}

/// Of all members, as bits: are they there, are they being removed, and do they have the keys?
fn standing(group: &Group) -> [u8; 3] {
    let bits = |is: fn(&Member) -> bool| {
        group.members().filter(is).fold(0, |bits, member| bits | (1 << member.number))
    };
    [bits(|member| member.present), bits(|member| member.removing), bits(|member| member.confirmed)]
}

const UNKNOWN: Error = Error::Unknown(Unknown::Member);

/// Whoever could be removed by anybody, or twice, or by itself, would take the group from the others.
#[test]
fn the_keeper_removes_members_who_are_there() {
    let mut alice = group(0);
    assert_eq!(standing(&alice), [0b111, 0, 0b001]);
    for nobody in [0, 3, 8, 255] {
        assert_eq!(alice.remove(nobody), Err(UNKNOWN));
    }
    assert_eq!((alice.remove(1), alice.remove(1)), (Ok(()), Err(UNKNOWN)));
    assert_eq!(standing(&alice), [0b111, 0b010, 0b001]);
    assert_eq!(alice.excluded_next(), 0b010);
    assert_eq!(group(1).remove(2), Err(Error::Input(InputError::NotKeeper)));
    let mut leaves = group(0);
    leaves.leave(&key(0)).unwrap();
    assert_eq!(leaves.remove(1), Err(Error::Input(InputError::NotKeeper)));
    // It can be taken back as long as nobody was told, and one at a time.
    alice.remove(2).unwrap();
    for nobody in [0, 3, 8, 255] {
        assert_eq!(alice.take_back_removal(nobody), Err(UNKNOWN));
    }
    assert_eq!((alice.take_back_removal(1), alice.take_back_removal(1)), (Ok(0), Err(UNKNOWN)));
    assert_eq!(standing(&alice), [0b111, 0b100, 0b001]);
    alice.leave(&key(0)).unwrap();
    assert_eq!(alice.take_back_removal(2), Err(Error::Input(InputError::Leaving)));
}

/// Whoever leaves while it is to be removed does not stay by it, and of all who have left the others can be told.
#[test]
fn who_leaves_while_it_is_to_be_removed_gets_no_keys() {
    let mut alice = group(0);
    assert!(alice.farewells().is_empty());
    alice.remove(2).unwrap();
    let farewell = Farewell::new([4; 16], 2, &key(2));
    alice.take_farewell(&farewell).unwrap();
    assert_eq!((alice.gone(), alice.excluded_next()), (0b100, 0b100));
    let rekey = alice.propose(Secret::new([6; 32]), Round(2)).unwrap();
    assert!(rekey.excludes(2) && !rekey.excludes(1) && !rekey.excludes(0));
    let handed_on: Vec<_> = alice.farewells().iter().map(Farewell::encode).collect();
    assert_eq!(handed_on, [farewell.encode()]);
}

/// What is said while somebody is to be removed is for those who remain.
#[test]
fn nothing_new_is_said_to_who_is_about_to_lose_the_keys() {
    for taken_back in [true, false] {
        let mut alice = group(0);
        alice.remove(2).unwrap();
        for round in 1..4 {
            alice.queue(Kind::Text, b"not for carol").unwrap();
            assert!(turn(&mut alice, 0, round).is_some(), "it announces itself all the same");
        }
        assert_eq!((alice.outbox().sent(), alice.outbox().texts()), (0, 3));
        if taken_back {
            assert_eq!(alice.take_back_removal(2), Ok(3));
            assert_eq!(alice.news(), [1, 2, 3].map(News::NotSent));
            speak(&mut alice, 4, &key(0));
            assert_eq!((alice.outbox().sent(), alice.outbox().texts()), (1, 1));
        } else {
            let rekey = alice.propose(Secret::new([6; 32]), Round(4)).unwrap();
            alice.begin(&rekey, Round(4)).unwrap();
            assert_eq!((standing(&alice)[0], standing(&alice)[1]), (0b011, 0));
            turn(&mut alice, 0, 4);
            assert_eq!(alice.outbox().sent(), 0, "carol has the keys of now");
        }
    }
}

/// Who has said goodbye must not take it back by saying it again.
#[test]
fn a_goodbye_is_said_once() {
    let mut carol = group(2);
    carol.queue(Kind::Text, b"sent").unwrap();
    turn(&mut carol, 2, 1);
    carol.queue(Kind::Text, b"not sent").unwrap();
    carol.leave(&key(2)).unwrap();
    let again = carol.leave(&key(2));
    assert_eq!(again, Err(Error::Input(InputError::Leaving)));
    assert_eq!(carol.queue(Kind::Text, b"wait"), Err(Error::Input(InputError::Leaving)));
    assert_eq!((carol.outbox().len(), carol.outbox().awaits(Kind::Leave)), (2, true));
    turn(&mut carol, 2, 2);
    // It is heard, as soon as all have it, and no turn more is needed.
    for member in [0, 1] {
        carol.members[member].acknowledged = 2;
    }
    assert_eq!(carol.acknowledged(), [1]);
    assert!(!carol.has_left());
    turn(&mut carol, 2, REACTION_ROUNDS);
    assert!(carol.has_left());
}

/// Where there is nothing to say a member is silent; and whoever has not been heard, or waits for an answer, is spoken to.
#[test]
fn a_member_speaks_where_it_has_something_to_say_or_is_waited_for() {
    let mut alice = group(0);
    assert!(turn(&mut alice, 0, 1).is_some(), "nobody has heard that she is there");
    alice.announcing = false;
    assert!(turn(&mut alice, 0, 2).is_none());
    let deposit = speak(&mut group(1), 3, &key(1));
    super::hear(&mut alice, 3, &deposit).unwrap();
    assert!(turn(&mut alice, 0, 4).is_none(), "in the next block");
    assert!(turn(&mut alice, 0, REACTION_ROUNDS).is_some());
    assert!(turn(&mut alice, 0, REACTION_ROUNDS + 1).is_some(), "he may have missed it");
    assert!(turn(&mut alice, 0, 2 * REACTION_ROUNDS).is_none());
    // To one who was removed nothing is owed.
    let deposit = speak(&mut group(1), 2 * REACTION_ROUNDS + 1, &key(1));
    super::hear(&mut alice, 2 * REACTION_ROUNDS + 1, &deposit).unwrap();
    alice.members[1].chain = None;
    assert!(turn(&mut alice, 0, 3 * REACTION_ROUNDS).is_none());
}

/// The person is told of each once: that a card may be found, and that one who has gone reads on; and of neither while it can change.
#[test]
fn that_no_keys_can_be_made_is_told_once_and_for_what_it_is() {
    let told = |mut group: Group, expecting: bool| {
        group.refuse_keys(expecting);
        let first = group.news();
        group.refuse_keys(false);
        (first, group.news())
    };
    assert_eq!(told(group(0), false), (vec![News::CardKeys], vec![]));
    assert_eq!(told(group(0), true), (vec![], vec![News::CardKeys]));
    let with = |change: fn(&mut Group)| {
        let mut alice = group(0);
        change(&mut alice);
        alice
    };
    let left = || with(|group| group.members[2].present = false);
    assert_eq!(told(left(), true), (vec![News::RekeyNeeded], vec![]));
    assert_eq!(told(with(|group| group.removing = 2), false), (vec![News::RekeyNeeded], vec![]));
    assert_eq!(told(with(|group| group.epoch = 5), false), (vec![], vec![]));
    let mut later = left();
    later.epoch = 5;
    assert_eq!(told(later, false), (vec![News::RekeyNeeded], vec![]));
}

/// A person is warned of a name once, or it would not look at warnings any more.
#[test]
fn a_borrowed_name_is_told_once() {
    let mut alice = group(0);
    alice.warn_of_names();
    assert_eq!(alice.news(), [News::NameBorrowed]);
    alice.warn_of_names();
    assert!(alice.news().is_empty());
}

/// What is shown of a group must be so: on its card, ended, and who has what.
#[test]
fn a_group_is_on_its_card_until_it_has_other_keys_or_ends() {
    let mut bob = group(1);
    assert!(bob.is_on_card() && !bob.is_ended());
    bob.queue(Kind::Text, b"hi").unwrap();
    assert_eq!(bob.members().map(|member| member.missing).collect::<Vec<_>>(), [1, 0, 1]);
    bob.take_farewell(&Farewell::new([4; 16], 2, &key(2))).unwrap();
    assert_eq!(bob.members().map(|member| member.missing).collect::<Vec<_>>(), [1, 0, 0]);
    let removes =
        Rekey { group: [4; 16], epoch: 9, start: Round(2), excluded: 0b110, fresh: Secret::new([0; 32]) };
    bob.offer(0, removes, Round(2)).unwrap();
    bob.news();
    bob.tend(Round(REACTION_ROUNDS));
    assert!(!bob.is_on_card() && bob.is_ended());
    assert_eq!(bob.news(), [News::Removed { by: 0, member: 1 }, News::NotSent(1)]);
    assert_eq!(standing(&bob)[0], 0b001);
    assert_eq!(bob.queue(Kind::Text, b"hello?"), Err(Error::Input(InputError::Removed)));
    assert_eq!(bob.leave(&key(1)), Err(Error::Input(InputError::Removed)));
    assert!(turn(&mut bob, 1, REACTION_ROUNDS).is_none());
    let mut keyed = group(0);
    keyed.epoch = 5;
    assert!(!keyed.is_on_card());
}
