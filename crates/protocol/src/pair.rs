//! A conversation of two: the handshake through the rounds themselves, then texts.
//!
//! The invitation names the inviter: identity key, and an exchange key made for this invitation. So the invited one can
//! agree on a secret with the inviter before anything is sent, and there are two messages:
//!
//! - the *request*, from the invited one. Its labels follow from the invitation's secret alone, since the inviter must
//!   find it without knowing who comes; whom it is from, and a key for an encapsulation, is sealed under the agreed secret.
//! - the *answer*, from the inviter, with a secret that is encapsulated to that key. Its labels follow from the agreed
//!   secret, which nobody has who finds the invitation later.
//!
//! Both carry a signature over the keys of both, and over what was encapsulated. The keys of the conversation follow from
//! both secrets: who learns one of them, by a quantum computer or by a mistake in the younger mathematics, has none of them.
//!
//! Both are longer than a message, and said in [`parts`], one in each turn. The invited one says its request until the
//! answer has come; the inviter is silent until a request has come, and then says its answer until anything has come under
//! the keys of the conversation. Then the invited one says something there in every block of rounds until it has heard
//! the inviter there. The invited one forgets the invitation and its exchange secret as soon as it has accepted, the inviter
//! as soon as a request has come; what stays is the chains of requests and answers, which are stepped like any other and
//! tell no label of the past, and with the invited one, until the answer has come, what it takes to read that.
//!
//! What a side says changes where a block of rounds begins ([`crate::reaction`]).
//!
//! Whoever bears the invitation first is the peer; a request with another exchange key means that a second person bears
//! it, and is reported and not heard. Whoever turns out to be known already, or oneself, is answered like anybody else:
//! only the person is told, and nothing can be said in such a [`double`](Pair::is_double).

pub(crate) mod handshake;
mod parts;
mod version2;
mod version7;

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::{InputError, Malformed};
use crate::invitation::Invitation;
use crate::message::{Frame, Head, Kind, PAIR_CONTENT};
use crate::ratchet::Chain;
use crate::reaction::block;
use crate::seal::{Plaintext, SealingKey};
use crate::secret::Secret;
use crate::secret::kem::{self, KemSeed};
use crate::stream::{Inbox, Item, Outbox};
use crate::table::telling;
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Error, Round, UnixMillis, domain};
use handshake::{Agreement, Keys, Terms};
pub(crate) use version2::Pair2;
pub(crate) use version7::{Pair7, Unfinished};

/// Keys of requests, as [`Listening::epoch`] names them.
const REQUESTS: u32 = 0;
/// Keys of the conversation.
const TALK: u32 = 1;
/// A bit beside these where not a box is looked for but the knock that tells in which slot it is, on a server with slots.
const KNOCK: u32 = 2;
/// Keys of answers.
const ANSWERS: u32 = 4;

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
    /// Whether a key encapsulation went into the keys, as in all conversations but those of earlier versions.
    hybrid: bool,
    /// With the invited one, until anything has come under the keys of the conversation: the inviter may not know yet that
    /// its answer was heard.
    unheard: bool,
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
    /// What the inviter says when one has come.
    answering: Option<Answering>,
    /// The request of the invited one; empty with the inviter.
    request: Vec<u8>,
    /// What the invited one needs to read the answer, until that has come.
    asking: Option<Asking>,
    /// Until it is neither spoken on nor listened to.
    requests: Option<Chain>,
    /// The same.
    answers: Option<Chain>,
    /// With the invited one, the answer has come; with the inviter, anything under the keys of the conversation.
    confirmed: bool,
    says: Says,
    /// The block of rounds in which it says that.
    block: u64,
    /// The turns in which it has said that.
    turns: u32,
}

#[derive(Serialize, Deserialize)]
struct Waiting {
    base: Secret,
    exchange: Secret,
    heard: parts::Requests,
}

#[derive(Serialize, Deserialize)]
struct Answering {
    terms: Terms,
    ciphertext: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Asking {
    terms: Terms,
    /// What goes into the root besides the secret of the encapsulation.
    base: Secret,
    seed: KemSeed,
    heard: parts::Answer,
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
            answering: None,
            request: Vec::new(),
            asking: None,
            requests: Some(requests),
            answers: None,
            confirmed: false,
            says,
            block: block(next),
            turns: 0,
        })
    }

    /// What there is to say after all that was read.
    fn due(&self) -> Says {
        match (self.confirmed, self.request.is_empty(), &self.answering) {
            (true, _, _) => Says::Texts,
            (false, false, _) => Says::Request,
            (false, true, Some(_)) => Says::Answer,
            (false, true, None) => Says::Nothing,
        }
    }

    /// The part of request or answer that is said in this turn; none where the inviter says in its place, under the keys of
    /// the conversation, that it says its answer: who has that already does not listen to answers any more.
    fn part(&mut self, identity: &SigningKey) -> Option<Vec<u8>> {
        let turn = self.turns;
        self.turns = turn.wrapping_add(1);
        match &self.answering {
            Some(Answering { terms, ciphertext }) => {
                parts::part_of_answer(&terms.answer(ciphertext, identity), turn)
            }
            None => Some(parts::part_of_request(&self.request, turn)),
        }
    }
}

