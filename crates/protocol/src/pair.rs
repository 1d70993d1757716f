//! A conversation of two: the key exchange through the rounds themselves, then texts.
//!
//! ```text
//! epoch 0   chain (direction) = HKDF-Expand(invitation secret, "sotto v1 pair epoch 0 chain" | 0 | direction)
//! epoch 1   root = HKDF-Expand( HKDF-Extract("sotto v1 pair epoch 1 root", invitation secret | X25519 secret),
//!                               "sotto v1 pair epoch 1 root" | 0 | keys of the inviter | keys of the invited )
//!           chain (direction) = HKDF-Expand(root, "sotto v1 pair epoch 1 chain" | 0 | direction)
//! keys      X25519 public key, 32 bytes | Ed25519 identity key, 32 bytes
//! mark      first 8 bytes of SHA-256("sotto v1 hello mark" | 0 | keys)
//! hello     own keys, 64 bytes | mark of the other's keys, 8 bytes; 0 without HAVE_KEY
//! direction 0 from the inviter, 1 from the invited
//! ```
//!
//! All chains start at the invitation's round, and are stepped to the present: the two need not agree on when to change
//! epochs. Each side sends a hello on epoch 0 until it has the other's keys and knows that the other has its own, and
//! from then on everything on epoch 1. It listens to epoch 0 while it lacks the other's keys, then to both, and, once
//! anything has come on epoch 1, to that alone, erasing all that epoch 1 could be computed from. Until then what it sends
//! on epoch 1 asks for a sign ([`CONFIRM`]).
//!
//! Whoever bears the invitation first is the peer; a hello with other keys, or one that answers to other keys, means that
//! a second person bears it, and is reported and not heard.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::conversation::{Event, Listening, Turn};
use crate::invitation::Invitation;
use crate::message::{CONFIRM, Frame, HAVE_KEY, Head, Kind, PAIR_CONTENT};
use crate::ratchet::Chain;
use crate::seal::{Plaintext, SealingKey};
use crate::secret::Secret;
use crate::stream::{Inbox, Item, Outbox};
use crate::{Deposit, Error, Round, domain};

const KEYS_BYTES: usize = 64;
const MARK_BYTES: usize = 8;

/// One side of a conversation of two.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pair {
    inviter: bool,
    mark: [u8; 8],
    start: Round,
    keys: Keys,
    /// While nothing has come on epoch 1.
    handshake: Option<Handshake>,
    peer: Option<Keys>,
    peer_has_mine: bool,
    /// As soon as the peer's keys are known.
    epoch_1: Option<Chains>,
    outbox: Outbox,
    inbox: Inbox,
}

