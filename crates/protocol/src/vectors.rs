//! Bytes for other implementations to compare theirs with, from inputs that `docs/PROTOCOL.md`, section 18, names.
//!
//! The file was written by a program that shares no code with this one, from the text of the protocol alone. Deposits
//! stand in it whole: label, layout of the plaintext, signature and sealing are right, or the bytes are others.

use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};

use crate::audit::{AuditCoins, Statement, answer_digest, query_digest};
use crate::group::{Group, Rekey};
use crate::invitation::{Invitation, LIFE_MS};
use crate::manifest::seed::SeedTree;
use crate::message::{Head, Kind};
use crate::pair::Pair;
use crate::secret::Secret;
use crate::server::{seeds_of, segment_end};
use crate::turn::Turn;
use crate::{
    CodeKind, Deposit, Directory, GroupCard, KeyEpoch, Label, PROTOCOL_VERSION, Round, RoundMode, SealedBox,
    ServerParameters, SignedDirectory, Table, UnixMillis, table,
};

const EXPECTED: &str = include_str!("../tests/golden/vectors.txt");
const HEAD: Option<Head> = Some((Round(7), [9; 8]));

/// The value of one line, `name = value`.
fn expected(name: &str) -> &'static str {
    let values = EXPECTED.lines().filter_map(|line| line.split_once(" = "));
    values.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).unwrap()
}

fn compare(name: &str, bytes: &[u8]) {
    assert_eq!(data_encoding::HEXLOWER.encode(bytes), expected(name), "{name}");
}

fn compare_deposit(name: &str, deposit: &Deposit) {
    compare(name, &[deposit.label.0.as_slice(), &deposit.sealed.0].concat());
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

fn public(number: u8) -> [u8; 32] {
    key(number).verifying_key().to_bytes()
}

#[test]
fn seeds_and_announcement_have_the_published_bytes() {
    let first = Round(1000);
    let tree =
        SeedTree::new(first, (0..3).map(|segment| segment_end(&[7; 32], first, segment)).collect()).unwrap();
    compare("seed", &seeds_of(&[7; 32], first, 2)[7]);
    compare("segment proof", &tree.of(Round(9199)).unwrap().encode());
    let announced = ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 0x0102_0304_0506_0708,
        manifest_key: [0x11; 32],
        seeds: tree.commitment(),
        engine: "sealpir-s2048".into(),
        security_bits: 129,
        code: CodeKind::Hybrid,
        retrieve: 16,
        buckets: 144,
        choices: 2,
        retained: 3,
        mode: RoundMode::ClosedLoop,
        round_ms: 2000,
        deposit_ms: 201,
        lookup_ms: 302,
        query_ms: 603,
        deposit_spread_ms: 704,
        query_spread_ms: 805,
        key_epoch: KeyEpoch { number: 7, first: Round(9000), end: Round(20_000_000), former: [0x22; 32] },
    };
    compare("announcement", &announced.encode());
    let slots = (9..13).map(|round| crate::slot(&[3; 32], Round(round), 1000).as_millis().to_string());
    assert_eq!(slots.collect::<Vec<_>>().join(" "), expected("slots"));
}

/// What each side deposits in a round, of which the other reads everything.
fn exchange(pairs: &mut [Pair; 2], round: u64, head: Option<Head>) -> [Option<Deposit>; 2] {
    let round = Round(round);
    let identities = [key(1), key(2)];
    let mut open = |side: usize| {
        pairs[side].open_round(&Turn {
            round,
            mine: true,
            slot: None,
            last: None,
            knocks: true,
            head,
            identity: &identities[side],
        })
    };
    let [(from_inviter, to_inviter), (from_invited, to_invited)] = [open(0), open(1)];
    for (side, sent, boxes) in [(0, &from_invited, to_inviter), (1, &from_inviter, to_invited)] {
        let Some(sent) = sent else { continue };
        let found = boxes.into_iter().find(|found| found.key.label() == sent.label).unwrap();
        let plaintext = found.key.open(&sent.sealed.0).unwrap();
        pairs[side].receive(found.epoch, &plaintext, round, round.next(), &[]).unwrap();
    }
    [from_inviter, from_invited]
}

