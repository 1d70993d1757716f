//! A group as states of version 2 hold it.

use serde::Deserialize;

use super::keys::bits;
use super::{Group, Peer};
use crate::Round;
use crate::ratchet::Chain;
use crate::secret::Secret;
use crate::stream::{Inbox2, Outbox2};

#[derive(Deserialize)]
pub(crate) struct Group2 {
    id: [u8; 16],
    epoch: u32,
    base: Secret,
    _previous: Option<Replaced2>,
    _early: Vec<Early2>,
    me: u8,
    members: Vec<Peer2>,
    send: Chain,
    outbox: Outbox2,
    leaving: Option<u8>,
}

#[derive(Deserialize)]
struct Replaced2 {
    _base: Secret,
    _author: u8,
    _removed: u8,
}

#[derive(Deserialize)]
struct Early2 {
    _author: u8,
    _group: [u8; 16],
    _epoch: u32,
    _start: Round,
    _removed: u8,
    _fresh: Secret,
}

#[derive(Deserialize)]
struct Peer2 {
    name: String,
    identity: [u8; 32],
    present: bool,
    chain: Option<Chain>,
    inbox: Inbox2,
    acknowledged: u32,
}

impl Group2 {
    /// The group with its keys, as of a round; `None` if this client was leaving it.
    pub(crate) fn resume(self, round: Round) -> Option<Group> {
        if self.leaving.is_some() {
            return None;
        }
        let gone = (0..).zip(&self.members).filter(|(_, peer)| !peer.present);
        let excluded = bits(gone.map(|(number, _)| number));
        let peer = |old: Peer2| Peer {
            name: old.name,
            identity: old.identity,
            present: old.present,
            chain: old.chain,
            inbox: old.inbox.into(),
            acknowledged: old.acknowledged,
            heard: None,
            farewell: Vec::new(),
        };
        Some(Group {
            id: self.id,
            epoch: self.epoch,
            base: self.base,
            me: self.me,
            members: self.members.into_iter().map(peer).collect(),
            send: self.send,
            outbox: self.outbox.into(),
            leaving: None,
            excluded,
            start: round,
            change: None,
            offer: None,
            taken: None,
            removing: 0,
            block: 0,
            announcing: true,
            strange: false,
            turns: 0,
            refused: false,
            names_told: false,
            ended: false,
            news: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Chain, Group2, Peer2};
    use crate::Round;
    use crate::secret::Secret;

    fn group(leaving: Option<u8>) -> Group2 {
        let peer = |(number, present)| Peer2 {
            name: format!("member {number}"),
            identity: [number; 32],
            present,
            chain: None,
            inbox: postcard::from_bytes(&[0; 5]).unwrap(),
            acknowledged: 0,
        };
        Group2 {
            id: [4; 16],
            epoch: 3,
            base: Secret::new([5; 32]),
            _previous: None,
            _early: Vec::new(),
            me: 0,
            members: (0..).zip([true, false, true]).map(peer).collect(),
            send: Chain::new(Round(1), Secret::new([6; 32])),
            outbox: postcard::from_bytes(&[0; 3]).unwrap(),
            leaving,
        }
    }

    /// Who had gone must not be given keys, nor be waited for, and who has them must not be taken for gone.
    #[test]
    fn a_group_goes_on_with_those_who_were_present() {
        let group2 = group(None).resume(Round(9)).unwrap();
        assert_eq!((group2.excluded, group2.excluded_next(), group2.start), (0b010, 0b010, Round(9)));
        assert_eq!(group2.members().map(|member| member.present).collect::<Vec<_>>(), [true, false, true]);
        assert!(!group2.is_on_card() && group2.announcing && !group2.has_left());
        assert!(group(Some(3)).resume(Round(9)).is_none(), "it was about to leave");
    }
}
