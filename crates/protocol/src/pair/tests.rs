//! Two sides of a conversation, and what others put between them.

use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

mod renewal;

use super::handshake::{self, Agreement, Keys, Terms};
use super::{Pair, Says};
use crate::error::Malformed;
use crate::invitation::{Invitation, LIFE_MS};
use crate::message::{Frame, Kind};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::turn::{Event, Turn};
use crate::{Deposit, Error, Round, UnixMillis};

const ALICE: u8 = 1;
const BOB: u8 = 2;
const CAROL: u8 = 3;
const MADE: UnixMillis = UnixMillis(1_000);
const EXPIRES: UnixMillis = UnixMillis(MADE.0 + LIFE_MS);

fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

/// The public keys of a person whose exchange secret and seed of an identity are bytes of this number.
fn keys(number: u8) -> Keys {
    let identity = key(number).verifying_key().to_bytes();
    Keys { exchange: handshake::exchange_key(&Secret::new([number; 32])), identity }
}

fn invitation_of(inviter: Keys) -> Invitation {
    let Keys { exchange, identity } = inviter;
    let (secret, start) = (Secret::new([7; 32]), Round(1));
    Invitation { server: [0; 8], secret, exchange, identity, start, time: MADE, expires: EXPIRES }
}

fn alice() -> Pair {
    Pair::inviting(
        &invitation_of(keys(ALICE)),
        (Secret::new([ALICE; 32]), Secret::new([100 + ALICE; 32])),
        MADE,
        Round(1),
    )
    .unwrap()
}

fn accepting(number: u8) -> Pair {
    let (exchange, identity) = (Secret::new([number; 32]), key(number));
    Pair::accepting(
        &invitation_of(keys(ALICE)),
        (&exchange, Secret::new([100 + number; 32])),
        &identity,
        MADE,
        Round(1),
    )
    .unwrap()
}

fn terms(number: u8) -> Terms {
    let mark = invitation_of(keys(ALICE)).mark();
    Terms { mark, inviter: keys(ALICE), invited: keys(number) }
}

/// A request under the secret agreed with alice by the exchange secret of this number.
fn request(number: u8, terms: &Terms, signer: u8) -> Vec<u8> {
    let base = handshake::base(&invitation_of(keys(ALICE)));
    let agreement = Agreement::new(&base, &Secret::new([number; 32]), &keys(ALICE).exchange).unwrap();
    agreement.request(terms, &key(signer)).unwrap()
}

fn hello(content: &[u8]) -> Frame {
    let content = Zeroizing::new(content.to_vec());
    let (kind, round) = (Kind::Hello, Round(1));
    Frame { kind, flags: 0, sequence: 0, acknowledgement: 0, check: 0, before: 0, round, head: None, content }
}

fn receive(pair: &mut Pair, epoch: u32, frame: &Frame) -> Result<Vec<Event>, Error> {
    let held = [key(8).verifying_key().to_bytes()];
    pair.receive(epoch, &frame.encode().unwrap(), Round(1), Round(2), &held).map(|(events, _)| events)
}

/// What a side sends in a round, and what of the other's it reads of it.
fn exchange(pairs: &mut [Pair; 2], identities: &[SigningKey; 2], round: u64, heard: [bool; 2]) -> [bool; 2] {
    let turn = |number: usize| Turn {
        round: Round(round),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identities[number],
    };
    let opened = [pairs[0].open_round(&turn(0)), pairs[1].open_round(&turn(1))];
    let [(from_first, to_first), (from_second, to_second)] = opened;
    let sent = [from_first.is_some(), from_second.is_some()];
    let ways = [(&from_second, to_first), (&from_first, to_second)];
    for (number, (deposit, listening)) in ways.into_iter().enumerate().filter(|(number, _)| heard[*number]) {
        for listening in listening {
            let sent = deposit.as_ref().filter(|sent: &&Deposit| sent.label == listening.key.label());
            if let Some(plaintext) = sent.and_then(|sent| listening.key.open(&sent.sealed.0)) {
                let (round, next) = (Round(round), Round(round + 1));
                pairs[number].receive(listening.epoch, &plaintext, round, next, &[]).unwrap();
            }
        }
    }
    sent
}

