//! Keys that are renewed, whatever happens to what is said of them.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{ALICE, BOB, accepting, alice, hello, key, keys, receive};
use crate::message::{Frame, Kind, MORE, REST};
use crate::pair::renewal::{Renewal, Share};
use crate::pair::{Chains, KeyAgreement, NEXT, Pair, Stage, TALK};
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::stream::check;
use crate::turn::{Event, Turn};
use crate::{Deposit, Round};

fn secret(number: u8) -> Secret {
    Secret::new([number; 32])
}

/// Both, and all that was said and read of them.
struct Two {
    pairs: [Pair; 2],
    round: u64,
    deposits: Vec<[Option<Deposit>; 2]>,
    texts: [Vec<String>; 2],
    /// Of what keys were to follow.
    shares: [Vec<[u8; 32]>; 2],
}

impl Two {
    fn new() -> Self {
        Self {
            pairs: [alice(), accepting(BOB)],
            round: 0,
            deposits: Vec::new(),
            texts: [Vec::new(), Vec::new()],
            shares: [Vec::new(), Vec::new()],
        }
    }

    fn speaks_under_next(&mut self) -> [Option<bool>; 2] {
        self.pairs.each_mut().map(|pair| match &mut pair.stage {
            Stage::Renewing(renewal) => renewal.chains().map(|(_, speaks)| speaks),
            _ => None,
        })
    }

    /// A round: whose turn it is, and who reads what was found.
    fn step(&mut self, mine: [bool; 2], reads: [bool; 2]) {
        self.round += 1;
        let round = Round(self.round);
        let identities = [key(ALICE), key(BOB)];
        let opened = [0, 1].map(|side| {
            // As a client does with its store.
            self.pairs[side].mix(&Secret::new(Sha256::digest([side as u8, self.round as u8]).into()));
            self.shares[side].extend(self.pairs[side].share_bytes());
            let turn = Turn {
                round,
                mine: mine[side],
                slot: None,
                last: None,
                knocks: true,
                head: None,
                identity: &identities[side],
            };
            self.pairs[side].open_round(&turn)
        });
        let [(from_alice, to_alice), (from_bob, to_bob)] = opened;
        for (side, sent, boxes) in [(0, &from_bob, to_alice), (1, &from_alice, to_bob)] {
            let Some(sent) = sent.as_ref().filter(|_| reads[side]) else { continue };
            let found = boxes.into_iter().find(|found| found.key.label() == sent.label);
            let found = found.expect("whatever is said is listened for");
            let plaintext = found.key.open(&sent.sealed.0).unwrap();
            let (events, _) =
                self.pairs[side].receive(found.epoch, &plaintext, round, round.next(), &[]).unwrap();
            for event in events {
                match event {
                    Event::Delivered { whole, .. } => {
                        let text = String::from_utf8(whole.content.unwrap().to_vec()).unwrap();
                        self.texts[side].push(text);
                    }
                    Event::WentBack => panic!("nobody has gone back"),
                    _ => {}
                }
            }
        }
        self.deposits.push([from_alice, from_bob]);
    }

    fn run(&mut self, rounds: u64) {
        (0..rounds).for_each(|_| self.step([true; 2], [true; 2]));
    }

    fn restart(&mut self, side: usize) {
        let stored = postcard::to_allocvec(&self.pairs[side]).unwrap();
        self.pairs[side] = postcard::from_bytes(&stored).unwrap();
    }

    fn agreements(&self) -> [KeyAgreement; 2] {
        self.pairs.each_ref().map(Pair::agreement)
    }

    /// Past the handshake, where nothing of a renewal has been read.
    fn met() -> Self {
        let mut two = Self::new();
        let renews = |pair: &Pair| matches!(pair.stage, Stage::Offering(..) | Stage::Renewing(_));
        while !two.pairs.iter().all(renews) {
            two.step([true; 2], [true, !renews(&two.pairs[1])]);
        }
        two
    }
}

