//! A conversation of two: the handshake through the rounds themselves, then texts.
//!
//! The invitation names the inviter: identity key, and an exchange key made for this invitation. So the invited one can
//! agree on a secret with the inviter before anything is sent, and there are two messages:
//!
//! - the *request*, from the invited one. Its labels follow from the invitation's secret alone, since the inviter must
//!   find it without knowing who comes; whom it is from is sealed under the agreed secret.
//! - the *answer*, from the inviter, under the keys of the conversation, which nobody has who finds the invitation later.
//!
//! Both carry a signature over the keys of both. The invited one sends its request in all of its turns until the answer
//! has come; the inviter is silent until a request has come, and then sends its answer until anything has come under the
//! keys of the conversation. Every answer makes its reader owe a sign. The invited one forgets the invitation and its
//! exchange secret as soon as it has accepted, the inviter as soon as a request has come; what stays is the chain of
//! requests, which is stepped like any other and tells no label of the past.
//!
//! What a side says changes where a block of rounds begins ([`crate::reaction`]).
//!
//! Whoever bears the invitation first is the peer; a request with another exchange key means that a second person bears
//! it, and is reported and not heard. Whoever turns out to be known already, or oneself, is answered like anybody else:
//! only the person is told, and nothing can be said in such a [`double`](Pair::is_double).

pub(crate) mod handshake;
mod version2;

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::error::{InputError, Malformed};
use crate::invitation::Invitation;
use crate::message::{Frame, Head, Kind, PAIR_CONTENT};
use crate::ratchet::Chain;
use crate::reaction::block;
use crate::seal::{Plaintext, SealingKey};
use crate::secret::Secret;
use crate::stream::{Inbox, Item, Outbox};
use crate::table::telling;
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Error, Round, UnixMillis, domain};
use handshake::{ANSWER_BYTES, Agreement, Keys, REQUEST_BYTES, Terms};
pub(crate) use version2::Pair2;

/// Keys of requests, as [`Listening::epoch`] names them.
const REQUESTS: u32 = 0;
/// Keys of the conversation.
const TALK: u32 = 1;
/// Added to these where not a box is looked for but the knock that tells in which slot it is, on a server with slots.
const KNOCK: u32 = 2;

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// One side of a conversation of two.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pair {
    inviter: bool,
    /// The peer's identity key, once it was proven.
    peer: Option<[u8; 32]>,
    /// As soon as the peer's keys are known.
    chains: Option<Chains>,
    outbox: Outbox,
    inbox: Inbox,
    /// Until both are sure of each other, and what is said shows it.
    handshake: Option<Handshake>,
    /// Whether the peer is this person, or one whom it has as a contact already.
    double: bool,
}

#[derive(Serialize, Deserialize)]
struct Handshake {
    mark: [u8; 8],
    start: Round,
    made: UnixMillis,
    expires: UnixMillis,
    inviter: Keys,
    /// What the inviter needs to read a request, until one has come.
    waiting: Option<Waiting>,
    /// The keys of both, once they are known.
    terms: Option<Terms>,
    /// The request of the invited one; empty with the inviter.
    request: Vec<u8>,
    /// Until it is neither spoken on nor listened to.
    requests: Option<Chain>,
    /// With the invited one, the answer has come; with the inviter, anything under the keys of the conversation.
    confirmed: bool,
    says: Says,
    /// The block of rounds in which it says that.
    block: u64,
}

#[derive(Serialize, Deserialize)]
struct Waiting {
    base: Secret,
    exchange: Secret,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Says {
    Nothing,
    Request,
    Answer,
    Texts,
}

#[derive(Serialize, Deserialize)]
struct Chains {
    send: Chain,
    receive: Chain,
}

impl Chains {
    /// # Errors
    /// [`Error::RoundTooFar`] if they begin too long ago.
    fn new(root: &Secret, start: Round, next: Round, inviter: bool) -> Result<Self, Error> {
        let chain = |direction: u8| {
            let mut chain = Chain::new(start, root.expand(domain::PAIR_CHAIN, &[&[direction]]));
            chain.advance(next).map(|()| chain)
        };
        let (mine, theirs) = if inviter { (0, 1) } else { (1, 0) };
        Ok(Self { send: chain(mine)?, receive: chain(theirs)? })
    }
}

impl Handshake {
    fn new(invitation: &Invitation, now: UnixMillis, next: Round, says: Says) -> Result<Self, Error> {
        let mut requests = Chain::new(invitation.start, invitation.secret.expand(domain::REQUEST_CHAIN, &[]));
        requests.advance(next)?;
        Ok(Self {
            mark: invitation.mark(),
            start: invitation.start,
            made: now,
            expires: invitation.expires,
            inviter: Keys { exchange: invitation.exchange, identity: invitation.identity },
            waiting: None,
            terms: None,
            request: Vec::new(),
            requests: Some(requests),
            confirmed: false,
            says,
            block: block(next),
        })
    }

