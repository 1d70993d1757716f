//! Groups: making them, ending them, and what their keeper does.

use rand_core::CryptoRng;

use super::{Client, MessageId, Notice, State, Warning};
use crate::conversation::{Conversation, ConversationId, Talk};
use crate::error::{InputError, Unknown};
use crate::group::{Farewell, Group, GroupCard, MEMBER_NAME_MAX, Member, News, Rekey, Task};
use crate::message::Kind;
use crate::name::is_same_name;
use crate::{Error, Round, UnixMillis};

/// Behind the name of a member who bears that of a contact and is somebody else.
const NOT_THE_CONTACT: &str = " (not your contact)";

impl Client {
    /// Makes a group of this person and others, whose names and identity keys are given, and the card to hand to all of
    /// them on a way that nobody else reads.
    ///
    /// The card alone gives the group's first keys. This client makes others as soon as it has heard all members, if it
    /// has all of them as contacts; else it warns with [`Warning::CardKeys`], and does so when they are.
    ///
    /// # Errors
    /// [`Error::Capacity`]; [`Error::Input`] for a name that is none or taken, or members that make no group, or, on a server
    /// with slots, are no contacts.
    pub fn create_group(
        &mut self,
        name: &str,
        members: &[(String, [u8; 32])],
        rng: &mut impl CryptoRng,
    ) -> Result<GroupCard, Error> {
        let me = (member_name(self.name()), self.identity());
        let all: Vec<_> = core::iter::once(me).chain(members.iter().cloned()).collect();
        let state = &mut self.state;
        let slots = state.slots_of(&all)?;
        let card = GroupCard::new(state.mark(), name, (all, slots), state.clock.newest(), rng)?;
        state.add_group(&card)?;
        Ok(card)
    }

    /// Joins the group of a card. Who bears a contact's name on it and is somebody else is warned of with
    /// [`Warning::NameBorrowed`]; [`Client::borrowed_names`] tells before.
    ///
    /// # Errors
    /// As for [`Client::create_group`]; [`Error::Input`] also if the card is for another server or does not name this
    /// person; [`Error::RoundTooFar`] if no time explains the rounds since it was made, or it is older than 2^19 rounds.
    pub fn join_group(&mut self, card: &GroupCard, now: UnixMillis) -> Result<ConversationId, Error> {
        if !self.state.is_marked_by(card.server) {
            return Err(Error::Input(InputError::CardElsewhere));
        }
        self.state.clock.explains(card.start, card.time, now)?;
        self.state.add_group(card)
    }

    /// The names on a card that are those of contacts, borne by somebody else. That is decided by identity keys: of a
    /// contact whose key has not come yet nothing is known, and the warning may come later.
    #[must_use]
    pub fn borrowed_names(&self, card: &GroupCard) -> Vec<String> {
        let borrowed = |(name, identity): &&(String, [u8; 32])| self.state.is_borrowed(name, identity);
        card.members.iter().filter(borrowed).map(|(name, _)| name.clone()).collect()
    }

    /// The members of a group, this person among them; none in a conversation of two.
    #[must_use]
    pub fn members(&self, id: ConversationId) -> Vec<Member> {
        let Ok(Talk::Group(group)) = self.state.conversation(id).map(|conversation| &conversation.talk)
        else {
            return Vec::new();
        };
        let shown = |member: Member| Member {
            name: self.state.shown_name(&member.card_name, &member.identity),
            ..member
        };
        group.members().map(shown).collect()
    }

    /// The member who makes a group's keys and alone removes others: its creator or, when that has left, the next on the
    /// card who is present.
    #[must_use]
    pub fn keeper(&self, id: ConversationId) -> Option<u8> {
        match &self.state.conversation(id).ok()?.talk {
            Talk::Group(group) => group.keeper(),
            Talk::Pair(_) => None,
        }
    }

    /// Leaves a group: says so there in the next turns, and to the members who are contacts, then forgets it, but for its id
    /// and who they were: whoever of them goes back to an older state, and counts on this person again, is told once more.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Input`] if the client is leaving already or was removed.
    pub fn leave_group(&mut self, id: ConversationId) -> Result<(), Error> {
        let identity = self.state.identity.key().clone();
        let group = self.state.group_mut(id)?;
        group.leave(&identity)?;
        let farewell = group.own_farewell(&identity).encode();
        let others: Vec<[u8; 32]> =
            group.members().filter(|member| member.present).map(|member| member.identity).collect();
        // Those who do not read it in the group, by other keys or too late, read it here.
        let contacts = others.iter().filter_map(|identity| self.state.reachable(identity));
        let contacts: Vec<_> = contacts.map(|contact| contact.id).collect();
        for contact in contacts {
            self.state.hand_over(contact, Kind::Leave, &farewell)?;
        }
        Ok(())
    }

