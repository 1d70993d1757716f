//! Groups: every member speaks once for all others, on a chain of its own.
//!
//! ```text
//! chain of a member     = HKDF-Expand(group secret, "sotto v1 group chain" | 0 | group id (16) | epoch, u32 | identity (32))
//! base of a group       = HKDF-Expand(card's secret, "sotto v1 group base" | 0 | group id (16) | 0, u32)
//! group secret          = the card's in epoch 0, else HKDF-Extract("sotto v1 group rekey", base | fresh secret)
//! mark of an epoch      = HKDF-Expand(group secret, "sotto v1 group mark" | 0 | group id (16) | epoch, u32
//!                                     | start round, u64 | members excluded, u8), 32 bytes
//! signature             = Ed25519("sotto v1 group signature" | 0 | group id (16) | epoch, u32 | member, u8
//!                                 | label (16) | the 272 bytes to be sealed with zeros for the signature)
//! farewell              = Ed25519("sotto v1 group farewell" | 0 | group id (16) | member, u8)
//! rekey                 = group id (16) | epoch, u32 | start round, u64 | members excluded, u8 | fresh secret (32)
//! ```
//!
//! All members can compute all chains, so a signature tells who speaks. The secret of an epoch is erased once its chains
//! are made; neither base nor mark lead back to them, and no epoch leads to another.
//!
//! Acknowledgements ride in the group's own boxes, as one check per member, and not in conversations of two: members
//! need not be each other's contacts. A message is done when all present members have acknowledged it.
//!
//! The *keeper*, the present member of the lowest number, makes new keys as soon as it has heard everybody on those of
//! the card, and whenever somebody has gone. It hands them out in conversations of two, so it must be a contact of all
//! who remain. Nobody else removes anybody; who leaves says so in words that others can hand on. [`change`] has the rest.

mod card;
mod change;
mod keys;
mod rekey;
pub(crate) mod version2;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::error::{InputError, Malformed, Unknown};
use crate::message::{FAREWELL_BYTES, Frame, GROUP_CONTENT, GroupFrame, Head, Kind, MEMBERS_MAX};
use crate::ratchet::Chain;
use crate::seal::{Plaintext, SealingKey};
use crate::secret::Secret;
use crate::stream::{Inbox, Item, Outbox};
use crate::turn::{Event, Listening, Turn};
use crate::{Deposit, Error, Label, Round, domain};

pub use card::GroupCard;
pub(crate) use card::MEMBER_NAME_MAX;
pub(crate) use keys::{News, Task};
pub(crate) use rekey::{Farewell, Rekey};

use keys::{Change, bit};
use rekey::Echo;

/// Turns in which one who leaves says so.
const LEAVE_TURNS: u8 = 24;
/// Rounds for which a card is taken: twelve days of two-second rounds. Its chains have to be stepped through them.
const CARD_ROUNDS_MAX: u64 = 1 << 19;

/// A member as its group shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the group; the present member of the lowest makes keys and removes others.
    pub number: u8,
    /// The name to show: of a contact the one this person gave it, of others the one on the card, with a remark if a
    /// contact has that name and is somebody else.
    pub name: String,
    /// The name on the group's card.
    pub card_name: String,
    /// Its Ed25519 identity key.
    pub identity: [u8; 32],
    /// Whether it has neither left nor been removed.
    pub present: bool,
    /// Whether this person removes it, which has not been done yet.
    pub removing: bool,
    /// Whether it has shown that it has the newest keys. One who has not for long is away, or was not given them.
    pub confirmed: bool,
    /// Up to which number it has what this client said.
    pub acknowledged: u32,
    /// Texts of this client that wait or are under way and have not arrived there.
    pub missing: usize,
}

