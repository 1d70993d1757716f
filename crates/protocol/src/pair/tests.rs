//! Two sides of a conversation, and what others put between them.

use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::handshake::{self, Agreement, Keys, Terms};
use super::{ANSWERS, Pair, REQUESTS, Says, TALK, parts};
use crate::error::Malformed;
use crate::invitation::{Invitation, LIFE_MS};
use crate::message::{Frame, Kind};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::secret::kem::{self, KemSeed};
use crate::turn::{Event, Turn};
use crate::{Deposit, Error, Round, UnixMillis, domain};

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
    Pair::inviting(&invitation_of(keys(ALICE)), Secret::new([ALICE; 32]), MADE, Round(1)).unwrap()
}

fn seed(number: u8) -> KemSeed {
    KemSeed::new(Secret::new([100 + number; 32]), Secret::new([200 + number; 32]))
}

fn waits(pair: &Pair) -> bool {
    pair.handshake.as_ref().is_some_and(|handshake| handshake.waiting.is_some())
}

fn accepting(number: u8) -> Pair {
    let (exchange, identity) = (Secret::new([number; 32]), key(number));
    let invitation = invitation_of(keys(ALICE));
    Pair::accepting(&invitation, (&exchange, seed(number)), &identity, MADE, Round(1)).unwrap()
}

fn terms(number: u8) -> Terms {
    let mark = invitation_of(keys(ALICE)).mark();
    let offer = handshake::offer(&seed(number).encapsulation_key());
    Terms { mark, inviter: keys(ALICE), invited: keys(number), offer }
}

fn agreement(number: u8) -> Agreement {
    let base = handshake::base(&invitation_of(keys(ALICE)));
    Agreement::new(&base, &Secret::new([number; 32]), &keys(ALICE).exchange).unwrap()
}

/// A request under the secret agreed with alice by the exchange secret of this number.
fn request(number: u8, terms: &Terms, signer: u8) -> Vec<u8> {
    agreement(number).request(terms, &seed(number).encapsulation_key(), &key(signer)).unwrap()
}

/// What alice encapsulates to the key of this number.
fn ciphertext(number: u8) -> Vec<u8> {
    let digest = Sha256::digest(request(number, &terms(number), number));
    let randomness = Secret::new([9; 32]).expand(domain::ENCAPSULATION, &[&digest]);
    kem::encapsulate(&seed(number).encapsulation_key(), &randomness).unwrap().0
}

/// An answer to bob under these terms.
fn answer(terms: &Terms, signer: u8) -> Vec<u8> {
    terms.answer(&ciphertext(BOB), &key(signer))
}

fn hello(content: &[u8]) -> Frame {
    let content = Zeroizing::new(content.to_vec());
    let (kind, round) = (Kind::Hello, Round(1));
    Frame { kind, flags: 0, sequence: 0, acknowledgement: 0, check: 0, before: 0, round, head: None, content }
}

fn receive(pair: &mut Pair, epoch: u32, frame: &Frame) -> Result<Vec<Event>, Error> {
    let held = [key(8).verifying_key().to_bytes()];
    receive_held(pair, epoch, frame, &held)
}

fn receive_held(pair: &mut Pair, epoch: u32, frame: &Frame, held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
    let (rounds, store) = ((Round(1), Round(2)), Secret::new([9; 32]));
    pair.receive(epoch, &frame.encode().unwrap(), rounds, held, &store).map(|(events, _)| events)
}

/// All parts of a request, in the order in which they are said.
fn parts_of(request: &[u8]) -> Vec<Vec<u8>> {
    (0..6).map(|turn| parts::part_of_request(request, turn)).collect()
}

/// What comes of all parts of a request: of the last one.
fn ask(pair: &mut Pair, request: &[u8]) -> Result<Vec<Event>, Error> {
    ask_held(pair, request, &[key(8).verifying_key().to_bytes()])
}

fn ask_held(pair: &mut Pair, request: &[u8], held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
    let taken = parts_of(request).iter().map(|part| receive_held(pair, REQUESTS, &hello(part), held)).last();
    taken.unwrap()
}

/// The same of an answer.
fn tell(pair: &mut Pair, answer: &[u8], held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
    let mut events = Vec::new();
    for turn in 0..5 {
        events = receive_held(pair, ANSWERS, &hello(&parts::part_of_answer(answer, turn).unwrap()), held)?;
    }
    Ok(events)
}

