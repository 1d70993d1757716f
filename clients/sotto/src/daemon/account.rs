//! What needs nothing but the account's state: done by the running participant, or, where it shows to nobody, on the
//! state itself while none runs.

mod past;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use sotto_protocol::base32::BASE32;
use sotto_protocol::client::{Client, Holder, Unshown};
use sotto_protocol::error::InputError;
use sotto_protocol::{ConversationId, ConversationKind, Error, GroupCard, KeyAgreement};

use super::blocked::Blocked;
use super::history::ways::Ways;
use super::message::{
    Account, Conversation, Invitation, Keys, Kind, Member, Private, Quote, Reply, Said, Standing, Text,
};
use super::notes::pace;
use super::parcel::is_content;
use super::reply::{self, Roster, Writer};
use crate::cli::failure::Failure;
use crate::{Address, meeting};
use sotto_participant::host::now;

/// Texts go to a program in portions, each in one frame: so many bytes of JSON, of which a byte of a text takes at most six.
const PORTION_BYTES: usize = 192 * 1024;
const WORST_BYTES: usize = 6;
/// More than the rest of a text takes, with what it quotes and where a file is.
const REST_BYTES: usize = 2048;

impl Account {
    /// Whether the state stays as it is.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Contacts
                | Self::Invitations
                | Self::Identity
                | Self::Pace { .. }
                | Self::Words { .. }
                | Self::Past { .. }
                | Self::PastOf { .. }
                | Self::Keeps
        )
    }

    /// Answers what [`Account::only_looks`].
    ///
    /// # Errors
    /// What to tell the person.
    pub(crate) fn look(&self, client: &Client, blocked: &Blocked, ways: &Ways) -> Result<Reply, Failure> {
        match self {
            Self::Contacts => Ok(Reply::Conversations(conversations(client, blocked, ways))),
            Self::Invitations => Ok(Reply::Invitations(invitations(client))),
            Self::Identity => Ok(Reply::Identity(encode_identity(&client.identity()))),
            Self::Pace { contact } => {
                Ok(Reply::Pace(pace(client.server(), client.settings().conversations, contact)))
            }
            Self::Words { contact } => words(client, contact),
            _ => Err(Failure::other("this changes the account")),
        }
    }

    /// Why this is not done with a conversation that is blocked.
    ///
    /// # Errors
    /// What to tell the person, if it is a text for one, or if it would show again, without a word, what somebody says in groups.
    pub(crate) fn check(&self, client: &Client, blocked: &Blocked) -> Result<(), Failure> {
        let id = match self {
            Self::Say { conversation, .. } => client.find(conversation),
            Self::SayTo { id, .. } => Some(*id),
            Self::SendFile { conversation, .. } => client.find(conversation),
            Self::Forget { name } => return stays_blocked(client, blocked, name),
            _ => None,
        };
        let Some(id) = id.filter(|id| blocked.blocks(*id)) else { return Ok(()) };
        let named = client.conversations().into_iter().find(|conversation| conversation.id == id);
        let name = named.map_or_else(|| "?".to_owned(), |conversation| conversation.name);
        Err(Failure::other(format!("{name} is blocked; 'sotto unblock {name}' first")).coded("blocked"))
    }

    /// Does as told, at a server of this address.
    ///
    /// # Errors
    /// What to tell the person; the client is as before then.
    pub(crate) fn perform(self, client: &mut Client, server: &Address) -> Result<Reply, Failure> {
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        match self {
            Self::Invite { contact } => {
                let invitation = client.invite(&contact, now(), &mut rng)?;
                return Ok(Reply::Invitation(meeting::join(server, &invitation)));
            }
            Self::Accept { contact, invitation } => {
                let (of, invitation) = meeting::split(&invitation)?;
                if of.is_some_and(|of| of.root_key() != server.root_key()) {
                    return Err(Error::Input(InputError::InvitationElsewhere).into());
                }
                let holder = client.holder(invitation.identity());
                client.accept(&contact, &invitation, now(), &mut rng).map_err(stale)?;
                let named = |id| client.conversations().into_iter().find(|other| other.id == id);
                let name = |holder: Holder| holder.contact().and_then(named).map(|held| held.name);
                let held = holder.map(|holder| name(holder).unwrap_or_else(|| "yourself".to_owned()));
                return Ok(Reply::Accepted { held });
            }
            Self::Withdraw { contact } => {
                client.withdraw(find(client, &contact)?).map_err(|_| {
                    Failure::other(format!(
                        "{contact} has answered, or never was invited; 'sotto forget {contact}' ends the conversation"
                    ))
                })?;
            }
            Self::SetAside => client.set_aside(),
            Self::Forget { name } => client.forget(find(client, &name)?)?,
            Self::Rename { name, to } => client.rename(find(client, &name)?, &to)?,
            Self::CreateGroup { name, members } => {
                let members = members.iter().map(|member| parse_member(client, member));
                let members = members.collect::<Result<Vec<_>, _>>()?;
                let card = client.create_group(&name, &members, &mut rng)?;
                return Ok(Reply::Card(Private::new(card.to_string())));
            }
            Self::JoinGroup { card } => {
                let card: GroupCard = parse(&card)?;
                client.join_group(&card, now()).map_err(stale)?;
                return Ok(Reply::Joined { group: card.name().to_owned() });
            }
            Self::LeaveGroup { name } => client.leave_group(find(client, &name)?)?,
            Self::RemoveMember { group, member } => remove_member(client, &group, &member)?,
            Self::KeepMember { group, member } => {
                return Ok(Reply::Kept { texts: keep_member(client, &group, &member)? });
            }
            Self::Say { conversation, text } => {
                let message = client.queue_text(find(client, &conversation)?, &text.0)?;
                let waiting = waiting(client, message.conversation);
                return Ok(Reply::Queued { sequence: message.sequence, waiting });
            }
            Self::SayTo { id, text } => {
                let message = client.queue_text(id, &text.0)?;
                return Ok(Reply::Queued { sequence: message.sequence, waiting: waiting(client, id) });
            }
            Self::Unshown { conversation } => {
                let mut texts = unshown(client, conversation.as_deref(), &Blocked::default())?;
                texts.iter_mut().for_each(|text| text.again = client.was_offered(text.number));
                client.offer(&texts.iter().map(|text| text.number).collect());
                return Ok(Reply::Texts(texts));
            }
            Self::Offer { id, number } => {
                let about = client.unshown().filter(|text| text.conversation == id && text.number <= number);
                let numbers: BTreeSet<u64> = about.map(|text| text.number).collect();
                let again = numbers.iter().copied().filter(|number| client.was_offered(*number)).collect();
                client.offer(&numbers);
                return Ok(Reply::Offered { again });
            }
            Self::Shown { id, number } => client.shown(id, number),
            Self::SendFile { .. } => return Err(Failure::other("a file is sent by who is online")),
            looks => return looks.look(client, &Blocked::default(), &Ways::default()),
        }
        Ok(Reply::Done)
    }
}