#[derive(Serialize, Deserialize)]
struct Handshake {
    invitation: Secret,
    exchange: Secret,
    epoch_0: Chains,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Keys {
    exchange: [u8; 32],
    identity: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct Chains {
    send: Chain,
    receive: Chain,
}

impl Chains {
    fn new(root: &Secret, domain: &str, start: Round, inviter: bool) -> Self {
        let chain = |direction: u8| Chain::new(start, root.expand(domain, &[&[direction]]));
        let (mine, theirs) = if inviter { (0, 1) } else { (1, 0) };
        Self { send: chain(mine), receive: chain(theirs) }
    }

    fn advance(&mut self, round: Round) -> Result<(), Error> {
        self.send.advance(round)?;
        self.receive.advance(round)
    }
}

impl Pair {
    /// `exchange` is a fresh secret of this conversation, `next` the first round that can be used.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if the invitation is too old.
    pub(crate) fn new(
        inviter: bool,
        invitation: &Invitation,
        exchange: Secret,
        identity: [u8; 32],
        next: Round,
    ) -> Result<Self, Error> {
        let public = PublicKey::from(&StaticSecret::from(*exchange.bytes()));
        let mut epoch_0 = Chains::new(&invitation.secret, domain::PAIR_EPOCH_0, invitation.start, inviter);
        epoch_0.advance(next)?;
        Ok(Self {
            inviter,
            mark: mark(invitation),
            start: invitation.start,
            keys: Keys { exchange: public.to_bytes(), identity },
            handshake: Some(Handshake { invitation: invitation.secret.clone(), exchange, epoch_0 }),
            peer: None,
            peer_has_mine: false,
            epoch_1: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
        })
    }

    /// Whether texts can be sent.
    pub(crate) fn established(&self) -> bool {
        self.peer_has_mine && self.epoch_1.is_some()
    }

    /// Whether it began with this invitation.
    pub(crate) fn began_with(&self, invitation: &Invitation) -> bool {
        self.mark == mark(invitation)
    }

    /// Whether there is but one box to look for in a round, now and later.
    pub(crate) fn is_settled(&self) -> bool {
        self.handshake.is_none()
    }

    /// The other's identity key, once it has come.
    pub(crate) fn peer_identity(&self) -> Option<[u8; 32]> {
        self.peer.map(|peer| peer.identity)
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// # Errors
    /// As for [`Outbox::push`].
    pub(crate) fn queue(&mut self, kind: Kind, content: &[u8]) -> Result<u32, Error> {
        self.outbox.push(kind, content, PAIR_CONTENT)
    }

    /// Uses up the sending keys of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        let mut deposit = None;
        let mut listening = Vec::new();
        let established = self.established();
        if let Some(handshake) = &mut self.handshake {
            if let Ok(Some(key)) = handshake.epoch_0.receive.take(turn.round) {
                listening.push(Listening { epoch: 0, member: 0, key: key.opening(0) });
            }
            if let Ok(Some(key)) = handshake.epoch_0.send.take(turn.round)
                && turn.mine
                && !established
            {
                deposit = self.say_hello(turn, key.sealing(0));
            }
        }
        if let Some(chains) = &mut self.epoch_1 {
            if let Ok(Some(key)) = chains.receive.take(turn.round) {
                listening.push(Listening { epoch: 1, member: 0, key: key.opening(0) });
            }
            if let Ok(Some(key)) = chains.send.take(turn.round)
                && turn.mine
                && established
            {
                deposit = self.speak(turn, key.sealing(0));
            }
        }
        (deposit, listening)
    }

    fn say_hello(&self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let peer = self.peer.filter(|_| self.epoch_1.is_some());
        let mark = peer.map_or([0; MARK_BYTES], |peer| peer.mark());
        let frame = Frame {
            kind: Kind::Hello,
            flags: if peer.is_some() { HAVE_KEY } else { 0 },
            sequence: 0,
            acknowledgement: 0,
            round: turn.round,
            head: turn.head,
            content: Zeroizing::new([self.keys.encode().as_slice(), &mark].concat()),
        };
        frame.encode().ok().map(|plaintext| key.seal(&plaintext))
    }

    fn speak(&mut self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let confirm = if self.handshake.is_some() { CONFIRM } else { 0 };
        let owed = self.inbox.owed();
        let (kind, flags, sequence, content) = match self.outbox.next(turn.round, owed) {
            Some(item) => (item.kind, item.flags, item.sequence, item.content.clone()),
            None if owed || confirm != 0 => (Kind::Acknowledgement, 0, 0, Vec::new()),
            None => return None,
        };
        let frame = Frame {
            kind,
            flags: flags | confirm,
            sequence,
            acknowledgement: self.inbox.complete(),
            round: turn.round,
            head: turn.head,
            content: Zeroizing::new(content),
        };
        let plaintext = frame.encode().ok()?;
        self.inbox.settle();
        Some(key.seal(&plaintext))
    }

    /// Takes what was found in a box of `epoch`; `next` is the first round not opened.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest peer writes that.
    pub(crate) fn receive(
        &mut self,
        epoch: u32,
        plaintext: &Plaintext,
        round: Round,
        next: Round,
    ) -> Result<(Vec<Event>, Option<Head>), Error> {
        let frame = Frame::decode(plaintext, round)?;
        let established = self.established();
        let mut events = match (epoch, frame.kind) {
            (0, Kind::Hello) => self.receive_hello(&frame, next)?,
            (1, Kind::Text | Kind::Rekey | Kind::Acknowledgement) => self.receive_message(&frame),
            _ => return Err(Error::Malformed("message")),
        };
        if self.established() && !established {
            events.insert(0, Event::Established);
        }
        Ok((events, frame.head))
    }

    fn receive_hello(&mut self, frame: &Frame, next: Round) -> Result<Vec<Event>, Error> {
        let (keys, mark) = decode_hello(&frame.content)?;
        let Some(handshake) = &self.handshake else { return Ok(Vec::new()) };
        let has_mine = frame.flags & HAVE_KEY != 0;
        if has_mine && mark != self.keys.mark() {
            return Ok(vec![Event::OtherKeys]);
        }
        match self.peer {
            Some(known) if known != keys => return Ok(vec![Event::OtherKeys]),
            Some(_) => {}
            None => {
                let exchange = StaticSecret::from(*handshake.exchange.bytes());
                let shared = exchange.diffie_hellman(&PublicKey::from(keys.exchange));
                let identity = VerifyingKey::from_bytes(&keys.identity);
                if !shared.was_contributory() || identity.map_or(true, |key| key.is_weak()) {
                    return Err(Error::Malformed("message"));
                }
                let root = root(&handshake.invitation, &Secret::new(shared.to_bytes()));
                let (inviter, invited) = if self.inviter { (self.keys, keys) } else { (keys, self.keys) };
                let root = root.expand(domain::PAIR_EPOCH_1, &[&inviter.encode(), &invited.encode()]);
                let mut chains = Chains::new(&root, domain::PAIR_EPOCH_1_CHAIN, self.start, self.inviter);
                chains.advance(next)?;
                self.epoch_1 = Some(chains);
                self.peer = Some(keys);
            }
        }
        self.peer_has_mine |= has_mine;
        Ok(Vec::new())
    }

    fn receive_message(&mut self, frame: &Frame) -> Vec<Event> {
        self.handshake = None;
        self.peer_has_mine = true;
        let mut events: Vec<Event> =
            self.outbox.acknowledge(frame.acknowledgement).into_iter().map(Event::Acknowledged).collect();
        if frame.flags & CONFIRM != 0 {
            self.inbox.owe();
        }
        if frame.kind.is_numbered() {
            let item = Item::received(frame.sequence, frame.kind, frame.flags, &frame.content);
            events.extend(
                self.inbox.accept(item).into_iter().map(|whole| Event::Delivered { member: 0, whole }),
            );
        }
        events
    }
}

/// One-way, so that it can stay when the secret is erased.
fn mark(invitation: &Invitation) -> [u8; 8] {
    let mut mark = [0; 8];
    invitation.secret.expand_into(domain::INVITATION_MARK, &[], &mut mark);
    mark
}

fn root(invitation: &Secret, shared: &Secret) -> Secret {
    Secret::extract(domain::PAIR_EPOCH_1, [invitation, shared])
}

impl Keys {
    fn encode(&self) -> [u8; KEYS_BYTES] {
        let mut bytes = [0; KEYS_BYTES];
        let (exchange, identity) = bytes.split_at_mut(32);
        exchange.copy_from_slice(&self.exchange);
        identity.copy_from_slice(&self.identity);
        bytes
    }

    fn mark(&self) -> [u8; MARK_BYTES] {
        let digest: [u8; 32] = Sha256::new_with_prefix(domain::HELLO_MARK)
            .chain_update([0])
            .chain_update(self.encode())
            .finalize()
            .into();
        core::array::from_fn(|i| digest[i])
    }
}

fn decode_hello(content: &[u8]) -> Result<(Keys, [u8; MARK_BYTES]), Error> {
    let bytes: &[u8; KEYS_BYTES + MARK_BYTES] =
        content.try_into().map_err(|_| Error::Malformed("message"))?;
    let exchange = core::array::from_fn(|i| bytes[i]);
    let identity = core::array::from_fn(|i| bytes[32 + i]);
    Ok((Keys { exchange, identity }, core::array::from_fn(|i| bytes[KEYS_BYTES + i])))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use zeroize::Zeroizing;

    use super::{Handshake, Pair};
    use crate::conversation::{Event, Turn};
    use crate::invitation::Invitation;
    use crate::message::{Frame, HAVE_KEY, Kind};
    use crate::secret::Secret;
    use crate::{Error, Round, UnixMillis};

    fn pair(inviter: bool, number: u8) -> Pair {
        let secret = Secret::new([7; 32]);
        let invitation = Invitation { server: [0; 8], secret, start: Round(1), time: UnixMillis(0) };
        let identity = SigningKey::from_bytes(&[number; 32]).verifying_key().to_bytes();
        Pair::new(inviter, &invitation, Secret::new([number; 32]), identity, Round(1)).unwrap()
    }

    fn hello(content: Vec<u8>, flags: u8) -> Frame {
        let content = Zeroizing::new(content);
        let (kind, round) = (Kind::Hello, Round(1));
        Frame { kind, flags, sequence: 0, acknowledgement: 0, round, head: None, content }
    }

    fn receive(pair: &mut Pair, epoch: u32, frame: &Frame) -> Result<Vec<Event>, Error> {
        pair.receive(epoch, &frame.encode().unwrap(), Round(1), Round(2)).map(|(events, _)| events)
    }

    /// With a point of low order the other side, or anybody, would choose the secret.
    #[test]
    fn keys_that_contribute_nothing_are_refused() {
        let mut alice = pair(true, 1);
        let honest = pair(false, 2).keys.encode();
        let mut low_order = honest;
        low_order[..32].fill(0);
        let mut weak = honest;
        weak[32..].fill(0);
        weak[32] = 1;
        for keys in [low_order, weak] {
            assert!(receive(&mut alice, 0, &hello([keys.as_slice(), &[0; 8]].concat(), 0)).is_err());
            assert!(alice.epoch_1.is_none() && alice.peer.is_none());
        }
        assert!(receive(&mut alice, 0, &hello([honest.as_slice(), &[0; 8]].concat(), 0)).is_ok());
        assert!(alice.epoch_1.is_some());
    }

    #[test]
    fn a_hello_that_answers_to_somebody_else_establishes_nothing() {
        let (mut bob, alice) = (pair(false, 2), pair(true, 1));
        let answer = [alice.keys.encode().as_slice(), &pair(false, 3).keys.mark()].concat();
        let events = receive(&mut bob, 0, &hello(answer, HAVE_KEY)).unwrap();
        assert!(matches!(events[..], [Event::OtherKeys]) && bob.peer.is_none());
        let answer = [alice.keys.encode().as_slice(), &bob.keys.mark()].concat();
        let events = receive(&mut bob, 0, &hello(answer, HAVE_KEY)).unwrap();
        assert!(matches!(events[..], [Event::Established]));
    }

    /// An invitation that leaks early gives epoch 0 away, and texts must not be readable there.
    #[test]
    fn nothing_but_hellos_is_taken_on_epoch_0_and_no_hello_on_epoch_1() {
        let mut bob = pair(false, 2);
        let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi".to_vec(), 0) };
        assert!(receive(&mut bob, 0, &text).is_err());
        let keys = [pair(true, 1).keys.encode().as_slice(), &[0; 8]].concat();
        assert!(receive(&mut bob, 1, &hello(keys, 0)).is_err());
    }

    #[test]
    fn the_invitation_is_erased_with_all_that_came_of_it_when_epoch_1_works() {
        let identity = SigningKey::from_bytes(&[9; 32]);
        let (mut alice, mut bob) = (pair(true, 1), pair(false, 2));
        let holds = |pair: &Pair, secret: &[u8; 32]| {
            postcard::to_allocvec(pair).unwrap().windows(32).any(|window| window == secret)
        };
        for round in 1..8 {
            let turn = Turn { round: Round(round), mine: true, head: None, identity: &identity };
            let ((to_bob, alice_listens), (to_alice, bob_listens)) =
                (alice.open_round(&turn), bob.open_round(&turn));
            for (pair, sent, listens) in
                [(&mut alice, to_alice, alice_listens), (&mut bob, to_bob, bob_listens)]
            {
                for listening in listens {
                    let sent = sent.as_ref().filter(|sent| sent.label == listening.key.label());
                    if let Some(plaintext) = sent.and_then(|sent| listening.key.open(&sent.sealed.0)) {
                        let next = Round(round + 1);
                        assert!(pair.receive(listening.epoch, &plaintext, Round(round), next).is_ok());
                    }
                }
            }
            let waiting = alice.handshake.as_ref().map(|Handshake { invitation, .. }| invitation.bytes());
            assert_eq!(holds(&alice, &[7; 32]), waiting.is_some());
        }
        for (pair, exchange) in [(&alice, [1; 32]), (&bob, [2; 32])] {
            assert!(pair.established() && pair.handshake.is_none());
            assert!(!holds(pair, &[7; 32]) && !holds(pair, &exchange));
        }
    }
}