/// What a side sends in a round, and what of the other's it reads of it.
fn exchange(pairs: &mut [Pair; 2], identities: &[SigningKey; 2], round: u64, heard: [bool; 2]) -> [bool; 2] {
    let turn = |number: usize| Turn {
        round: Round(round),
        mine: true,
        slot: None,
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
                let store = Secret::new([9; 32]);
                pairs[number].receive(listening.epoch, &plaintext, (round, next), &[], &store).unwrap();
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
    assert!(ask(&mut alice, &low_order).is_err());
    assert!(alice.chains.is_none() && alice.peer.is_none());
    let invitation = invitation_of(Keys { exchange: [0; 32], ..keys(ALICE) });
    let accepted =
        Pair::accepting(&invitation, (&Secret::new([BOB; 32]), seed(BOB)), &key(BOB), MADE, Round(1));
    assert!(accepted.is_err());
    assert!(ask(&mut alice, &request(BOB, &terms(BOB), BOB)).is_ok());
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
        // Nor for another key of an encapsulation.
        (Terms { offer: terms(CAROL).offer, ..claimed }, CAROL),
    ];
    for (signed, signer) in elsewhere {
        let signature = signed.sign(None, &key(signer));
        assert!(!claimed.is_signed(None, &signature));
    }
    let inviters = claimed.sign(Some(&ciphertext(BOB)), &key(CAROL));
    assert!(!claimed.is_signed(None, &inviters));
    let elsewhere = [Terms { mark: [9; 8], ..claimed }, Terms { offer: terms(CAROL).offer, ..claimed }];
    for (terms, signer) in [(claimed, BOB)].into_iter().chain(elsewhere.map(|terms| (terms, CAROL))) {
        let refused = ask(&mut alice, &request(BOB, &terms, signer));
        assert_eq!(refused.err(), Some(Error::Malformed(Malformed::Message)));
        assert!(alice.peer.is_none());
    }
    assert!(ask(&mut alice, &request(BOB, &claimed, CAROL)).is_ok());
    assert_eq!(alice.peer_identity(), Some(keys(CAROL).identity));
}

/// Under a weak key a signature of zeros with that key as commitment would hold for anything.
#[test]
fn a_weak_identity_proves_nothing() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    for ciphertext in [Some([0; 1088].as_slice()), None] {
        let weak = Keys { identity, ..keys(BOB) };
        let terms = Terms { mark: [0; 8], inviter: weak, invited: weak, offer: [0; 32] };
        assert!(!terms.is_signed(ciphertext, &signature));
    }
}

/// The one who made an invitation may have put another's identity into it.
#[test]
fn attack_a4_an_answer_that_the_named_inviter_has_not_signed_establishes_nothing() {
    let mut bob = accepting(BOB);
    let other = Terms { offer: terms(CAROL).offer, ..terms(BOB) };
    let mut forged = vec![
        answer(&terms(BOB), CAROL),
        answer(&terms(CAROL), ALICE),
        answer(&Terms { mark: [9; 8], ..terms(BOB) }, ALICE),
        answer(&other, ALICE),
        [&terms(BOB).sign(None, &key(ALICE)), &ciphertext(BOB)[..]].concat(),
    ];
    // With another ciphertext than was signed.
    let mut altered = answer(&terms(BOB), ALICE);
    altered[64] ^= 1;
    forged.push(altered);
    for answer in forged {
        let refused = tell(&mut bob, &answer, &[]);
        assert_eq!(refused.err(), Some(Error::Malformed(Malformed::Message)));
        assert!(!bob.established() && bob.peer.is_none());
    }
    bob.inbox.begin(Round(REACTION_ROUNDS));
    let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi") };
    assert!(receive(&mut bob, TALK, &text).is_err() && !bob.established() && !bob.inbox.owed());
    let events = tell(&mut bob, &answer(&terms(BOB), ALICE), &[]).unwrap();
    assert!(matches!(events[..], [Event::Established]) && bob.peer_identity() == Some(keys(ALICE).identity));
    assert!(receive(&mut bob, TALK, &text).is_ok());
}

/// It is told, and goes on as with anybody else.
#[test]
fn attack_a4_an_identity_of_ones_own_or_of_another_contact_changes_nothing_that_is_said() {
    for held in [Vec::new(), vec![keys(ALICE).identity, keys(BOB).identity]] {
        let (mut alice, mut bob) = (alice(), accepting(BOB));
        alice.queue(Kind::Text, b"not for bob").unwrap();
        let events = ask_held(&mut alice, &request(BOB, &terms(BOB), BOB), &held).unwrap();
        assert_eq!(matches!(events[..], [Event::IdentityHeld]), !held.is_empty());
        assert_eq!((alice.is_double(), alice.outbox.texts()), (!held.is_empty(), held.len().abs_diff(2) / 2));
        assert!(alice.handshake.as_ref().unwrap().due() == Says::Answer && alice.chains.is_some());
        let events = tell(&mut bob, &answer(&terms(BOB), ALICE), &held).unwrap();
        assert_eq!(matches!(events[..], [Event::IdentityHeld]), !held.is_empty());
        assert!(bob.established() && bob.unheard);
        assert_eq!(bob.queue(Kind::Text, b"who is there?").is_ok(), held.is_empty());
    }
}

