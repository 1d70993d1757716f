//! A conversation of two as states of versions 3 to 7 hold it: its keys follow from X25519 alone.

use serde::Deserialize;

use super::{Chains, Handshake, Pair, Says};
use crate::invitation::InvitationMark;
use crate::pair::handshake::Keys;
use crate::ratchet::Chain;
use crate::secret::Secret;
use crate::stream::{Inbox, Outbox};
use crate::{Round, UnixMillis};

#[derive(Deserialize)]
pub(crate) struct Pair7 {
    inviter: bool,
    peer: Option<[u8; 32]>,
    chains: Option<Chains>,
    outbox: Outbox,
    inbox: Inbox,
    handshake: Option<Handshake7>,
    double: bool,
}

#[derive(Deserialize)]
struct Handshake7 {
    mark: InvitationMark,
    start: Round,
    made: UnixMillis,
    expires: UnixMillis,
    inviter: Keys,
    waiting: Option<Waiting7>,
    _terms: Option<Terms7>,
    _request: Vec<u8>,
    _requests: Option<Chain>,
    confirmed: bool,
    _says: Says,
    block: u64,
}

#[derive(Deserialize)]
struct Waiting7 {
    _base: Secret,
    _exchange: Secret,
}

#[derive(Deserialize)]
struct Terms7 {
    _mark: InvitationMark,
    _inviter: Keys,
    _invited: Keys,
}

/// One that had not begun: its invitation is none any more.
pub(crate) struct Unfinished {
    pub(crate) accepted: bool,
    pub(crate) texts: u32,
}

impl Pair7 {
    /// Whether boxes under other keys than those of the conversation may have been looked for.
    pub(crate) fn meets(&self) -> bool {
        self.handshake.is_some()
    }
}

impl TryFrom<Pair7> for Pair {
    type Error = Unfinished;

    /// The keys go on as they are where the other may have them. So an inviter that had answered still listens, and says
    /// its answer no more: who has heard that goes on, and who has not is told, too, that it ends.
    fn try_from(old: Pair7) -> Result<Self, Unfinished> {
        let Pair7 { inviter, peer, chains, outbox, inbox, handshake, double } = old;
        let goes_on =
            handshake.as_ref().is_none_or(|old| if inviter { old.waiting.is_none() } else { old.confirmed });
        if !goes_on {
            let texts = u32::try_from(outbox.texts()).unwrap_or(u32::MAX);
            return Err(Unfinished { accepted: !inviter, texts });
        }
        // An invited one whose answer came last: the inviter may not know it.
        let unheard = !inviter && handshake.is_some();
        let handshake = handshake.map(Handshake::from);
        Ok(Self { inviter, peer, chains, outbox, inbox, handshake, double, hybrid: false, unheard })
    }
}

impl From<Handshake7> for Handshake {
    /// It says nothing more to the end of the block in which it was stored.
    fn from(old: Handshake7) -> Self {
        Self {
            mark: old.mark,
            start: old.start,
            made: old.made,
            expires: old.expires,
            inviter: old.inviter,
            waiting: None,
            answering: None,
            request: Vec::new(),
            asking: None,
            requests: None,
            answers: None,
            confirmed: old.confirmed,
            says: Says::Nothing,
            block: old.block,
            turns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::{Pair, Pair7};
    use crate::invitation::LIFE_MS;
    use crate::pair::handshake::Keys;
    use crate::pair::{Chains, Says};
    use crate::ratchet::Chain;
    use crate::secret::Secret;
    use crate::stream::{Inbox, Outbox};
    use crate::turn::Turn;
    use crate::{Round, UnixMillis};

    /// The bytes of one in the middle of a handshake, field by field as version 7 wrote them.
    fn stored(inviter: bool, waiting: bool, confirmed: bool) -> Vec<u8> {
        fn bytes(value: &impl Serialize) -> Vec<u8> {
            postcard::to_allocvec(value).unwrap()
        }
        let keys = Keys { exchange: [1; 32], identity: [2; 32] };
        let secret = |number: u8| Secret::new([number; 32]);
        let chains = (!waiting).then(|| Chains::new(&secret(9), Round(1), Round(1), inviter).unwrap());
        let peer = (confirmed || !waiting && inviter).then_some([2_u8; 32]);
        let (terms, says) = (([3_u8; 8], keys, keys), if inviter { Says::Answer } else { Says::Request });
        let (mark, start, made, expires) = ([3_u8; 8], Round(1), UnixMillis(5), UnixMillis(5 + LIFE_MS));
        let begun = (mark, start, made, expires, keys, waiting.then(|| (secret(4), secret(5))));
        let request: Vec<u8> = if inviter { Vec::new() } else { vec![6; 144] };
        let chain = Some(Chain::new(Round(1), secret(7)));
        let rest = ((!waiting).then_some(terms), request, chain, confirmed, says, 0_u64);
        let (outbox, inbox) = (Outbox::default(), Inbox::default());
        [bytes(&(inviter, peer, chains, outbox, inbox, 1_u8)), bytes(&begun), bytes(&rest), bytes(&false)]
            .concat()
    }

    fn read(inviter: bool, waiting: bool, confirmed: bool) -> Option<Pair> {
        let bytes = stored(inviter, waiting, confirmed);
        let (old, rest) = postcard::take_from_bytes::<Pair7>(&bytes).unwrap();
        assert!(rest.is_empty() && old.meets());
        Pair::try_from(old).ok()
    }

    /// Whose contact may have the keys would wait for ever, and whose has not would be waited for.
    #[test]
    fn a_handshake_ends_where_the_other_cannot_have_the_keys_and_goes_on_where_it_may() {
        assert!(read(true, true, false).is_none() && read(false, false, false).is_none());
        let identity = ed25519_dalek::SigningKey::from_bytes(&[1; 32]);
        for (inviter, confirmed) in [(true, false), (true, true), (false, true)] {
            let mut pair = read(inviter, false, confirmed).unwrap();
            assert!(!pair.is_hybrid() && pair.established() == confirmed);
            let mut open = |round: u64| {
                let turn =
                    Turn { round: Round(round), mine: true, slot: None, head: None, identity: &identity };
                let (deposit, listening) = pair.open_round(&turn);
                assert_eq!(listening.len(), 1);
                deposit.is_some()
            };
            assert!((1..8).all(|round| !open(round)));
            // Who cannot know whether the other has heard it gives a sign.
            assert_eq!(open(8), !inviter);
        }
    }

    /// Who goes on with this version while the other still runs the one before hears its answers to the end of the block in which
    /// that has heard a sign.
    #[test]
    fn attack_an_answer_of_a_version_before_is_no_reason_for_a_warning() {
        use crate::message::{Frame, Kind};
        let mut bob = read(false, false, true).unwrap();
        let answer = Frame {
            kind: Kind::Hello,
            flags: 0,
            sequence: 0,
            acknowledgement: 0,
            check: 0,
            before: 0,
            round: Round(1),
            head: None,
            content: zeroize::Zeroizing::new(vec![5; 64]),
        };
        let rounds = (Round(1), Round(2));
        let fresh = Secret::new([9; 32]);
        let taken = bob.receive(1, &answer.encode().unwrap(), rounds, &[], &fresh);
        assert!(taken.is_ok());
    }
}
