//! Invitations: making, accepting, listing and ending them, and contacts whom one has already.

use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};

use super::{Client, Notice, State, Warning};
use crate::conversation::{Conversation, ConversationId, Talk};
use crate::error::{InputError, Unknown};
use crate::invitation::{Invitation, InvitationMark, LIFE_MAX_MS, LIFE_MS};
use crate::pair::Pair;
use crate::pair::handshake::exchange_key;
use crate::secret::Secret;
use crate::{Error, UnixMillis};

/// Units of polling that a conversation of two has while it begins: for requests and for texts.
const UNITS: usize = 2;
/// Most used invitations that are remembered.
const USED_MAX: usize = 1024;

/// An invitation that somebody has yet to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInvitation {
    /// The conversation that is to come of it.
    pub conversation: ConversationId,
    /// The contact's name.
    pub contact: String,
    /// Whether it came from the contact and was accepted here; otherwise it was made here.
    pub accepted: bool,
    /// When it was made or accepted, by this client's clock.
    pub made: UnixMillis,
    /// When it ends if nobody has answered by then, by this client's clock.
    pub expires: UnixMillis,
}

/// To whom an identity key belongs that is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This person.
    Oneself,
    /// A contact that is there already.
    Contact(ConversationId),
}

/// An invitation that was accepted here. It outlives its conversation, so that no invitation serves twice.
#[derive(Serialize, Deserialize)]
pub(super) struct Used {
    mark: InvitationMark,
    expires: UnixMillis,
}

/// What the person is to be told with the next round that is read.
#[derive(Serialize, Deserialize)]
pub(super) enum Untold {
    Expired { conversation: ConversationId, contact: String, accepted: bool, texts: u32 },
    IdentityHeld { conversation: ConversationId, held: Option<ConversationId> },
}

