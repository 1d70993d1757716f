//! Contacts and their invitations.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use sotto_protocol::client::check_name;

use super::account::ensure;
use super::failure::Failure;
use super::input::read_broken_secret;
use super::link::{online, quietly};
use super::options::{AcceptOptions, ChatOptions, InviteOptions};
use super::print::{code, moving, object, result, status};
use crate::daemon::message::{Account, Conversation, Keys, Kind, Reply};
use crate::daemon::unexpected;
use crate::meeting;
use sotto_participant::host::now;

/// So that people can read them out and keep their place.
const WORDS_IN_A_LINE: usize = 4;

pub(super) async fn invite(home: Option<PathBuf>, options: InviteOptions) -> Result<ExitCode, Failure> {
    // What cannot be is no reason to make an account, or to come online.
    check_name(&options.contact)?;
    ensure(home.clone(), options.server, options.newcomer).await?;
    tell_pace(&home, &options.contact).await?;
    let (name, contact) = (options.contact.clone(), options.contact);
    let invited = online(home.clone(), Account::Invite { contact }).await?;
    let Reply::Invitation(invitation) = invited else { return Err(unexpected()) };
    result(&invitation.0)?;
    code(&invitation.0, options.qr)?;
    if io::stdout().is_terminal() {
        status(&format!(
            "give this to {name}, where nobody else reads it; there: 'sotto accept YOUR-NAME --name THEIR-NAME --chat'"
        ));
    }
    go_on(home, name, options.chat).await
}

/// Tells a person how long texts take, before there is a contact who waits for them. A program asks for it ('sotto info').
async fn tell_pace(home: &Option<PathBuf>, contact: &str) -> Result<(), Failure> {
    if !io::stderr().is_terminal() {
        return Ok(());
    }
    let pace = Account::Pace { contact: contact.to_owned() };
    let Reply::Pace(pace) = quietly(home.clone(), pace).await? else { return Err(unexpected()) };
    status(&pace);
    Ok(())
}

/// Chats, if that was asked for.
async fn go_on(home: Option<PathBuf>, contact: String, chat: bool) -> Result<ExitCode, Failure> {
    match chat {
        true => super::chat::chat(home, ChatOptions { contact, ..ChatOptions::default() }).await,
        false => Ok(ExitCode::SUCCESS),
    }
}