/// One member's side of a group.
#[derive(Serialize, Deserialize)]
pub(crate) struct Group {
    id: [u8; 16],
    epoch: u32,
    base: Secret,
    me: u8,
    members: Vec<Peer>,
    send: Chain,
    outbox: Outbox,
    /// Turns left to say goodbye.
    leaving: Option<u8>,
    /// Members, as bits, who do not have the present keys.
    excluded: u8,
    /// Where the present chains began.
    start: Round,
    change: Option<Change>,
    /// The newest rekey, or to the keeper a member's request for one, until there is time for it.
    offer: Option<Rekey>,
    /// When the group last began to change its keys.
    taken: Option<Round>,
    /// Members, as bits, whom this client will remove with the next change.
    removing: u8,
    /// The newest block of rounds in which something was said.
    block: u64,
    /// Whether to give a sign in every turn.
    announcing: bool,
    /// Whether somebody has shown keys that this client was not given.
    strange: bool,
    /// Turns so far: during a change some belong to the mark of the new keys.
    turns: u8,
    /// Whether the person was told that no new keys can be made.
    refused: bool,
    /// Whether the person was told that a member bears a contact's name.
    names_told: bool,
    /// Whether the keeper has removed this client.
    ended: bool,
    news: Vec<News>,
}

#[derive(Serialize, Deserialize)]
struct Peer {
    name: String,
    identity: [u8; 32],
    present: bool,
    /// Of the others that have the present keys.
    chain: Option<Chain>,
    inbox: Inbox,
    /// Up to where it has what this client said.
    acknowledged: u32,
    /// When it was last heard under the present keys.
    heard: Option<Round>,
    /// The signature by which it left.
    farewell: Vec<u8>,
}

impl Group {
    /// # Errors
    /// [`Error::Input`] if `identity` is not on the card; [`Error::RoundTooFar`] if the card is too old.
    pub(crate) fn new(card: &GroupCard, identity: [u8; 32], next: Round) -> Result<Self, Error> {
        let me = card.members.iter().position(|(_, member)| *member == identity);
        let me = me.and_then(|me| u8::try_from(me).ok());
        let me = me.ok_or(Error::Input(InputError::NotOnCard))?;
        if next.0.saturating_sub(card.start.0) > CARD_ROUNDS_MAX {
            return Err(Error::RoundTooFar(card.start));
        }
        let peer = |(name, identity): &(String, [u8; 32])| Peer {
            name: name.clone(),
            identity: *identity,
            present: true,
            chain: None,
            inbox: Inbox::default(),
            acknowledged: 0,
            heard: None,
            farewell: Vec::new(),
        };
        let mut group = Self {
            id: card.id,
            epoch: 0,
            base: card.secret.expand(domain::GROUP_BASE, &[&card.id, &0_u32.to_le_bytes()]),
            me,
            members: card.members.iter().map(peer).collect(),
            send: Chain::new(card.start, card.secret.clone()),
            outbox: Outbox::default(),
            leaving: None,
            excluded: 0,
            start: card.start,
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
        };
        let (send, chains) = group.derive(0, &card.secret, card.start, next, 0)?;
        group.send = send;
        for (peer, chain) in group.members.iter_mut().zip(chains) {
            peer.chain = chain;
        }
        Ok(group)
    }

    /// This member's chain of an epoch, and those of the others by number, which step towards `next`, the first round not
    /// opened, and catch up with the rounds.
    fn derive(
        &self,
        epoch: u32,
        secret: &Secret,
        start: Round,
        next: Round,
        excluded: u8,
    ) -> Result<(Chain, Vec<Option<Chain>>), Error> {
        let epoch = epoch.to_le_bytes();
        let chain = |identity: &[u8; 32]| {
            let mut chain =
                Chain::new(start, secret.expand(domain::GROUP_CHAIN, &[&self.id, &epoch, identity]));
            chain.advance(next).map(|()| chain)
        };
        let mine = self.members.get(usize::from(self.me)).ok_or(Error::Unknown(Unknown::Member))?;
        let others = (0..).zip(&self.members).map(|(number, peer)| {
            let listens = number != self.me && excluded & bit(number) == 0;
            listens.then(|| chain(&peer.identity)).transpose()
        });
        Ok((chain(&mine.identity)?, others.collect::<Result<_, _>>()?))
    }

    pub(crate) fn id(&self) -> &[u8; 16] {
        &self.id
    }

    pub(crate) fn me(&self) -> u8 {
        self.me
    }

