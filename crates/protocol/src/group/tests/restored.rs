//! Who has gone back to an earlier state, and who feigns it.

use super::room::{Lie, Room};
use super::{group, key};
use crate::Round;
use crate::group::Group;
use crate::message::Kind;
use crate::seal::Plaintext;
use crate::secret::Secret;
use crate::turn::{Event, Turn};

/// What is kept of an epoch must not lead to its chains.
#[test]
fn a_stolen_state_holds_no_secret_of_the_epoch() {
    let mut alice = group(0);
    let holds = |group: &Group, needle: &[u8]| {
        postcard::to_allocvec(group).unwrap().windows(32).any(|window| window == needle)
    };
    assert!(!holds(&alice, &[5; 32]));
    let rekey = alice.propose(Secret::new([6; 32]), Round(2)).unwrap();
    alice.begin(&rekey, Round(2)).unwrap();
    let secret = Secret::extract(crate::domain::GROUP_REKEY, [&alice.base, &rekey.fresh]);
    assert!(!holds(&alice, &[6; 32]) && !holds(&alice, secret.bytes()));
}

/// Gives another check of what alice has said.
fn misread(plaintext: &mut Plaintext, check: u32) {
    plaintext[104..108].copy_from_slice(&check.to_le_bytes());
}

/// A member who could make another one number anew would have everything repeated to all, as often as it likes, and use
/// up the numbers there are.
#[test]
fn attack_a8_a_restored_state_in_a_group_cannot_be_feigned_for_somebody_else() {
    let lies: [(Lie, bool); 5] = [
        (|plaintext, _| misread(plaintext, u32::MAX), false),
        (|plaintext, _| misread(plaintext, 0), false),
        (|plaintext, round| misread(plaintext, 0x9e37_79b9_u32.wrapping_mul(round as u32)), false),
        (|plaintext, round| misread(plaintext, round as u32 / 8), false),
        // Now the truth, now a lie: what it has read is believed.
        (
            |plaintext, round| {
                if round / 8 % 4 > 1 {
                    misread(plaintext, round as u32);
                }
            },
            true,
        ),
    ];
    for (number, (lie, arrives)) in lies.into_iter().enumerate() {
        let mut room = Room::new();
        room.groups[0].queue(Kind::Text, b"first").unwrap();
        room.run(40, &[]);
        assert_eq!(room.arrived, [1, 0, 0]);
        room.lie = Some(lie);
        for text in [b"one", b"two"] {
            room.groups[0].queue(Kind::Text, text).unwrap();
            room.groups[1].queue(Kind::Text, text).unwrap();
            room.run(200, &[]);
        }
        let said = [b"one".to_vec(), b"two".to_vec()];
        // What bob says is not carol's affair, and what alice says comes to him once.
        assert_eq!(room.texts[0], said, "lie {number}");
        assert_eq!(room.texts[1], [&[b"first".to_vec()], &said[..]].concat(), "lie {number}");
        assert_eq!(room.arrived, [if arrives { 3 } else { 1 }, 2, 0], "lie {number}");
        // Once for each text that she has acknowledged, at most.
        assert_eq!(room.went_back, [if arrives { 3 } else { 1 }, 0, 0], "lie {number}");
        room.lie = None;
        room.run(40, &[]);
        assert_eq!(room.arrived, [3, 2, 0], "lie {number}");
        assert_eq!((room.texts[1].len(), room.texts[2].len()), (3, 5), "lie {number}");
        assert!(room.groups.iter().all(|group| group.outbox().is_settled()));
    }
}

/// What a member says of its own messages, who numbers and checks them as it likes, concerns these alone.
#[test]
fn attack_a8_a_restored_state_in_a_group_feigned_for_oneself_keeps_others_from_nothing() {
    let mut room = Room::new();
    room.groups[2].queue(Kind::Text, b"carol").unwrap();
    room.run(40, &[]);
    room.lie = Some(|plaintext, round| {
        // The check of all that she sent, and of what comes before a message.
        plaintext[112..116].copy_from_slice(&(round as u32 / 3).to_le_bytes());
        if plaintext[4] != 0 {
            plaintext[20..24].copy_from_slice(&(round as u32).to_le_bytes());
            plaintext[4] = round as u8 % 7 + 1;
        }
    });
    let size = |room: &Room| postcard::to_allocvec(&room.groups[0]).unwrap().len();
    let before = size(&room);
    for _ in 0..10 {
        room.groups[2].queue(Kind::Text, b"once more").unwrap();
        room.groups[0].queue(Kind::Text, b"alice").unwrap();
        room.run(40, &[]);
        assert!(size(&room) < before + 1500);
    }
    assert_eq!(room.arrived[0], 10);
    assert_eq!(room.texts[1].iter().filter(|text| **text == b"alice").count(), 10);
    // She may be heard as often as she likes, in her own name.
    room.lie = None;
    room.groups[2].queue(Kind::Text, b"honest again").unwrap();
    room.run(80, &[]);
    assert!(room.groups[2].outbox().is_settled());
    assert!([0, 1].iter().all(|other| room.texts[*other].contains(&b"honest again".to_vec())));
}

/// A box that is read late says what was so before, and not that anybody has gone back.
#[test]
fn boxes_may_be_read_in_another_order() {
    let (mut alice, mut bob) = (group(0), group(1));
    let (keys, mut boxes) = ([key(0), key(1)], Vec::new());
    // In the second round bob has nothing new, and repeats the first.
    for round in 1..=3 {
        if round != 2 {
            bob.queue(Kind::Text, b"hi").unwrap();
        }
        let turn = |member: usize| Turn {
            round: Round(round),
            mine: member == 1,
            slot: None,
            last: None,
            knocks: true,
            head: None,
            identity: &keys[member],
        };
        let deposit = bob.open_round(&turn(1)).0.unwrap();
        let (_, listening) = alice.open_round(&turn(0));
        let found = listening.into_iter().find(|found| found.key.label() == deposit.label).unwrap();
        boxes.push((deposit.label, found.key.open(&deposit.sealed.0).unwrap(), Round(round)));
    }
    let mut heard = 0;
    for (label, plaintext, round) in [0, 2, 1].map(|number: usize| &boxes[number]) {
        for event in alice.receive((0, 1), *label, plaintext, *round).unwrap().0 {
            assert!(matches!(event, Event::Delivered { member: 1, .. }), "round {round}");
            heard += 1;
        }
    }
    assert_eq!(heard, 2);
}
