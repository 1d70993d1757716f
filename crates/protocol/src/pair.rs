//! A conversation of two: the key exchange through the rounds themselves, then texts.
//!
//! ```text
//! epoch 0   chain (direction) = HKDF-Expand(invitation secret, "sotto v1 pair epoch 0 chain" | 0 | direction)
//! epoch 1   root = HKDF-Expand( HKDF-Extract("sotto v1 pair epoch 1 root", invitation secret | X25519 secret),
//!                               "sotto v1 pair epoch 1 root" | 0 | keys of the inviter | keys of the invited )
//!           chain (direction) = HKDF-Expand(root, "sotto v1 pair epoch 1 chain" | 0 | direction)
//! keys      X25519 public key, 32 bytes | Ed25519 identity key, 32 bytes
//! mark      first 8 bytes of SHA-256("sotto v1 hello mark" | 0 | keys)
//! hello     own keys, 64 bytes | mark of the other's keys, 8 bytes; 0 without HAVE_KEY | signature, 64 bytes
//! signature Ed25519(identity key, "sotto v1 hello signature" | 0 | mark of the invitation, 8 bytes | direction, u8 | own keys)
//! direction 0 from the inviter, 1 from the invited
//! ```
//!
//! All chains start at the invitation's round, and are stepped to the present: the two need not agree on when to change
//! epochs. The signature proves that the identity key is the sender's own: a rekey of a group goes to whoever has a
//! member's key, and counts as that member's. Each side sends a hello on epoch 0 until it has the other's keys and knows that the other has its own, and
//! from then on everything on epoch 1. It listens to epoch 0 while it lacks the other's keys, then to both, and, once
//! anything has come on epoch 1, to that alone, erasing all that epoch 1 could be computed from. Until then what it sends
//! on epoch 1 asks for a sign ([`CONFIRM`]).
//!
//! Whoever bears the invitation first is the peer; a hello with other keys, or one that answers to other keys, means that
//! a second person bears it, and is reported and not heard.

