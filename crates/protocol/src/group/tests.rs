//! Members against each other: they share all symmetric keys.

mod changing;
mod members;
mod rekeys;
mod words;

use ed25519_dalek::{Signer, SigningKey};

use super::change::{BEHIND_MAX, CHANGE_ROUNDS, HELD_UP_ROUNDS, RENEW_ROUNDS};
use super::keys::{News, Task};
use super::rekey::{author_of, epoch_after};
use super::{Farewell, Group, GroupCard, LEAVE_TURNS, Rekey};
use crate::error::Malformed;
use crate::message::Kind;
use crate::reaction::REACTION_ROUNDS;
use crate::seal::Plaintext;
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

/// What a member makes of a plaintext of a round.
type Lie = fn(&mut Plaintext, u64);

/// Members who speak in every round, and hear each other unless they are away.
struct Room {
    groups: Vec<Group>,
    round: u64,
    texts: Vec<Vec<Vec<u8>>>,
    news: Vec<Vec<News>>,
    /// Texts that have arrived with all.
    arrived: Vec<usize>,
    /// How often each was told that somebody has gone back.
    went_back: Vec<usize>,
    /// What carol makes of a plaintext of hers, with zeros for the signature.
    lie: Option<Lie>,
}

impl Room {
    fn new() -> Self {
        Self {
            groups: (0..3).map(group).collect(),
            round: 1,
            texts: vec![Vec::new(); 3],
            news: vec![Vec::new(); 3],
            arrived: vec![0; 3],
            went_back: vec![0; 3],
            lie: None,
        }
    }

    fn run(&mut self, rounds: u64, away: &[usize]) {
        for _ in 0..rounds {
            let round = Round(self.round);
            let mut deposits = Vec::new();
            let mut listening = Vec::new();
            for (number, group) in self.groups.iter_mut().enumerate().filter(|(n, _)| !away.contains(n)) {
                group.tend(round);
                let identity = key(number);
                let turn = Turn {
                    round,
                    mine: true,
                    slot: None,
                    last: None,
                    knocks: true,
                    head: None,
                    identity: &identity,
                };
                let (deposit, boxes) = group.open_round(&turn);
                deposits.extend(deposit);
                listening.extend(boxes.into_iter().map(|listening| (number, listening)));
            }
            for (number, found) in listening {
                let deposit = deposits.iter().find(|deposit| deposit.label == found.key.label());
                let Some(deposit) = deposit else { continue };
                let mut plaintext = found.key.open(&deposit.sealed.0).unwrap();
                let from = (found.epoch, found.member);
                if let Some(lie) = self.lie.filter(|_| found.member == 2) {
                    plaintext[40..104].fill(0);
                    lie(&mut plaintext, round.0);
                    let signed = self.groups[2].signed(found.epoch, 2, deposit.label, &plaintext);
                    plaintext[40..104].copy_from_slice(&key(2).sign(&signed).to_bytes());
                }
                let (events, _) =
                    self.groups[number].receive(from, deposit.label, &plaintext, round).unwrap();
                for event in events {
                    match event {
                        Event::Delivered { whole, .. } => {
                            self.texts[number].push(whole.content.unwrap().to_vec());
                        }
                        Event::Acknowledged(_) => self.arrived[number] += 1,
                        Event::WentBack => self.went_back[number] += 1,
                        _ => {}
                    }
                }
            }
            for (news, group) in self.news.iter_mut().zip(&mut self.groups) {
                news.extend(group.news());
            }
            self.round += 1;
        }
    }

    fn propose(&self, author: usize, fresh: u8) -> Rekey {
        self.groups[author].propose(Secret::new([fresh; 32]), Round(self.round)).unwrap()
    }

    fn epochs(&self) -> Vec<u32> {
        self.groups.iter().map(|group| group.epoch).collect()
    }
}

#[test]
fn an_impossible_rekey_changes_nothing() {
    let mut bob = group(1);
    let rekey = group(0).propose(Secret::new([6; 32]), Round(2)).unwrap();
    let wrong = |change: fn(&mut Rekey)| {
        let mut rekey = rekey.clone();
        change(&mut rekey);
        rekey
    };
    for rekey in [
        wrong(|rekey| rekey.group = [0; 16]),
        wrong(|rekey| rekey.excluded = 1),
        wrong(|rekey| rekey.excluded = 8),
        wrong(|rekey| rekey.epoch = 0),
        wrong(|rekey| rekey.epoch = (1 << 29) + 1),
        wrong(|rekey| rekey.start = Round(1000)),
    ] {
        assert!(bob.offer(0, rekey, Round(2)).is_err());
    }
    assert!(bob.offer(9, rekey.clone(), Round(2)).is_err() && bob.offer(1, rekey.clone(), Round(2)).is_err());
    assert!(bob.offer.is_none() && bob.news().is_empty());
    assert!(Rekey::decode(&rekey.encode()[1..]).is_err());
    bob.offer(0, Rekey::decode(&rekey.encode()).unwrap(), Round(2)).unwrap();
    assert!(bob.offer.is_some());
}