/// What nobody listens for would be lost for good; [`Two::step`] looks at each deposit. What was read shows where a block begins.
#[test]
fn keys_are_renewed_whatever_is_lost_and_whoever_starts_anew() {
    for seed in 0..30 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut two = Two::new();
        let (losses, places) = (rng.next_u32() % 10, 1 + rng.next_u64() % 3);
        let mut said = [Vec::new(), Vec::new()];
        while two.round < 400 {
            for side in [0, 1] {
                if rng.next_u32().is_multiple_of(16) {
                    let text = "x".repeat(1 + rng.next_u32() as usize % 500);
                    if two.pairs[side].queue(Kind::Text, text.as_bytes()).is_ok() {
                        said[side].push(text);
                    }
                }
                if rng.next_u32().is_multiple_of(8) {
                    two.restart(side);
                }
            }
            let mine = [0, 1].map(|side| (two.round + side).is_multiple_of(places));
            let before = two.speaks_under_next();
            let reads = [0, 1].map(|_| rng.next_u32() % 10 >= losses);
            two.step(mine, reads);
            let after = two.speaks_under_next();
            for side in [0, 1] {
                let switches = before[side] == Some(false) && after[side] != Some(false);
                assert!(!switches || two.round.is_multiple_of(REACTION_ROUNDS), "seed {seed}");
            }
        }
        // From here on nothing is lost, and each has something to say.
        for side in [0, 1] {
            two.pairs[side].queue(Kind::Text, b"the last").unwrap();
            said[side].push("the last".to_owned());
        }
        two.run(600);
        assert_eq!(two.agreements(), [KeyAgreement::Hybrid; 2], "seed {seed}");
        assert_eq!((&two.texts[1], &two.texts[0]), (&said[0], &said[1]), "seed {seed}");
        assert!(two.pairs.iter().all(Pair::is_settled));
    }
}

/// With nothing to say and nothing lost.
#[test]
fn keys_are_renewed_four_blocks_after_both_have_met() {
    let mut two = Two::met();
    let met = two.round;
    while two.agreements() != [KeyAgreement::Hybrid; 2] {
        assert!(two.round < 400, "keys are not renewed");
        two.run(1);
    }
    assert_eq!((met, two.round), (24, 56));
}

/// Whoever recorded everything, and has the keys of both as X25519 and the invitation gave them.
#[test]
fn attack_a6_who_has_the_keys_of_the_handshake_reads_nothing_after_the_renewal() {
    let mut two = Two::new();
    two.run(1);
    let stolen = postcard::to_allocvec(&two.pairs[1].chains).unwrap();
    let opens = |two: &Two, round: u64| {
        let mut stolen: Option<Chains> = postcard::from_bytes(&stolen).unwrap();
        let stolen = stolen.as_mut().unwrap();
        let keys = [stolen.receive.take(Round(round)), stolen.send.take(Round(round))];
        let deposits = &two.deposits[round as usize - 1];
        keys.into_iter().zip(deposits).any(|(key, sent)| {
            let (key, sent) = (key.unwrap().opening(0), sent.as_ref().unwrap());
            key.label() == sent.label || key.open(&sent.sealed.0).is_some()
        })
    };
    let speak = |two: &mut Two, rounds: u64| {
        for _ in 0..rounds {
            for pair in &mut two.pairs {
                if pair.outbox().texts() < 4 {
                    pair.queue(Kind::Text, b"what is said").unwrap();
                }
            }
            two.run(1);
        }
    };
    speak(&mut two, 40);
    assert!((17..=40).all(|round| opens(&two, round)));
    while two.agreements() != [KeyAgreement::Hybrid; 2] {
        assert!(two.round < 400, "keys are not renewed");
        speak(&mut two, 1);
    }
    let renewed = two.round;
    speak(&mut two, 40);
    assert!((renewed..renewed + 40).all(|round| !opens(&two, round)), "{renewed}");
    // Nor is anything left of what the keys were renewed with.
    for (pair, shares) in two.pairs.iter().zip(&two.shares) {
        let stored = postcard::to_allocvec(pair).unwrap();
        assert!(!stored.windows(32).any(|window| shares.iter().any(|share| share == window)));
        assert!(shares.len() > 20);
    }
}