pub(super) async fn accept(home: Option<PathBuf>, options: AcceptOptions) -> Result<ExitCode, Failure> {
    let contact = options.contact;
    if options.invitation.is_some() {
        return Err(Failure::usage(format!(
            "an invitation is a secret, and other programs can read a command line: run 'sotto accept {contact}' and \
             paste it"
        )));
    }
    let invitation = read_broken_secret("invitation", "this is not an invitation", meeting::lacks_some)?;
    // What is none is no reason to make an account, or to come online.
    check_name(&contact)?;
    let (server, read) = meeting::split(&invitation)?;
    if let Some(server) = &server {
        read.check(&server.root_key().0, now())?;
    }
    ensure(home.clone(), server, options.newcomer).await?;
    tell_pace(&home, &contact).await?;
    let name = contact.clone();
    let accepted = online(home.clone(), Account::Accept { contact, invitation }).await?;
    let Reply::Accepted { held } = accepted else { return Err(unexpected()) };
    if let Some(held) = held {
        status(&format!(
            "this invitation leads to {held}: whoever gave it to you as another's passed it on. Nothing can be said to \
             {name}; as long as you keep it, nobody sees that you know"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let next = if options.chat { String::new() } else { format!("; next: 'sotto chat {name}'") };
    status(&format!("{name} is a contact now{next}"));
    go_on(home, name, options.chat).await
}

pub(super) async fn verify(home: Option<PathBuf>, contact: String, json: bool) -> Result<(), Failure> {
    let name = contact.clone();
    let Reply::Words(words) = quietly(home, Account::Words { contact }).await? else {
        return Err(unexpected());
    };
    if json {
        return Ok(object(&json!({"contact": name, "words": words}))?);
    }
    for line in words.chunks(WORDS_IN_A_LINE) {
        result(&line.join(" "))?;
    }
    status(&format!(
        "if {name} sees the same words, in the same order, nobody is in between; compare them by voice or side by side"
    ));
    Ok(())
}

pub(super) async fn invitations(home: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let Reply::Invitations(invitations) = quietly(home, Account::Invitations).await? else {
        return Err(unexpected());
    };
    if invitations.is_empty() && !json {
        status("no invitation is open");
    }
    for invitation in invitations {
        if json {
            object(&json!(invitation))?;
        } else {
            let (contact, left) =
                (&invitation.contact, invitation.expires_ms.saturating_sub(now().0) / 60_000);
            let whose = if invitation.accepted { "accepted here" } else { "made here" };
            let (days, hours, minutes) = (left / (24 * 60), left / 60 % 24, left % 60);
            result(&format!("{contact}\t{whose}\texpires in {days} d {hours} h {minutes} min"))?;
        }
    }
    Ok(())
}

pub(super) async fn withdraw(home: Option<PathBuf>, contact: String) -> Result<(), Failure> {
    let name = contact.clone();
    quietly(home, Account::Withdraw { contact }).await?;
    status(&format!("the invitation of {name} is worth nothing any more; the place is free"));
    Ok(())
}

pub(super) async fn contacts(home: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let Reply::Conversations(conversations) = quietly(home, Account::Contacts).await? else {
        return Err(unexpected());
    };
    if conversations.is_empty() && !json {
        status("no contacts yet; make one with 'sotto invite CONTACT' or 'sotto accept CONTACT'");
    }
    for conversation in conversations {
        if json {
            object(&json!(conversation))?;
        } else {
            describe(&conversation)?;
            conversation
                .files
                .iter()
                .for_each(|file| status(&format!("{}: {}", conversation.name, moving(file))));
        }
    }
    Ok(())
}

/// One line per contact or group, and one per member.
fn describe(conversation: &Conversation) -> io::Result<()> {
    let kind = match conversation.kind {
        Kind::Contact => "contact",
        Kind::Group => "group",
    };
    let mut state =
        vec![if conversation.established { "established" } else { "waiting for the other side" }.to_owned()];
    if conversation.queued > 0 {
        state.push(format!("{} not arrived yet", conversation.queued));
    }
    if conversation.unread > 0 {
        state.push(format!("{} not read yet", conversation.unread));
    }
    if conversation.blocked {
        state.push("blocked".to_owned());
    }
    state.extend(conversation.keys.and_then(Keys::remark).map(str::to_owned));
    let identity = conversation.identity.as_deref().unwrap_or("-");
    match conversation.kind {
        Kind::Contact => result(&format!("{}\t{kind}\t{}\t{identity}", conversation.name, state.join(", ")))?,
        Kind::Group => result(&format!("{}\t{kind}\t{}", conversation.name, state.join(", ")))?,
    }
    for member in &conversation.members {
        let presence = match (member.present, member.removing) {
            (true, false) => "member",
            (true, true) => "to be removed",
            (false, _) => "left or removed",
        };
        result(&format!("{}\t{}\t{presence}\t{}", conversation.name, member.name, member.identity))?;
    }
    Ok(())
}

pub(super) async fn forget(home: Option<PathBuf>, name: String) -> Result<(), Failure> {
    let forgotten = name.clone();
    quietly(home, Account::Forget { name }).await?;
    status(&format!("{forgotten} is forgotten, with all keys; nobody is told"));
    Ok(())
}

pub(super) async fn block(home: Option<PathBuf>, name: String, blocked: bool) -> Result<(), Failure> {
    let line = blocking(&name, blocked);
    quietly(home, Account::Block { name, blocked }).await?;
    status(&line);
    Ok(())
}

/// What a person is told who blocks, or blocks no more.
pub(crate) fn blocking(name: &str, blocked: bool) -> String {
    match blocked {
        true => format!(
            "nothing of {name} is shown any more; nobody is told, and what comes is acknowledged as before"
        ),
        false => format!("what {name} says from now on is shown again"),
    }
}

pub(super) async fn rename(home: Option<PathBuf>, name: String, to: String) -> Result<(), Failure> {
    let line = format!("{name} is called {to} now, here and nowhere else");
    quietly(home, Account::Rename { name, to }).await?;
    status(&line);
    Ok(())
}

pub(super) async fn identity(home: Option<PathBuf>) -> Result<(), Failure> {
    let Reply::Identity(identity) = quietly(home, Account::Identity).await? else { return Err(unexpected()) };
    result(&identity)?;
    Ok(())
}