#[test]
fn epochs_of_a_later_keeper_come_after_all_of_an_earlier_one() {
    let after =
        |newest, author, [start, round]: [u64; 2]| epoch_after((newest, Round(start)), author, Round(round));
    // Rounds have these numbers where they last 0.2 s and are counted from 1970.
    for first in [0, 1_790_000_000_000 / 200, u64::MAX >> 1] {
        assert_eq!(after(0, 0, [first, first]), Some(1));
        assert_eq!(after(0, 0, [first, first + 7]), Some(7));
        assert_eq!(after(7, 0, [first + 7, first + 70]), Some(70));
        assert_eq!(after(7, 2, [first + 7, first + 9]), Some((2 << 29) + 2));
        assert_eq!(after((2 << 29) + 9, 2, [first + 9, first + 9]), Some((2 << 29) + 10));
        assert_eq!(
            after((2 << 29) + 9, 1, [first + 9, first + 19]),
            None,
            "an earlier member takes nothing over"
        );
        // Used up, by time or by one who counts too fast; who comes after that one has all of its own.
        assert_eq!(after((1 << 29) - 100, 1, [first, first + 9]), Some((1 << 29) + 9));
        assert_eq!(after((1 << 29) - 1, 0, [first, first + 9]), None);
        assert_eq!(after((1 << 29) - 1, 1, [first, first + 9]), Some((1 << 29) + 9));
        assert_eq!(after(u32::MAX, 7, [first, first + 9]), None);
        assert_eq!(after(0, 0, [first, first + (1 << 29)]), None);
        assert_eq!(after(0, 0, [first, first + (1 << 32) + 5]), None);
    }
    assert_eq!(author_of((2 << 29) + 9), 2);
    // As of a time when it was counted below eight bits of the author: what comes now is above.
    assert!(after((3 << 24) + 5, 3, [8, 9]).is_some_and(|epoch| author_of(epoch) == 3));
}

#[test]
fn all_change_together_and_no_text_is_lost() {
    let mut room = Room::new();
    room.groups[2].queue(Kind::Text, b"before").unwrap();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].queue(Kind::Text, b"meanwhile").unwrap();
    room.groups[1].offer(0, rekey.clone(), Round(room.round)).unwrap();
    room.run(30, &[]);
    assert_eq!(room.epochs(), [0, 0, 0], "nobody changes before carol has the keys");
    let epoch = rekey.epoch;
    room.groups[2].offer(0, rekey, Round(room.round)).unwrap();
    room.run(40, &[]);
    assert_eq!(room.epochs(), [epoch; 3]);
    assert!(room.groups.iter().all(|group| group.members().all(|member| member.confirmed)));
    assert!(room.news.iter().all(|news| news.iter().filter(|news| **news == News::NewKeys).count() == 1));
    room.groups[1].queue(Kind::Text, b"after").unwrap();
    room.run(10, &[]);
    assert_eq!(room.texts[2], [b"meanwhile".to_vec(), b"after".to_vec()]);
    assert_eq!(room.texts[0], [b"before".to_vec(), b"meanwhile".to_vec(), b"after".to_vec()]);
}

/// Any member could make it look as if another had gone.
#[test]
fn attack_a7_nobody_but_the_keeper_removes_anybody() {
    for excluded in [1, 4, 5] {
        let mut carol_or_alice = if excluded == 1 { group(2) } else { group(0) };
        let forged = Rekey {
            group: [4; 16],
            epoch: (1 << 29) + 1,
            start: Round(2),
            excluded,
            fresh: Secret::new([9; 32]),
        };
        carol_or_alice.offer(1, forged, Round(2)).unwrap();
        assert_eq!(carol_or_alice.tend(Round(8)), Task::Nothing);
        assert_eq!(carol_or_alice.news(), [News::RekeyRefused]);
        assert!(carol_or_alice.members().all(|member| member.present) && !carol_or_alice.is_ended());
        assert!(carol_or_alice.change.is_none() && carol_or_alice.epoch == 0);
    }
    assert!(matches!(group(1).remove(2), Err(Error::Input(_))));
}

