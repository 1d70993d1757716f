//! A conversation of two as states of version 2 hold it.

use serde::Deserialize;

use super::{Chains, Pair, Stage};
use crate::Round;
use crate::pair::handshake::Keys;
use crate::secret::Secret;
use crate::stream::{Inbox2, Outbox2};

#[derive(Deserialize)]
pub(crate) struct Pair2 {
    inviter: bool,
    _mark: [u8; 8],
    _start: Round,
    _keys: Keys,
    _handshake: Option<Handshake2>,
    peer: Option<Keys>,
    peer_has_mine: bool,
    epoch_1: Option<Chains>,
    outbox: Outbox2,
    inbox: Inbox2,
}

#[derive(Deserialize)]
struct Handshake2 {
    _invitation: Secret,
    _exchange: Secret,
    _epoch_0: Chains,
}

/// One that had not begun: its invitation is none any more.
pub(crate) struct Unfinished {
    pub(crate) accepted: bool,
    pub(crate) texts: u32,
}

impl TryFrom<Pair2> for Pair {
    type Error = Unfinished;

    /// The keys go on as they are, if both had them.
    fn try_from(old: Pair2) -> Result<Self, Unfinished> {
        let Pair2 { inviter, peer, peer_has_mine, epoch_1, outbox, inbox, .. } = old;
        match (peer, epoch_1) {
            (Some(peer), Some(chains)) if peer_has_mine => Ok(Self {
                inviter,
                peer: Some(peer.identity),
                chains: Some(chains),
                outbox: outbox.into(),
                inbox: inbox.into(),
                stage: Stage::Classical,
                double: false,
            }),
            _ => Err(Unfinished { accepted: !inviter, texts: outbox.texts() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chains, Keys, Pair, Pair2};
    use crate::Round;
    use crate::secret::Secret;

    /// With one text that waits.
    fn pair(inviter: bool, [has_peer, has_chains, peer_has_mine]: [bool; 3]) -> Pair2 {
        let sent: Option<(u64, Round)> = None;
        let outbox = (1_u32, 0_u64, vec![(1_u32, crate::message::Kind::Text, 0_u8, b"hi".to_vec(), sent)]);
        let keys = || Keys { exchange: [1; 32], identity: [2; 32] };
        let chains = || Chains::new(&Secret::new([3; 32]), Round(1), Round(1), inviter).unwrap();
        Pair2 {
            inviter,
            _mark: [0; 8],
            _start: Round(1),
            _keys: keys(),
            _handshake: None,
            peer: has_peer.then(keys),
            peer_has_mine,
            epoch_1: has_chains.then(chains),
            outbox: postcard::from_bytes(&postcard::to_allocvec(&outbox).unwrap()).unwrap(),
            inbox: postcard::from_bytes(&[0; 5]).unwrap(),
        }
    }

    /// Who had not met has no keys that both know: it would talk to nobody, and the person must be told of what.
    #[test]
    fn those_who_had_met_go_on_and_others_end() {
        for inviter in [true, false] {
            let met = Pair::try_from(pair(inviter, [true; 3])).ok().unwrap();
            assert!(met.established() && met.is_settled() && met.is_inviter() == inviter);
            assert_eq!((met.peer_identity(), met.outbox().texts()), (Some([2; 32]), 1));
            for unmet in [[false, true, true], [true, false, true], [true, true, false]] {
                let unfinished = Pair::try_from(pair(inviter, unmet)).err().unwrap();
                assert_eq!((unfinished.accepted, unfinished.texts), (!inviter, 1));
            }
        }
    }
}
