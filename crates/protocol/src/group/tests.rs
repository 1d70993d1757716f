//! Members against each other: they share all symmetric keys.

mod changing;
mod epochs;
mod keepers;
mod leaving;
mod members;
mod rekeys;
mod restored;
mod room;
mod words;

use ed25519_dalek::SigningKey;

use super::{Group, GroupCard};
use crate::error::Malformed;
use crate::message::Kind;
use crate::secret::Secret;
use crate::turn::{Event, Turn};
use crate::{Deposit, Error, Round, UnixMillis};

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

fn key(member: usize) -> SigningKey {
    SigningKey::from_bytes(&[member as u8 + 1; 32])
}

fn card() -> GroupCard {
    let public = |member| key(member).verifying_key().to_bytes();
    GroupCard {
        server: [0; 8],
        id: [4; 16],
        secret: Secret::new([5; 32]),
        start: Round(1),
        time: UnixMillis(0),
        name: "crew".into(),
        members: (0..3).map(|member| (NAMES[member].to_owned(), public(member))).collect(),
        slots: Vec::new(),
    }
}

fn group(member: usize) -> Group {
    Group::new(&card(), key(member).verifying_key().to_bytes(), Round(1)).unwrap()
}

fn speak(group: &mut Group, round: u64, identity: &SigningKey) -> Deposit {
    group.queue(Kind::Text, b"hi").unwrap();
    group
        .open_round(&Turn {
            round: Round(round),
            mine: true,
            slot: None,
            last: None,
            knocks: true,
            head: None,
            identity,
        })
        .0
        .unwrap()
}

fn hear(group: &mut Group, round: u64, deposit: &Deposit) -> Result<Vec<Event>, Error> {
    let identity = key(0);
    let turn = Turn {
        round: Round(round),
        mine: false,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    let (_, listening) = group.open_round(&turn);
    let found = listening.into_iter().find(|listening| listening.key.label() == deposit.label).unwrap();
    let plaintext = found.key.open(&deposit.sealed.0).unwrap();
    let from = (found.epoch, found.member);
    group.receive(from, deposit.label, &plaintext, Round(round)).map(|(events, _)| events)
}

#[test]
fn a_member_cannot_speak_in_anothers_name() {
    // Carol knows the group's secret, and with it bob's chain; she has no key of his to sign with.
    let mut carol_as_bob = group(1);
    let forged = speak(&mut carol_as_bob, 1, &key(2));
    let mut alice = group(0);
    assert_eq!(hear(&mut alice, 1, &forged).err(), Some(Error::Malformed(Malformed::Message)));
    let genuine = speak(&mut group(1), 2, &key(1));
    assert!(matches!(hear(&mut alice, 2, &genuine).unwrap()[..], [Event::Delivered { member: 1, .. }]));
}

#[test]
fn a_signature_holds_for_one_place_only() {
    let mut bob = group(1);
    let deposit = speak(&mut bob, 1, &key(1));
    let mut alice = group(0);
    let identity = key(0);
    let turn = Turn {
        round: Round(1),
        mine: false,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    let (_, listening) = alice.open_round(&turn);
    let found = listening.into_iter().find(|listening| listening.key.label() == deposit.label).unwrap();
    let plaintext = found.key.open(&deposit.sealed.0).unwrap();
    let other_label = crate::Label([0; 16]);
    for (from, label, round) in [
        ((0, 2), deposit.label, 1),
        ((1, 1), deposit.label, 1),
        ((0, 1), other_label, 1),
        ((0, 1), deposit.label, 2),
    ] {
        assert!(alice.receive(from, label, &plaintext, Round(round)).is_err());
    }
    assert!(alice.receive((0, 9), deposit.label, &plaintext, Round(1)).is_err());
    assert!(alice.receive((0, 1), deposit.label, &plaintext, Round(1)).is_ok());
}
