//! Contacts: making them; and talking in all conversations.

use rand_core::CryptoRng;

use super::{Client, MessageId, State};
use crate::conversation::{Conversation, ConversationId, ConversationSummary, Talk};
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

    pub(super) fn add(
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

/// # Errors
/// [`Error::Input`] unless it has 1 to 64 bytes and no control characters or others that would make it look different.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name, NAME_MAX) {
        return Err(Error::Input("a name has 1 to 64 bytes and no control or invisible characters"));
    }
    Ok(())
}