impl Client {
    /// Makes a contact, and the invitation to hand to that person on a way that nobody else reads. It can be accepted for
    /// a week from `now`.
    ///
    /// # Errors
    /// [`Error::Capacity`]; [`Error::Input`] for a name that is none or taken.
    pub fn invite(
        &mut self,
        contact: &str,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<Invitation, Error> {
        let (exchange, share) = (Secret::random(rng), Secret::random(rng));
        let keys = (exchange_key(&exchange), self.identity());
        let state = &mut self.state;
        let (newest, next) = (state.clock.newest(), state.clock.next());
        let expires = UnixMillis(now.0.saturating_add(LIFE_MS));
        let invitation = Invitation::new(state.mark(), keys, newest, expires, rng);
        let talk = || Pair::inviting(&invitation, (exchange, share), now, next).map(Talk::Pair);
        state.add(contact, UNITS, talk)?;
        Ok(invitation)
    }

    /// Makes a contact of the person whose invitation it is, which may be another than the one who brought it:
    /// [`Client::holder`] says whether this person is known, and the next notices do. What is sent is the same in any
    /// case.
    ///
    /// # Errors
    /// As for [`Client::invite`]; [`Error::Input`] also if the invitation is for another server, was accepted already or
    /// has expired; [`Error::RoundTooFar`] if no time explains the rounds since it was made.
    pub fn accept(
        &mut self,
        contact: &str,
        invitation: &Invitation,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<ConversationId, Error> {
        let state = &mut self.state;
        if !state.is_marked_by(invitation.server) {
            return Err(Error::Input(InputError::InvitationElsewhere));
        }
        let mark = invitation.mark();
        if state.used.iter().any(|used| used.mark == mark) {
            return Err(Error::Input(InputError::InvitationUsed));
        }
        if now >= invitation.expires {
            return Err(Error::Input(InputError::InvitationExpired));
        }
        if invitation.expires.since(now) > LIFE_MAX_MS {
            return Err(Error::Input(InputError::InvitationTooLong));
        }
        if state.used.len() >= USED_MAX {
            return Err(Error::Input(InputError::TooManyAccepted));
        }
        state.clock.explains(invitation.start, invitation.time, now)?;
        let (exchange, share) = (Secret::random(rng), Secret::random(rng));
        let (identity, next) = (state.identity.key().clone(), state.clock.next());
        let talk = || Pair::accepting(invitation, (&exchange, share), &identity, now, next).map(Talk::Pair);
        let id = state.add(contact, UNITS, talk)?;
        state.used.push(Used { mark, expires: invitation.expires });
        if let Some(holder) = state.holder(invitation.identity, Some(id)) {
            state.pair_mut(id)?.set_double(true);
            state.untold.push(Untold::IdentityHeld { conversation: id, held: holder.contact() });
        }
        Ok(id)
    }

    /// Whether an identity is this person's own or that of a contact: of an invitation, before it is accepted, or of any
    /// other.
    #[must_use]
    pub fn holder(&self, identity: [u8; 32]) -> Option<Holder> {
        self.state.holder(identity, None)
    }

    /// Who it is with whom nothing can be said in this conversation, since it is this person, or a contact that was there
    /// before.
    #[must_use]
    pub fn double_of(&self, id: ConversationId) -> Option<Holder> {
        let Ok(Conversation { talk: Talk::Pair(pair), .. }) = self.state.conversation(id) else {
            return None;
        };
        self.state.holder(pair.named_identity().filter(|_| pair.is_double())?, Some(id))
    }

    /// The invitations, made and accepted, that somebody has yet to answer.
    #[must_use]
    pub fn invitations(&self) -> Vec<OpenInvitation> {
        let open = |conversation: &Conversation| {
            let Talk::Pair(pair) = &conversation.talk else { return None };
            let (made, expires) = pair.pending()?;
            let (id, contact, accepted) = (conversation.id, conversation.name.clone(), !pair.is_inviter());
            Some(OpenInvitation { conversation: id, contact, accepted, made, expires })
        };
        self.state.conversations.iter().filter_map(open).collect()
    }

    /// Ends an invitation that nobody has answered. Whoever has it can accept it still, and hears nothing.
    ///
    /// # Errors
    /// [`Error::Unknown`] for no such invitation.
    pub fn withdraw(&mut self, id: ConversationId) -> Result<(), Error> {
        if !self.invitations().iter().any(|open| open.conversation == id) {
            return Err(Error::Unknown(Unknown::Invitation));
        }
        self.state.remove(id);
        Ok(())
    }

    /// Forgets a conversation at once, with all its keys, and says nothing to anybody. An invitation that it came of
    /// cannot be accepted again.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn forget(&mut self, id: ConversationId) -> Result<(), Error> {
        self.state.conversation(id)?;
        self.state.remove(id);
        Ok(())
    }
}

impl Holder {
    /// The contact, if it is one.
    #[must_use]
    pub fn contact(self) -> Option<ConversationId> {
        match self {
            Self::Oneself => None,
            Self::Contact(id) => Some(id),
        }
    }
}

impl State {
    /// Ends what has expired, and frees its places.
    pub(super) fn end_expired(&mut self, now: UnixMillis) {
        self.used.retain(|used| now < used.expires);
        let expired = |conversation: &Conversation| {
            let Talk::Pair(pair) = &conversation.talk else { return None };
            pair.pending().filter(|(_, expires)| now >= *expires)?;
            let texts = u32::try_from(pair.outbox().texts()).unwrap_or(u32::MAX);
            let (contact, accepted) = (conversation.name.clone(), !pair.is_inviter());
            Some(Untold::Expired { conversation: conversation.id, contact, accepted, texts })
        };
        let expired: Vec<Untold> = self.conversations.iter().filter_map(expired).collect();
        for untold in &expired {
            self.remove(untold.conversation());
        }
        self.untold.extend(expired);
    }

