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
//! With their first messages the two then agree on further keys ([`renewal`]).
//!
//! What a side says changes where a block of rounds begins ([`crate::reaction`]).
//!
//! Whoever bears the invitation first is the peer; a request with another exchange key means that a second person bears
//! it, and is reported and not heard. The inviter looks for such a one beyond the meeting, until the peer has answered its
//! offer of further keys: by then everybody who asked in the meantime has had turns of its own. Whoever turns out to be known already, or oneself, is answered like anybody else:
//! only the person is told, and nothing can be said in such a [`double`](Pair::is_double).

pub(crate) mod handshake;
pub(crate) mod renewal;
mod version2;

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::deposit::SELECTOR_BYTES;
use crate::error::{InputError, Malformed};
use crate::invitation::Invitation;
use crate::message::{Frame, Head, Kind, PAIR_CONTENT};
use crate::ratchet::Chain;
use crate::reaction::block;
use crate::seal::{OpeningKey, Plaintext, SealingKey};
use crate::secret::Secret;
use crate::stream::{Inbox, Item, Outbox};
use crate::table::telling;
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Error, Round, UnixMillis, domain};
use handshake::{ANSWER_BYTES, Agreement, Keys, REQUEST_BYTES, Terms};
use renewal::{Begun, Renewal, Share};
pub(crate) use version2::Pair2;

/// Keys of requests, as [`Listening::epoch`] names them.
const REQUESTS: u32 = 0;
/// Keys of the conversation.
const TALK: u32 = 1;
/// Added to these where not a box is looked for but the knock that tells in which slot it is, on a server with slots.
const KNOCK: u32 = 2;
/// The keys that replace those of the conversation.
const NEXT: u32 = 4;

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
    stage: Stage,
    /// Whether the peer is this person, or one whom it has as a contact already.
    double: bool,
}

/// From the invitation to the keys that stay. The first two are stored as older versions stored all.
#[derive(Serialize, Deserialize)]
enum Stage {
    /// The keys follow from X25519 alone, and stay.
    Classical,
    /// Two who meet by one.
    MeetingClassically(Box<Handshake>),
    /// Until both are sure of each other, and what is said shows it.
    Meeting(Box<Handshake>, Share),
    /// Until both have keys that follow from ML-KEM-768, too.
    Renewing(Renewal),
    /// Both have.
    Hybrid,
    /// The inviter has offered such keys, and still looks for somebody else who holds its invitation.
    Offering(Box<Handshake>, Renewal),
}

impl Stage {
    fn handshake(&self) -> Option<&Handshake> {
        match self {
            Self::MeetingClassically(handshake)
            | Self::Meeting(handshake, _)
            | Self::Offering(handshake, _) => Some(handshake),
            Self::Classical | Self::Renewing(_) | Self::Hybrid => None,
        }
    }

    fn handshake_mut(&mut self) -> Option<&mut Handshake> {
        match self {
            Self::MeetingClassically(handshake)
            | Self::Meeting(handshake, _)
            | Self::Offering(handshake, _) => Some(handshake),
            Self::Classical | Self::Renewing(_) | Self::Hybrid => None,
        }
    }
}

/// From what the keys of a conversation of two follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyAgreement {
    /// From the invitation's secret and X25519, and so they stay: they were agreed on by an older version, or no number was left for
    /// others.
    Classical,
    /// So far from these. Keys that follow from ML-KEM-768, too, are on their way with the first messages.
    Renewing,
    /// From X25519 and ML-KEM-768.
    Hybrid,
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
pub(crate) struct Chains {
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
    /// The inviter's side. `exchange` is the secret half of the invitation's exchange key, `share` is fresh and serves here
    /// alone, `next` is the first round that can be used.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if the invitation is too old.
    pub(crate) fn inviting(
        invitation: &Invitation,
        (exchange, share): (Secret, Secret),
        now: UnixMillis,
        next: Round,
    ) -> Result<Self, Error> {
        let mut handshake = Handshake::new(invitation, now, next, Says::Nothing)?;
        handshake.waiting = Some(Waiting { base: handshake::base(invitation), exchange });
        Ok(Self::new(true, handshake, share, None))
    }