#[test]
fn a_second_bearer_is_reported_and_not_heard() {
    let mut alice = alice();
    let (bobs, carols) = (request(BOB, &terms(BOB), BOB), request(CAROL, &terms(CAROL), CAROL));
    assert!(ask(&mut alice, &bobs).unwrap().is_empty());
    assert!(ask(&mut alice, &bobs).unwrap().is_empty());
    for part in parts_of(&carols) {
        let events = receive(&mut alice, REQUESTS, &hello(&part)).unwrap();
        assert!(matches!(events[..], [Event::OtherKeys]));
    }
    assert_eq!(alice.peer_identity(), Some(keys(BOB).identity));
}

/// An invitation that leaks early gives the keys of requests away, and texts must not be readable there.
#[test]
fn nothing_but_requests_is_taken_under_their_keys_and_nothing_from_the_wrong_side() {
    let mut alice = alice();
    let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi") };
    assert!(receive(&mut alice, REQUESTS, &text).is_err());
    assert!(receive(&mut alice, TALK, &text).is_err() && !alice.established());
    let genuine = request(BOB, &terms(BOB), BOB);
    let part = parts::part_of_request(&genuine, 0);
    for content in [&part[..231], &part[..9], &[6; 222], &[255; 232], &[]] {
        assert!(receive(&mut alice, REQUESTS, &hello(content)).is_err());
    }
    assert!(ask(&mut alice, &genuine).is_ok());
    for epoch in [TALK, ANSWERS] {
        assert!(receive(&mut alice, epoch, &hello(&part)).is_err());
    }
    assert!(tell(&mut alice, &answer(&terms(BOB), ALICE), &[]).is_err());
    assert!(!alice.established());
    // And the invited one takes no requests.
    assert!(ask(&mut accepting(BOB), &genuine).unwrap().is_empty());
}

/// The invited one forgets at once, the inviter when a request has come.
#[test]
fn attack_a6_what_the_keys_were_agreed_with_is_erased_at_once() {
    let (mut alice, mut bob) = (alice(), accepting(BOB));
    let base = *handshake::base(&invitation_of(keys(ALICE))).bytes();
    let seeds = [[100 + BOB; 32], [200 + BOB; 32], *agreement(BOB).base().bytes()];
    let holds = |pair: &Pair, secret: &[u8; 32]| {
        postcard::to_allocvec(pair).unwrap().windows(32).any(|window| window == secret)
    };
    let kept = |pair: &Pair| [[7; 32], base, [ALICE; 32], [BOB; 32]].map(|secret| holds(pair, &secret));
    assert_eq!((kept(&bob), seeds.map(|secret| holds(&bob, &secret))), ([false; 4], [true; 3]));
    assert_eq!(kept(&alice), [false, true, true, false]);
    ask(&mut alice, &request(BOB, &terms(BOB), BOB)).unwrap();
    assert_eq!(kept(&alice), [false; 4]);
    // What opens the answer is kept until it has come, and neither reads the request nor finds the labels of answers.
    tell(&mut bob, &answer(&terms(BOB), ALICE), &[]).unwrap();
    assert_eq!(seeds.map(|secret| holds(&bob, &secret)), [false; 3]);
    assert!(!holds(&alice, &seeds[2]) && !holds(&alice, &[9; 32]));
}