/// The conversation of that name.
pub(super) fn find(client: &Client, name: &str) -> Result<ConversationId, Failure> {
    client.find(name).ok_or_else(|| {
        Failure::other(format!(
            "there is no contact or group '{name}'; 'sotto contacts' lists those there are"
        ))
    })
}

/// Texts of a conversation that have not arrived.
pub(super) fn waiting(client: &Client, id: ConversationId) -> usize {
    client.conversations().iter().find(|conversation| conversation.id == id).map_or(0, |found| found.queued)
}

/// Nobody who is forgotten can be blocked.
fn stays_blocked(client: &Client, blocked: &Blocked, name: &str) -> Result<(), Failure> {
    let id = client.find(name).filter(|id| blocked.blocks(*id));
    let Some(identity) = id.and_then(|id| client.contact_identity(id)) else { return Ok(()) };
    let is_there = |id| client.members(id).iter().any(|member| member.identity == identity);
    let shared = client.conversations().into_iter().find(|conversation| is_there(conversation.id));
    let Some(group) = shared else { return Ok(()) };
    Err(Failure::other(format!(
        "{name} is blocked, and a member of {}: what {name} says there is shown again if you forget {name}; 'sotto unblock \
         {name}' first if that is well, or leave the group",
        group.name
    ))
    .coded("blocked"))
}

/// Texts that nobody has seen and somebody is to see, by number, as programs show them.
pub(super) fn texts(client: &Client, blocked: &Blocked) -> Vec<Text> {
    let unshown = client.unshown().filter(|text| !blocked.hides_text(client, text));
    let unshown = unshown.filter(|text| !is_content(&text.text));
    unshown.map(|unshown| as_shown(client, unshown)).collect()
}