#[test]
fn a_conversation_of_two_has_the_published_deposits() {
    let secret = |number| Secret::new([number; 32]);
    let invitation = Invitation {
        server: [0; 8],
        secret: secret(7),
        exchange: x25519_dalek::PublicKey::from(&x25519_dalek::StaticSecret::from([1; 32])).to_bytes(),
        identity: public(1),
        start: Round(1),
        time: UnixMillis(1000),
        expires: UnixMillis(1000 + LIFE_MS),
    };
    assert_eq!(invitation.to_string(), expected("invitation"));
    let made = UnixMillis(1000);
    let inviter = Pair::inviting(&invitation, (secret(1), secret(101)), made, Round(1)).unwrap();
    let invited = Pair::accepting(&invitation, (&secret(2), secret(102)), &key(2), made, Round(1)).unwrap();
    let mut pairs = [inviter, invited];
    let [_, request] = exchange(&mut pairs, 1, None);
    compare_deposit("request", &request.unwrap());
    let [answer, _] = exchange(&mut pairs, 8, HEAD);
    compare_deposit("answer", &answer.unwrap());
    pairs[1].queue(Kind::Text, b"hello, Alice").unwrap();
    let [_, text] = exchange(&mut pairs, 16, HEAD);
    compare_deposit("text", &text.unwrap());
    let long: Vec<u8> = (b'a'..=b'z').cycle().take(300).collect();
    pairs[0].queue(Kind::Text, &long).unwrap();
    let [part, _] = exchange(&mut pairs, 24, HEAD);
    compare_deposit("part of a text", &part.unwrap());
    let [rest, _] = exchange(&mut pairs, 25, HEAD);
    compare_deposit("rest of a text", &rest.unwrap());
    let [offered, sign] = exchange(&mut pairs, 32, HEAD);
    compare_deposit("acknowledgement", &sign.unwrap());
    compare_deposit("part of an offer", &offered.unwrap());
    for round in 33..38 {
        exchange(&mut pairs, round, HEAD);
    }
    let [_, answered] = exchange(&mut pairs, 40, HEAD);
    compare_deposit("part of an answer", &answered.unwrap());
    for round in 41..45 {
        exchange(&mut pairs, round, HEAD);
    }
    let [renewed, _] = exchange(&mut pairs, 48, HEAD);
    compare_deposit("first under new keys", &renewed.unwrap());
}

/// The card of the group, without slots or with these.
fn crew(slots: Vec<u32>) -> GroupCard {
    GroupCard {
        server: [0; 8],
        id: [4; 16],
        secret: Secret::new([5; 32]),
        start: Round(1),
        time: UnixMillis(0),
        name: "crew".into(),
        members: [("alice", 1), ("bob", 2), ("carol", 3)]
            .map(|(name, number)| (name.into(), public(number)))
            .into(),
        slots,
    }
}

#[test]
fn a_group_has_the_published_deposits() {
    let card = crew(Vec::new());
    assert_eq!(card.to_string(), expected("group card"));
    let group = |member| Group::new(&card, public(member), Round(1)).unwrap();
    let identity = key(2);
    let deposit = |group: &mut Group, round: u64, head| {
        group
            .open_round(&Turn {
                round: Round(round),
                mine: true,
                slot: None,
                last: None,
                knocks: true,
                head,
                identity: &identity,
            })
            .0
            .unwrap()
    };
    let mut bob = group(2);
    bob.queue(Kind::Text, b"hi").unwrap();
    compare_deposit("group text", &deposit(&mut bob, 1, None));

    let rekey: Rekey = group(1).propose(Secret::new([6; 32]), Round(16)).unwrap();
    compare("rekey", &rekey.encode());
    let mut bob = group(2);
    bob.begin(&rekey, Round(16)).unwrap();
    compare_deposit("group echo", &deposit(&mut bob, 16, HEAD));
    // Nobody was heard for 256 rounds, so bob changes over alone.
    bob.tend(Round(272));
    bob.queue(Kind::Text, b"hi again").unwrap();
    compare_deposit("group text under new keys", &deposit(&mut bob, 272, HEAD));
    bob.leave(&identity).unwrap();
    compare_deposit("group leave", &deposit(&mut bob, 273, HEAD));
}