/// With a point of low order the other side, or anybody, would choose the secret.
#[test]
fn keys_that_contribute_nothing_are_refused() {
    let mut alice = alice();
    let mut low_order = request(BOB, &terms(BOB), BOB);
    low_order[..32].fill(0);
    assert!(receive(&mut alice, 0, &hello(&low_order)).is_err());
    assert!(alice.chains.is_none() && alice.peer.is_none());
    let invitation = invitation_of(Keys { exchange: [0; 32], ..keys(ALICE) });
    let accepted = Pair::accepting(
        &invitation,
        (&Secret::new([BOB; 32]), Secret::new([102; 32])),
        &key(BOB),
        MADE,
        Round(1),
    );
    assert!(accepted.is_err());
    assert!(receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).is_ok());
    assert!(alice.chains.is_some());
}

/// Who posed as somebody else would get that person's rekeys, and could send some.
#[test]
fn an_identity_that_is_claimed_and_not_proven_is_refused() {
    let mut alice = alice();
    let claimed = Terms { invited: Keys { identity: keys(CAROL).identity, ..keys(BOB) }, ..terms(BOB) };
    // Neither by a signature of bob's own, nor by one of carol's for other keys, for the other direction, for another
    // invitation or to another inviter.
    let elsewhere = [
        (claimed, BOB),
        (terms(CAROL), CAROL),
        (Terms { mark: [9; 8], ..claimed }, CAROL),
        (Terms { inviter: Keys { identity: keys(BOB).identity, ..keys(ALICE) }, ..claimed }, CAROL),
        (Terms { inviter: Keys { exchange: keys(BOB).exchange, ..keys(ALICE) }, ..claimed }, CAROL),
    ];
    for (signed, signer) in elsewhere {
        let signature = signed.sign(false, &key(signer));
        assert!(!claimed.is_signed(false, &signature));
    }
    let inviters = claimed.sign(true, &key(CAROL));
    assert!(!claimed.is_signed(false, &inviters));
    for (terms, signer) in [(claimed, BOB), (Terms { mark: [9; 8], ..claimed }, CAROL)] {
        let refused = receive(&mut alice, 0, &hello(&request(BOB, &terms, signer)));
        assert_eq!(refused.err(), Some(Error::Malformed(Malformed::Message)));
        assert!(alice.peer.is_none());
    }
    assert!(receive(&mut alice, 0, &hello(&request(BOB, &claimed, CAROL))).is_ok());
    assert_eq!(alice.peer_identity(), Some(keys(CAROL).identity));
}

/// Under a weak key a signature of zeros with that key as commitment would hold for anything.
#[test]
fn a_weak_identity_proves_nothing() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    for by_inviter in [true, false] {
        let weak = Keys { identity, ..keys(BOB) };
        let terms = Terms { mark: [0; 8], inviter: weak, invited: weak };
        assert!(!terms.is_signed(by_inviter, &signature));
    }
}

/// The one who made an invitation may have put another's identity into it.
#[test]
fn attack_a4_an_answer_that_the_named_inviter_has_not_signed_establishes_nothing() {
    let mut bob = accepting(BOB);
    let forged = [
        terms(BOB).sign(true, &key(CAROL)),
        terms(BOB).sign(false, &key(ALICE)),
        terms(CAROL).sign(true, &key(ALICE)),
        Terms { mark: [9; 8], ..terms(BOB) }.sign(true, &key(ALICE)),
    ];
    for signature in forged {
        let refused = receive(&mut bob, 1, &hello(&signature));
        assert_eq!(refused.err(), Some(Error::Malformed(Malformed::Message)));
        assert!(!bob.established() && bob.peer.is_none());
    }
    bob.inbox.begin(Round(REACTION_ROUNDS));
    let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi") };
    assert!(receive(&mut bob, 1, &text).is_err() && !bob.established() && !bob.inbox.owed());
    let events = receive(&mut bob, 1, &hello(&terms(BOB).sign(true, &key(ALICE)))).unwrap();
    assert!(matches!(events[..], [Event::Established]) && bob.peer_identity() == Some(keys(ALICE).identity));
    assert!(receive(&mut bob, 1, &text).is_ok());
}

