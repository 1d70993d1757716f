//! Who leaves says goodbye, and is heard.

use super::room::Room;
use super::{group, hear, key};
use crate::error::Malformed;
use crate::group::LEAVE_TURNS;
use crate::group::keys::News;
use crate::message::Kind;
use crate::turn::Turn;
use crate::{Error, Round};

/// Who leaves is answered where it listens, until the others change.
#[test]
fn one_who_leaves_is_acknowledged() {
    let mut room = Room::new();
    room.run(10, &[]);
    room.groups[2].queue(Kind::Text, b"farewell").unwrap();
    room.run(1, &[]);
    room.groups[2].leave(&key(2)).unwrap();
    let mut turns = 0;
    while !room.groups[2].has_left() {
        room.run(1, &[]);
        turns += 1;
    }
    assert!(turns < LEAVE_TURNS.into(), "all turns were needed");
    assert!(room.groups[2].leaving.is_some_and(|left| left > 0));
    assert_eq!([&room.texts[0], &room.texts[1]], [&vec![b"farewell".to_vec()]; 2]);
    assert_eq!([&room.news[0][..], &room.news[1][..]], [[News::Left(2)]; 2]);
}

/// A farewell that its author did not sign for others to see could not be handed on.
#[test]
fn a_goodbye_without_its_signature_is_refused() {
    let mut carol = group(2);
    carol.queue(Kind::Leave, &[1; 64]).unwrap();
    let identity = key(2);
    let turn = Turn {
        round: Round(1),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    let deposit = carol.open_round(&turn).0.unwrap();
    let mut alice = group(0);
    assert_eq!(hear(&mut alice, 1, &deposit).err(), Some(Error::Malformed(Malformed::Message)));
    assert!(alice.members().all(|member| member.present));
}

/// What was taken back of a text does not come, and must not make the goodbye a part of it.
#[test]
fn one_who_leaves_amid_a_text_is_heard() {
    let mut room = Room::new();
    room.run(10, &[]);
    room.groups[2].queue(Kind::Text, &[b'x'; 400]).unwrap();
    room.run(2, &[]);
    room.groups[2].leave(&key(2)).unwrap();
    room.run(60, &[]);
    assert!(room.groups[2].has_left());
    assert_eq!([&room.news[0][..], &room.news[1][..]], [[News::Left(2)]; 2]);
    assert!(room.texts.iter().all(Vec::is_empty));
}
