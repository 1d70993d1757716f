//! What members say in their turns, and what is made of it.

use super::{group, key};
use crate::group::{Group, LEAVE_TURNS};
use crate::message::{Frame, GroupFrame, Kind};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Round};

/// A member's turn, and where it listens in that round.
fn turn(group: &mut Group, member: usize, round: u64) -> (Option<Deposit>, Vec<Listening>) {
    let identity = key(member);
    group.open_round(&Turn {
        round: Round(round),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    })
}

/// What somebody reads who listens in a round.
struct Read {
    deposit: Deposit,
    found: Listening,
    round: u64,
}

impl Read {
    fn new(deposit: Deposit, listening: Vec<Listening>, round: u64) -> Self {
        let found = listening.into_iter().find(|found| found.key.label() == deposit.label).unwrap();
        Self { deposit, found, round }
    }

    fn by(&self, group: &mut Group) -> Vec<Event> {
        let plaintext = self.found.key.open(&self.deposit.sealed.0).unwrap();
        let from = (self.found.epoch, self.found.member);
        group.receive(from, self.deposit.label, &plaintext, Round(self.round)).unwrap().0
    }

    fn frame(&self) -> Frame {
        let plaintext = self.found.key.open(&self.deposit.sealed.0).unwrap();
        GroupFrame::decode(&plaintext, Round(self.round), |_, _| true).unwrap().frame
    }
}

/// What a member says in a round, as alice reads it.
fn said(speaker: &mut Group, member: usize, alice: &mut Group, round: u64) -> Read {
    let (_, listening) = turn(alice, 0, round);
    Read::new(turn(speaker, member, round).0.unwrap(), listening, round)
}

/// Who has no time for more than one turn has said goodbye; and what had not arrived is repeated in the turns between.
#[test]
fn who_leaves_says_so_at_once_and_in_every_other_turn() {
    let (mut alice, mut carol) = (group(0), group(2));
    for round in 1..3 {
        carol.queue(Kind::Text, b"the last").unwrap();
        assert_eq!(said(&mut carol, 2, &mut alice, round).frame().kind, Kind::Text);
    }
    carol.queue(Kind::Text, b"not said any more").unwrap();
    carol.leave(&key(2)).unwrap();
    let kinds: Vec<Kind> = (3..8).map(|round| said(&mut carol, 2, &mut alice, round).frame().kind).collect();
    assert_eq!(kinds, [Kind::Leave, Kind::Text, Kind::Leave, Kind::Text, Kind::Leave]);
    for turn in 5..LEAVE_TURNS {
        assert!(!carol.has_left(), "{turn} turns");
        said(&mut carol, 2, &mut alice, 3 + u64::from(turn));
    }
    assert!(carol.has_left());
}

/// Whoever changes over listens for a member's present keys in every other round alone. So two turns that follow each other bear
/// the mark, and then two bear what else there is: with turns by turns one of both would always be missed.
#[test]
fn two_turns_of_four_bear_the_mark_of_new_keys() {
    let (mut alice, mut carol) = (group(0), group(2));
    let rekey = alice.propose(Secret::new([6; 32]), Round(1)).unwrap();
    carol.begin(&rekey, Round(1)).unwrap();
    for _ in 0..8 {
        carol.queue(Kind::Text, b"what else there is").unwrap();
    }
    let texts: Vec<bool> =
        (1..9).map(|round| said(&mut carol, 2, &mut alice, round).frame().kind == Kind::Text).collect();
    assert_eq!(texts, [false, true, true, false, false, true, true, false]);
}

/// Who has not read what came must not be told of more, nor say that it has it.
#[test]
fn without_room_a_group_takes_no_text() {
    let (mut alice, mut bob) = (group(0), group(1));
    bob.queue(Kind::Text, b"hi").unwrap();
    for (round, room) in [(1, false), (2, true)] {
        alice.make_room(room);
        let heard = said(&mut bob, 1, &mut alice, round).by(&mut alice);
        assert_eq!(matches!(heard[..], [Event::Delivered { member: 1, .. }]), room);
        assert!(room || heard.is_empty());
    }
}

/// What a member says last counts, and it says one thing in a round: read again it is nothing newer.
#[test]
fn what_is_read_twice_makes_nobody_go_back() {
    let (mut alice, mut bob) = (group(0), group(1));
    let before = postcard::to_allocvec(&bob).unwrap();
    alice.queue(Kind::Text, b"hi").unwrap();
    let (_, listening) = turn(&mut bob, 1, 1);
    let hi = Read::new(turn(&mut alice, 0, 1).0.unwrap(), listening, 1);
    assert_eq!(hi.by(&mut bob).len(), 1);
    // Bob has it, and has it no more when he goes back to a state from before.
    let has = said(&mut bob, 1, &mut alice, REACTION_ROUNDS);
    let mut bob: Group = postcard::from_bytes(&before).unwrap();
    let has_not = said(&mut bob, 1, &mut alice, REACTION_ROUNDS + 1);
    // The newer one is read first.
    let acknowledged = |alice: &Group| alice.members().nth(1).unwrap().acknowledged;
    for (read, expected) in [(&has_not, 0), (&has, 1), (&has_not, 1)] {
        assert!(read.by(&mut alice).is_empty());
        assert_eq!(acknowledged(&alice), expected);
    }
    // What he says in another round does count.
    let events = said(&mut bob, 1, &mut alice, REACTION_ROUNDS + 2).by(&mut alice);
    assert!(matches!(events[..], [Event::WentBack]));
    assert_eq!(acknowledged(&alice), 0);
}