/// A text as programs show it.
pub(super) fn as_shown(client: &Client, unshown: &Unshown) -> Text {
    let conversations = client.conversations();
    let found = conversations.iter().find(|conversation| conversation.id == unshown.conversation);
    let (reference, said) = reply::read(&unshown.text);
    let quote = reference.map(|sought| {
        let roster = Roster::of(client, unshown.conversation);
        let from = sought.writer(&roster, &Writer::Other(unshown.from.clone())).name();
        Quote { from, text: None, sought: Some(sought) }
    });
    Text {
        number: unshown.number,
        id: unshown.conversation,
        conversation: found.map_or_else(|| "?".to_owned(), |conversation| conversation.name.clone()),
        group: found.is_some_and(|conversation| conversation.kind == ConversationKind::Group),
        from: unshown.from.clone(),
        text: Private::new(said),
        sequence: unshown.sequence,
        at_ms: None,
        quote,
        file: None,
        again: false,
    }
}

/// What was said from here, as programs show it.
pub(super) fn as_said(client: &Client, id: ConversationId, sequence: u32, text: &str) -> Said {
    let (reference, said) = reply::read(text);
    let quote = reference.map(|sought| {
        let from = sought.writer(&Roster::of(client, id), &Writer::Me).name();
        Quote { from, text: None, sought: Some(sought) }
    });
    Said { id, sequence, text: Private::new(said), at_ms: now().0, quote, file: None }
}

/// The first texts that nobody has seen, in one conversation or all.
pub(super) fn unshown(
    client: &Client,
    conversation: Option<&str>,
    blocked: &Blocked,
) -> Result<Vec<Text>, Failure> {
    let wanted = conversation.map(|name| find(client, name)).transpose()?;
    let mut texts = texts(client, blocked);
    texts.retain(|text| wanted.is_none_or(|wanted| wanted == text.id));
    Ok(portion(texts))
}

/// The first of them that go into one frame.
fn portion(texts: Vec<Text>) -> Vec<Text> {
    let mut bytes = 0;
    let portion = texts.into_iter().take_while(|text| {
        let first = bytes == 0;
        bytes += WORST_BYTES * text.text.0.len() + REST_BYTES;
        first || bytes <= PORTION_BYTES
    });
    portion.collect()
}

fn conversations(client: &Client, blocked: &Blocked, ways: &Ways) -> Vec<Conversation> {
    standings(client, blocked, ways).into_iter().map(|standing| standing.conversation).collect()
}

/// How all conversations stand.
pub(super) fn standings(client: &Client, blocked: &Blocked, ways: &Ways) -> Vec<Standing> {
    let unread = |id| {
        let of_it = client.unshown().filter(|text| text.conversation == id);
        of_it.filter(|text| !blocked.hides_text(client, text) && !is_content(&text.text)).count()
    };
    let conversation = |summary: sotto_protocol::ConversationSummary| Conversation {
        kind: match summary.kind {
            ConversationKind::Contact => Kind::Contact,
            ConversationKind::Group => Kind::Group,
        },
        established: summary.established,
        queued: summary.queued,
        unacknowledged: summary.unacknowledged,
        unread: unread(summary.id),
        identity: client.contact_identity(summary.id).map(|key| encode_identity(&key)),
        keys: summary.agreement.filter(|_| summary.established).map(keys),
        members: client.members(summary.id).into_iter().map(member).collect(),
        blocked: blocked.blocks(summary.id),
        files: if blocked.blocks(summary.id) { Vec::new() } else { ways.of(client, summary.id) },
        name: summary.name,
    };
    let standing = |summary: sotto_protocol::ConversationSummary| Standing {
        id: summary.id,
        sent: summary.sent,
        conversation: conversation(summary),
    };
    client.conversations().into_iter().map(standing).collect()
}

fn keys(agreement: KeyAgreement) -> Keys {
    match agreement {
        KeyAgreement::Hybrid => Keys::Hybrid,
        KeyAgreement::Renewing => Keys::Renewing,
        // What is not known here is said to be the least.
        _ => Keys::Classical,
    }
}

fn member(member: sotto_protocol::Member) -> Member {
    Member {
        identity: encode_identity(&member.identity),
        name: member.name,
        present: member.present,
        removing: member.removing,
    }
}

/// What a contact sees, too, if each has the other's identity.
fn words(client: &Client, contact: &str) -> Result<Reply, Failure> {
    let id = find(client, contact)?;
    let Some(identity) = client.contact_identity(id) else {
        return Err(Failure::other(format!(
            "the identity of {contact} is not known; that of a contact comes with the first answer, and in a group each \
             member is compared as a contact"
        )));
    };
    let list = bip39::Language::English.word_list();
    let words = sotto_protocol::verification(&client.identity(), &identity);
    Ok(Reply::Words(words.map(|number| list[usize::from(number)].to_owned()).to_vec()))
}