    /// What has not been told yet.
    pub(super) fn tell(&mut self) -> Vec<Notice> {
        self.untold.drain(..).map(Notice::from).collect()
    }

    /// Erases a conversation. Another one with the same contact takes its place.
    pub(super) fn remove(&mut self, id: ConversationId) {
        let peer = self.pair_mut(id).ok().and_then(|pair| pair.peer_identity());
        self.conversations.retain(|conversation| conversation.id != id);
        self.untold.retain(|untold| untold.conversation() != id);
        self.keep_unshown_if(|text| text.conversation != id);
        for wants in self.wants.values_mut() {
            wants.retain(|want| want.conversation != id);
        }
        self.forget_strangers();
        let Some(peer) = peer.filter(|peer| *peer != self.own_identity()) else { return };
        let mut others: Vec<&mut Pair> = Vec::new();
        for conversation in &mut self.conversations {
            if let Talk::Pair(pair) = &mut conversation.talk
                && pair.peer_identity() == Some(peer)
            {
                others.push(pair);
            }
        }
        if others.iter().all(|pair| pair.is_double())
            && let Some(first) = others.first_mut()
        {
            first.set_double(false);
        }
    }

    /// This person's identity, and those of the contacts in other conversations than this one.
    pub(super) fn identities_held(&self, except: ConversationId) -> Vec<[u8; 32]> {
        let others = self.conversations.iter().filter(|other| other.id != except);
        let peers = others.filter_map(|other| match &other.talk {
            Talk::Pair(pair) => pair.peer_identity(),
            Talk::Group(_) => None,
        });
        peers.chain([self.own_identity()]).collect()
    }

    /// The name under which this person has the one who speaks in a conversation of two.
    pub(super) fn name_of_peer(&self, id: ConversationId, pair: &Pair, name: &str) -> String {
        let identity = pair.peer_identity().filter(|_| pair.is_double());
        match identity.and_then(|identity| self.holder(identity, Some(id))) {
            None => name.to_owned(),
            Some(Holder::Oneself) => self.name.clone(),
            Some(Holder::Contact(held)) => {
                self.conversation(held).map_or_else(|_| name.to_owned(), |held| held.name.clone())
            }
        }
    }

    /// In which conversation somebody is known, the one in which texts are said before all others.
    pub(super) fn holder(&self, identity: [u8; 32], except: Option<ConversationId>) -> Option<Holder> {
        if identity == self.own_identity() {
            return Some(Holder::Oneself);
        }
        let known = |conversation: &&Conversation| match &conversation.talk {
            Talk::Pair(pair) => Some(conversation.id) != except && pair.peer_identity() == Some(identity),
            Talk::Group(_) => false,
        };
        let double = |conversation: &&Conversation| match &conversation.talk {
            Talk::Pair(pair) => pair.is_double(),
            Talk::Group(_) => false,
        };
        let held = self.conversations.iter().filter(known).min_by_key(double);
        held.map(|conversation| Holder::Contact(conversation.id))
    }

    fn own_identity(&self) -> [u8; 32] {
        self.identity.public()
    }

    fn pair_mut(&mut self, id: ConversationId) -> Result<&mut Pair, Error> {
        match &mut self.conversation_mut(id)?.talk {
            Talk::Pair(pair) => Ok(pair),
            Talk::Group(_) => Err(Error::Unknown(Unknown::Contact)),
        }
    }
}

impl Untold {
    fn conversation(&self) -> ConversationId {
        match self {
            Self::Expired { conversation, .. } | Self::IdentityHeld { conversation, .. } => *conversation,
        }
    }
}

impl From<Untold> for Notice {
    fn from(untold: Untold) -> Self {
        match untold {
            Untold::Expired { conversation, contact, accepted, texts } => {
                Self::Expired { conversation, contact, accepted, texts }
            }
            Untold::IdentityHeld { conversation, held } => {
                Self::Warning(Warning::IdentityHeld { conversation, held })
            }
        }
    }
}