    /// What there is to say after all that was read.
    fn due(&self) -> Says {
        match (self.confirmed, self.request.is_empty(), &self.terms) {
            (true, _, _) => Says::Texts,
            (false, false, _) => Says::Request,
            (false, true, Some(_)) => Says::Answer,
            (false, true, None) => Says::Nothing,
        }
    }
}

impl Pair {
    /// The inviter's side. `exchange` is the secret half of the invitation's exchange key, `next` the first round that can
    /// be used.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if the invitation is too old.
    pub(crate) fn inviting(
        invitation: &Invitation,
        exchange: Secret,
        now: UnixMillis,
        next: Round,
    ) -> Result<Self, Error> {
        let mut handshake = Handshake::new(invitation, now, next, Says::Nothing)?;
        handshake.waiting = Some(Waiting { base: handshake::base(invitation), exchange });
        Ok(Self::new(true, handshake, None))
    }

    /// The side of the invited one, whose identity is `identity` and whose fresh secret is `exchange`.
    ///
    /// # Errors
    /// As for [`Pair::inviting`]; [`Error::Malformed`] if the invitation's key is of small order.
    pub(crate) fn accepting(
        invitation: &Invitation,
        exchange: &Secret,
        identity: &SigningKey,
        now: UnixMillis,
        next: Round,
    ) -> Result<Self, Error> {
        let mut handshake = Handshake::new(invitation, now, next, Says::Request)?;
        let agreement = Agreement::new(&handshake::base(invitation), exchange, &invitation.exchange)?;
        let invited = Keys {
            exchange: handshake::exchange_key(exchange),
            identity: identity.verifying_key().to_bytes(),
        };
        let terms = Terms { mark: handshake.mark, inviter: handshake.inviter, invited };
        handshake.request = agreement.request(&terms, identity)?;
        let chains = Chains::new(&agreement.root(&terms), handshake.start, next, false)?;
        handshake.terms = Some(terms);
        Ok(Self::new(false, handshake, Some(chains)))
    }

    fn new(inviter: bool, handshake: Handshake, chains: Option<Chains>) -> Self {
        let (outbox, inbox) = Default::default();
        Self { inviter, peer: None, chains, outbox, inbox, handshake: Some(handshake), double: false }
    }

    /// Whether texts can be sent.
    pub(crate) fn established(&self) -> bool {
        self.handshake.as_ref().is_none_or(|handshake| handshake.confirmed)
    }

    /// Whether there is but one box to look for in a round, now and later.
    pub(crate) fn is_settled(&self) -> bool {
        self.handshake.as_ref().is_none_or(|handshake| match self.inviter {
            true => handshake.requests.is_none(),
            false => handshake.confirmed,
        })
    }

    /// The other's identity key, once it was proven.
    pub(crate) fn peer_identity(&self) -> Option<[u8; 32]> {
        self.peer
    }

    /// The other's identity key, proven or only named by its invitation.
    pub(crate) fn named_identity(&self) -> Option<[u8; 32]> {
        let named = self.handshake.as_ref().filter(|_| !self.inviter);
        self.peer.or(named.map(|handshake| handshake.inviter.identity))
    }

    /// Whether the peer is this person, or has another conversation already. Such a one goes on as any other does, so that
    /// nobody can see it, but nothing is said in it.
    pub(crate) fn is_double(&self) -> bool {
        self.double
    }

    /// Marks it as a double, or as none when the other conversation was forgotten. What waited to be said to somebody else
    /// is dropped.
    pub(crate) fn set_double(&mut self, double: bool) {
        self.double = double;
        if double {
            self.outbox.retract_unsent();
        }
    }

    /// When the invitation was made or accepted, and when it ends, if it is still open. One to which somebody has answered
    /// waits as long again for the sign that its answer was heard.
    pub(crate) fn pending(&self) -> Option<(UnixMillis, UnixMillis)> {
        let handshake = self.handshake.as_ref().filter(|handshake| !handshake.confirmed)?;
        let life = handshake.expires.since(handshake.made);
        let answered = self.inviter && handshake.terms.is_some();
        let expires = handshake.expires.0.saturating_add(if answered { life } else { 0 });
        Some((handshake.made, UnixMillis(expires)))
    }