/// The chain of answers, on its way to the first round that can be used.
fn answers(agreement: &Agreement, start: Round, next: Round) -> Result<Chain, Error> {
    let mut answers = Chain::new(start, agreement.answers());
    answers.advance(next).map(|()| answers)
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
        let heard = parts::Requests::default();
        handshake.waiting = Some(Waiting { base: handshake::base(invitation), exchange, heard });
        Ok(Self::new(true, handshake))
    }

    /// The side of the invited one, whose identity is `identity` and whose fresh secrets are `exchange` and `seed`.
    ///
    /// # Errors
    /// As for [`Pair::inviting`]; [`Error::Malformed`] if the invitation's key is of small order.
    pub(crate) fn accepting(
        invitation: &Invitation,
        (exchange, seed): (&Secret, KemSeed),
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
        let key = seed.encapsulation_key();
        let (mark, inviter) = (handshake.mark, handshake.inviter);
        let terms = Terms { mark, inviter, invited, offer: handshake::offer(&key) };
        handshake.request = agreement.request(&terms, &key, identity)?;
        handshake.answers = Some(answers(&agreement, handshake.start, next)?);
        let heard = parts::Answer::default();
        handshake.asking = Some(Asking { terms, base: agreement.base(), seed, heard });
        Ok(Self::new(false, handshake))
    }

    fn new(inviter: bool, handshake: Handshake) -> Self {
        let (outbox, inbox) = Default::default();
        let (peer, chains, handshake) = (None, None, Some(handshake));
        let (double, hybrid, unheard) = (false, true, false);
        Self { inviter, peer, chains, outbox, inbox, handshake, double, hybrid, unheard }
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
        let answered = self.inviter && handshake.waiting.is_none();
        let expires = handshake.expires.0.saturating_add(if answered { life } else { 0 });
        Some((handshake.made, UnixMillis(expires)))
    }

    /// Whether this side made the invitation.
    pub(crate) fn is_inviter(&self) -> bool {
        self.inviter
    }

    /// Whether a key encapsulation goes into the keys, besides X25519.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.hybrid
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
        if self.unheard && self.inbox.begins_block(turn.round) {
            self.inbox.owe();
        }
        self.inbox.begin(turn.round);
        self.outbox.begin(turn.round);
        let mut deposit = None;
        let (mut listening, mut signs) = (Vec::new(), false);
        let says = self.says(turn.round);
        let knock = turn.slot.is_some() && self.expects_knock();
        if let Some(handshake) = &mut self.handshake {
            let take = |chain: &mut Option<Chain>| chain.as_mut().and_then(|chain| chain.take(turn.round));
            let (requests, answers) = (take(&mut handshake.requests), take(&mut handshake.answers));
            let (heard, epoch, said, says_it) = match self.inviter {
                true => (requests, REQUESTS, answers, says == Says::Answer),
                false => {
                    (answers.filter(|_| handshake.asking.is_some()), ANSWERS, requests, says == Says::Request)
                }
            };
            if let Some(key) = heard {
                let key = key.opening(0);
                if knock {
                    listening.push(Listening { epoch: epoch | KNOCK, member: 0, key: key.again() });
                }
                listening.push(Listening { epoch, member: 0, key });
            }
            if let Some(key) = said.filter(|_| turn.mine && says_it) {
                let part = handshake.part(turn.identity);
                signs = part.is_none();
                deposit = part.and_then(|part| hello(turn, &part, key.sealing(0)));
            }
        }
        let Some(chains) = &mut self.chains else { return (deposit, listening) };
        if let Some(key) = chains.receive.take(turn.round) {
            listening.push(Listening { epoch: TALK, member: 0, key: key.opening(0) });
        }
        if let Some(key) = chains.send.take(turn.round)
            && turn.mine
        {
            if signs {
                deposit = hello(turn, &[], key.sealing(0));
            } else if says == Says::Texts {
                deposit = self.speak(turn, key.sealing(0));
            }
        }
        (deposit, listening)
    }

    /// Whether such keys are for the knock that tells where boxes of the peer are.
    pub(crate) fn is_knock(epoch: u32) -> bool {
        epoch & KNOCK != 0
    }

    /// Whether such keys are those of the conversation.
    pub(crate) fn is_talk(epoch: u32) -> bool {
        epoch == TALK
    }

    /// Whether a knock still tells where the peer is: until the hello that it announces was read.
    pub(crate) fn expects_knock(&self) -> bool {
        match (&self.handshake, self.inviter) {
            (Some(handshake), true) => handshake.waiting.is_some(),
            (Some(handshake), false) => handshake.asking.is_some(),
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
            let due = handshake.due();
            if due != handshake.says {
                (handshake.says, handshake.turns) = (due, 0);
            }
        }
        let says = handshake.says;
        if says == Says::Texts {
            self.handshake = None;
        }
        says
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

    /// Takes what was found in a box of `epoch`; `next` is the first round not opened, `held` are this person's own identity
    /// key and those of its other contacts, and `store` is the client's randomness of this moment.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest peer writes that.
    pub(crate) fn receive(
        &mut self,
        epoch: u32,
        plaintext: &Plaintext,
        (round, next): (Round, Round),
        held: &[[u8; 32]],
        store: &Secret,
    ) -> Result<(Vec<Event>, Option<Head>), Error> {
        let frame = Frame::decode(plaintext, round)?;
        let established = self.established();
        let mut events = match (epoch, frame.kind) {
            (REQUESTS, Kind::Hello) => self.take_request(&frame.content, next, held, store)?,
            (ANSWERS, Kind::Hello) => self.take_answer(&frame.content, next, held)?,
            (TALK, Kind::Hello) => self.take_sign()?,
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

    /// A part of a request. When the request is whole, the secret of the conversation is encapsulated, once.
    fn take_request(
        &mut self,
        content: &[u8],
        next: Round,
        held: &[[u8; 32]],
        store: &Secret,
    ) -> Result<Vec<Event>, Error> {
        let name = parts::name_of(content)?;
        let Some(handshake) = self.handshake.as_mut().filter(|_| self.inviter) else {
            return Ok(Vec::new());
        };
        let Some(waiting) = &mut handshake.waiting else {
            let answering = handshake.answering.as_ref();
            let known =
                answering.is_some_and(|answering| answering.terms.invited.exchange.starts_with(&name));
            return Ok(if known { Vec::new() } else { vec![Event::OtherKeys] });
        };
        let Some(request) = waiting.heard.take(content)? else { return Ok(Vec::new()) };
        let exchange = request.first_chunk().ok_or(MALFORMED)?;
        let agreement = Agreement::new(&waiting.base, &waiting.exchange, exchange)?;
        let (terms, key) = agreement.open(handshake.mark, handshake.inviter, &request)?;
        // The same, and nothing for anybody else, however often the client is started again with what it had stored.
        let digest = Sha256::digest(request);
        let (ciphertext, shared) = kem::encapsulate(&key, &store.expand(domain::ENCAPSULATION, &[&digest]))?;
        let root = terms.root(&agreement.base(), &shared, &ciphertext);
        let answers = answers(&agreement, handshake.start, next)?;
        self.chains = Some(Chains::new(&root, handshake.start, next, true)?);
        handshake.answers = Some(answers);
        handshake.answering = Some(Answering { terms, ciphertext });
        handshake.waiting = None;
        Ok(self.meet(terms.invited.identity, held))
    }

    /// A part of the answer.
    fn take_answer(&mut self, content: &[u8], next: Round, held: &[[u8; 32]]) -> Result<Vec<Event>, Error> {
        if self.inviter {
            return Err(MALFORMED);
        }
        // Else it is one of a round that was opened before the answer was whole.
        let Some(handshake) = &mut self.handshake else { return Ok(Vec::new()) };
        let Some(asking) = &mut handshake.asking else { return Ok(Vec::new()) };
        let Some(answer) = asking.heard.take(content)? else { return Ok(Vec::new()) };
        let ciphertext = asking.terms.take(&answer)?;
        let root = asking.terms.root(&asking.base, &asking.seed.decapsulate(ciphertext)?, ciphertext);
        self.chains = Some(Chains::new(&root, handshake.start, next, false)?);
        handshake.asking = None;
        handshake.answers = None;
        handshake.confirmed = true;
        self.unheard = true;
        let identity = handshake.inviter.identity;
        Ok(self.meet(identity, held))
    }

    /// The inviter says its answer, which has come: it has heard nothing yet, or has gone back to before it did.
    fn take_sign(&mut self) -> Result<Vec<Event>, Error> {
        if self.inviter || self.chains.is_none() {
            return Err(MALFORMED);
        }
        self.inbox.owe();
        Ok(Vec::new())
    }

    /// The peer has proven its identity.
    fn meet(&mut self, identity: [u8; 32], held: &[[u8; 32]]) -> Vec<Event> {
        self.peer = Some(identity);
        self.set_double(held.contains(&identity));
        if self.double { vec![Event::IdentityHeld] } else { Vec::new() }
    }

    fn take_message(&mut self, frame: &Frame) -> Result<Vec<Event>, Error> {
        // Nothing is said in it before.
        if self.chains.is_none() {
            return Err(MALFORMED);
        }
        self.unheard = false;
        if let Some(handshake) = self.handshake.as_mut().filter(|handshake| !handshake.confirmed) {
            handshake.confirmed = true;
            handshake.requests = None;
        }
        // The sign of an invited one that has heard nothing, and says it until it has.
        if self.inviter && frame.kind == Kind::Acknowledgement && frame.acknowledgement == 0 {
            self.inbox.owe();
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
