//! Contacts and groups: making them, ending them, talking in them.

use rand_core::CryptoRng;

use super::{Client, MessageId, State};
use crate::conversation::{Conversation, ConversationId, ConversationSummary, Talk};
use crate::group::{Group, GroupCard, MEMBER_NAME_MAX, Member};
use crate::invitation::{Invitation, server_mark};
use crate::message::Kind;
use crate::name::is_name;
use crate::pair::Pair;
use crate::secret::Secret;
use crate::{Error, UnixMillis};

/// Most bytes of a name.
const NAME_MAX: usize = 64;

impl Client {
    /// Makes a contact, and the invitation to hand to that person on a way that nobody else reads.
    ///
    /// # Errors
    /// [`Error::Capacity`]; [`Error::Input`] for a name that is none or taken.
    pub fn invite(
        &mut self,
        contact: &str,
        _now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<Invitation, Error> {
        let state = &mut self.state;
        let invitation = Invitation::new(&state.server.manifest_key, state.clock.newest(), rng);
        state.add_pair(contact, true, &invitation, rng)?;
        Ok(invitation)
    }

    /// Makes a contact of the person from whom the invitation came.
    ///
    /// # Errors
    /// As for [`Client::invite`]; [`Error::Input`] also if the invitation is for another server or was used already;
    /// [`Error::RoundTooFar`] if no time explains the rounds since it was made.
    pub fn accept(
        &mut self,
        contact: &str,
        invitation: &Invitation,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<ConversationId, Error> {
        let state = &mut self.state;
        if invitation.server != server_mark(&state.server.manifest_key) {
            return Err(Error::Input("this invitation is for another server"));
        }
        state.clock.explains(invitation.start, invitation.time, now)?;
        let used = |conversation: &Conversation| match &conversation.talk {
            Talk::Pair(pair) => pair.began_with(invitation),
            Talk::Group(_) => false,
        };
        if state.conversations.iter().any(used) {
            return Err(Error::Input("this invitation is your own, or you have accepted it already"));
        }
        state.add_pair(contact, false, invitation, rng)
    }

    /// Makes a group of this person and others, whose names and identity keys are given, and the card to hand to all of
    /// them on a way that nobody else reads.
    ///
    /// # Errors
    /// [`Error::Capacity`]; [`Error::Input`] for a name that is none or taken, or members that make no group.
    pub fn create_group(
        &mut self,
        name: &str,
        members: &[(String, [u8; 32])],
        _now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<GroupCard, Error> {
        let me = (member_name(self.name()), self.identity());
        let all = core::iter::once(me).chain(members.iter().cloned()).collect();
        let state = &mut self.state;
        let card = GroupCard::new(&state.server.manifest_key, name, all, state.clock.newest(), rng)?;
        state.add_group(&card)?;
        Ok(card)
    }

    /// Joins the group of a card.
    ///
    /// # Errors
    /// As for [`Client::create_group`]; [`Error::Input`] also if the card is for another server or does not name this
    /// person; [`Error::RoundTooFar`] if no time explains the rounds since it was made.
    pub fn join_group(&mut self, card: &GroupCard, now: UnixMillis) -> Result<ConversationId, Error> {
        if card.server != server_mark(&self.state.server.manifest_key) {
            return Err(Error::Input("this group card is for another server"));
        }
        self.state.clock.explains(card.start, card.time, now)?;
        self.state.add_group(card)
    }

    /// All conversations, by number.
    #[must_use]
    pub fn conversations(&self) -> Vec<ConversationSummary> {
        self.state.conversations.iter().map(Conversation::summary).collect()
    }

    /// The conversation of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ConversationId> {
        let named = |conversation: &&Conversation| conversation.name == name;
        self.state.conversations.iter().find(named).map(|conversation| conversation.id)
    }

    /// A contact's identity key, once it has come.
    #[must_use]
    pub fn contact_identity(&self, id: ConversationId) -> Option<[u8; 32]> {
        match &self.state.conversation(id).ok()?.talk {
            Talk::Pair(pair) => pair.peer_identity(),
            Talk::Group(_) => None,
        }
    }

    /// The members of a group, this person among them; none in a conversation of two.
    #[must_use]
    pub fn members(&self, id: ConversationId) -> Vec<Member> {
        match self.state.conversation(id).map(|conversation| &conversation.talk) {
            Ok(Talk::Group(group)) => group.members().collect(),
            _ => Vec::new(),
        }
    }

    /// Hands in a text, of at most 16 KiB. It waits until the conversation is established, and is repeated until
    /// [`super::Notice::Acknowledged`].
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Input`] for a text that is empty or too long, or the 65th that waits.
    pub fn queue_text(&mut self, id: ConversationId, text: &str) -> Result<MessageId, Error> {
        if text.is_empty() {
            return Err(Error::Input("there is no text"));
        }
        let sequence = match &mut self.state.conversation_mut(id)?.talk {
            Talk::Pair(pair) => pair.queue(Kind::Text, text.as_bytes())?,
            Talk::Group(group) => group.queue(Kind::Text, text.as_bytes())?,
        };
        Ok(MessageId { conversation: id, sequence })
    }

    /// Leaves a group: says so in the next turns, then forgets it.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Input`] if the client is leaving already.
    pub fn leave_group(&mut self, id: ConversationId) -> Result<(), Error> {
        self.state.group_mut(id)?.leave()
    }

    /// Removes a member from a group: makes new keys and hands them to all others, who must be contacts.
    ///
    /// # Errors
    /// [`Error::Unknown`] for no such group or member; [`Error::Input`] if somebody who remains is no contact.
    pub fn remove_member(&mut self, id: ConversationId, number: u8) -> Result<(), Error> {
        let group = self.state.group_mut(id)?;
        let present = |member: &Member| member.number == number && member.present && number != group.me();
        if !group.members().any(|member| present(&member)) {
            return Err(Error::Unknown("member"));
        }
        self.state.rekey(id, number)
    }

    /// Forgets a conversation at once, with all its keys, and says nothing to anybody.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn forget(&mut self, id: ConversationId) -> Result<(), Error> {
        self.state.conversation(id)?;
        self.state.conversations.retain(|conversation| conversation.id != id);
        self.state.unshown.retain(|text| text.conversation != id);
        for wants in self.state.wants.values_mut() {
            wants.retain(|want| want.conversation != id);
        }
        Ok(())
    }
}