    /// Whether this side made the invitation.
    pub(crate) fn is_inviter(&self) -> bool {
        self.inviter
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    #[cfg(test)]
    pub(crate) fn use_up_numbers(&mut self) {
        self.outbox.use_up_numbers();
    }

    pub(crate) fn make_room(&mut self, room: bool) {
        self.inbox.make_room(room);
    }

    /// # Errors
    /// As for [`Outbox::push`]; [`Error::Input`] for a double.
    pub(crate) fn queue(&mut self, kind: Kind, content: &[u8]) -> Result<u32, Error> {
        if self.double {
            return Err(Error::Input(InputError::Double));
        }
        self.outbox.push(kind, content, PAIR_CONTENT)
    }

    /// Hands over new keys of a group, whose id they begin with, instead of those that were not sent yet, and the farewells
    /// of those who left it.
    ///
    /// # Errors
    /// As for [`Pair::queue`].
    pub(crate) fn queue_keys(
        &mut self,
        group: &[u8; 16],
        keys: &[u8],
        farewells: &[Vec<u8>],
    ) -> Result<(), Error> {
        let mut behind = false;
        for farewell in farewells {
            if !self.outbox.holds(Kind::Leave, farewell) {
                self.queue(Kind::Leave, farewell)?;
                behind = true;
            }
        }
        if behind || self.double || !self.outbox.replace_unsent(Kind::Rekey, group, keys) {
            self.queue(Kind::Rekey, keys)?;
        }
        Ok(())
    }

    /// Uses up the sending keys of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        self.inbox.begin(turn.round);
        self.outbox.begin(turn.round);
        let mut deposit = None;
        let mut listening = Vec::new();
        let says = self.says(turn.round);
        let expects_knock = turn.slot.is_some() && self.expects_knock();
        if let Some(handshake) = &mut self.handshake
            && let Some(requests) = &mut handshake.requests
            && let Some(key) = requests.take(turn.round)
        {
            if self.inviter {
                let key = key.opening(0);
                if expects_knock {
                    listening.push(Listening { epoch: REQUESTS + KNOCK, member: 0, key: key.again() });
                }
                listening.push(Listening { epoch: REQUESTS, member: 0, key });
            } else if turn.mine && says == Says::Request {
                deposit = hello(turn, &handshake.request, key.sealing(0));
            }
        }
        let Some(chains) = &mut self.chains else { return (deposit, listening) };
        if let Some(key) = chains.receive.take(turn.round) {
            let key = key.opening(0);
            if expects_knock && !self.inviter {
                listening.push(Listening { epoch: TALK + KNOCK, member: 0, key: key.again() });
            }
            listening.push(Listening { epoch: TALK, member: 0, key });
        }
        if let Some(key) = chains.send.take(turn.round)
            && turn.mine
        {
            match says {
                Says::Nothing | Says::Request => {}
                Says::Answer => deposit = self.answer(turn, key.sealing(0)),
                Says::Texts => deposit = self.speak(turn, key.sealing(0)),
            }
        }
        (deposit, listening)
    }

    /// Whether such keys are for the knock that tells where boxes of the peer are.
    pub(crate) fn is_knock(epoch: u32) -> bool {
        epoch >= KNOCK
    }

    /// Whether a knock still tells where the peer is: until the hello that it announces was read.
    pub(crate) fn expects_knock(&self) -> bool {
        match (&self.handshake, self.inviter) {
            (Some(handshake), true) => handshake.waiting.is_some(),
            (Some(handshake), false) => !handshake.confirmed,
            (None, _) => false,
        }
    }

    /// Whether what serves once has served here: the hello of the other was read, and its keys are known.
    pub(crate) fn has_met(&self) -> bool {
        !self.expects_knock()
    }

    /// What is said in a round: what was due when its block began.
    fn says(&mut self, round: Round) -> Says {
        let Some(handshake) = &mut self.handshake else { return Says::Texts };
        if handshake.block != block(round) {
            handshake.block = block(round);
            handshake.says = handshake.due();
        }
        let says = handshake.says;
        if says == Says::Texts {
            self.handshake = None;
        }
        says
    }

    fn answer(&self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let terms = self.handshake.as_ref()?.terms?;
        hello(turn, &terms.sign(true, turn.identity), key)
    }

    fn speak(&mut self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let owed = self.inbox.owed();
        let (acknowledgement, check) = self.inbox.acknowledgement();
        let (kind, flags, (sequence, before), content) = match self.outbox.next(turn.round, owed) {
            Some(item) => {
                (item.kind, item.flags, (item.sequence, item.before()), Zeroizing::new(item.content.clone()))
            }
            None if self.inbox.acknowledges() => (Kind::Acknowledgement, 0, (0, 0), Zeroizing::default()),
            None => return None,
        };
        let frame = Frame {
            kind,
            flags,
            sequence,
            acknowledgement,
            check,
            before,
            round: turn.round,
            head: turn.head,
            content,
        };
        let plaintext = frame.encode().ok()?;
        self.inbox.settle();
        Some(key.seal(&plaintext))
    }