/// The keys follow from both secrets, and from every byte that both have sent.
#[test]
fn the_root_follows_from_both_secrets_and_all_that_was_sent() {
    let (alice, bob) = (Share::new(secret(101)), Share::new(secret(102)));
    let offer = alice.offer();
    let (answer, root) = bob.answer(&offer, Round(9)).unwrap();
    let taken = |answer: &[u8]| alice.take(answer).map(|(root, first)| (*root.bytes(), first));
    assert_eq!(taken(&answer), Ok((*root.bytes(), Round(9))));
    for at in (0..answer.len()).step_by(3) {
        let mut altered = answer.clone();
        altered[at] ^= 1;
        assert_ne!(taken(&altered).map(|(root, _)| root), Ok(*root.bytes()), "byte {at}");
    }
    for at in (0..offer.len()).step_by(3) {
        let mut altered = offer.clone();
        altered[at] ^= 1;
        if let Ok((other, other_root)) = bob.answer(&altered, Round(9)) {
            assert!(other_root.bytes() != root.bytes() && other != answer, "byte {at}");
        }
    }
    let (other, other_root) = Share::new(secret(103)).answer(&offer, Round(9)).unwrap();
    assert!(other != answer && other_root.bytes() != root.bytes());
    // Another key of X25519 in the answer, and so another secret of X25519 alone.
    let mut exchanged = answer.clone();
    exchanged.splice(answer.len() - 32.., keys(BOB).exchange);
    assert_ne!(taken(&exchanged).unwrap().0, *root.bytes());
}

/// When that is said.
const SAID: Round = Round(40);

/// What comes from a peer that is not honest, in parts of a message that was numbered as it should be.
fn say(pair: &mut Pair, numbers: &mut (u32, u32), content: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let parts: Vec<&[u8]> = content.chunks(232).collect();
    for (number, part) in parts.iter().enumerate() {
        let flags = if number > 0 { REST } else { 0 } | if number + 1 < parts.len() { MORE } else { 0 };
        let (before, sequence) = (numbers.1, numbers.0 + 1);
        let (kind, content) = (Kind::Renewal, Zeroizing::new(part.to_vec()));
        let frame = Frame { kind, flags, sequence, before, content, round: SAID, ..hello(&[]) };
        let item = crate::stream::Item::received(before, sequence, kind, flags, &frame.content);
        *numbers = (sequence, check(before, &item));
        let plaintext = frame.encode().unwrap();
        let (taken, _) = pair.receive(TALK, &plaintext, SAID, SAID.next(), &[]).unwrap();
        events.extend(taken);
    }
    events
}

/// Whatever a contact says of keys: what is none is reported once, and the conversation goes on as it was.
#[test]
fn attack_an_offer_or_an_answer_that_is_none_changes_nothing() {
    let share = Share::new(secret(90));
    let genuine = share.offer();
    let mut unreduced = genuine.clone();
    unreduced[..3].fill(0xff);
    let mut small = genuine.clone();
    small[1184..].fill(0);
    let offers = [&genuine[1..], &[genuine.as_slice(), &[0]].concat(), &unreduced, &small, &[7], &[0; 5000]];
    for offer in offers {
        let mut two = Two::met();
        let stored = postcard::to_allocvec(&two.pairs[1].stage).unwrap();
        let events = say(&mut two.pairs[1], &mut (0, 0), offer);
        assert!(matches!(&events[..], [Event::Delivered { whole, .. }] if whole.content.is_none()));
        assert_eq!(postcard::to_allocvec(&two.pairs[1].stage).unwrap(), stored);
    }
    let Stage::Offering(_, Renewal::Offered(offered, since)) =
        Two::met().pairs.into_iter().next().unwrap().stage
    else {
        panic!("alice offers")
    };
    let offer = offered.offer();
    assert_eq!(since, Round(24));
    let (answer, _) = share.answer(&offer, Round(24)).unwrap();
    let with_round = |round: u64| [round.to_le_bytes().as_slice(), &answer[8..]].concat();
    let mut small = answer.clone();
    small[1096..].fill(0);
    let answers = [
        answer[..1127].to_vec(),
        [answer.as_slice(), &[0]].concat(),
        small,
        with_round(0),
        with_round(since.0 - 1),
        with_round(SAID.0 + 1),
        with_round(u64::MAX),
        vec![1],
    ];
    for answer in answers {
        let mut two = Two::met();
        let stored = postcard::to_allocvec(&two.pairs[0].stage).unwrap();
        let events = say(&mut two.pairs[0], &mut (0, 0), &answer);
        assert!(matches!(&events[..], [Event::Delivered { whole, .. }] if whole.content.is_none()));
        assert_eq!(postcard::to_allocvec(&two.pairs[0].stage).unwrap(), stored);
    }
    for first in [since, SAID] {
        let mut two = Two::met();
        assert!(say(&mut two.pairs[0], &mut (0, 0), &with_round(first.0)).is_empty());
        assert!(matches!(two.pairs[0].stage, Stage::Renewing(Renewal::Changing(_))));
    }
}