    /// Removes a member from a group, of which this client must be the [`Client::keeper`]: when the next block of rounds
    /// begins it makes new keys and hands them to all others, who must be contacts, and tells the removed one, if it is a
    /// contact; whether it is. From now on this client says nothing more that the removed one could read. Until the keys are
    /// made, [`Client::keep_member`] takes it back.
    ///
    /// # Errors
    /// [`Error::Unknown`] for no such group or member; [`Error::Input`] if this client is not the keeper, or somebody
    /// who remains is no contact.
    pub fn remove_member(&mut self, id: ConversationId, number: u8) -> Result<bool, Error> {
        let group = self.state.group_mut(id)?;
        group.remove(number)?;
        let removed = group.members().find(|member| member.number == number);
        let told = removed.is_some_and(|member| self.state.reachable(&member.identity).is_some());
        // The keys themselves have to wait: a client that was away does not know the round, and a change may be under way.
        if let Err(error) = self.state.recipients(id) {
            self.state.group_mut(id)?.keep(number);
            return Err(error);
        }
        Ok(told)
    }

    /// Takes a removal back that has not been done: until the next block of rounds begins, or for as long as the keys for it
    /// cannot be made. What was never sent in the group is taken back, too, and told as [`Notice::NotSent`]: it was said for
    /// the others alone. How many texts that are.
    ///
    /// # Errors
    /// [`Error::Unknown`] for no such group, or a member that is not about to be removed; one who was removed does not come
    /// back; [`Error::Input`] if this client is leaving.
    pub fn keep_member(&mut self, id: ConversationId, number: u8) -> Result<usize, Error> {
        self.state.group_mut(id)?.take_back_removal(number)
    }
}

impl State {
    pub(super) fn group_mut(&mut self, id: ConversationId) -> Result<&mut Group, Error> {
        match &mut self.conversation_mut(id)?.talk {
            Talk::Group(group) => Ok(group),
            Talk::Pair(_) => Err(Error::Unknown(Unknown::Group)),
        }
    }

    pub(super) fn group_of(&mut self, group_id: &[u8; 16]) -> Option<&mut Group> {
        self.conversations.iter_mut().find_map(|conversation| match &mut conversation.talk {
            Talk::Group(group) if group.id() == group_id => Some(group),
            _ => None,
        })
    }

    /// What falls to this client in its groups when a round opens.
    pub(super) fn tend_groups(&mut self, round: Round) {
        let groups: Vec<ConversationId> = self.groups().collect();
        let pair = |other: &&Conversation| matches!(other.talk, Talk::Pair(_));
        let expecting = self.conversations.iter().filter(pair).any(|pair| identity_of(pair).is_none());
        for id in groups {
            self.compare_names(id);
            let Ok(group) = self.group_mut(id) else { continue };
            let due = match group.tend(round) {
                Task::Nothing => false,
                Task::NewKeys => true,
                Task::NewKeysFor(late) => {
                    late.iter().any(|identity| self.contact(identity).is_some_and(has_all_keys))
                }
                Task::Ask(members) => {
                    let (request, farewells) = (group.request(), group.farewells());
                    self.ask_for_keys(&members, &request, &farewells);
                    false
                }
            };
            if due
                && self.rekey(id, round).is_err()
                && let Ok(group) = self.group_mut(id)
            {
                group.refuse_keys(expecting);
            }
        }
    }

    /// Asks those of these members who are contacts, and have taken all that was asked before.
    fn ask_for_keys(&mut self, members: &[[u8; 32]], request: &Rekey, farewells: &[Farewell]) {
        let asked = members.iter().filter_map(|identity| self.reachable(identity));
        let asked: Vec<_> = asked.filter(|contact| has_all_keys(contact)).map(|contact| contact.id).collect();
        for contact in asked {
            // Whoever makes keys now may have gone back to before it heard that.
            for farewell in farewells {
                let _ = self.hand_over(contact, Kind::Leave, &farewell.encode());
            }
            // Who cannot be asked now is asked later.
            let _ = self.hand_over(contact, Kind::Rekey, &request.encode());
        }
    }

    /// Warns, once, of a member with the name of a contact whose key has come and is another.
    fn compare_names(&mut self, id: ConversationId) {
        if self.has_borrowed_names(id)
            && let Ok(group) = self.group_mut(id)
        {
            group.warn_of_names();
        }
    }