/// It is told, and goes on as with anybody else.
#[test]
fn attack_a4_an_identity_of_ones_own_or_of_another_contact_changes_nothing_that_is_said() {
    for held in [Vec::new(), vec![keys(ALICE).identity, keys(BOB).identity]] {
        let (mut alice, mut bob) = (alice(), accepting(BOB));
        alice.queue(Kind::Text, b"not for bob").unwrap();
        let request = hello(&request(BOB, &terms(BOB), BOB)).encode().unwrap();
        let (events, _) = alice.receive(0, &request, Round(1), Round(2), &held).unwrap();
        assert_eq!(matches!(events[..], [Event::IdentityHeld]), !held.is_empty());
        assert_eq!((alice.is_double(), alice.outbox.texts()), (!held.is_empty(), held.len().abs_diff(2) / 2));
        assert!(alice.stage.handshake().unwrap().due() == Says::Answer && alice.chains.is_some());
        let answer = hello(&terms(BOB).sign(true, &key(ALICE))).encode().unwrap();
        let (events, _) = bob.receive(1, &answer, Round(1), Round(2), &held).unwrap();
        assert_eq!(matches!(events[..], [Event::IdentityHeld]), !held.is_empty());
        bob.inbox.begin(Round(REACTION_ROUNDS));
        assert!(bob.established() && bob.inbox.owed());
        assert_eq!(bob.queue(Kind::Text, b"who is there?").is_ok(), held.is_empty());
    }
}

#[test]
fn a_second_bearer_is_reported_and_not_heard() {
    let mut alice = alice();
    assert!(receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap().is_empty());
    assert!(receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap().is_empty());
    let events = receive(&mut alice, 0, &hello(&request(CAROL, &terms(CAROL), CAROL))).unwrap();
    assert!(matches!(events[..], [Event::OtherKeys]));
    assert_eq!(alice.peer_identity(), Some(keys(BOB).identity));
}

/// An invitation that leaks early gives the keys of requests away, and texts must not be readable there.
#[test]
fn nothing_but_requests_is_taken_under_their_keys_and_nothing_from_the_wrong_side() {
    let mut alice = alice();
    let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi") };
    assert!(receive(&mut alice, 0, &text).is_err());
    let genuine = request(BOB, &terms(BOB), BOB);
    for content in [&genuine[..143], &[genuine.as_slice(), &[0]].concat(), &genuine[..64], &[]] {
        assert!(receive(&mut alice, 0, &hello(content)).is_err());
    }
    assert!(receive(&mut alice, 0, &hello(&genuine)).is_ok());
    assert!(receive(&mut alice, 1, &hello(&genuine)).is_err());
    assert!(receive(&mut alice, 1, &hello(&terms(BOB).sign(false, &key(BOB)))).is_err());
    assert!(!alice.established());
    // And the invited one takes no requests.
    assert!(receive(&mut accepting(BOB), 0, &hello(&genuine)).unwrap().is_empty());
}

/// The invited one forgets at once, the inviter when a request has come.
#[test]
fn attack_a6_what_the_keys_were_agreed_with_is_erased_at_once() {
    let (mut alice, bob) = (alice(), accepting(BOB));
    let base = *handshake::base(&invitation_of(keys(ALICE))).bytes();
    let holds = |pair: &Pair, secret: &[u8; 32]| {
        postcard::to_allocvec(pair).unwrap().windows(32).any(|window| window == secret)
    };
    let kept = |pair: &Pair| [[7; 32], base, [ALICE; 32], [BOB; 32]].map(|secret| holds(pair, &secret));
    assert_eq!(kept(&bob), [false; 4]);
    assert_eq!(kept(&alice), [false, true, true, false]);
    receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap();
    assert_eq!(kept(&alice), [false; 4]);
}

/// A contact sees when the other reacts, and must not see by it in which round something was read.
#[test]
fn a_handshake_goes_on_where_a_block_of_rounds_begins() {
    let identities = [key(ALICE), key(BOB)];
    for lost in 0..REACTION_ROUNDS - 2 {
        let mut pairs = [alice(), accepting(BOB)].map(Pair::meeting_classically);
        let mut said = Vec::new();
        for round in 1..5 * REACTION_ROUNDS {
            // However many of the last rounds of a block are lost.
            let heard = round % REACTION_ROUNDS < REACTION_ROUNDS - lost;
            said.push(exchange(&mut pairs, &identities, round, [heard; 2]));
        }
        let block = REACTION_ROUNDS as usize;
        let rounds = |alice: bool, bob: bool, count: usize| vec![[alice, bob]; count];
        assert_eq!(said[..block - 1], rounds(false, true, block - 1));
        assert_eq!(said[block - 1..2 * block - 1], rounds(true, true, block));
        // Bob, who has no text to say, owes a sign in the rounds after those in which he heard an answer.
        assert!(said[2 * block - 1..3 * block - 1].iter().all(|[alice, _]| *alice));
        assert!(said[3 * block - 1..4 * block - 1].iter().all(|[alice, _]| !alice));
        assert_eq!(said[4 * block - 1..], rounds(false, false, block));
        assert!(pairs.iter().all(|pair| pair.established() && pair.stage.handshake().is_none()));
    }
}