/// Who could have keys renewed again and again would have the other compute and store.
#[test]
fn attack_a_second_offer_or_answer_means_nothing() {
    let (mut two, numbers) = (Two::met(), &mut (0, 0));
    assert!(say(&mut two.pairs[1], numbers, &Share::new(secret(90)).offer()).is_empty());
    let stored = postcard::to_allocvec(&two.pairs[1].stage).unwrap();
    for number in 0..40 {
        assert!(say(&mut two.pairs[1], numbers, &Share::new(secret(number)).offer()).is_empty());
    }
    assert_eq!(postcard::to_allocvec(&two.pairs[1].stage).unwrap(), stored);
    // Nor does one to whom nothing was offered, or whose keys are renewed.
    let mut two = Two::met();
    two.run(60);
    assert_eq!(two.agreements(), [KeyAgreement::Hybrid; 2]);
    let (complete, check) = two.pairs[1].inbox.acknowledgement();
    assert!(say(&mut two.pairs[1], &mut (complete, check), &[1; 700]).is_empty());
    assert_eq!(two.agreements(), [KeyAgreement::Hybrid; 2]);
}

/// The last step hung on a sign that is said in one block: who missed it kept both keys until the other had something to say.
#[test]
fn attack_a_block_that_is_lost_leaves_nobody_with_two_keys() {
    for (deaf, from) in [0, 1].into_iter().flat_map(|deaf| (16..72).map(move |from| (deaf, from))) {
        let mut two = Two::new();
        while two.round < from + 2 * REACTION_ROUNDS {
            let heard = two.round < from;
            two.step([true; 2], [0, 1].map(|side| heard || side != deaf));
        }
        two.run(120);
        assert_eq!(two.agreements(), [KeyAgreement::Hybrid; 2], "{deaf}, {from}");
    }
}

/// Who took a disk before keys were renewed, and only listens after.
#[test]
fn attack_a_disk_taken_while_people_meet_reads_nothing_after_the_renewal() {
    let copy = |pair: &Pair| -> Pair { postcard::from_bytes(&postcard::to_allocvec(pair).unwrap()).unwrap() };
    for (thief, taken) in [(0, 1), (0, 20), (1, 1), (1, 20), (1, 27)] {
        let mut two = Two::new();
        two.run(taken);
        let mut stolen = copy(&two.pairs[thief]);
        let identity = key([ALICE, BOB][thief]);
        let mut read = Vec::new();
        while two.round < 160 {
            if [27, 120].contains(&two.round) {
                two.pairs[1 - thief].queue(Kind::Text, two.round.to_string().as_bytes()).unwrap();
            }
            two.run(1);
            let round = Round(two.round);
            let turn = Turn {
                round,
                mine: false,
                slot: None,
                last: None,
                knocks: true,
                head: None,
                identity: &identity,
            };
            let (_, boxes) = stolen.open_round(&turn);
            let Some(sent) = &two.deposits.last().unwrap()[1 - thief] else { continue };
            for found in boxes.into_iter().filter(|found| found.key.label() == sent.label) {
                let plaintext = found.key.open(&sent.sealed.0).unwrap();
                let taken = stolen.receive(found.epoch, &plaintext, round, round.next(), &[]);
                read.extend(taken.unwrap().0.into_iter().filter_map(|event| match event {
                    Event::Delivered { whole, .. } => whole.content.map(|text| text.to_vec()),
                    _ => None,
                }));
            }
        }
        assert_eq!(two.agreements(), [KeyAgreement::Hybrid; 2]);
        assert_eq!(read, [b"27"], "{thief}, {taken}");
    }
}