/// A contact sees when the other reacts, and must not see by it in which round something was read.
#[test]
fn a_handshake_goes_on_where_a_block_of_rounds_begins() {
    let identities = [key(ALICE), key(BOB)];
    for lost in 0..REACTION_ROUNDS - 2 {
        let mut pairs = [alice(), accepting(BOB)];
        let mut said = Vec::new();
        for round in 1..12 * REACTION_ROUNDS {
            // However many of the last rounds of a block are lost.
            let heard = round % REACTION_ROUNDS < REACTION_ROUNDS - lost;
            said.push(exchange(&mut pairs, &identities, round, [heard; 2]));
        }
        let block = REACTION_ROUNDS as usize;
        let blocks: Vec<[bool; 2]> = said[block - 1..].iter().step_by(block).copied().collect();
        for (round, said) in said.iter().enumerate().skip(block - 1) {
            assert_eq!(*said, blocks[(round + 1) / block - 1], "{lost} lost, round {}", round + 1);
        }
        // Bob asks. If all parts were heard, alice answers in the next block, and bob gives a sign in the one after that, and
        // another one until he has heard hers; and she gives one for each block of his.
        assert!(said[..block - 1].iter().all(|said| *said == [false, true]));
        if lost < 2 {
            let expected = [[true; 2], [true; 2], [true; 2], [true, false], [false; 2]];
            assert_eq!(blocks[..5], expected, "{lost} lost");
        }
        assert_eq!(blocks.last(), Some(&[false; 2]));
        assert!(pairs.iter().all(|pair| pair.established() && pair.handshake.is_none() && !pair.unheard));
    }
}

/// Whoever says the parts of a request in any order, again and again, and with those of others between them.
#[test]
fn parts_that_are_lost_doubled_mixed_and_out_of_order_make_the_same_whole() {
    let (bobs, carols) = (request(BOB, &terms(BOB), BOB), request(CAROL, &terms(CAROL), CAROL));
    let (bobs, carols) = (parts_of(&bobs), parts_of(&carols));
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]] {
        let mut alice = alice();
        for number in &order[..5] {
            for part in [&bobs[*number], &bobs[*number], &carols[*number]] {
                assert!(receive(&mut alice, REQUESTS, &hello(part)).unwrap().is_empty());
            }
            // A program that is started again at any moment goes on where it was.
            alice = postcard::from_bytes(&postcard::to_allocvec(&alice).unwrap()).unwrap();
            assert!(waits(&alice));
        }
        receive(&mut alice, REQUESTS, &hello(&bobs[order[5]])).unwrap();
        assert_eq!(alice.peer_identity(), Some(keys(BOB).identity));
        // The same secret and ciphertext, whenever they are made.
        let again = alice.handshake.unwrap().answering.unwrap();
        assert_eq!(again.ciphertext, ciphertext(BOB));
    }
}

/// Who has the invitation and says anything keeps neither much memory busy nor another one out.
#[test]
fn garbage_under_the_keys_of_requests_is_bounded_and_dropped() {
    let mut alice = alice();
    let genuine = parts_of(&request(BOB, &terms(BOB), BOB));
    let empty = postcard::to_allocvec(&alice).unwrap().len();
    for name in 0..40_u8 {
        for number in 0..5 {
            let garbage = [&[number][..], &[name; 231]].concat();
            receive(&mut alice, REQUESTS, &hello(&garbage)).unwrap();
        }
    }
    assert!(postcard::to_allocvec(&alice).unwrap().len() <= empty + 4 * 1360);
    // A part that claims to be bob's spoils what is whole, with a warning each time, until bob says his again.
    let mut spoiled = genuine[3].clone();
    spoiled[100] ^= 1;
    let said = genuine.iter().take(3).chain([&spoiled]).chain(&genuine[4..]).chain(&genuine[..3]);
    let refused = said.filter(|part| receive(&mut alice, REQUESTS, &hello(part)).is_err()).count();
    assert!(refused == 4 && waits(&alice));
    receive(&mut alice, REQUESTS, &hello(&genuine[3])).unwrap();
    assert_eq!(alice.peer_identity(), Some(keys(BOB).identity));
}

/// A server may lose the same rounds of every block, and a contact may hear the rest by chance: no part is kept back for ever.
#[test]
fn a_handshake_is_heard_whatever_rounds_of_a_block_are_lost() {
    let identities = [key(ALICE), key(BOB)];
    for heard in 0..REACTION_ROUNDS {
        let mut pairs = [alice(), accepting(BOB)];
        for round in 1..24 * REACTION_ROUNDS {
            exchange(&mut pairs, &identities, round, [round % REACTION_ROUNDS == heard; 2]);
        }
        assert!(pairs.iter().all(|pair| pair.established() && pair.handshake.is_none()), "round {heard}");
        assert!(pairs.iter().all(|pair| !pair.unheard));
    }
}