    /// Takes what was found in a box of `epoch`; `next` is the first round not opened, and `held` are this person's own
    /// identity key and those of its other contacts.
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
            (REQUESTS, Kind::Hello) => self.take_request(&frame.content, next, held)?,
            (TALK, Kind::Hello) => self.take_answer(&frame.content, held)?,
            (TALK, Kind::Text | Kind::Rekey | Kind::Leave | Kind::Acknowledgement) => {
                self.take_message(&frame)?
            }
            _ => return Err(MALFORMED),
        };
        if self.established() && !established && !self.double {
            events.insert(0, Event::Established);
        }
        Ok((events, frame.head))
    }

    fn take_request(&mut self, content: &[u8], next: Round, held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
        let request: &[u8; REQUEST_BYTES] = content.try_into().map_err(|_| MALFORMED)?;
        let Some(handshake) = self.handshake.as_mut().filter(|_| self.inviter) else {
            return Ok(Vec::new());
        };
        let exchange = request.first_chunk().ok_or(MALFORMED)?;
        let Some(waiting) = &handshake.waiting else {
            let known = handshake.terms.is_some_and(|terms| terms.invited.exchange == *exchange);
            return Ok(if known { Vec::new() } else { vec![Event::OtherKeys] });
        };
        let agreement = Agreement::new(&waiting.base, &waiting.exchange, exchange)?;
        let terms = agreement.open(handshake.mark, handshake.inviter, request)?;
        self.chains = Some(Chains::new(&agreement.root(&terms), handshake.start, next, true)?);
        handshake.terms = Some(terms);
        handshake.waiting = None;
        Ok(self.meet(terms.invited.identity, held))
    }

    fn take_answer(&mut self, content: &[u8], held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
        let signature: &[u8; ANSWER_BYTES] = content.try_into().map_err(|_| MALFORMED)?;
        if self.inviter {
            return Err(MALFORMED);
        }
        let mut events = Vec::new();
        if let Some(handshake) = self.handshake.as_mut().filter(|handshake| !handshake.confirmed) {
            let terms = handshake.terms.filter(|terms| terms.is_signed(true, signature));
            let terms = terms.ok_or(MALFORMED)?;
            handshake.confirmed = true;
            events = self.meet(terms.inviter.identity, held);
        }
        self.inbox.owe();
        Ok(events)
    }

    /// The peer has proven its identity.
    fn meet(&mut self, identity: [u8; 32], held: &[[u8; 32]]) -> Vec<Event> {
        self.peer = Some(identity);
        self.set_double(held.contains(&identity));
        if self.double { vec![Event::IdentityHeld] } else { Vec::new() }
    }

    fn take_message(&mut self, frame: &Frame) -> Result<Vec<Event>, Error> {
        if let Some(handshake) = self.handshake.as_mut().filter(|handshake| !handshake.confirmed) {
            // The inviter says nothing before it was heard.
            if !self.inviter {
                return Err(MALFORMED);
            }
            handshake.confirmed = true;
            handshake.requests = None;
        }
        let mut events = Vec::new();
        match self.outbox.compare(frame.acknowledgement, frame.check) {
            Ok(arrived) => {
                events.extend(self.outbox.acknowledge(arrived).into_iter().map(Event::Acknowledged));
            }
            Err(_) => events.push(Event::WentBack),
        }
        if frame.kind.is_numbered() {
            let (before, sequence) = (frame.before, frame.sequence);
            let item = Item::received(before, sequence, frame.kind, frame.flags, &frame.content);
            let (delivered, in_order) = self.inbox.accept(item);
            if in_order.is_err() {
                events.push(Event::WentBack);
            }
            events.extend(delivered.into_iter().map(|whole| Event::Delivered { member: 0, whole }));
        }
        Ok(events)
    }
}

fn hello(turn: &Turn, content: &[u8], key: SealingKey) -> Option<Deposit> {
    let frame = Frame {
        kind: Kind::Hello,
        flags: 0,
        sequence: 0,
        acknowledgement: 0,
        check: 0,
        before: 0,
        round: turn.round,
        head: turn.head,
        content: Zeroizing::new(content.to_vec()),
    };
    let deposit = frame.encode().ok().map(|plaintext| key.seal(&plaintext))?;
    // Who does not know yet where this person is found learns it by the knock.
    Some(match turn.slot {
        Some(slot) => Deposit { label: telling(&deposit.label, slot), ..deposit },
        None => deposit,
    })
}

#[cfg(test)]
mod tests;