/// Where no number is left, keys stay as they are.
#[test]
fn without_numbers_keys_are_not_renewed() {
    for side in [0, 1] {
        let mut two = Two::new();
        two.run(4);
        two.pairs[side].use_up_numbers();
        two.run(120);
        assert_eq!(two.agreements()[side], KeyAgreement::Classical);
        assert_eq!(two.agreements()[1 - side], KeyAgreement::Renewing);
    }
}

/// Boxes that were asked for before are read after.
#[test]
fn what_was_looked_for_under_the_old_keys_is_still_taken() {
    let mut two = Two::met();
    two.run(60);
    for epoch in [TALK, NEXT] {
        let sign = Frame { kind: Kind::Acknowledgement, ..hello(&[]) };
        assert!(receive(&mut two.pairs[0], epoch, &sign).is_ok());
    }
}

/// Made again from the text of the specification by a program that shares no code with this one.
#[test]
fn the_layout_of_a_renewal_does_not_change_unnoticed() {
    let (alice, bob) = (Share::new(secret(101)), Share::new(secret(102)));
    let offer = alice.offer();
    let (answer, root) = bob.answer(&offer, Round(9)).unwrap();
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let digest = |bytes: &[u8]| hex(&Sha256::digest(bytes));
    assert_eq!((offer.len(), answer.len()), (1216, 1128));
    assert_eq!(digest(&offer), "d36418ae90ccf00bddd42fb5063dc1ec79c80eeb7cda7da371a257f69d2204c2");
    assert_eq!(digest(&answer), "739c1fec50f8a2626478b9ed4dbcad6ec7be75dd713b6163235a32441d80dfc9");
    assert_eq!(hex(root.bytes()), "d562c3ed9a6d2ea36e468a7713b1053ddeed42dc5b0e9bb0c70e1c556305f3b4");
    // By a secret that nobody else has, of a ciphertext that was altered.
    let mut altered = answer;
    altered[8] ^= 1;
    let (root, _) = alice.take(&altered).unwrap();
    assert_eq!(hex(root.bytes()), "a5160beeb2d3dfd7f82e0801fbd1ea1bed1f66e8c13bd3000c3232f38c662d2c");
}

/// Who brings back a copy of its state has to give up whoever may have gone on to keys that it never has, and nobody else: it
/// would have to invite them again.
#[test]
fn a_copy_is_of_no_use_until_the_other_has_the_same_keys() {
    let mut two = Two::new();
    assert_eq!(two.pairs.each_ref().map(Pair::serves_once), [true; 2]);
    let classically = [alice(), accepting(BOB)].map(Pair::meeting_classically);
    assert_eq!(classically.each_ref().map(Pair::serves_once), [true; 2]);
    let mut seen = Vec::new();
    while two.agreements() != [KeyAgreement::Hybrid; 2] {
        assert!(two.round < 400, "keys are not renewed");
        two.run(1);
        let now = two.pairs.each_ref().map(|pair| {
            let stage = match &pair.stage {
                Stage::Meeting(..) => "meets",
                Stage::Offering(..) => "offers",
                Stage::Renewing(Renewal::Awaiting(_)) => "awaits",
                Stage::Renewing(_) => "changes",
                _ => "has changed",
            };
            (stage, pair.serves_once())
        });
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    let expected = [
        [("meets", true), ("meets", true)],
        [("meets", true), ("awaits", true)],
        [("offers", true), ("awaits", true)],
        [("offers", true), ("changes", true)],
        [("changes", false), ("changes", true)],
        [("changes", false), ("changes", false)],
        [("changes", false), ("has changed", false)],
        [("has changed", false), ("has changed", false)],
    ];
    assert_eq!(seen, expected);
}
