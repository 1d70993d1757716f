//! Groups: every member speaks once for all others, on a chain of its own.
//!
//! ```text
//! chain of a member     = HKDF-Expand(group secret, "sotto v1 group chain" | 0 | group id (16) | epoch, u32 | identity (32))
//! base of an epoch      = HKDF-Expand(group secret, "sotto v1 group base" | 0 | group id (16) | epoch, u32)
//! group secret (e + 1)  = HKDF-Extract("sotto v1 group rekey", base (e) | fresh secret)
//! signature             = Ed25519("sotto v1 group signature" | 0 | group id (16) | epoch, u32 | member, u8
//!                                 | label (16) | the 272 bytes to be sealed with zeros for the signature)
//! rekey                 = group id (16) | epoch, u32 | start round, u64 | member removed, u8 | fresh secret (32)
//! ```
//!
//! All members can compute all chains, so a signature tells who speaks. The secret of an epoch is erased once its chains
//! are made; the base does not lead back to them.
//!
//! Acknowledgements ride in the group's own boxes, as one number per member, and not in conversations of two: members
//! need not be each other's contacts. A message is done when all present members have acknowledged it.
//!
//! When a member leaves or is removed, a member who is a contact of all that remain hands them a fresh secret, in a rekey
//! message through those conversations. Two members may do so at once: of two for the same epoch the one by the member
//! of the lower number holds, and the other's author removes its member again in the next epoch. Sequence numbers go on
//! across epochs, so whatever was sent to no ear while members changed over is repeated.

mod card;
mod rekey;

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::conversation::{Event, Listening, Turn};
use crate::message::{Frame, GROUP_CONTENT, GroupFrame, Head, Kind, MEMBERS_MAX};
use crate::ratchet::Chain;
use crate::seal::{Plaintext, SealingKey};
use crate::secret::Secret;
use crate::stream::{Delivered, Inbox, Item, Outbox};
use crate::{Deposit, Error, Label, Round, domain};

pub use card::GroupCard;
pub(crate) use card::MEMBER_NAME_MAX;
pub(crate) use rekey::Rekey;

/// Turns in which one who leaves says so.
const LEAVE_TURNS: u8 = 12;

/// A member as its group shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the group.
    pub number: u8,
    /// The name on the group's card.
    pub name: String,
    /// Its Ed25519 identity key.
    pub identity: [u8; 32],
    /// Whether it has neither left nor been removed.
    pub present: bool,
}

/// One member's side of a group.
#[derive(Serialize, Deserialize)]
pub(crate) struct Group {
    id: [u8; 16],
    epoch: u32,
    base: Secret,
    /// What the newest rekey replaced, in case one of higher rank comes.
    previous: Option<rekey::Replaced>,
    /// Rekeys of epochs that follow one not heard of yet.
    early: Vec<rekey::Early>,
    me: u8,
    members: Vec<Peer>,
    send: Chain,
    outbox: Outbox,
    /// Turns left to say goodbye.
    leaving: Option<u8>,
}

#[derive(Serialize, Deserialize)]
struct Peer {
    name: String,
    identity: [u8; 32],
    present: bool,
    /// Of the others that are present.
    chain: Option<Chain>,
    inbox: Inbox,
    /// Up to where it has what this client said.
    acknowledged: u32,
}

impl Group {
    /// # Errors
    /// [`Error::Input`] if `identity` is not on the card; [`Error::RoundTooFar`] if the card is too old.
    pub(crate) fn new(card: &GroupCard, identity: [u8; 32], next: Round) -> Result<Self, Error> {
        let me = card.members.iter().position(|(_, member)| *member == identity);
        let me = me.and_then(|me| u8::try_from(me).ok());
        let me = me.ok_or(Error::Input("this group card does not name you as a member"))?;
        let peer = |(name, identity): &(String, [u8; 32])| Peer {
            name: name.clone(),
            identity: *identity,
            present: true,
            chain: None,
            inbox: Inbox::default(),
            acknowledged: 0,
        };
        let mut group = Self {
            id: card.id,
            epoch: 0,
            base: card.secret.expand(domain::GROUP_BASE, &[&card.id, &0_u32.to_le_bytes()]),
            previous: None,
            early: Vec::new(),
            me,
            members: card.members.iter().map(peer).collect(),
            send: Chain::new(card.start, card.secret.clone()),
            outbox: Outbox::default(),
            leaving: None,
        };
        group.start_epoch(0, &card.secret, card.start, next)?;
        Ok(group)
    }