/// Keys handed to bob alone would put him where only their author hears him.
#[test]
fn attack_a7_keys_given_to_one_member_alone_take_it_nowhere() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    room.groups[1].queue(Kind::Text, b"can you hear me?").unwrap();
    room.run(2 * CHANGE_ROUNDS, &[]);
    assert_eq!(room.epochs(), [0, 0, 0]);
    assert_eq!(room.news[1], [News::KeysDiffer]);
    assert_eq!(room.texts[2], [b"can you hear me?".to_vec()]);
    let shown: Vec<bool> = room.groups[1].members().map(|member| member.confirmed).collect();
    assert_eq!(shown, [false, true, false]);
    // Should the keeper pretend to have changed, carol alone holds him where she is.
    let secret = room.propose(0, 6);
    room.groups[0].begin(&secret, Round(room.round)).unwrap();
    room.run(2 * CHANGE_ROUNDS, &[]);
    assert_eq!(room.groups[1].epoch, 0);
}

#[test]
fn attack_a7_different_keys_for_different_members_are_told_to_both() {
    let mut room = Room::new();
    room.run(10, &[]);
    for (member, fresh) in [(1, 6), (2, 7)] {
        let rekey = room.propose(0, fresh);
        room.groups[member].offer(0, rekey, Round(room.round)).unwrap();
    }
    room.run(2 * CHANGE_ROUNDS, &[0]);
    assert_eq!(room.epochs(), [0, 0, 0]);
    assert_eq!([&room.news[1][..], &room.news[2][..]], [[News::KeysDiffer]; 2]);
    room.groups[1].queue(Kind::Text, b"we two").unwrap();
    room.run(4, &[0]);
    assert_eq!(room.texts[2], [b"we two".to_vec()]);
}

/// One who is away must not keep the others from removing somebody, nor be shut out itself.
#[test]
fn a_member_who_is_silent_holds_the_others_up_for_a_while_and_catches_up() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    let epoch = rekey.epoch;
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey.clone(), Round(room.round)).unwrap();
    room.run(CHANGE_ROUNDS, &[2]);
    room.run(16, &[2]);
    assert_eq!(room.epochs(), [epoch, epoch, 0]);
    assert!(!room.groups[0].members().nth(2).unwrap().confirmed);
    room.groups[0].queue(Kind::Text, b"carol?").unwrap();
    room.run(100, &[2]);
    assert_eq!(room.groups[0].members().nth(2).unwrap().missing, 1);
    room.groups[2].offer(0, rekey, Round(room.round)).unwrap();
    room.run(40, &[]);
    assert_eq!(room.epochs(), [epoch; 3]);
    assert_eq!(room.texts[2], [b"carol?".to_vec()]);
    assert!(room.groups[0].members().all(|member| member.confirmed && member.missing == 0));
}

/// Rekeys of epochs that never come took all the places there were, and later ones were lost.
#[test]
fn attack_b4_no_number_of_rekeys_takes_the_place_of_the_keepers_next() {
    let mut carol = group(2);
    let rekey = |epoch, start| Rekey {
        group: [4; 16],
        epoch,
        start: Round(start),
        excluded: 0,
        fresh: Secret::new([9; 32]),
    };
    for more in 1..100 {
        carol.offer(1, rekey((1 << 29) + more, 2), Round(2)).unwrap();
    }
    assert!(carol.offer.is_none());
    let size = postcard::to_allocvec(&carol).unwrap().len();
    carol.offer(0, rekey(1, 2), Round(2)).unwrap();
    assert!(postcard::to_allocvec(&carol).unwrap().len() < size + 80);
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.epoch), Some(1));

    // The keeper itself, however many it makes, begins a change each time the last has had its time and no oftener.
    let mut begun = Vec::new();
    for round in 9..9 + 10 * CHANGE_ROUNDS {
        carol.offer(0, rekey(u32::try_from(round).unwrap(), round), Round(round)).unwrap();
        let before = carol.taken;
        carol.tend(Round(round));
        if carol.taken != before {
            begun.push(round);
        }
        assert!(postcard::to_allocvec(&carol).unwrap().len() < size + 500);
    }
    assert_eq!(begun.len(), 10);
}

/// Of several rekeys that wait the newest is taken: an older one must not keep its place.
#[test]
fn of_the_keepers_rekeys_the_newest_is_taken() {
    let mut carol = group(2);
    for epoch in [1, 3, 2] {
        let fresh = Secret::new([9; 32]);
        let rekey = Rekey { group: [4; 16], epoch, start: Round(2), excluded: 0, fresh };
        carol.offer(0, rekey, Round(2)).unwrap();
    }
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.epoch), Some(3));
}