    /// The side of the invited one, whose identity is `identity` and whose fresh secrets are `exchange` and `share`.
    ///
    /// # Errors
    /// As for [`Pair::inviting`]; [`Error::Malformed`] if the invitation's key is of small order.
    pub(crate) fn accepting(
        invitation: &Invitation,
        (exchange, share): (&Secret, Secret),
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
        Ok(Self::new(false, handshake, share, Some(chains)))
    }

    fn new(inviter: bool, handshake: Handshake, share: Secret, chains: Option<Chains>) -> Self {
        let (outbox, inbox) = Default::default();
        let stage = Stage::Meeting(Box::new(handshake), Share::new(share));
        Self { inviter, peer: None, chains, outbox, inbox, stage, double: false }
    }

    /// The same as an older version has it, which renews no keys.
    #[cfg(test)]
    pub(crate) fn meeting_classically(mut self) -> Self {
        self.stage = match self.stage {
            Stage::Meeting(handshake, _) => Stage::MeetingClassically(handshake),
            other => other,
        };
        self
    }

    /// Whether texts can be sent.
    pub(crate) fn established(&self) -> bool {
        self.stage.handshake().is_none_or(|handshake| handshake.confirmed)
    }

    /// Whether there is but one box to look for in a round, now and later.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.stage {
            Stage::Classical | Stage::Hybrid => true,
            Stage::MeetingClassically(handshake) if self.inviter => handshake.requests.is_none(),
            Stage::MeetingClassically(handshake) => handshake.confirmed,
            Stage::Meeting(..) | Stage::Offering(..) | Stage::Renewing(_) => false,
        }
    }

    /// From what its keys follow.
    pub(crate) fn agreement(&self) -> KeyAgreement {
        match &self.stage {
            Stage::Classical | Stage::MeetingClassically(_) => KeyAgreement::Classical,
            Stage::Meeting(..) | Stage::Offering(..) | Stage::Renewing(_) => KeyAgreement::Renewing,
            Stage::Hybrid => KeyAgreement::Hybrid,
        }
    }

    /// The other's identity key, once it was proven.
    pub(crate) fn peer_identity(&self) -> Option<[u8; 32]> {
        self.peer
    }

    /// The other's identity key, proven or only named by its invitation.
    pub(crate) fn named_identity(&self) -> Option<[u8; 32]> {
        let named = self.stage.handshake().filter(|_| !self.inviter);
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
        let handshake = self.stage.handshake().filter(|handshake| !handshake.confirmed)?;
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

    /// Mixes a round's randomness into what further keys are to follow from, as long as that has not served.
    pub(crate) fn mix(&mut self, fresh: &Secret) {
        let share = match &mut self.stage {
            Stage::Meeting(_, share) => Some(share),
            Stage::Offering(_, renewal) | Stage::Renewing(renewal) => renewal.share(),
            Stage::Classical | Stage::MeetingClassically(_) | Stage::Hybrid => None,
        };
        if let Some(share) = share {
            share.mix(fresh);
        }
    }

    #[cfg(test)]
    pub(crate) fn share_bytes(&self) -> Option<[u8; 32]> {
        match &self.stage {
            Stage::Meeting(_, share) => Some(share.bytes()),
            Stage::Offering(_, renewal) | Stage::Renewing(renewal) => renewal.share_bytes(),
            Stage::Classical | Stage::MeetingClassically(_) | Stage::Hybrid => None,
        }
    }

    /// Uses up the sending keys of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        self.inbox.begin(turn.round);
        self.outbox.begin(turn.round);
        let mut deposit = None;
        let mut listening = Vec::new();
        let says = self.says(turn.round);
        let expects_knock = turn.slot.is_some() && self.expects_knock();
        if let Some(handshake) = self.stage.handshake_mut()
            && let Some(requests) = &mut handshake.requests
            && let (aim, Some(key)) = (aim(requests, turn), requests.take(turn.round))
        {
            if self.inviter {
                let key = key.opening(0);
                // Once the peer was heard, this is for somebody else alone.
                let spare = handshake.confirmed;
                if turn.slot.is_some() {
                    let key = aimed(key.again(), aim);
                    listening.push(Listening { spare, ..Listening::to(REQUESTS + KNOCK, 0, key) });
                }
                // In the slot of a peer who is known nobody else's request comes to lie.
                if turn.slot.is_none() || handshake.waiting.is_some() {
                    listening.push(Listening { spare, ..Listening::to(REQUESTS, 0, key) });
                }
            } else if turn.mine && says == Says::Request {
                deposit = hello(turn, &handshake.request, (key.sealing(0), aim));
            }
        }
        let (mut speaks, mut answers) = (None, None);
        if let Some(chains) = &mut self.chains {
            let aim_of_knock = aim(&mut chains.receive, turn);
            if let Some(key) = chains.receive.take(turn.round) {
                let key = key.opening(0);
                if expects_knock && !self.inviter {
                    listening.push(Listening::to(TALK + KNOCK, 0, aimed(key.again(), aim_of_knock)));
                }
                listening.push(Listening::to(TALK, 0, key));
            }
            answers = aim(&mut chains.send, turn);
            speaks = chains.send.take(turn.round);
        }
        if let Stage::Renewing(renewal) = &mut self.stage
            && let Some((next, speaks_next)) = renewal.chains()
        {
            if let Some(key) = next.receive.take(turn.round) {
                listening.push(Listening::to(NEXT, 0, key.opening(0)));
            }
            let key = next.send.take(turn.round);
            // One that is still to be stepped on says nothing yet, and the other listens under both.
            speaks = if speaks_next { key.or(speaks) } else { speaks };
        }
        if let Some(key) = speaks.filter(|_| turn.mine) {
            match says {
                Says::Nothing | Says::Request => {}
                Says::Answer => deposit = self.answer(turn, (key.sealing(0), answers)),
                Says::Texts => deposit = self.speak(turn, key.sealing(0)),
            }
        }
        (deposit, listening)
    }

    /// Whether such keys are for the knock that tells where boxes of the peer are.
    pub(crate) fn is_knock(epoch: u32) -> bool {
        (KNOCK..NEXT).contains(&epoch)
    }

    /// Whether a knock still tells where the peer is: until the hello that it announces was read.
    pub(crate) fn expects_knock(&self) -> bool {
        match (self.stage.handshake(), self.inviter) {
            (Some(handshake), true) => handshake.waiting.is_some(),
            (Some(handshake), false) => !handshake.confirmed,
            (None, _) => false,
        }
    }

    /// Whether a sign of somebody who holds the invitation beside the peer is news. It is once.
    pub(crate) fn meets_another(&mut self) -> bool {
        let meeting = self.stage.handshake_mut().filter(|handshake| handshake.waiting.is_none());
        self.inviter && meeting.is_some_and(|handshake| handshake.requests.take().is_some())
    }

    /// The inviter has both keys, and looks no more for others who hold its invitation.
    fn stop_seeking(&mut self) {
        self.stage = match core::mem::replace(&mut self.stage, Stage::Classical) {
            Stage::Offering(_, renewal) => Stage::Renewing(renewal),
            other => other,
        };
    }

    /// Whether the other may have gone on to keys that one who goes back to this state never has.
    pub(crate) fn serves_once(&self) -> bool {
        match &self.stage {
            Stage::Classical | Stage::Hybrid => false,
            Stage::MeetingClassically(_) => self.expects_knock(),
            Stage::Meeting(..) => true,
            Stage::Offering(_, renewal) | Stage::Renewing(renewal) => renewal.is_open(),
        }
    }

    /// What is said in a round: what was due when its block began.
    fn says(&mut self, round: Round) -> Says {
        let says = match self.stage.handshake_mut() {
            None => Says::Texts,
            Some(handshake) => {
                if handshake.block != block(round) {
                    handshake.block = block(round);
                    handshake.says = handshake.due();
                }
                handshake.says
            }
        };
        if says == Says::Texts {
            self.go_on(round);
        }
        says
    }

    /// Goes from one stage to the next, if it is over.
    fn go_on(&mut self, round: Round) {
        self.stage = match core::mem::replace(&mut self.stage, Stage::Classical) {
            Stage::Classical | Stage::MeetingClassically(_) => Stage::Classical,
            Stage::Meeting(handshake, share) if self.inviter => {
                // Behind what waits. Without a number for it the keys stay as they are.
                match self.outbox.push(Kind::Renewal, &share.offer(), PAIR_CONTENT) {
                    Ok(_) => Stage::Offering(handshake, Renewal::Offered(share, round)),
                    Err(_) => Stage::Classical,
                }
            }
            Stage::Offering(handshake, renewal) => Stage::Offering(handshake, renewal),
            Stage::Meeting(_, share) => Stage::Renewing(Renewal::Awaiting(share)),
            Stage::Renewing(mut renewal) => match renewal.begin(round) {
                Begun::Nothing => Stage::Renewing(renewal),
                Begun::Says(says) => match self.outbox.push(Kind::Renewal, &says, PAIR_CONTENT) {
                    Ok(_) => Stage::Renewing(renewal),
                    Err(_) => Stage::Classical,
                },
                Begun::Renewed => {
                    self.chains = renewal.into_chains();
                    Stage::Hybrid
                }
            },
            Stage::Hybrid => Stage::Hybrid,
        };
    }

    fn answer(&self, turn: &Turn, key: (SealingKey, Option<Aim>)) -> Option<Deposit> {
        let terms = self.stage.handshake()?.terms?;
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
            (TALK | NEXT, Kind::Text | Kind::Rekey | Kind::Leave | Kind::Renewal | Kind::Acknowledgement) => {
                let events = self.take_message(&frame, next)?;
                if let (NEXT, Stage::Renewing(renewal)) = (epoch, &mut self.stage) {
                    renewal.hear();
                }
                events
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
        let Some(handshake) = self.stage.handshake_mut().filter(|_| self.inviter) else {
            return Ok(Vec::new());
        };
        let exchange = request.first_chunk().ok_or(MALFORMED)?;
        let Some(waiting) = &handshake.waiting else {
            let known = handshake.terms.is_some_and(|terms| terms.invited.exchange == *exchange);
            return Ok(if known || !self.meets_another() { Vec::new() } else { vec![Event::OtherKeys] });
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
        if let Some(handshake) = self.stage.handshake_mut().filter(|handshake| !handshake.confirmed) {
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

    fn take_message(&mut self, frame: &Frame, next: Round) -> Result<Vec<Event>, Error> {
        if let Some(handshake) = self.stage.handshake_mut().filter(|handshake| !handshake.confirmed) {
            // The inviter says nothing before it was heard.
            if !self.inviter {
                return Err(MALFORMED);
            }
            handshake.confirmed = true;
        }
        if let Stage::MeetingClassically(handshake) = &mut self.stage {
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
            for mut whole in delivered {
                if whole.kind == Kind::Renewal {
                    if self.take_renewal(whole.content.as_deref(), next).is_ok() {
                        continue;
                    }
                    whole.content = None;
                }
                events.push(Event::Delivered { member: 0, whole });
            }
        }
        Ok(events)
    }

    /// What is said of further keys before they are spoken of here, or after, means nothing.
    fn take_renewal(&mut self, content: Option<&Vec<u8>>, next: Round) -> Result<(), Error> {
        match (&mut self.stage, content) {
            (_, None) => Err(MALFORMED),
            (Stage::Renewing(renewal) | Stage::Offering(_, renewal), Some(content)) => {
                renewal.take(content, next)?;
                self.stop_seeking();
                Ok(())
            }
            (_, Some(_)) => Ok(()),
        }
    }
}

/// In which cell a knock is, where that is not told by its own label.
type Aim = [u8; SELECTOR_BYTES];

/// That of knocks under labels of a chain, for who has not taken the round's key.
fn aim(chain: &mut Chain, turn: &Turn) -> Option<Aim> {
    turn.last.and_then(|last| chain.foretell(turn.round, last))
}

fn aimed(key: OpeningKey, aim: Option<Aim>) -> OpeningKey {
    match aim {
        Some(aim) => key.aimed(aim),
        None => key,
    }
}

fn hello(turn: &Turn, content: &[u8], (key, aim): (SealingKey, Option<Aim>)) -> Option<Deposit> {
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
        Some(slot) => {
            let label = match aim {
                None => deposit.label,
                Some(aim) if turn.knocks => deposit.label.aimed(aim),
                // That of the epoch's last round is the cell that was selected before.
                Some(_) => deposit.label.aimed_elsewhere(),
            };
            Deposit { label: telling(&label, slot), ..deposit }
        }
        None => deposit,
    })
}

#[cfg(test)]
mod tests;