    pub(crate) fn identity_of(&self, member: u8) -> Option<[u8; 32]> {
        self.members.get(usize::from(member)).map(|peer| peer.identity)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member> + '_ {
        (0..).zip(&self.members).map(|(number, peer)| {
            let confirmed = match &self.change {
                Some(change) => change.has_confirmed(number),
                None => peer.heard.is_some(),
            };
            let missing = self.outbox.texts_after(peer.acknowledged);
            Member {
                number,
                name: peer.name.clone(),
                card_name: peer.name.clone(),
                identity: peer.identity,
                present: peer.present,
                removing: self.removing & bit(number) != 0,
                confirmed: peer.present && (confirmed || number == self.me),
                acknowledged: peer.acknowledged,
                missing: if peer.present && number != self.me { missing } else { 0 },
            }
        })
    }

    pub(crate) fn make_room(&mut self, room: bool) {
        for peer in &mut self.members {
            peer.inbox.make_room(room);
        }
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Whether its keys are those of its card, which open what is said to whoever finds that.
    pub(crate) fn is_on_card(&self) -> bool {
        self.epoch == 0 && !self.ended
    }

    /// Whether the keeper has removed this client.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// # Errors
    /// As for [`Outbox::push`]; [`Error::Input`] for one who is leaving or was removed.
    pub(crate) fn queue(&mut self, kind: Kind, content: &[u8]) -> Result<u32, Error> {
        if self.ended {
            return Err(Error::Input(InputError::Removed));
        }
        if self.leaving.is_some() {
            return Err(Error::Input(InputError::Leaving));
        }
        self.outbox.push(kind, content, GROUP_CONTENT)
    }

    /// Says goodbye in every other of the next turns, instead of what was not sent yet.
    ///
    /// # Errors
    /// As for [`Group::queue`].
    pub(crate) fn leave(&mut self, identity: &SigningKey) -> Result<(), Error> {
        if self.leaving.is_none() && !self.ended {
            self.outbox.retract_unsent();
        }
        let farewell = self.own_farewell(identity);
        self.queue(Kind::Leave, &farewell.signature)?;
        self.leaving = Some(LEAVE_TURNS);
        Ok(())
    }

    /// This member's word that it leaves.
    pub(crate) fn own_farewell(&self, identity: &SigningKey) -> Farewell {
        Farewell::new(self.id, self.me, identity)
    }

    /// Decides to remove a member.
    ///
    /// # Errors
    /// [`Error::Unknown`] if it has gone already or is nobody; [`Error::Input`] if this client is not the keeper.
    pub(crate) fn remove(&mut self, member: u8) -> Result<(), Error> {
        let present = self.members.get(usize::from(member)).is_some_and(|peer| peer.present);
        if !present || self.removing & bit(member) != 0 || member == self.me {
            return Err(Error::Unknown(Unknown::Member));
        }
        if self.keeper() != Some(self.me) || self.leaving.is_some() {
            return Err(Error::Input(InputError::NotKeeper));
        }
        self.removing |= bit(member);
        self.refused = false;
        Ok(())
    }

    /// Thinks better of it, before anybody was told.
    pub(crate) fn keep(&mut self, member: u8) {
        self.removing &= !bit(member);
    }

    /// Decides not to remove a member after all, which was told to nobody yet; how many texts are taken back. What was
    /// said meanwhile was not for it, and is not sent now that it would read it.
    ///
    /// # Errors
    /// [`Error::Unknown`] if it is not to be removed; [`Error::Input`] for one who is leaving.
    pub(crate) fn take_back_removal(&mut self, member: u8) -> Result<usize, Error> {
        if self.removing & bit(member) == 0 {
            return Err(Error::Unknown(Unknown::Member));
        }
        if self.leaving.is_some() {
            return Err(Error::Input(InputError::Leaving));
        }
        self.keep(member);
        let texts = self.outbox.retract_texts();
        self.news.extend(texts.iter().copied().map(News::NotSent));
        Ok(texts.len())
    }

    #[cfg(test)]
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Tells, once, that no new keys can be made. A group still on its card waits while a contact's key is expected.
    pub(crate) fn refuse_keys(&mut self, expecting: bool) {
        let excluded = self.excluded_next();
        let waits = expecting && excluded == 0;
        if !waits && !core::mem::replace(&mut self.refused, true) {
            match excluded {
                0 if self.epoch == 0 => self.tell(News::CardKeys),
                // They are as good as new ones, but for who has missed them.
                0 => {}
                _ => self.tell(News::RekeyNeeded),
            }
        }
    }

    /// Whether this client has left, so that all of it can be erased.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving.is_some_and(|turns| turns == 0 || self.outbox.is_settled())
    }