/// A peer who had none of them had all that was under way shown as arrived, by a number far above.
#[test]
fn an_acknowledgement_of_what_cannot_have_been_sent_shows_nothing_as_arrived() {
    let mut pairs = [alice(), accepting(BOB)];
    let identities = [key(ALICE), key(BOB)];
    for round in 1..8 * REACTION_ROUNDS {
        exchange(&mut pairs, &identities, round, [true; 2]);
    }
    pairs[0].queue(Kind::Text, b"nobody has this").unwrap();
    for round in 8 * REACTION_ROUNDS..10 * REACTION_ROUNDS {
        exchange(&mut pairs, &identities, round, [true, false]);
    }
    for acknowledgement in [1 << 25, u32::MAX] {
        let (kind, round) = (Kind::Acknowledgement, Round(1));
        let lie = Frame { kind, acknowledgement, check: 7, round, ..hello(b"") };
        let events = receive(&mut pairs[0], 1, &lie).unwrap();
        assert!(events.is_empty(), "{acknowledgement}");
        assert_eq!(pairs[0].outbox().texts(), 1);
    }
}

#[test]
fn an_invitation_is_open_until_somebody_has_answered() {
    let (mut alice, mut bob) = (alice(), accepting(BOB));
    assert_eq!((alice.pending(), bob.pending()), (Some((MADE, EXPIRES)), Some((MADE, EXPIRES))));
    receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap();
    assert_eq!(alice.pending(), Some((MADE, UnixMillis(EXPIRES.0 + LIFE_MS))));
    receive(&mut bob, 1, &hello(&terms(BOB).sign(true, &key(ALICE)))).unwrap();
    let sign = Frame { kind: Kind::Acknowledgement, ..hello(&[]) };
    receive(&mut alice, 1, &sign).unwrap();
    assert_eq!((alice.pending(), bob.pending()), (None, None));
}

