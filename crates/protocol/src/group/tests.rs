//! Members against each other: they share all symmetric keys.

use ed25519_dalek::SigningKey;

use super::{Group, GroupCard, Rekey};
use crate::conversation::{Event, Turn};
use crate::message::Kind;
use crate::secret::Secret;
use crate::{Deposit, Error, Round, UnixMillis};

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

fn key(member: usize) -> SigningKey {
    SigningKey::from_bytes(&[member as u8 + 1; 32])
}

fn group(member: usize) -> Group {
    let public = |member| key(member).verifying_key().to_bytes();
    let card = GroupCard {
        server: [0; 8],
        id: [4; 16],
        secret: Secret::new([5; 32]),
        start: Round(1),
        time: UnixMillis(0),
        name: "crew".into(),
        members: (0..3).map(|member| (NAMES[member].to_owned(), public(member))).collect(),
    };
    Group::new(&card, public(member), Round(1)).unwrap()
}

fn speak(group: &mut Group, round: u64, identity: &SigningKey) -> Deposit {
    group.queue(Kind::Text, b"hi").unwrap();
    group.open_round(&Turn { round: Round(round), mine: true, head: None, identity }).0.unwrap()
}

fn hear(group: &mut Group, round: u64, deposit: &Deposit) -> Result<Vec<Event>, Error> {
    let identity = key(0);
    let turn = Turn { round: Round(round), mine: false, head: None, identity: &identity };
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
    assert_eq!(hear(&mut alice, 1, &forged).err(), Some(Error::Malformed("message")));
    let genuine = speak(&mut group(1), 2, &key(1));
    assert!(matches!(hear(&mut alice, 2, &genuine).unwrap()[..], [Event::Delivered { member: 1, .. }]));
}

#[test]
fn a_signature_holds_for_one_place_only() {
    let mut bob = group(1);
    let deposit = speak(&mut bob, 1, &key(1));
    let mut alice = group(0);
    let identity = key(0);
    let turn = Turn { round: Round(1), mine: false, head: None, identity: &identity };
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

#[test]
fn an_impossible_rekey_changes_nothing() {
    let mut alice = group(0);
    let rekey = group(1).propose(2, Secret::new([6; 32]), Round(2)).unwrap();
    let wrong = |change: fn(&mut Rekey)| {
        let mut rekey = rekey.clone();
        change(&mut rekey);
        rekey
    };
    for rekey in [
        wrong(|rekey| rekey.group = [0; 16]),
        wrong(|rekey| rekey.removed = 0),
        wrong(|rekey| rekey.removed = 1),
        wrong(|rekey| rekey.removed = 7),
        wrong(|rekey| rekey.start = Round(1000)),
    ] {
        assert!(alice.apply(1, rekey, Round(2)).is_err());
    }
    assert!(alice.apply(9, rekey.clone(), Round(2)).is_err());
    let replay = wrong(|rekey| rekey.epoch = 0);
    assert!(alice.apply(1, replay, Round(2)).unwrap().removed.is_empty());
    assert_eq!(alice.epoch, 0);
    assert!(Rekey::decode(&rekey.encode()[1..]).is_err());
    let copied = Rekey::decode(&rekey.encode()).unwrap();
    let base = *alice.base.bytes();
    assert_eq!(alice.apply(1, copied, Round(2)).unwrap().removed, [2]);
    assert_eq!(alice.epoch, 1);
    assert_ne!(*alice.base.bytes(), base, "the next epoch would follow from what carol knows");
    let identity = key(0);
    let turn = Turn { round: Round(2), mine: false, head: None, identity: &identity };
    assert_eq!(alice.open_round(&turn).1.len(), 1, "nobody listens to carol");
    // Carol, once removed, says nothing that is heard, nor removes anybody.
    assert!(alice.apply(2, wrong(|rekey| rekey.epoch = 2), Round(2)).is_err());
}

#[test]
fn rekeys_out_of_order_are_kept_until_they_fit() {
    let (mut alice, mut bob) = (group(0), group(1));
    let first = bob.propose(2, Secret::new([6; 32]), Round(2)).unwrap();
    bob.apply(1, first.clone(), Round(2)).unwrap();
    let second = bob.propose(2, Secret::new([8; 32]), Round(2)).unwrap();
    bob.apply(1, second.clone(), Round(2)).unwrap();
    assert!(alice.apply(1, second, Round(2)).unwrap().removed.is_empty());
    assert_eq!(alice.apply(1, first, Round(2)).unwrap().removed, [2]);
    assert_eq!(alice.epoch, 2);
    let deposit = speak(&mut bob, 3, &key(1));
    assert!(hear(&mut alice, 3, &deposit).is_ok());
}

/// A member chooses where new chains begin; all the steps from long ago, made at once, would delay the next calls of
/// every other member by seconds, and so show who is in one group with it.
#[test]
fn a_rekey_from_long_ago_does_not_stall_a_member() {
    const NOW: u64 = 5_000_000;
    let rekey = |epoch, start| Rekey {
        group: [4; 16],
        epoch,
        start: Round(start),
        removed: 2,
        fresh: Secret::new([9; 32]),
    };
    let mut alice = group(0);
    alice.apply(1, rekey(1, NOW), Round(NOW)).unwrap();
    let started = std::time::Instant::now();
    for epoch in 2..20 {
        alice.apply(1, rekey(epoch, NOW - (1 << 22) + 2), Round(NOW)).unwrap();
        let identity = key(0);
        let turn = Turn { round: Round(NOW), mine: true, head: None, identity: &identity };
        let (deposit, listening) = alice.open_round(&turn);
        assert!(deposit.is_none() && listening.is_empty());
    }
    // Seventy-five million steps, of which fewer than a hundredth are made, take more than ten seconds on any machine.
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    assert!(alice.apply(1, rekey(20, NOW - (1 << 22) - 1), Round(NOW)).is_err());
}

/// Who was away while somebody was removed is not shut out.
#[test]
fn a_member_who_was_away_catches_up_with_a_rekey() {
    let (mut alice, mut bob) = (group(0), group(1));
    let rekey = bob.propose(2, Secret::new([6; 32]), Round(2)).unwrap();
    bob.apply(1, rekey.clone(), Round(2)).unwrap();
    let identity = key(0);
    let mut round = 20_000;
    alice.apply(1, rekey, Round(round)).unwrap();
    loop {
        let turn = Turn { round: Round(round), mine: false, head: None, identity: &identity };
        let waiting = alice.open_round(&turn).1.is_empty();
        bob.open_round(&turn);
        round += 1;
        if !waiting {
            break;
        }
    }
    assert_eq!(round, 20_003);
    let deposit = speak(&mut bob, round, &key(1));
    assert!(hear(&mut alice, round, &deposit).is_ok());
}

/// What is kept of an epoch must not lead to its chains.
#[test]
fn a_stolen_state_holds_no_secret_of_the_epoch() {
    let alice = group(0);
    let bytes = postcard::to_allocvec(&alice).unwrap();
    assert!(!bytes.windows(32).any(|window| window == [5; 32]));
}