    /// Uses up the sending keys of a round, and says which boxes to look for.
    pub(crate) fn open_round(&mut self, turn: &Turn) -> (Option<Deposit>, Vec<Listening>) {
        self.outbox.begin(turn.round);
        let mut listening = Vec::new();
        if self.ended {
            return (None, listening);
        }
        for (number, (member, peer)) in (0..).zip(&mut self.members).enumerate() {
            peer.inbox.begin(turn.round);
            let take = |chain: &mut Option<Chain>| chain.as_mut()?.take(turn.round);
            let present = take(&mut peer.chain).map(|key| (self.epoch, key));
            let changed = self.change.as_mut().and_then(|change| {
                let key = take(change.chains.get_mut(number)?)?;
                (change.listens(member, turn.round) && peer.present).then_some((change.epoch, key))
            });
            if let Some((epoch, key)) = changed.or(present) {
                listening.push(Listening::to(epoch, member, key.opening(0)));
            }
        }
        if let Some(change) = &mut self.change {
            // Used up, since the round is; nothing is said with it before all have changed.
            let _ = change.send.take(turn.round);
        }
        let key = self.send.take(turn.round);
        let deposit = key.filter(|_| turn.mine).and_then(|key| self.speak(turn, key.sealing(0)));
        (deposit, listening)
    }