/// A member chooses where new chains begin; steps from long ago would delay the other calls of all who are in a group
/// with it, and so show who they are.
#[test]
fn attack_b4_a_rekey_begins_near_the_present() {
    let now = 5_000_000;
    for (behind, taken) in [(0, true), (BEHIND_MAX, true), (BEHIND_MAX + 1, false), (1 << 22, false)] {
        let mut carol = group(2);
        let rekey = Rekey {
            group: [4; 16],
            epoch: 1,
            start: Round(now - behind),
            excluded: 0,
            fresh: Secret::new([9; 32]),
        };
        carol.offer(0, rekey, Round(now)).unwrap();
        carol.tend(Round(now));
        assert_eq!(carol.change.is_some(), taken, "{behind}");
    }
    let old = GroupCard { start: Round(1), ..card() };
    assert!(Group::new(&old, key(0).verifying_key().to_bytes(), Round((1 << 19) + 1)).is_ok());
    let late = Group::new(&old, key(0).verifying_key().to_bytes(), Round((1 << 19) + 2));
    assert_eq!(late.err(), Some(Error::RoundTooFar(Round(1))));
}

/// Who asks without end must not keep the others changing keys.
#[test]
fn the_keeper_is_asked_for_keys_as_often_as_a_member_likes_and_makes_them_once_in_256_rounds() {
    let mut alice = group(0);
    let rekey = alice.propose(Secret::new([6; 32]), Round(2)).unwrap();
    alice.begin(&rekey, Round(2)).unwrap();
    let mut made = Vec::new();
    for round in 3..3000 {
        alice.offer(2, alice.request(), Round(round)).unwrap();
        let size = postcard::to_allocvec(&alice.offer).unwrap().len();
        assert!(size < 80);
        if alice.tend(Round(round)) == Task::NewKeys {
            assert_eq!(round % REACTION_ROUNDS, 0);
            let rekey = alice.propose(Secret::new([7; 32]), Round(round)).unwrap();
            alice.begin(&rekey, Round(round)).unwrap();
            made.push(round);
        }
        // The others change over at once.
        if let Some(change) = alice.change.take() {
            alice.epoch = change.epoch;
        }
    }
    assert!(made.len() > 4 && made.windows(2).all(|two| two[1] - two[0] >= CHANGE_ROUNDS), "{made:?}");

    // One who was removed is not heeded, nor is anybody who asks one that is not the keeper, or for more than keys.
    let mut bob = group(1);
    assert!(bob.offer(2, bob.request(), Round(2)).is_ok() && bob.offer.is_none());
    let mut gone = group(0);
    gone.remove(2).unwrap();
    let rekey = gone.propose(Secret::new([6; 32]), Round(2)).unwrap();
    gone.begin(&rekey, Round(2)).unwrap();
    gone.tend(Round(400));
    assert!(gone.offer(2, gone.request(), Round(400)).is_ok() && gone.offer.is_none());
    let other = Rekey { excluded: 2, ..gone.request() };
    assert!(gone.offer(1, other, Round(400)).is_err());
}

/// Keys that came too late for a member are followed by others that do not.
#[test]
fn the_keeper_notices_who_came_too_late() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    room.run(CHANGE_ROUNDS + 16, &[2]);
    let late = |group: usize, round: u64| {
        let group = postcard::to_allocvec(&room.groups[group]).unwrap();
        postcard::from_bytes::<Group>(&group).unwrap().tend(Round(round))
    };
    assert_eq!(late(0, room.round + REACTION_ROUNDS), Task::Nothing);
    let later = room.round + RENEW_ROUNDS;
    assert_eq!(late(0, later), Task::NewKeysFor(vec![key(2).verifying_key().to_bytes()]));
    assert_eq!(late(1, later), Task::Nothing, "it is not bob's to make them");
    // Carol missed them, and hears nobody; bob is nobody to ask.
    assert_eq!(
        late(2, later),
        Task::Ask(vec![key(0).verifying_key().to_bytes(), key(1).verifying_key().to_bytes()])
    );
}