impl State {
    pub(super) fn conversation(&self, id: ConversationId) -> Result<&Conversation, Error> {
        let found = self.conversations.iter().find(|conversation| conversation.id == id);
        found.ok_or(Error::Unknown("conversation"))
    }

    pub(super) fn conversation_mut(&mut self, id: ConversationId) -> Result<&mut Conversation, Error> {
        let found = self.conversations.iter_mut().find(|conversation| conversation.id == id);
        found.ok_or(Error::Unknown("conversation"))
    }

    pub(super) fn group_mut(&mut self, id: ConversationId) -> Result<&mut Group, Error> {
        match &mut self.conversation_mut(id)?.talk {
            Talk::Group(group) => Ok(group),
            Talk::Pair(_) => Err(Error::Unknown("group")),
        }
    }

    /// Makes new keys for a group without `removed`, and queues them for all who remain.
    ///
    /// # Errors
    /// [`Error::Input`] if somebody who remains is no contact; nothing is changed then.
    pub(super) fn rekey(&mut self, id: ConversationId, removed: u8) -> Result<(), Error> {
        let next = self.clock.next();
        let fresh = self.fresh();
        let group = self.group_mut(id)?;
        let me = group.me();
        let rekey = group.propose(removed, fresh, next)?;
        let remains = |member: &Member| member.present && member.number != removed && member.number != me;
        let remaining: Vec<[u8; 32]> =
            group.members().filter(remains).map(|member| member.identity).collect();

        let is_remaining = |conversation: &&mut Conversation| match &conversation.talk {
            Talk::Pair(pair) => pair.peer_identity().is_some_and(|identity| remaining.contains(&identity)),
            Talk::Group(_) => false,
        };
        let mut contacts: Vec<&mut Conversation> = Vec::new();
        for contact in self.conversations.iter_mut().filter(is_remaining) {
            let known = |other: &&mut Conversation| identity(other) == identity(contact);
            if !contacts.iter().any(known) {
                contacts.push(contact);
            }
        }
        if contacts.len() != remaining.len() {
            return Err(Error::Input("only one who has all other members as contacts can remove somebody"));
        }
        for contact in contacts {
            if let Talk::Pair(pair) = &mut contact.talk {
                pair.queue(Kind::Rekey, &rekey.encode())?;
            }
        }
        self.group_mut(id)?.apply(me, rekey, next)?;
        Ok(())
    }