#[test]
fn what_makes_a_server_answerable_has_the_published_bytes() {
    let queries = [query_digest(0, b"query 0"), query_digest(1, b"query 1")];
    let answers = [answer_digest(0, b"answer 0"), answer_digest(1, b"answer 1")];
    compare("receipt", &Statement::new(Round(7), [1; 32], [2; 32], &queries, &answers).sign(&key(5)));
    let coins = AuditCoins::new(&[1; 32]);
    let drawn = (0..128).filter_map(|round| Some(format!("{round}:{}", coins.draw(Round(round), 24, 8)?)));
    assert_eq!(drawn.collect::<Vec<_>>().join(" "), expected("coins"));
}

#[test]
fn a_directory_has_the_published_bytes() {
    let nodes = ["b.example.org:7370", "[2001:db8::7]:7371", "a.example.org:7370"].map(str::to_owned);
    let directory = Directory::new(0x0102_0304_0506_0708, Round(7), nodes).unwrap();
    let signed = SignedDirectory::sign(&directory, &[3; 32], &key(5));
    compare("directory", &Sha256::digest(&signed.bytes[..]));
    compare("directory signature", &signed.signature);
}

#[test]
fn slots_have_the_published_places() {
    let card = crew(vec![5, 0, 1 << 20]);
    assert_eq!(card.to_string(), expected("group card with slots"));
    let request = data_encoding::HEXLOWER.decode(expected("request").as_bytes()).unwrap();
    let label = Label(*request.first_chunk().unwrap());
    compare("request with a slot", &table::telling(&label, 77).0[..12]);

    let lots = [1, 7, 8, 9, 41, 8192, 8193, 300_000]
        .map(|lots| (Table::holding(lots).unwrap().places() / 33).to_string());
    assert_eq!(lots.join(" "), expected("lots"));
    let shape = crate::CodeShape { kind: CodeKind::Partitioned, retrieve: 4, buckets: 12, choices: 3 };
    let code = shape.slot_code([5; 32], 45 * 33).unwrap();
    let places = [0, 1, 1000, 1484].map(|slot| {
        let places =
            code.places(slot).into_iter().map(|(bucket, position)| format!("{}:{position}", bucket.0));
        places.collect::<Vec<_>>().join(",")
    });
    assert_eq!(places.join(" "), expected("places"));

    let deposit = |slot: u32, knock: [u8; 12], content: u8| Deposit {
        label: table::stored(slot, &knock),
        sealed: SealedBox([content; 288]),
    };
    // Five for one cell, of knocks that differ; two for one slot; and one beyond the table.
    let mut deposits = vec![deposit(3, [1; 12], 10), deposit(40, [2; 12], 20), deposit(64, [3; 12], 30)];
    for number in 0..5_u8 {
        let mut knock = [40 + number; 12];
        knock[..4].copy_from_slice(&(72 * u32::from(number)).to_le_bytes());
        deposits.push(deposit(7 + u32::from(number), knock, 50 + number));
    }
    deposits.push(deposit(9, [4; 12], 90));
    let table = Table::holding(2).unwrap();
    let mut boxes = vec![0; 66 * 288];
    table.lay(&deposits, &[9; 32]).fill_all(&mut boxes);
    compare("table", &Sha256::digest(&boxes));
}