    /// What groups have to tell since they were last asked.
    pub(super) fn group_news(&mut self) -> Vec<Notice> {
        let groups: Vec<ConversationId> = self.groups().collect();
        let mut notices = Vec::new();
        for conversation in groups {
            let news = self.group_mut(conversation).map(Group::news).unwrap_or_default();
            notices.extend(news.into_iter().filter_map(|news| self.notice_of(conversation, news).ok()));
        }
        notices
    }

    fn notice_of(&self, conversation: ConversationId, news: News) -> Result<Notice, Error> {
        let message = |sequence| MessageId { conversation, sequence };
        Ok(match news {
            News::Left(member) => Notice::Left { conversation, from: self.name_of(conversation, member)? },
            News::Removed { by, member } => Notice::Removed {
                conversation,
                by: self.name_of(conversation, by)?,
                member: self.name_of(conversation, member)?,
                yourself: self.is_me(conversation, member),
            },
            News::Acknowledged(sequence) => Notice::Acknowledged { conversation, message: message(sequence) },
            News::NotSent(sequence) => Notice::NotSent { conversation, message: message(sequence) },
            News::NewKeys => Notice::NewKeys { conversation },
            News::CardKeys => Notice::Warning(Warning::CardKeys { conversation }),
            News::RekeyNeeded => Notice::Warning(Warning::RekeyNeeded { conversation }),
            News::KeysDiffer => Notice::Warning(Warning::KeysDiffer { conversation }),
            News::RekeyRefused => Notice::Warning(Warning::RekeyRefused { conversation }),
            News::NameBorrowed => Notice::Warning(Warning::NameBorrowed { conversation }),
        })
    }

    /// By which name to show who speaks in a conversation.
    pub(super) fn name_of(&self, id: ConversationId, member: u8) -> Result<String, Error> {
        let conversation = self.conversation(id)?;
        Ok(match &conversation.talk {
            Talk::Pair(pair) => self.name_of_peer(id, pair, &conversation.name),
            Talk::Group(group) => {
                let member = group.members().find(|other| other.number == member);
                let member = member.ok_or(Error::Unknown(Unknown::Member))?;
                self.shown_name(&member.card_name, &member.identity)
            }
        })
    }

    fn is_me(&self, id: ConversationId, member: u8) -> bool {
        let talk = self.conversation(id).map(|conversation| &conversation.talk);
        matches!(talk, Ok(Talk::Group(group)) if group.me() == member)
    }

    fn shown_name(&self, name: &str, identity: &[u8; 32]) -> String {
        match self.contact(identity) {
            Some(contact) => contact.name.clone(),
            None if self.is_borrowed(name, identity) => [name, NOT_THE_CONTACT].concat(),
            None => name.to_owned(),
        }
    }

    /// Whether a contact has this name and not this identity.
    fn is_borrowed(&self, name: &str, identity: &[u8; 32]) -> bool {
        if self.contact(identity).is_some() || self.identity.public() == *identity {
            return false;
        }
        let known = self.conversations.iter().filter(|other| identity_of(other).is_some());
        known.into_iter().any(|contact| is_same_name(&contact.name, name))
    }

    fn has_borrowed_names(&self, id: ConversationId) -> bool {
        let talk = self.conversation(id).map(|conversation| &conversation.talk);
        let borrowed = |member: Member| self.is_borrowed(&member.card_name, &member.identity);
        matches!(talk, Ok(Talk::Group(group)) if group.members().any(borrowed))
    }

    pub(super) fn contact(&self, identity: &[u8; 32]) -> Option<&Conversation> {
        self.conversations.iter().find(|conversation| identity_of(conversation).as_ref() == Some(identity))
    }

    /// A contact to whom keys can be handed over: one who has used up the numbers of its conversation must not keep the
    /// others from getting theirs.
    pub(super) fn reachable(&self, identity: &[u8; 32]) -> Option<&Conversation> {
        let numbers = |contact: &&Conversation| matches!(&contact.talk, Talk::Pair(pair) if pair.outbox().has_numbers());
        self.contact(identity).filter(numbers)
    }

    fn groups(&self) -> impl Iterator<Item = ConversationId> {
        let groups = self.conversations.iter().filter(|other| matches!(other.talk, Talk::Group(_)));
        groups.map(|group| group.id)
    }