fn invitations(client: &Client) -> Vec<Invitation> {
    let invitation = |open: sotto_protocol::client::OpenInvitation| Invitation {
        contact: open.contact,
        accepted: open.accepted,
        made_ms: open.made.0,
        expires_ms: open.expires.0,
    };
    client.invitations().into_iter().map(invitation).collect()
}

fn remove_member(client: &mut Client, group: &str, member: &str) -> Result<(), Failure> {
    let id = find(client, group)?;
    let found = find_member(client, id, (group, member), |other| other.present)?;
    if found.removing {
        return Err(Failure::other(format!(
            "{member} is to be removed from {group} already; 'sotto group keep {group} {member}' takes it back"
        )));
    }
    // Whether the one removed can be told: who is no contact sees that nothing comes any more.
    client.remove_member(id, found.number).map(|_| ()).map_err(Into::into)
}

/// How many texts are taken back with the removal.
fn keep_member(client: &mut Client, group: &str, member: &str) -> Result<usize, Failure> {
    let id = find(client, group)?;
    let removing = client.members(id).iter().any(|other| other.removing && is_called(other, member));
    let found = find_member(client, id, (group, member), |other| other.removing == removing)?;
    match client.keep_member(id, found.number) {
        Ok(texts) => Ok(texts),
        Err(Error::Unknown(_)) if found.present => {
            Err(Failure::other(format!("{member} is not about to be removed from {group}")))
        }
        Err(Error::Unknown(_)) => Err(Failure::other(format!(
            "{member} has left {group}, or was removed, and does not come back; make another group with 'sotto group create'"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// The one member of that name, or identity, of which something holds.
fn find_member(
    client: &Client,
    id: ConversationId,
    (group, member): (&str, &str),
    holds: impl Fn(&sotto_protocol::Member) -> bool,
) -> Result<sotto_protocol::Member, Failure> {
    let mut named = client.members(id).into_iter().filter(|other| holds(other) && is_called(other, member));
    match (named.next(), named.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => {
            Err(Failure::other(format!("{group} has several members '{member}'; give the identity instead")))
        }
        (None, _) => Err(Failure::other(format!(
            "{group} has no member '{member}'; 'sotto contacts' lists the members there are"
        ))),
    }
}

fn is_called(member: &sotto_protocol::Member, name: &str) -> bool {
    member.name == name || decode_identity(name).is_some_and(|identity| identity == member.identity)
}

/// `NAME` of a contact, or `NAME=IDENTITY`.
fn parse_member(client: &Client, member: &str) -> Result<(String, [u8; 32]), Failure> {
    if let Some((name, identity)) = member.split_once('=') {
        let identity = decode_identity(identity).ok_or_else(|| {
            Failure::usage(format!("the identity of {name} is not valid; 'sotto identity' there prints it"))
        })?;
        return Ok((name.to_owned(), identity));
    }
    let identity = client.contact_identity(find(client, member)?).ok_or_else(|| {
        Failure::other(format!(
            "the identity of {member} has not come yet; wait until {member} is established, or give {member}=IDENTITY"
        ))
    })?;
    Ok((member.to_owned(), identity))
}

/// An invitation or a card, as a person copied it.
pub(crate) fn parse<T: core::str::FromStr<Err = Error>>(text: &Private) -> Result<T, Failure> {
    text.0.parse().map_err(misread)
}

/// What is wrong with one, and what to do.
pub(crate) fn misread(error: Error) -> Failure {
    let advice = match error {
        Error::Input(InputError::InvitationMistyped | InputError::CardMistyped) => {
            "; copy the whole text again"
        }
        _ => "",
    };
    Failure::usage(format!("{error}{advice}")).coded(error.code())
}

pub(crate) fn encode_identity(identity: &[u8; 32]) -> String {
    BASE32.encode(identity)
}

fn decode_identity(text: &str) -> Option<[u8; 32]> {
    BASE32.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The person, unlike the protocol, can set a clock.
fn stale(error: Error) -> Failure {
    match error {
        Error::RoundTooFar(_) => Failure::other(
            "the times of the two sides do not fit together; check the clocks of both machines, let 'sotto run' catch up \
             with the server, and try again",
        ),
        other => other.into(),
    }
}
