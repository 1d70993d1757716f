//! Which boxes a conversation looks for with the units that are polled.

use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

use super::{Conversation, ConversationId, Talk};
use crate::invitation::{Invitation, LIFE_MS};
use crate::message::{Frame, Kind};
use crate::pair::Pair;
use crate::pair::handshake::exchange_key;
use crate::secret::Secret;
use crate::turn::{Event, Turn};
use crate::{Round, UnixMillis};

const MADE: UnixMillis = UnixMillis(1_000);

fn identity(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

fn turn(round: u64, identity: &SigningKey) -> Turn<'_> {
    Turn { round: Round(round), mine: true, slot: None, last: None, knocks: true, head: None, identity }
}

/// Somebody who has met the one that was invited and looks, beside that, for others who hold the invitation; and in which round.
fn alice() -> (Conversation, u64) {
    let secret = |number: u8| Secret::new([number; 32]);
    let invitation = Invitation {
        server: [0; 8],
        secret: secret(7),
        exchange: exchange_key(&secret(1)),
        identity: identity(1).verifying_key().to_bytes(),
        start: Round(1),
        time: MADE,
        expires: UnixMillis(MADE.0 + LIFE_MS),
    };
    let mut alice = Pair::inviting(&invitation, (secret(1), secret(101)), MADE, Round(1)).unwrap();
    let mut bob =
        Pair::accepting(&invitation, (&secret(2), secret(102)), &identity(2), MADE, Round(1)).unwrap();
    let mut round = 0;
    while !alice.established() {
        round += 1;
        assert!(round < 100, "they have not met");
        let (to_bob, of_alice) = alice.open_round(&turn(round, &identity(1)));
        let (to_alice, of_bob) = bob.open_round(&turn(round, &identity(2)));
        for (sent, boxes, reader) in [(to_bob, of_bob, &mut bob), (to_alice, of_alice, &mut alice)] {
            let Some(sent) = sent else { continue };
            for found in boxes.into_iter().filter(|found| found.key.label() == sent.label) {
                let plaintext = found.key.open(&sent.sealed.0).unwrap();
                let (round, next) = (Round(round), Round(round + 1));
                reader.receive(found.epoch, &plaintext, round, next, &[]).unwrap();
            }
        }
    }
    let talk = Talk::Pair(alice);
    let conversation =
        Conversation { id: ConversationId(1), name: "bob".to_owned(), place: 0, units: vec![3, 8], talk };
    (conversation, round)
}

/// What a contact says must be found as often as it can be, and who else may come is looked for only with what is left over.
#[test]
fn a_spare_box_is_looked_for_where_there_is_a_unit_for_each_alone() {
    for (polled, expected) in [
        (vec![3, 8], vec![true, false]),
        (vec![8, 5, 3], vec![true, false]),
        (vec![3], vec![false]),
        (vec![8], vec![false]),
        (vec![5, 9], vec![]),
        (vec![], vec![]),
    ] {
        let (mut alice, round) = alice();
        let (_, listening) = alice.open_round(&turn(round + 1, &identity(1)), &polled);
        let spare: Vec<bool> = listening.iter().map(|listening| listening.spare).collect();
        assert_eq!(spare, expected, "{polled:?}");
    }
}

/// The same on a server with slots, where another who holds the invitation is known by a knock.
#[test]
fn a_spare_knock_is_looked_for_where_there_is_a_unit_for_each_alone() {
    let identity = identity(1);
    for (polled, expected) in [(vec![3, 8], vec![true, false]), (vec![3], vec![false])] {
        let (mut alice, round) = alice();
        let slotted = Turn { slot: Some(3), ..turn(round + 1, &identity) };
        let (_, listening) = alice.open_round(&slotted, &polled);
        let spare: Vec<bool> = listening.iter().map(|listening| listening.spare).collect();
        assert_eq!(spare, expected, "{polled:?}");
    }
}

/// Until somebody has come there is but one thing to look for; where one unit is left of two, that is looked for whenever it is
/// polled.
#[test]
fn with_one_unit_a_conversation_looks_for_one_box() {
    let (mut alice, round) = alice();
    alice.units.truncate(1);
    for (later, (polled, boxes)) in (1..).zip([(vec![3], 1), (vec![8], 0), (vec![8, 3], 1)]) {
        let (_, listening) = alice.open_round(&turn(round + later, &identity(1)), &polled);
        assert_eq!(listening.len(), boxes, "{polled:?}");
    }
}

/// Who has not read what came must not say that it has it, nor lose it.
#[test]
fn without_room_a_conversation_takes_no_text() {
    for room in [false, true] {
        let (mut alice, round) = alice();
        alice.make_room(room);
        let Talk::Pair(pair) = &mut alice.talk else { panic!("with one contact") };
        let (round, content) = (Round(round), Zeroizing::new(b"hi".to_vec()));
        let text = Frame {
            kind: Kind::Text,
            flags: 0,
            sequence: 1,
            acknowledgement: 0,
            check: 0,
            before: 0,
            round,
            head: None,
            content,
        };
        let (events, _) = pair.receive(1, &text.encode().unwrap(), round, round.next(), &[]).unwrap();
        assert_eq!(events.iter().any(|event| matches!(event, Event::Delivered { .. })), room);
    }
}