    /// Makes the chains of an epoch, which step towards `next`, the first round not opened, and catch up with the rounds.
    fn start_epoch(&mut self, epoch: u32, secret: &Secret, start: Round, next: Round) -> Result<(), Error> {
        let epoch_bytes = epoch.to_le_bytes();
        let chain = |identity: &[u8; 32]| {
            let key = secret.expand(domain::GROUP_CHAIN, &[&self.id, &epoch_bytes, identity]);
            let mut chain = Chain::new(start, key);
            chain.advance(next).map(|()| chain)
        };
        let mut chains =
            self.members.iter().map(|member| chain(&member.identity)).collect::<Result<Vec<_>, _>>()?;
        self.base = secret.expand(domain::GROUP_BASE, &[&self.id, &epoch_bytes]);
        self.epoch = epoch;
        for (number, (member, chain)) in self.members.iter_mut().zip(chains.drain(..)).enumerate() {
            if number == usize::from(self.me) {
                self.send = chain;
            } else {
                member.chain = member.present.then_some(chain);
            }
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> &[u8; 16] {
        &self.id
    }

    pub(crate) fn me(&self) -> u8 {
        self.me
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member> + '_ {
        (0..).zip(&self.members).map(|(number, peer)| Member {
            number,
            name: peer.name.clone(),
            identity: peer.identity,
            present: peer.present,
        })
    }

    pub(crate) fn name_of(&self, member: u8) -> &str {
        self.members.get(usize::from(member)).map_or("", |peer| &peer.name)
    }

    pub(crate) fn make_room(&mut self, room: bool) {
        for peer in &mut self.members {
            peer.inbox.make_room(room);
        }
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// # Errors
    /// As for [`Outbox::push`]; [`Error::Input`] for one who is leaving.
    pub(crate) fn queue(&mut self, kind: Kind, content: &[u8]) -> Result<u32, Error> {
        if self.leaving.is_some() {
            return Err(Error::Input("you are leaving this group"));
        }
        self.outbox.push(kind, content, GROUP_CONTENT)
    }

    /// Says goodbye in every other of the next turns, instead of what was not sent yet.
    ///
    /// # Errors
    /// As for [`Group::queue`].
    pub(crate) fn leave(&mut self) -> Result<(), Error> {
        if self.leaving.is_none() {
            self.outbox.retract_unsent();
        }
        self.queue(Kind::Leave, &[])?;
        self.leaving = Some(LEAVE_TURNS);
        Ok(())
    }

    /// Whether this client has left, so that all of it can be erased.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving.is_some_and(|turns| turns == 0 || self.outbox.is_empty())
    }

    /// Uses up the sending key of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        self.outbox.begin(turn.round);
        let mut listening = Vec::new();
        for (member, peer) in (0..).zip(&mut self.members) {
            peer.inbox.begin(turn.round);
            if let Some(key) = peer.chain.as_mut().and_then(|chain| chain.take(turn.round)) {
                listening.push(Listening { epoch: self.epoch, member, key: key.opening(0) });
            }
        }
        let key = self.send.take(turn.round);
        let deposit = key.filter(|_| turn.mine).and_then(|key| self.speak(turn, key.sealing(0)));
        (deposit, listening)
    }

    fn speak(&mut self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let owed = self.members.iter().any(|peer| peer.present && peer.inbox.owed());
        if let Some(turns) = &mut self.leaving {
            *turns = turns.saturating_sub(1);
        }
        let item = match self.leaving {
            Some(turns) if turns % 2 == 1 => self.outbox.newest(turn.round),
            _ => self.outbox.next(turn.round, owed),
        };
        let (kind, flags, sequence, content) = match item {
            Some(item) => (item.kind, item.flags, item.sequence, Zeroizing::new(item.content.clone())),
            None if owed => (Kind::Acknowledgement, 0, 0, Zeroizing::default()),
            None => return None,
        };
        let (round, head) = (turn.round, turn.head);
        let frame = Frame { kind, flags, sequence, acknowledgement: 0, check: 0, round, head, content };
        let mut acknowledgements = [0; MEMBERS_MAX];
        for (acknowledgement, peer) in acknowledgements.iter_mut().zip(&self.members) {
            (*acknowledgement, _) = peer.inbox.acknowledgement();
        }
        let label = key.label();
        let sign = |plaintext: &Plaintext| {
            turn.identity.sign(&self.signed(self.epoch, self.me, label, plaintext)).to_bytes()
        };
        let plaintext = GroupFrame { frame, acknowledgements }.encode(sign).ok()?;
        for peer in &mut self.members {
            peer.inbox.settle();
        }
        Some(key.seal(&plaintext))
    }

    /// Takes what was found in a box of a member.
    ///
    /// # Errors
    /// [`Error::Malformed`] if that member has not signed it, or no honest member writes it.
    pub(crate) fn receive(
        &mut self,
        (epoch, member): (u32, u8),
        label: Label,
        plaintext: &Plaintext,
        round: Round,
    ) -> Result<(Vec<Event>, Option<Head>), Error> {
        let malformed = Error::Malformed("message");
        let peer = self.members.get(usize::from(member)).ok_or(malformed.clone())?;
        if !peer.present {
            return Ok((Vec::new(), None));
        }
        let verify = |plaintext: &Plaintext, signature: &[u8; 64]| {
            let signed = self.signed(epoch, member, label, plaintext);
            VerifyingKey::from_bytes(&peer.identity)
                .is_ok_and(|key| key.verify_strict(&signed, &Signature::from_bytes(signature)).is_ok())
        };
        let GroupFrame { frame, acknowledgements } = GroupFrame::decode(plaintext, round, verify)?;
        if frame.kind == Kind::Rekey {
            return Err(malformed);
        }

        let acknowledged = acknowledgements.get(usize::from(self.me)).copied().unwrap_or(0);
        let peer = self.members.get_mut(usize::from(member)).ok_or(malformed)?;
        peer.acknowledged = peer.acknowledged.max(acknowledged);
        let mut events = Vec::new();
        let mut delivered = Vec::new();
        if frame.kind.is_numbered() {
            let item = Item::received(frame.sequence, frame.kind, frame.flags, &frame.content);
            let (whole, in_order) = peer.inbox.accept(item);
            delivered = whole;
            events.extend(in_order.is_err().then_some(Event::WentBack));
        }
        for whole in delivered {
            if whole.kind == Kind::Leave {
                self.mark_gone(member);
            }
            events.push(Event::Delivered { member, whole });
        }
        events.extend(self.acknowledged().into_iter().map(Event::Acknowledged));
        Ok((events, frame.head))
    }

    /// Forgets what all present members have.
    pub(crate) fn acknowledged(&mut self) -> Vec<u32> {
        let others = (0..).zip(&self.members).filter(|(number, peer)| *number != self.me && peer.present);
        let all = others.map(|(_, peer)| peer.acknowledged).min();
        // With nobody left to hear it, nothing is held back for anybody.
        self.outbox.acknowledge(all.unwrap_or(u32::MAX))
    }

    fn mark_gone(&mut self, member: u8) {
        if let Some(peer) = self.members.get_mut(usize::from(member)) {
            peer.present = false;
            peer.chain = None;
        }
    }

    pub(crate) fn signed(
        &self,
        epoch: u32,
        member: u8,
        label: Label,
        plaintext: &Plaintext,
    ) -> Zeroizing<Vec<u8>> {
        let (domain, epoch) = (domain::GROUP_SIGNATURE.as_bytes(), epoch.to_le_bytes());
        let parts: [&[u8]; 7] = [domain, &[0], &self.id, &epoch, &[member], &label.0, plaintext.as_slice()];
        Zeroizing::new(parts.concat())
    }
}

/// Whether a goodbye was among what was delivered.
pub(crate) fn is_goodbye(whole: &Delivered) -> bool {
    whole.kind == Kind::Leave
}

#[cfg(test)]
mod tests;
