//! Groups that this person has left.
//!
//! All others in a group can go back to states from before they heard that somebody left it. They wait for that one then, in
//! vain, and nobody but it can tell them. So what it takes to say goodbye again stays when a group is forgotten: the group's
//! id, and who was there. Whoever of these hands over keys of that group, or asks for some, counts on this person, and is
//! told again when the next block of rounds begins, like everything that follows from what was read
//! ([`crate::reaction`]).

use std::collections::VecDeque;

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use super::State;
use crate::Round;
use crate::conversation::{Conversation, Talk};
use crate::group::{Farewell, Group, Rekey};
use crate::message::Kind;
use crate::reaction::block;

/// Groups for which this is kept; of more the last ones.
const LEFT_MAX: usize = 64;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct LeftGroups {
    groups: VecDeque<Left>,
    /// The newest block of rounds in which something was said.
    block: u64,
}

#[derive(Serialize, Deserialize)]
struct Left {
    group: [u8; 16],
    /// This person's number in it.
    member: u8,
    /// Identity keys of those who were present.
    others: Vec<[u8; 32]>,
    /// Of these, as bits, who counted on this person since the block began.
    asked: u8,
}

impl LeftGroups {
    /// Keeps what is needed of a group that is about to be forgotten.
    pub(super) fn keep(&mut self, group: &Group) {
        let me = group.me();
        let others = group.members().filter(|member| member.present && member.number != me);
        let others = others.map(|member| member.identity).collect();
        self.groups.retain(|left| left.group != *group.id());
        self.groups.push_back(Left { group: *group.id(), member: me, others, asked: 0 });
        let excess = self.groups.len().saturating_sub(LEFT_MAX);
        self.groups.drain(..excess);
    }

    /// Somebody hands over keys or asks for some. Who tells that it has removed this person does not count on it.
    pub(super) fn ask(&mut self, rekey: &Rekey, author: &[u8; 32]) {
        let left = self.groups.iter_mut().find(|left| left.group == rekey.group);
        let Some(left) = left.filter(|left| !rekey.excludes(left.member)) else { return };
        let asked = (0_u32..).zip(&left.others).find(|(_, other)| *other == author);
        left.asked |= asked.and_then(|(number, _)| 1_u8.checked_shl(number)).unwrap_or(0);
    }

    /// Whom to tell what, when a round opens.
    fn due(&mut self, round: Round, identity: &SigningKey) -> Vec<([u8; 32], Vec<u8>)> {
        let mut due = Vec::new();
        if block(round) > self.block {
            self.block = block(round);
            for left in self.groups.iter_mut().filter(|left| left.asked != 0) {
                let asked = core::mem::take(&mut left.asked);
                let farewell = Farewell::new(left.group, left.member, identity).encode();
                let asked = |number: u32| asked.checked_shr(number).is_some_and(|bits| bits & 1 == 1);
                let others = (0..).zip(&left.others).filter(|(number, _)| asked(*number));
                due.extend(others.map(|(_, other)| (*other, farewell.clone())));
            }
        }
        due
    }
}

impl State {
    /// Says goodbye again to those who have not heard it, or have gone back to before they did.
    pub(super) fn tend_left(&mut self, round: Round) {
        for (other, farewell) in self.left.due(round, self.identity.key()) {
            let waits = |contact: &&Conversation| matches!(&contact.talk, Talk::Pair(pair) if pair.outbox().holds(Kind::Leave, &farewell));
            let contact = self.reachable(&other).filter(|contact| !waits(contact)).map(|contact| contact.id);
            if let Some(contact) = contact {
                // Who cannot be told now asks again.
                let _ = self.hand_over(contact, Kind::Leave, &farewell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{LEFT_MAX, LeftGroups};
    use crate::group::{Farewell, Group, GroupCard, Rekey};
    use crate::reaction::REACTION_ROUNDS;
    use crate::secret::Secret;
    use crate::{Round, UnixMillis};

    fn key(member: u8) -> SigningKey {
        SigningKey::from_bytes(&[member + 1; 32])
    }

    fn public(member: u8) -> [u8; 32] {
        key(member).verifying_key().to_bytes()
    }

    fn card(id: u8) -> GroupCard {
        GroupCard {
            server: [0; 8],
            id: [id; 16],
            secret: Secret::new([5; 32]),
            start: Round(1),
            time: UnixMillis(0),
            name: "crew".into(),
            members: (0..3).map(|member| (format!("member {member}"), public(member))).collect(),
            slots: Vec::new(),
        }
    }

    /// A group of three, as bob leaves it.
    fn group(id: u8) -> Group {
        Group::new(&card(id), public(1), Round(1)).unwrap()
    }

    fn rekey(id: u8, excluded: u8) -> Rekey {
        let fresh = Secret::new([6; 32]);
        Rekey { group: [id; 16], epoch: 5, start: Round(2), excluded, fresh }
    }

    #[test]
    fn those_who_were_there_are_told_again_in_the_next_block_and_once() {
        let (mut left, round) = (LeftGroups::default(), |block: u64| Round(block * REACTION_ROUNDS));
        left.keep(&group(4));
        assert!(left.due(round(1), &key(1)).is_empty());
        // One who tells bob that it has removed him, one who was never there, another group, bob himself.
        left.ask(&rekey(4, 0b010), &public(0));
        left.ask(&rekey(4, 0), &public(3));
        left.ask(&rekey(5, 0), &public(0));
        left.ask(&rekey(4, 0), &public(1));
        assert!(left.due(round(2), &key(1)).is_empty());
        for author in [2, 0, 2] {
            left.ask(&rekey(4, 0b100), &public(author));
        }
        assert!(left.due(Round(round(3).0 - 1), &key(1)).is_empty(), "before the next block begins");
        let mut left: LeftGroups = postcard::from_bytes(&postcard::to_allocvec(&left).unwrap()).unwrap();
        let due = left.due(round(3), &key(1));
        assert_eq!(due.iter().map(|(other, _)| *other).collect::<Vec<_>>(), [public(0), public(2)]);
        for (_, farewell) in due {
            let farewell = Farewell::decode(&farewell).unwrap();
            assert_eq!((farewell.group, farewell.member), ([4; 16], 1));
            let mut alice = Group::new(&card(4), public(0), Round(1)).unwrap();
            alice.take_farewell(&farewell).unwrap();
            assert!(!alice.members().nth(1).unwrap().present);
        }
        assert!(left.due(round(4), &key(1)).is_empty());
    }

    #[test]
    fn of_many_groups_the_last_are_kept() {
        let mut left = LeftGroups::default();
        for id in (0..=LEFT_MAX as u8).chain([7]) {
            left.keep(&group(id));
        }
        assert_eq!(left.groups.len(), LEFT_MAX);
        for (id, kept) in [(0, false), (1, true), (7, true), (LEFT_MAX as u8, true)] {
            left.ask(&rekey(id, 0), &public(0));
            let due = left.due(Round(REACTION_ROUNDS * (2 + u64::from(id))), &key(1));
            assert_eq!(!due.is_empty(), kept, "{id}");
        }
    }
}