    fn add_pair(
        &mut self,
        contact: &str,
        inviter: bool,
        invitation: &Invitation,
        rng: &mut impl CryptoRng,
    ) -> Result<ConversationId, Error> {
        let identity = self.signing_key().verifying_key().to_bytes();
        let next = self.clock.next();
        let exchange = Secret::random(rng);
        self.add(contact, 2, || Pair::new(inviter, invitation, exchange, identity, next).map(Talk::Pair))
    }

    fn add_group(&mut self, card: &GroupCard) -> Result<ConversationId, Error> {
        let same = |conversation: &Conversation| match &conversation.talk {
            Talk::Group(group) => *group.id() == card.id,
            Talk::Pair(_) => false,
        };
        if self.conversations.iter().any(same) {
            return Err(Error::Input("you are in this group already"));
        }
        let identity = self.signing_key().verifying_key().to_bytes();
        let next = self.clock.next();
        let others = card.members.len().saturating_sub(1);
        self.add(&card.name, others, || Group::new(card, identity, next).map(Talk::Group))
    }

    fn add(
        &mut self,
        name: &str,
        units: usize,
        talk: impl FnOnce() -> Result<Talk, Error>,
    ) -> Result<ConversationId, Error> {
        check_name(name)?;
        if self.conversations.iter().any(|conversation| conversation.name == name) {
            return Err(Error::Input("there is a conversation of that name already"));
        }
        let full = Error::Capacity { capacity: self.cycle.places().into() };
        let taken = |place: &u8| self.conversations.iter().any(|conversation| conversation.place == *place);
        let place = (0..self.cycle.places()).find(|place| !taken(place)).ok_or(full.clone())?;
        let polled = |unit: &u16| self.conversations.iter().any(|talk| talk.units.contains(unit));
        let free: Vec<u16> = (0..self.cycle.units()).filter(|unit| !polled(unit)).take(units).collect();
        if free.len() != units {
            return Err(full);
        }
        let next_id = self.next_id.checked_add(1).ok_or(full)?;
        let id = ConversationId(self.next_id);
        self.conversations.push(Conversation {
            id,
            name: name.to_owned(),
            place,
            units: free,
            talk: talk()?,
        });
        self.next_id = next_id;
        Ok(id)
    }
}

fn identity(conversation: &Conversation) -> Option<[u8; 32]> {
    match &conversation.talk {
        Talk::Pair(pair) => pair.peer_identity(),
        Talk::Group(_) => None,
    }
}

/// # Errors
/// [`Error::Input`] unless it has 1 to 64 bytes and no control characters or others that would make it look different.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name, NAME_MAX) {
        return Err(Error::Input("a name has 1 to 64 bytes and no control or invisible characters"));
    }
    Ok(())
}

/// As much of a name as a group's card has room for.
fn member_name(name: &str) -> String {
    let mut length = name.len().min(MEMBER_NAME_MAX);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    name[..length].to_owned()
}