    /// The conversations with all who remain in a group when its keys change next.
    ///
    /// # Errors
    /// [`Error::Input`] if somebody who remains is no contact.
    fn recipients(&mut self, id: ConversationId) -> Result<Vec<ConversationId>, Error> {
        let group = self.group_mut(id)?;
        let (me, excluded) = (group.me(), group.excluded_next());
        let remains = |member: &Member| member.number != me && !is_in(excluded, member.number);
        let remaining: Vec<[u8; 32]> =
            group.members().filter(remains).map(|member| member.identity).collect();
        let contacts = remaining.iter().map(|identity| self.reachable(identity).map(|contact| contact.id));
        let contacts: Option<Vec<ConversationId>> = contacts.collect();
        contacts.ok_or(Error::Input(InputError::NoContacts))
    }

    /// Makes new keys for a group, hands them to all who remain, and tells whom it removes.
    ///
    /// # Errors
    /// As for [`State::recipients`]; nothing is changed then.
    fn rekey(&mut self, id: ConversationId, round: Round) -> Result<(), Error> {
        let recipients = self.recipients(id)?;
        let fresh = self.fresh();
        let group = self.group_mut(id)?;
        let rekey = group.propose(fresh, round)?;
        let farewells = group.farewells();
        let removed = |member: &Member| member.present && is_in(rekey.excluded, member.number);
        let removed: Vec<[u8; 32]> = group.members().filter(removed).map(|member| member.identity).collect();
        let farewells: Vec<Vec<u8>> = farewells.iter().map(Farewell::encode).collect();
        for contact in recipients {
            if let Talk::Pair(pair) = &mut self.conversation_mut(contact)?.talk {
                pair.queue_keys(&rekey.group, &rekey.encode(), &farewells)?;
            }
        }
        let told: Vec<ConversationId> = removed
            .iter()
            .filter_map(|identity| self.reachable(identity))
            .map(|contact| contact.id)
            .collect();
        for contact in told {
            self.hand_over(contact, Kind::Rekey, &rekey.without_secret().encode())?;
        }
        self.group_mut(id)?.begin(&rekey, round)
    }

    pub(super) fn hand_over(
        &mut self,
        contact: ConversationId,
        kind: Kind,
        content: &[u8],
    ) -> Result<(), Error> {
        match &mut self.conversation_mut(contact)?.talk {
            Talk::Pair(pair) => pair.queue(kind, content).map(|_| ()),
            Talk::Group(_) => Err(Error::Unknown(Unknown::Contact)),
        }
    }

    /// Where the members of a group are heard, the first of whom is this person; nowhere in particular on a server without
    /// slots.
    fn slots_of(&self, members: &[(String, [u8; 32])]) -> Result<Vec<u32>, Error> {
        if !self.server.code.has_slots() {
            return Ok(Vec::new());
        }
        let own = self.addresses.number().ok_or(Error::Input(InputError::NoSlot))?;
        let others = members.iter().skip(1).map(|(_, identity)| self.slot_of(identity));
        let others: Option<Vec<u32>> = others.collect();
        let others = others.ok_or(Error::Input(InputError::UnknownSlot))?;
        Ok([vec![own], others].concat())
    }

    fn add_group(&mut self, card: &GroupCard) -> Result<ConversationId, Error> {
        if card.slots.is_empty() == self.server.code.has_slots() {
            return Err(Error::Input(InputError::CardElsewhere));
        }
        let same = |conversation: &Conversation| match &conversation.talk {
            Talk::Group(group) => *group.id() == card.id,
            Talk::Pair(_) => false,
        };
        if self.conversations.iter().any(same) {
            return Err(Error::Input(InputError::InGroup));
        }
        let identity = self.identity.public();
        let next = self.clock.next();
        let others = card.members.len().saturating_sub(1);
        let id = self.add(&card.name, others, || Group::new(card, identity, next).map(Talk::Group))?;
        for ((_, member), slot) in card.members.iter().zip(&card.slots) {
            self.addresses.hear_of(id, *member, *slot);
        }
        self.compare_names(id);
        Ok(id)
    }
}

fn is_in(members: u8, number: u8) -> bool {
    members.checked_shr(number.into()).is_some_and(|bits| bits & 1 == 1)
}

fn identity_of(conversation: &Conversation) -> Option<[u8; 32]> {
    match &conversation.talk {
        // Who passes for two contacts is the first of them.
        Talk::Pair(pair) => pair.peer_identity().filter(|_| !pair.is_double()),
        Talk::Group(_) => None,
    }
}

/// Whether a contact has taken all keys that were handed to it.
fn has_all_keys(contact: &Conversation) -> bool {
    matches!(&contact.talk, Talk::Pair(pair) if !pair.outbox().awaits(Kind::Rekey))
}

/// As much of a name as a group's card has room for.
fn member_name(name: &str) -> String {
    let mut length = name.len().min(MEMBER_NAME_MAX);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    name[..length].trim_end().to_owned()
}

#[cfg(test)]
mod tests;
