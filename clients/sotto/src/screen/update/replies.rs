//! What the participant answers.

use super::super::model::{Model, Page, View};
use super::super::thread::Fate;
use super::super::{accept, invite, past};
use super::Purpose;
use crate::cli::failure::Failure;
use crate::cli::group::RULES;
use crate::cli::send::takes;
use crate::daemon::message::{Conversation, Invitation, Keys, Kind, Reply};

pub(super) fn replied(model: &mut Model, purpose: Purpose, reply: Result<Reply, Failure>) {
    let reply = match reply {
        Ok(reply) => reply,
        Err(failure) => return failed(model, &purpose, &failure),
    };
    match (purpose, reply) {
        (Purpose::Say(id, text), Reply::Queued { sequence, .. }) => {
            if let Some(thread) = model.of(id) {
                thread.settle(text, Fate::Queued(sequence));
            }
        }
        (Purpose::Invite(contact), Reply::Invitation(invitation)) => invite::made(model, contact, invitation),
        (Purpose::Accept(contact), Reply::Accepted { held }) => accept::accepted(model, contact, held),
        (Purpose::Do(line), Reply::Done) => model.notice(line),
        (Purpose::Create(group), Reply::Card(card)) => {
            model.wanted = Some(group.clone());
            let title = format!(
                "The card of {group}: give it to the members where nobody else reads it; there: /group join. Esc closes this.\n\
                 In a group, {RULES}."
            );
            model.view = View::Page(Page { title, text: card.0, bare: true, qr: None, top: 0 });
        }
        (Purpose::Join, Reply::Joined { group }) => {
            model.page(format!("You are in {group} now"), format!("In a group, {RULES}."));
            model.wanted = Some(group);
        }
        (Purpose::Keep(line), Reply::Kept { texts }) => {
            model.notice(line);
            if texts > 0 {
                model.warn(format!(
                    "{texts} texts that waited were not sent: say them again if all may read them"
                ));
            }
        }
        (Purpose::Show, Reply::Identity(identity)) => {
            model.page("Your identity, by which others put you into groups", identity);
        }
        (Purpose::Show, Reply::Words(words)) => {
            let lines: Vec<String> = words.chunks(4).map(|line| line.join(" ")).collect();
            model.page(
                "Words that both see if nobody is in between; not to be compared over this chat",
                lines.join("\n"),
            );
        }
        (Purpose::Show, Reply::Invitations(invitations)) => {
            model.page("Invitations that nobody has answered", open_invitations(&invitations));
        }
        (Purpose::Show, Reply::Conversations(conversations)) => {
            model.page("Contacts and groups", described(&conversations));
        }
        (Purpose::Before(id), Reply::Past { texts, more }) => past::came(model, id, Some((texts, more))),
        (Purpose::SendFile(contact), sending @ Reply::Sending { .. }) => {
            model.notice(takes(&contact, &sending));
        }
        (Purpose::Offer(id, number), Reply::Offered { again }) => {
            model.of(id).into_iter().for_each(|thread| thread.noted(Some(number), &again));
        }
        (Purpose::Shown, _) => {}
        _ => {
            model
                .warn("'sotto run' answered something else; end it with 'sotto stop', and come online again");
        }
    }
}

fn failed(model: &mut Model, purpose: &Purpose, failure: &Failure) {
    if let Purpose::Say(id, text) = purpose {
        if let Some(thread) = model.of(*id) {
            thread.settle(*text, Fate::Refused);
        }
        return model.warn(format!("not sent (Up brings it back): {}", failure.message));
    }
    if let Purpose::Offer(id, _) = purpose {
        model.of(*id).into_iter().for_each(|thread| thread.noted(None, &[]));
    }
    if let Purpose::Before(id) = purpose {
        past::came(model, *id, None);
    }
    model.warn(failure.message.clone());
}

fn open_invitations(invitations: &[Invitation]) -> String {
    if invitations.is_empty() {
        return "None is open.".to_owned();
    }
    let line = |invitation: &Invitation| {
        let whose = if invitation.accepted { "accepted here" } else { "made here" };
        format!("{}: {whose}", invitation.contact)
    };
    invitations.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn described(conversations: &[Conversation]) -> String {
    let mut lines = Vec::new();
    for conversation in conversations {
        let state = if conversation.established { "established" } else { "waiting for the other side" };
        match conversation.kind {
            Kind::Contact => {
                let identity = conversation.identity.as_deref().unwrap_or("not come yet");
                let remark = conversation.keys.and_then(Keys::remark);
                let remark = remark.map_or_else(String::new, |remark| format!("; {remark}"));
                lines.push(format!("{}: contact, {state}; identity {identity}{remark}", conversation.name));
            }
            Kind::Group => lines.push(format!("{}: group, {state}", conversation.name)),
        }
        for member in &conversation.members {
            let presence = match (member.present, member.removing) {
                (true, false) => "member",
                (true, true) => "to be removed",
                (false, _) => "left or removed",
            };
            lines.push(format!("    {}: {presence}; identity {}", member.name, member.identity));
        }
    }
    if lines.is_empty() {
        "There are none yet: /invite NAME, or /accept NAME".to_owned()
    } else {
        lines.join("\n")
    }
}