/// Carol was given keys and has gone back to before that: she speaks on without them, and all others would wait for ever.
#[test]
fn the_keeper_makes_keys_anew_for_one_who_holds_up_a_change() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    room.groups[0].begin(&rekey, Round(room.round)).unwrap();
    room.groups[1].offer(0, rekey, Round(room.round)).unwrap();
    let since = room.round;
    let carol = key(2).verifying_key().to_bytes();
    let mut made = Vec::new();
    while room.round < since + 4 * HELD_UP_ROUNDS {
        let round = Round(room.round);
        let at_this_round = |member: usize| {
            let group = postcard::to_allocvec(&room.groups[member]).unwrap();
            postcard::from_bytes::<Group>(&group).unwrap().tend(round)
        };
        let task = at_this_round(0);
        assert_eq!(at_this_round(1), Task::Nothing, "alice has the keys, and it is not bob's to make others");
        assert_ne!(task, Task::NewKeys);
        if task == Task::NewKeysFor(vec![carol]) {
            made.push(room.round - since);
            let rekey = room.propose(0, 7);
            room.groups[0].begin(&rekey, round).unwrap();
            room.groups[1].offer(0, rekey.clone(), round).unwrap();
            if made.len() == 2 {
                room.groups[2].offer(0, rekey, round).unwrap();
            }
        }
        room.run(1, &[]);
    }
    let blocks = |made: u64| made.div_ceil(HELD_UP_ROUNDS) * HELD_UP_ROUNDS;
    assert!(made.len() == 2 && made.iter().all(|made| blocks(*made) - made < HELD_UP_ROUNDS), "{made:?}");
    assert!(made[0] >= HELD_UP_ROUNDS && made[1] - made[0] >= HELD_UP_ROUNDS, "{made:?}");
    let epochs = room.epochs();
    assert!(epochs[0] > 0 && epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
    let told = |news: &Vec<News>| news.iter().filter(|news| **news == News::KeysDiffer).count();
    assert!(room.news.iter().take(2).all(|news| told(news) == 1), "{:?}", room.news);
}

/// Whoever holds a change up may be the keeper, who has gone back and does not know who left.
#[test]
fn a_member_asks_a_keeper_who_holds_up_a_change() {
    let mut room = Room::new();
    room.run(10, &[]);
    let rekey = room.propose(0, 6);
    for member in [1, 2] {
        room.groups[member].offer(0, rekey.clone(), Round(room.round)).unwrap();
        room.groups[member].take_farewell(&Farewell::new([4; 16], 0, &key(0))).unwrap();
    }
    // Bob, who is the keeper now, has forgotten both.
    room.groups[1] = group(1);
    room.run(RENEW_ROUNDS - room.round, &[0]);
    let group = postcard::to_allocvec(&room.groups[2]).unwrap();
    let mut carol: Group = postcard::from_bytes(&group).unwrap();
    assert_eq!(carol.tend(Round(RENEW_ROUNDS)), Task::Ask(vec![key(1).verifying_key().to_bytes()]));
}

#[test]
fn the_next_member_takes_over_from_a_keeper_who_said_farewell_and_from_no_other() {
    let mut carol = group(2);
    let rekey = Rekey {
        group: [4; 16],
        epoch: (1 << 29) + 1,
        start: Round(2),
        excluded: 1,
        fresh: Secret::new([9; 32]),
    };
    carol.offer(1, rekey.clone(), Round(2)).unwrap();
    assert_eq!(carol.news(), [News::RekeyRefused]);
    let genuine = Farewell::new([4; 16], 0, &key(0));
    for forged in [
        Farewell::new([4; 16], 0, &key(1)),
        Farewell::new([5; 16], 0, &key(0)),
        Farewell { member: 1, ..genuine.clone() },
        Farewell { group: [5; 16], ..genuine.clone() },
        Farewell { member: 9, ..genuine.clone() },
    ] {
        assert!(carol.take_farewell(&forged).is_err());
    }
    let handed_on = Farewell::decode(&genuine.encode()).unwrap();
    carol.take_farewell(&handed_on).unwrap();
    carol.take_farewell(&handed_on).unwrap();
    assert_eq!(carol.news(), [News::Left(0)]);
    assert_eq!(carol.keeper(), Some(1));
    carol.offer(1, rekey, Round(2)).unwrap();
    carol.tend(Round(8));
    assert_eq!(carol.change.as_ref().map(|change| change.excluded), Some(1));
    assert!(carol.news().is_empty(), "alice left, and nobody removed her");
    // What alice may have said before she left is passed over without alarm.
    let late = Rekey { epoch: 5, excluded: 0, group: [4; 16], start: Round(2), fresh: Secret::new([1; 32]) };
    carol.offer(0, late, Round(9)).unwrap();
    assert!(carol.news().is_empty() && carol.offer.is_none());
}

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