/// Made again from the text of the specification by a program that shares no code with this one.
#[test]
fn the_layout_of_a_handshake_does_not_change_unnoticed() {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let expected = concat!(
        "ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d5907a06c2baf8ea46054d38748da2489ac119f",
        "ed8e30b650287cbbeedcf0db909aab3d8342fb9157967fe76169260b66a56dd8b54f25d0a4c7d4d81a4aea082f12d2b4667e",
        "feb11c7d15d48b1c6dcdc8d0b7603e37d65c37f8de0287d18d379871e20967f818308fc903f8937646d3bbf2",
    );
    assert_eq!(hex(&request(BOB, &terms(BOB), BOB)), expected);
    let expected = concat!(
        "5fa70d9a292244c97df8e73958e41081ae9e5621090a91140140c3cf837c8f270de70cb1ea65e7ba745c4a1fe7f1150fdcb5",
        "c4ab0c3b0fe01d20f762c2988601",
    );
    assert_eq!(hex(&terms(BOB).sign(true, &key(ALICE))), expected);
    let (mut bob, identity) = (accepting(BOB), key(BOB));
    let turn = Turn {
        round: Round(1),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    let (deposit, listening) = bob.open_round(&turn);
    assert_eq!(hex(&deposit.unwrap().label.0), "19f580300ba34db3727b283b86f87541");
    assert_eq!(hex(&listening[0].key.label().0), "7872e9ae5d5e2d7686eaf87b4ad510d4");
}

/// Where queries stand a knock lies in the cell of the label of the epoch's last round, for the first turn in it, and where nobody
/// looks for all later ones: a server that saw one selector twice would know who says hello.
#[test]
fn a_knock_is_found_where_queries_stand_and_once_in_an_epoch() {
    let identity = key(BOB);
    let turn = |round: u64, last: Option<u64>, knocks: bool| Turn {
        round: Round(round),
        mine: true,
        slot: Some(3),
        last: last.map(Round),
        knocks,
        head: None,
        identity: &identity,
    };
    let says = |round, last, knocks| accepting(BOB).open_round(&turn(round, last, knocks)).0.unwrap();
    let found = |round, last| {
        let (_, listening) = alice().open_round(&turn(round, last, true));
        listening.into_iter().find(|found| Pair::is_knock(found.epoch)).unwrap().key.label()
    };
    let last = says(15, None, true).label.selector();
    assert_eq!(last, found(15, None).selector());
    for round in 8..15 {
        let own = says(round, None, true).label.selector();
        assert_eq!(own, found(round, None).selector(), "without standing queries it is the round's own");
        assert_ne!(own, last, "round {round}");
        assert_eq!(says(round, Some(15), true).label.selector(), last, "round {round}");
        assert_eq!(found(round, Some(15)).selector(), last, "round {round}");
        let elsewhere = says(round, Some(15), false).label.selector();
        assert!(elsewhere != last && elsewhere != own, "round {round}");
    }
}

/// Who gets keys before it has heard who left would give them to that one again; and whoever cannot be talked to gets none.
#[test]
fn keys_take_the_place_of_those_that_were_not_sent_but_behind_a_farewell() {
    let group = [4; 16];
    let keys = |number: u8| [&group[..], &[number]].concat();
    let farewell = vec![9; 81];
    let mut alice = alice();
    for number in [1, 2] {
        alice.queue_keys(&group, &keys(number), &[]).unwrap();
        assert_eq!(alice.outbox.len(), 1);
    }
    alice.queue_keys(&group, &keys(3), core::slice::from_ref(&farewell)).unwrap();
    assert_eq!(alice.outbox.len(), 3, "the newest stand behind the farewell");
    alice.queue_keys(&group, &keys(4), core::slice::from_ref(&farewell)).unwrap();
    assert_eq!(alice.outbox.len(), 3, "which waits already");
    let holds = [1, 2, 3, 4].map(|number| alice.outbox.holds(Kind::Rekey, &keys(number)));
    assert_eq!((holds, alice.outbox.holds(Kind::Leave, &farewell)), ([false, true, false, true], true));
    alice.set_double(true);
    assert!(alice.outbox.len() == 0 && alice.queue_keys(&group, &keys(5), &[]).is_err());
}

/// By an invitation it is known who made it, before that one has proven it; of who comes nothing is known before.
#[test]
fn an_invitation_names_its_inviter_and_nobody_else() {
    let (mut alice, mut bob) = (alice(), accepting(BOB));
    let named =
        |alice: &Pair, bob: &Pair| [alice, bob].map(|pair| (pair.named_identity(), pair.peer_identity()));
    let alices = Some(keys(ALICE).identity);
    assert_eq!(named(&alice, &bob), [(None, None), (alices, None)]);
    receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap();
    receive(&mut bob, 1, &hello(&terms(BOB).sign(true, &key(ALICE)))).unwrap();
    let bobs = Some(keys(BOB).identity);
    assert_eq!(named(&alice, &bob), [(bobs, bobs), (alices, alices)]);
}

/// Whoever gives units back while there are two boxes to look for hears one of them in every other round only.
#[test]
fn those_who_meet_classically_are_settled_when_there_is_one_box_to_look_for() {
    let (mut alice, mut bob) = (alice().meeting_classically(), accepting(BOB).meeting_classically());
    receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap();
    assert!(!alice.is_settled() && !bob.is_settled());
    receive(&mut bob, 1, &hello(&terms(BOB).sign(true, &key(ALICE)))).unwrap();
    assert!(bob.is_settled());
    // Somebody else has shown itself, and is not looked for any more.
    receive(&mut alice, 0, &hello(&request(CAROL, &terms(CAROL), CAROL))).unwrap();
    assert!(alice.is_settled() && !alice.established());
    let mut alice = self::alice().meeting_classically();
    receive(&mut alice, 0, &hello(&request(BOB, &terms(BOB), BOB))).unwrap();
    receive(&mut alice, 1, &Frame { kind: Kind::Acknowledgement, ..hello(&[]) }).unwrap();
    assert!(alice.is_settled() && alice.established());
}