    fn speak(&mut self, turn: &Turn, key: SealingKey) -> Option<Deposit> {
        let of_any = |wants: fn(&Inbox) -> bool| {
            self.members.iter().any(|peer| peer.chain.is_some() && wants(&peer.inbox))
        };
        let (owed, acknowledges) = (of_any(Inbox::owed), of_any(Inbox::acknowledges));
        if let Some(turns) = &mut self.leaving {
            *turns = turns.saturating_sub(1);
        }
        // What is new is not for who is about to lose the keys.
        let quiet = self.leaving.is_none()
            && (self.removing != 0
                || self.change.as_ref().is_some_and(|change| change.excluded != self.excluded));
        let echo = self.change.as_ref().map(|change| Echo { epoch: change.epoch, mark: change.mark });
        // By twos, since who listens for it may do so in every other round.
        self.turns = self.turns.wrapping_add(1);
        let marked = echo.is_some() && self.turns & 2 == 0;
        let item = match self.leaving {
            Some(turns) if turns % 2 == 1 => self.outbox.newest(turn.round),
            _ if quiet || marked => None,
            _ => self.outbox.next(turn.round, owed),
        };
        let (round, head) = (turn.round, turn.head);
        let frame = match item {
            Some(item) => Frame {
                kind: item.kind,
                flags: item.flags,
                sequence: item.sequence,
                acknowledgement: 0,
                check: 0,
                before: item.before(),
                round,
                head,
                content: Zeroizing::new(item.content.clone()),
            },
            None if acknowledges || self.announcing || echo.is_some() => Frame {
                kind: Kind::Acknowledgement,
                flags: 0,
                sequence: 0,
                acknowledgement: 0,
                check: 0,
                before: 0,
                round,
                head,
                content: Zeroizing::new(echo.map_or_else(Vec::new, |echo| echo.encode())),
            },
            None => return None,
        };
        let mut checks = [0; MEMBERS_MAX];
        for (number, (check, peer)) in (0..).zip(checks.iter_mut().zip(&self.members)) {
            *check = if number == self.me { self.outbox.head() } else { peer.inbox.acknowledgement().1 };
        }
        let label = key.label();
        let sign = |plaintext: &Plaintext| {
            turn.identity.sign(&self.signed(self.epoch, self.me, label, plaintext)).to_bytes()
        };
        let plaintext = GroupFrame { frame, checks }.encode(sign).ok()?;
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
        let malformed = Error::Malformed(Malformed::Message);
        let peer = self.members.get(usize::from(member)).ok_or(malformed.clone())?;
        if self.ended || (!peer.present && peer.farewell.is_empty()) {
            return Ok((Vec::new(), None));
        }
        let verify = |plaintext: &Plaintext, signature: &[u8; 64]| {
            let signed = self.signed(epoch, member, label, plaintext);
            VerifyingKey::from_bytes(&peer.identity)
                .is_ok_and(|key| key.verify_strict(&signed, &Signature::from_bytes(signature)).is_ok())
        };
        let GroupFrame { frame, checks } = GroupFrame::decode(plaintext, round, verify)?;
        let forged = frame.kind == Kind::Leave && self.farewell(member, &frame.content).is_none();
        if frame.kind == Kind::Rekey || forged {
            return Err(malformed);
        }

        let check_of = |member: u8| checks.get(usize::from(member)).copied().unwrap_or(0);
        let (mine, its) = (check_of(self.me), check_of(member));
        let peer = self.members.get_mut(usize::from(member)).ok_or(malformed)?;
        let newest = epoch == self.epoch && peer.heard < Some(round);
        if newest {
            peer.heard = Some(round);
        }
        let has = self.outbox.agrees(mine);
        let less = has.is_none_or(|has| has < peer.acknowledged);
        // Of its newest word only: boxes can be read in another order than they were written.
        if newest && less {
            peer.acknowledged = has.unwrap_or(self.outbox.forgotten());
        } else if let Some(has) = has {
            peer.acknowledged = peer.acknowledged.max(has);
        }
        let mut in_order = if newest && less && peer.present { self.outbox.differ() } else { Ok(()) };
        let mut delivered = Vec::new();
        if frame.kind.is_numbered() {
            let (before, sequence) = (frame.before, frame.sequence);
            let item = Item::received(before, sequence, frame.kind, frame.flags, &frame.content);
            let (whole, followed) = peer.inbox.follow(item);
            delivered = whole;
            in_order = in_order.and(followed);
        }
        if newest {
            in_order = in_order.and(peer.inbox.follow_back(its));
        }
        let mut events = Vec::new();
        events.extend(in_order.is_err().then_some(Event::WentBack));
        if self.change.as_ref().is_some_and(|change| change.epoch == epoch) {
            self.heard_changed(member);
        } else if let Some(echo) = Echo::decode(&frame.content).filter(|_| epoch == self.epoch)
            && frame.kind == Kind::Acknowledgement
        {
            self.take_echo(member, echo);
        }
        for mut whole in delivered {
            let content = whole.content.take_if(|_| whole.kind == Kind::Leave);
            match content.and_then(|content| self.farewell(member, &content)) {
                Some(farewell) => self.take_farewell(&farewell)?,
                None => events.push(Event::Delivered { member, whole }),
            }
        }
        events.extend(self.acknowledged().into_iter().map(Event::Acknowledged));
        Ok((events, frame.head))
    }

    fn farewell(&self, member: u8, signature: &[u8]) -> Option<Farewell> {
        let signature: [u8; FAREWELL_BYTES] = signature.try_into().ok()?;
        let farewell = Farewell { group: self.id, member, signature };
        self.members.get(usize::from(member)).filter(|peer| farewell.is_by(&peer.identity))?;
        Some(farewell)
    }

    /// Forgets what all present members have.
    pub(crate) fn acknowledged(&mut self) -> Vec<u32> {
        let others = (0..).zip(&self.members).filter(|(number, peer)| *number != self.me && peer.present);
        let all = others.map(|(_, peer)| peer.acknowledged).min();
        // With nobody left to hear it, nothing is held back for anybody.
        self.outbox.all_have(all.unwrap_or(u32::MAX))
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

#[cfg(test)]
mod tests;