/// Whoever has recorded everything, is handed the invitation years later and solves discrete logarithms then has base, both
/// exchange secrets, and so all that followed from them when there was nothing else.
#[test]
fn attack_a6_what_was_recorded_stays_closed_when_x25519_and_the_invitation_are_given_away() {
    let (mut pairs, identities) = ([alice(), accepting(BOB)], [key(ALICE), key(BOB)]);
    let mut recorded = Vec::new();
    for round in 1..6 * REACTION_ROUNDS {
        if round == 3 * REACTION_ROUNDS {
            pairs[0].queue(Kind::Text, b"what nobody else reads").unwrap();
        }
        let turn = |number: usize| Turn {
            round: Round(round),
            mine: true,
            slot: None,
            head: None,
            identity: &identities[number],
        };
        let opened = [pairs[0].open_round(&turn(0)), pairs[1].open_round(&turn(1))];
        let [(from_alice, to_alice), (from_bob, to_bob)] = opened;
        for (number, sent, heard) in [(0, &from_bob, to_alice), (1, &from_alice, to_bob)] {
            for heard in heard {
                let Some(plaintext) = sent.as_ref().and_then(|sent| heard.key.open(&sent.sealed.0)) else {
                    continue;
                };
                let (rounds, store) = ((Round(round), Round(round + 1)), Secret::new([9; 32]));
                pairs[number].receive(heard.epoch, &plaintext, rounds, &[], &store).unwrap();
            }
        }
        recorded.extend([from_alice, from_bob].into_iter().flatten().map(|sent| (round, sent)));
    }
    let opened_by = |root: &Secret| {
        let mut chains = super::Chains::new(root, Round(1), Round(1), true).unwrap();
        let mut opened = 0;
        for round in 1..6 * REACTION_ROUNDS {
            let keys = [chains.send.take(Round(round)).unwrap(), chains.receive.take(Round(round)).unwrap()];
            for key in keys.map(|key| key.opening(0)) {
                let of_it = recorded.iter().filter(|(sent, _)| *sent == round);
                opened += of_it.filter(|(_, sent)| key.open(&sent.sealed.0).is_some()).count();
            }
        }
        opened
    };
    // What the recorder reads: the request and the answer, with identities, encapsulation key and ciphertext in them.
    let (agreement, terms, ciphertext) = (agreement(BOB), terms(BOB), ciphertext(BOB));
    let shared = seed(BOB).decapsulate(&ciphertext).unwrap();
    assert!(opened_by(&terms.root(&agreement.base(), &shared, &ciphertext)) > 8, "with the missing secret");
    let guesses = [[0; 32], *agreement.base().bytes(), terms.offer, keys(BOB).exchange];
    for guess in guesses.map(Secret::new) {
        assert_eq!(opened_by(&terms.root(&agreement.base(), &guess, &ciphertext)), 0);
    }
    for root in [agreement.base(), agreement.answers()] {
        assert_eq!(opened_by(&root), 0);
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
    ask(&mut alice, &request(BOB, &terms(BOB), BOB)).unwrap();
    assert_eq!(alice.pending(), Some((MADE, UnixMillis(EXPIRES.0 + LIFE_MS))));
    tell(&mut bob, &answer(&terms(BOB), ALICE), &[]).unwrap();
    let sign = Frame { kind: Kind::Acknowledgement, ..hello(&[]) };
    receive(&mut alice, 1, &sign).unwrap();
    assert_eq!((alice.pending(), bob.pending()), (None, None));
}

/// Made again from the text of the specification by a program that shares no code with this one.
#[test]
fn the_layout_of_a_handshake_does_not_change_unnoticed() {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let digest = |bytes: &[u8]| hex(&Sha256::digest(bytes));
    let request = request(BOB, &terms(BOB), BOB);
    assert_eq!(
        (request.len(), digest(&request).as_str()),
        (1328, "368d47acc5156212b93f065d1a5cec162c8a51620d69a50f71a37359d75272c7")
    );
    let answer = answer(&terms(BOB), ALICE);
    assert_eq!(
        (answer.len(), digest(&answer).as_str()),
        (1152, "baf3a9a2dab018e73a8dce80f9d8bf219ee06005171e5c7af7f7d668e071e0ca")
    );
    let shared = seed(BOB).decapsulate(&ciphertext(BOB)).unwrap();
    let root = terms(BOB).root(&agreement(BOB).base(), &shared, &ciphertext(BOB));
    assert_eq!(hex(root.bytes()), "87bd2b3ea3ab74b508805120fc6356361b7e54189b37b82996d4eb2d48e0b744");
    let (mut bob, identity) = (accepting(BOB), key(BOB));
    let turn = Turn { round: Round(1), mine: true, slot: None, head: None, identity: &identity };
    let (deposit, listening) = bob.open_round(&turn);
    assert_eq!(hex(&deposit.unwrap().label.0), "19f580300ba34db3727b283b86f87541");
    assert_eq!(hex(&listening[0].key.label().0), "0b53f7a651341d359a6bc1738296685f");
}

mod attack;
