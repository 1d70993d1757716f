//! Groups at moments that the server or a keeper chooses: rounds that are read late, and keys without end.

use ed25519_dalek::{Signer, SigningKey};

use crate::group::{Farewell, Group, GroupCard, News};
use crate::message::Kind;
use crate::reaction::REACTION_ROUNDS;
use crate::secret::Secret;
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Round, UnixMillis, domain};

const NAMES: [&str; 3] = ["alice", "bob", "carol"];
const ID: [u8; 16] = [4; 16];
/// Rounds between two changes that a member takes part in.
const PAUSE: u64 = 64;

fn key(member: usize) -> SigningKey {
    SigningKey::from_bytes(&[member as u8 + 1; 32])
}

fn group(member: usize) -> Group {
    let public = |member| key(member).verifying_key().to_bytes();
    let members = (0..3).map(|member| (NAMES[member].to_owned(), public(member))).collect();
    let (secret, start, time, name) = (Secret::new([5; 32]), Round(1), UnixMillis(0), "crew".to_owned());
    let card = GroupCard { server: [0; 8], id: ID, secret, start, time, name, members, slots: Vec::new() };
    Group::new(&card, public(member), Round(1)).unwrap()
}

fn open(group: &mut Group, member: usize, round: u64) -> (Option<Deposit>, Vec<Listening>) {
    group.tend(Round(round));
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

/// What comes of those of the deposits that somebody listens for.
fn read(group: &mut Group, round: u64, listening: Vec<Listening>, deposits: &[Deposit]) -> Vec<Event> {
    let mut events = Vec::new();
    for listening in listening {
        let label = listening.key.label();
        let Some(deposit) = deposits.iter().find(|deposit| deposit.label == label) else { continue };
        let plaintext = listening.key.open(&deposit.sealed.0).unwrap();
        let from = (listening.epoch, listening.member);
        events.extend(group.receive(from, label, &plaintext, Round(round)).unwrap().0);
    }
    events
}

fn text(group: &mut Group) {
    group.queue(Kind::Text, b"said in time, read late").unwrap();
}

/// All three hear each other in these rounds.
fn run(groups: &mut [Group; 3], rounds: core::ops::Range<u64>) {
    for round in rounds {
        let opened: Vec<_> =
            groups.iter_mut().enumerate().map(|(member, group)| open(group, member, round)).collect();
        let (deposits, listening): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let deposits: Vec<Deposit> = deposits.into_iter().flatten().collect();
        for (group, listening) in groups.iter_mut().zip(listening) {
            read(group, round, listening, &deposits);
        }
    }
}

/// A round in which carol said something was sealed; while it is under way she is removed, or says farewell, and then it
/// is read.
fn read_after(goes: impl Fn(&mut [Group; 3])) -> [usize; 2] {
    let mut groups = [0, 1, 2].map(group);
    let last_of_block = 2 * REACTION_ROUNDS - 1;
    run(&mut groups, 1..last_of_block);
    text(&mut groups[2]);
    let (deposit, _) = open(&mut groups[2], 2, last_of_block);
    let deposits = [deposit.unwrap()];
    let listening = [0, 1].map(|member| open(&mut groups[member], member, last_of_block).1);
    goes(&mut groups);
    // Rounds are opened while the one before is read.
    let later = [0, 1].map(|member| open(&mut groups[member], member, last_of_block + 1).1);
    drop(later);
    let mut heard = [0; 2];
    for (member, listening) in listening.into_iter().enumerate() {
        let before = groups[member].members().nth(2).unwrap();
        let events = read(&mut groups[member], last_of_block, listening, &deposits);
        heard[member] = events.len();
        let after = groups[member].members().nth(2).unwrap();
        assert!(before.present || !events.is_empty() || after == before);
    }
    heard
}

/// The keeper removes at once, members where the next block begins, both with rounds under way in which they looked for
/// boxes of the one who goes.
#[test]
fn a_late_box_of_one_who_was_removed_is_not_heard() {
    assert_eq!(read_after(|_| {}), [1, 1], "nobody goes");
    let removes = |groups: &mut [Group; 3]| {
        let round = Round(2 * REACTION_ROUNDS);
        groups[0].remove(2).unwrap();
        let rekey = groups[0].propose(Secret::new([6; 32]), round).unwrap();
        groups[0].begin(&rekey, round).unwrap();
        groups[1].offer(0, rekey, round).unwrap();
    };
    assert_eq!(read_after(removes), [0, 0]);
    // Who left by itself is believed what it said before.
    let leaves = |groups: &mut [Group; 3]| {
        let signed = [domain::GROUP_FAREWELL.as_bytes(), &[0], &ID, &[2]].concat();
        let signature = key(2).sign(&signed).to_bytes();
        for group in &mut groups[..2] {
            group.take_farewell(&Farewell { group: ID, member: 2, signature }).unwrap();
            assert_eq!(group.news(), [News::Left(2)]);
        }
    };
    assert_eq!(read_after(leaves), [1, 1]);
}

/// However many keys a keeper makes, a member takes part in a change once in 64 rounds, and begins where a block does:
/// what a keeper may ask of a member is bounded, and when the member does it follows from what everybody knows.
#[test]
fn a_member_changes_keys_once_in_64_rounds_and_where_a_block_begins() {
    let mut groups = [0, 1, 2].map(group);
    let mut begun = Vec::new();
    for round in 1..12 * PAUSE {
        if !groups[0].is_changing() {
            let rekey = groups[0].propose(Secret::new([6; 32]), Round(round)).unwrap();
            groups[0].begin(&rekey, Round(round)).unwrap();
            for member in [1, 2] {
                groups[member].offer(0, rekey.clone(), Round(round)).unwrap();
            }
        }
        let before = groups[1].is_changing();
        run(&mut groups, round..round + 1);
        if groups[1].is_changing() && !before {
            begun.push(round);
        }
    }
    assert!(begun.len() >= 10, "{begun:?}");
    assert!(begun.iter().all(|round| round.is_multiple_of(REACTION_ROUNDS)), "{begun:?}");
    assert!(begun.windows(2).all(|pair| pair[1] - pair[0] >= PAUSE), "{begun:?}");
}