use ed25519_dalek::{Signature, Signer, VerifyingKey};
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
const SIGNATURE_BYTES: usize = 64;

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

    pub(crate) fn make_room(&mut self, room: bool) {
        self.inbox.make_room(room);
    }

    /// # Errors
    /// As for [`Outbox::push`].
    pub(crate) fn queue(&mut self, kind: Kind, content: &[u8]) -> Result<u32, Error> {
        self.outbox.push(kind, content, PAIR_CONTENT)
    }

    /// Uses up the sending keys of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        self.inbox.begin(turn.round);
        self.outbox.begin(turn.round);
        let mut deposit = None;
        let mut listening = Vec::new();
        let established = self.established();
        if let Some(handshake) = &mut self.handshake {
            if let Some(key) = handshake.epoch_0.receive.take(turn.round) {
                listening.push(Listening { epoch: 0, member: 0, key: key.opening(0) });
            }
            if let Some(key) = handshake.epoch_0.send.take(turn.round)
                && turn.mine
                && !established
            {
                deposit = self.say_hello(turn, key.sealing(0));
            }
        }
        if let Some(chains) = &mut self.epoch_1 {
            if let Some(key) = chains.receive.take(turn.round) {
                listening.push(Listening { epoch: 1, member: 0, key: key.opening(0) });
            }
            if let Some(key) = chains.send.take(turn.round)
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
        let signature = turn.identity.sign(&self.signed(self.inviter, &self.keys)).to_bytes();
        let frame = Frame {
            kind: Kind::Hello,
            flags: if peer.is_some() { HAVE_KEY } else { 0 },
            sequence: 0,
            acknowledgement: 0,
            check: 0,
            round: turn.round,
            head: turn.head,
            content: Zeroizing::new([self.keys.encode().as_slice(), &mark, &signature].concat()),
        };
        frame.encode().ok().map(|plaintext| key.seal(&plaintext))
    }

    fn speak(&mut self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let confirm = if self.handshake.is_some() { CONFIRM } else { 0 };
        let owed = self.inbox.owed();
        let (acknowledgement, check) = self.inbox.acknowledgement();
        let (kind, flags, sequence, content) = match self.outbox.next(turn.round, owed) {
            Some(item) => (item.kind, item.flags, item.sequence, Zeroizing::new(item.content.clone())),
            None if owed || confirm != 0 => (Kind::Acknowledgement, 0, 0, Zeroizing::default()),
            None => return None,
        };
        let frame = Frame {
            kind,
            flags: flags | confirm,
            sequence,
            acknowledgement,
            check,
            round: turn.round,
            head: turn.head,
            content,
        };
        let plaintext = frame.encode().ok()?;
        self.inbox.settle();
        Some(key.seal(&plaintext))
    }

    /// Takes what was found in a box of `epoch`; `next` is the first round not opened, and `held` are the identity keys of
    /// other contacts, under which nobody else is heard.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest peer writes that.
    pub(crate) fn receive(
        &mut self,
        epoch: u32,
        plaintext: &Plaintext,
        round: Round,
        next: Round,
        held: &[[u8; 32]],
    ) -> Result<(Vec<Event>, Option<Head>), Error> {
        let frame = Frame::decode(plaintext, round)?;
        let established = self.established();
        let mut events = match (epoch, frame.kind) {
            (0, Kind::Hello) => self.receive_hello(&frame, next, held)?,
            (1, Kind::Text | Kind::Rekey | Kind::Acknowledgement) => self.receive_message(&frame),
            _ => return Err(Error::Malformed("message")),
        };
        if self.established() && !established {
            events.insert(0, Event::Established);
        }
        Ok((events, frame.head))
    }

    fn receive_hello(&mut self, frame: &Frame, next: Round, held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
        let Hello { keys, mark, signature } = Hello::decode(&frame.content)?;
        let Some(handshake) = &self.handshake else { return Ok(Vec::new()) };
        // Strictly, which also refuses keys of small order.
        let signed = self.signed(!self.inviter, &keys);
        let proven = VerifyingKey::from_bytes(&keys.identity)
            .is_ok_and(|key| key.verify_strict(&signed, &Signature::from_bytes(&signature)).is_ok());
        if !proven {
            return Err(Error::Malformed("message"));
        }
        let has_mine = frame.flags & HAVE_KEY != 0;
        if has_mine && mark != self.keys.mark() {
            return Ok(vec![Event::OtherKeys]);
        }
        match self.peer {
            Some(known) if known != keys => return Ok(vec![Event::OtherKeys]),
            Some(_) => {}
            None if keys.identity == self.keys.identity || held.contains(&keys.identity) => {
                return Ok(vec![Event::IdentityHeld]);
            }
            None => {
                let exchange = StaticSecret::from(*handshake.exchange.bytes());
                let shared = exchange.diffie_hellman(&PublicKey::from(keys.exchange));
                if !shared.was_contributory() {
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

    /// What a side signs: this conversation and its own keys.
    fn signed(&self, by_inviter: bool, keys: &Keys) -> Vec<u8> {
        let direction = u8::from(!by_inviter);
        [domain::HELLO_SIGNATURE.as_bytes(), &[0], &self.mark, &[direction], &keys.encode()].concat()
    }

    fn receive_message(&mut self, frame: &Frame) -> Vec<Event> {
        self.handshake = None;
        self.peer_has_mine = true;
        let mut events = Vec::new();
        if self.outbox.compare(frame.acknowledgement, frame.check).is_err() {
            events.push(Event::WentBack);
        }
        events.extend(self.outbox.acknowledge(frame.acknowledgement).into_iter().map(Event::Acknowledged));
        if frame.flags & CONFIRM != 0 {
            self.inbox.owe();
        }
        if frame.kind.is_numbered() {
            let item = Item::received(frame.sequence, frame.kind, frame.flags, &frame.content);
            let (delivered, in_order) = self.inbox.accept(item);
            if in_order.is_err() {
                events.push(Event::WentBack);
            }
            events.extend(delivered.into_iter().map(|whole| Event::Delivered { member: 0, whole }));
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

struct Hello {
    keys: Keys,
    mark: [u8; MARK_BYTES],
    signature: [u8; SIGNATURE_BYTES],
}

impl Hello {
    /// # Errors
    /// [`Error::Malformed`] for another size.
    fn decode(content: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; KEYS_BYTES + MARK_BYTES + SIGNATURE_BYTES] =
            content.try_into().map_err(|_| Error::Malformed("message"))?;
        let exchange = core::array::from_fn(|i| bytes[i]);
        let identity = core::array::from_fn(|i| bytes[32 + i]);
        Ok(Self {
            keys: Keys { exchange, identity },
            mark: core::array::from_fn(|i| bytes[KEYS_BYTES + i]),
            signature: core::array::from_fn(|i| bytes[KEYS_BYTES + MARK_BYTES + i]),
        })
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};
    use zeroize::Zeroizing;

    use super::{Handshake, Keys, Pair};
    use crate::conversation::{Event, Turn};
    use crate::invitation::Invitation;
    use crate::message::{Frame, HAVE_KEY, Kind};
    use crate::secret::Secret;
    use crate::{Error, Round, UnixMillis};

    fn key(number: u8) -> SigningKey {
        SigningKey::from_bytes(&[number; 32])
    }

    /// A hello of these keys, signed by that person.
    fn signed(by: &Pair, keys: &Keys, mark: [u8; 8], number: u8) -> Vec<u8> {
        let signature = key(number).sign(&by.signed(by.inviter, keys)).to_bytes();
        [keys.encode().as_slice(), &mark, &signature].concat()
    }

    fn pair(inviter: bool, number: u8) -> Pair {
        let secret = Secret::new([7; 32]);
        let invitation = Invitation { server: [0; 8], secret, start: Round(1), time: UnixMillis(0) };
        let identity = key(number).verifying_key().to_bytes();
        Pair::new(inviter, &invitation, Secret::new([number; 32]), identity, Round(1)).unwrap()
    }

    fn hello(content: Vec<u8>, flags: u8) -> Frame {
        let content = Zeroizing::new(content);
        let (kind, round) = (Kind::Hello, Round(1));
        Frame { kind, flags, sequence: 0, acknowledgement: 0, check: 0, round, head: None, content }
    }

    fn receive(pair: &mut Pair, epoch: u32, frame: &Frame) -> Result<Vec<Event>, Error> {
        pair.receive(epoch, &frame.encode().unwrap(), Round(1), Round(2), &[[8; 32]])
            .map(|(events, _)| events)
    }

    /// With a point of low order the other side, or anybody, would choose the secret.
    #[test]
    fn keys_that_contribute_nothing_are_refused() {
        let mut alice = pair(true, 1);
        let bob = pair(false, 2);
        let low_order = signed(&bob, &Keys { exchange: [0; 32], ..bob.keys }, [0; 8], 2);
        // Under a weak key a signature of zeros with that key as commitment would hold for anything.
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut weak = signed(&bob, &Keys { identity, ..bob.keys }, [0; 8], 2);
        weak[72..].fill(0);
        weak[72] = 1;
        for content in [low_order, weak] {
            assert!(receive(&mut alice, 0, &hello(content, 0)).is_err());
            assert!(alice.epoch_1.is_none() && alice.peer.is_none());
        }
        assert!(receive(&mut alice, 0, &hello(signed(&bob, &bob.keys, [0; 8], 2), 0)).is_ok());
        assert!(alice.epoch_1.is_some());
    }

    /// Who posed as somebody else would get that person's rekeys, and could send some.
    #[test]
    fn an_identity_that_is_claimed_and_not_proven_is_refused() {
        let mut alice = pair(true, 1);
        let mallory = pair(false, 2);
        let carol = key(3).verifying_key().to_bytes();
        let claimed = Keys { identity: carol, ..mallory.keys };
        // Neither by a signature of mallory's own, nor by one of carol's for other keys, for the other direction or for
        // another invitation.
        let mut elsewhere = pair(false, 2);
        elsewhere.mark = [9; 8];
        for mut content in [
            signed(&mallory, &claimed, [0; 8], 2),
            signed(&mallory, &pair(false, 3).keys, [0; 8], 3),
            signed(&pair(true, 2), &claimed, [0; 8], 3),
            signed(&elsewhere, &claimed, [0; 8], 3),
        ] {
            content[..64].copy_from_slice(&claimed.encode());
            assert_eq!(receive(&mut alice, 0, &hello(content, 0)).err(), Some(Error::Malformed("message")));
            assert!(alice.peer.is_none());
        }
        assert!(receive(&mut alice, 0, &hello(signed(&mallory, &claimed, [0; 8], 3), 0)).is_ok());
        assert_eq!(alice.peer_identity(), Some(carol));
    }

    #[test]
    fn an_identity_of_ones_own_or_of_another_contact_is_not_taken() {
        let mut alice = pair(true, 1);
        let reflected = pair(false, 1);
        let events =
            receive(&mut alice, 0, &hello(signed(&reflected, &reflected.keys, [0; 8], 1), 0)).unwrap();
        assert!(matches!(events[..], [Event::IdentityHeld]) && alice.peer.is_none());
        let bob = pair(false, 2);
        let frame = hello(signed(&bob, &bob.keys, [0; 8], 2), 0).encode().unwrap();
        let (events, _) = alice.receive(0, &frame, Round(1), Round(2), &[bob.keys.identity]).unwrap();
        assert!(matches!(events[..], [Event::IdentityHeld]) && alice.peer.is_none());
    }

    #[test]
    fn a_hello_that_answers_to_somebody_else_establishes_nothing() {
        let (mut bob, alice) = (pair(false, 2), pair(true, 1));
        let answer = signed(&alice, &alice.keys, pair(false, 3).keys.mark(), 1);
        let events = receive(&mut bob, 0, &hello(answer, HAVE_KEY)).unwrap();
        assert!(matches!(events[..], [Event::OtherKeys]) && bob.peer.is_none());
        let answer = signed(&alice, &alice.keys, bob.keys.mark(), 1);
        let events = receive(&mut bob, 0, &hello(answer, HAVE_KEY)).unwrap();
        assert!(matches!(events[..], [Event::Established]));
    }

    /// An invitation that leaks early gives epoch 0 away, and texts must not be readable there.
    #[test]
    fn nothing_but_hellos_is_taken_on_epoch_0_and_no_hello_on_epoch_1() {
        let mut bob = pair(false, 2);
        let text = Frame { kind: Kind::Text, sequence: 1, ..hello(b"hi".to_vec(), 0) };
        assert!(receive(&mut bob, 0, &text).is_err());
        let alice = pair(true, 1);
        let keys = signed(&alice, &alice.keys, [0; 8], 1);
        assert!(receive(&mut bob, 1, &hello(keys, 0)).is_err());
    }

    #[test]
    fn the_invitation_is_erased_with_all_that_came_of_it_when_epoch_1_works() {
        let identities = [key(1), key(2)];
        let (mut alice, mut bob) = (pair(true, 1), pair(false, 2));
        let holds = |pair: &Pair, secret: &[u8; 32]| {
            postcard::to_allocvec(pair).unwrap().windows(32).any(|window| window == secret)
        };
        for round in 1..8 {
            let [ref hers, ref his] = identities;
            let turn = |identity| Turn { round: Round(round), mine: true, head: None, identity };
            let ((to_bob, alice_listens), (to_alice, bob_listens)) =
                (alice.open_round(&turn(hers)), bob.open_round(&turn(his)));
            for (pair, sent, listens) in
                [(&mut alice, to_alice, alice_listens), (&mut bob, to_bob, bob_listens)]
            {
                for listening in listens {
                    let sent = sent.as_ref().filter(|sent| sent.label == listening.key.label());
                    if let Some(plaintext) = sent.and_then(|sent| listening.key.open(&sent.sealed.0)) {
                        let next = Round(round + 1);
                        assert!(pair.receive(listening.epoch, &plaintext, Round(round), next, &[]).is_ok());
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
