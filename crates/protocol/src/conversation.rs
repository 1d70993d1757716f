//! What conversations of two and groups have in common: a name, a place in the cycles, and what comes out of them.

use serde::{Deserialize, Serialize};

use crate::Deposit;
use crate::group::Group;
use crate::pair::{KeyAgreement, Pair};
use crate::stream::Outbox;
use crate::turn::{Listening, Turn};

/// Number of a conversation in one client; not used again when the conversation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConversationId(pub u32);

/// With how many one talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationKind {
    /// With one contact.
    Contact,
    /// With the members of a group.
    Group,
}

/// What a list of conversations shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Its number.
    pub id: ConversationId,
    /// The contact's or the group's name.
    pub name: String,
    /// Contact or group.
    pub kind: ConversationKind,
    /// Whether texts can be sent; until then they wait.
    pub established: bool,
    /// Texts that are not acknowledged as a whole.
    pub queued: usize,
    /// Messages, of which a long text takes several, that were sent and are not acknowledged.
    pub unacknowledged: usize,
    /// Number of the newest message up to which all were sent at least once.
    pub sent: u32,
    /// A contact's: from what its keys follow.
    pub agreement: Option<KeyAgreement>,
    /// A group whose keys are still those of its card: whoever finds that can read what is said now.
    pub on_card: bool,
    /// A group from which this person was removed: nothing more is heard or said there.
    pub ended: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: ConversationId,
    pub(crate) name: String,
    /// Its place in the send cycle.
    pub(crate) place: u8,
    /// Its units of the poll cycle.
    pub(crate) units: Vec<u16>,
    pub(crate) talk: Talk,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Talk {
    Pair(Pair),
    Group(Group),
}

impl Talk {
    pub(crate) fn outbox(&self) -> &Outbox {
        match self {
            Self::Pair(pair) => pair.outbox(),
            Self::Group(group) => group.outbox(),
        }
    }
}

impl Conversation {
    /// Uses up the sending keys of a round, and says which boxes to look for if these units are polled.
    ///
    /// With m boxes, unit number u of the conversation stands for box u mod m. One that is spare is among them only in rounds in
    /// which there is a unit for each.
    pub(crate) fn open_round(&mut self, turn: &Turn, polled: &[u16]) -> (Option<Deposit>, Vec<Listening>) {
        let (deposit, mut listening) = match &mut self.talk {
            Talk::Pair(pair) => pair.open_round(turn),
            Talk::Group(group) => group.open_round(turn),
        };
        if self.units.iter().filter(|unit| polled.contains(unit)).count() < listening.len() {
            listening.retain(|listening| !listening.spare);
        }
        let boxes = listening.len();
        let serves = |number: usize| {
            let own = self.units.iter().enumerate().filter(|(unit, _)| unit % boxes == number);
            own.into_iter().any(|(_, unit)| polled.contains(unit))
        };
        let listening = listening.into_iter().enumerate().filter(|(number, _)| serves(*number));
        (deposit, listening.map(|(_, listening)| listening).collect())
    }

    /// Whether further numbered messages are taken. The others are not acknowledged, and come again.
    pub(crate) fn make_room(&mut self, room: bool) {
        match &mut self.talk {
            Talk::Pair(pair) => pair.make_room(room),
            Talk::Group(group) => group.make_room(room),
        }
    }

    pub(crate) fn summary(&self) -> ConversationSummary {
        let (kind, established) = match &self.talk {
            Talk::Pair(pair) => (ConversationKind::Contact, pair.established() && !pair.is_double()),
            Talk::Group(group) => (ConversationKind::Group, !group.is_ended()),
        };
        let agreement = match &self.talk {
            Talk::Pair(pair) => Some(pair.agreement()),
            Talk::Group(_) => None,
        };
        let outbox = self.talk.outbox();
        let (on_card, ended) = match &self.talk {
            Talk::Pair(_) => (false, false),
            Talk::Group(group) => (group.is_on_card(), group.is_ended()),
        };
        ConversationSummary {
            id: self.id,
            name: self.name.clone(),
            kind,
            established,
            queued: outbox.texts(),
            unacknowledged: outbox.unacknowledged(),
            sent: outbox.sent(),
            agreement,
            on_card,
            ended,
        }
    }
}

#[cfg(test)]
mod moments;
#[cfg(test)]
mod turns;
