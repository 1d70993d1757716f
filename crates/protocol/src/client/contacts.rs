//! What all conversations have in common: their names and places, and talking in them.

use super::{Client, MessageId, State};
use crate::Error;
use crate::conversation::{Conversation, ConversationId, ConversationSummary, Talk};
use crate::error::{InputError, Unknown};
use crate::message::Kind;
use crate::name::is_name;

/// Most bytes of a name.
const NAME_MAX: usize = 64;

impl Client {
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
            return Err(Error::Input(InputError::NoText));
        }
        let sequence = match &mut self.state.conversation_mut(id)?.talk {
            Talk::Pair(pair) => pair.queue(Kind::Text, text.as_bytes())?,
            Talk::Group(group) => group.queue(Kind::Text, text.as_bytes())?,
        };
        Ok(MessageId { conversation: id, sequence })
    }

    /// Gives a conversation another name, which nobody else sees.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Input`] for a name that is none or taken by another conversation.
    pub fn rename(&mut self, id: ConversationId, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let named = |other: &Conversation| other.name == name && other.id != id;
        if self.state.conversations.iter().any(named) {
            return Err(Error::Input(InputError::NameTaken));
        }
        name.clone_into(&mut self.state.conversation_mut(id)?.name);
        Ok(())
    }
}

impl State {
    pub(super) fn conversation(&self, id: ConversationId) -> Result<&Conversation, Error> {
        let found = self.conversations.iter().find(|conversation| conversation.id == id);
        found.ok_or(Error::Unknown(Unknown::Conversation))
    }

    pub(super) fn conversation_mut(&mut self, id: ConversationId) -> Result<&mut Conversation, Error> {
        let found = self.conversations.iter_mut().find(|conversation| conversation.id == id);
        found.ok_or(Error::Unknown(Unknown::Conversation))
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        units: usize,
        talk: impl FnOnce() -> Result<Talk, Error>,
    ) -> Result<ConversationId, Error> {
        check_name(name)?;
        if self.conversations.iter().any(|conversation| conversation.name == name) {
            return Err(Error::Input(InputError::NameTaken));
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

/// Whether a contact or group can be called that.
///
/// # Errors
/// [`Error::Input`] unless it has 1 to 64 bytes and no control characters or others that would make it look different.
pub fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name, NAME_MAX) {
        return Err(Error::Input(InputError::Name));
    }
    Ok(())
}
