//! Handing in one text, without looking at what came.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use data_encoding::BASE64_NOPAD;
use serde_json::json;
use sotto_protocol::TEXT_MAX;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::input::{CUT, TYPED_MAX};
use super::link::{online, quietly};
use super::print::{object, span, status};
use crate::daemon::message::{Account, Conversation, Private, Reply};
use crate::daemon::parcel::FILE_BYTES_MAX;
use crate::daemon::reply::Reference;
use crate::daemon::unexpected;
use crate::store::open_file;

pub(super) async fn send(
    home: Option<PathBuf>,
    contact: String,
    text: String,
    reply_to: Option<u64>,
    json: bool,
) -> Result<(), Failure> {
    // One that is not there is no reason to come online.
    let Reply::Conversations(all) = quietly(home.clone(), Account::Contacts).await? else {
        return Err(unexpected());
    };
    let Some(conversation) = all.into_iter().find(|conversation| conversation.name == contact) else {
        return Err(Failure::other(format!(
            "there is no contact or group '{contact}'; 'sotto contacts' lists those there are"
        )));
    };
    let text = if text == "-" { read_text()? } else { Zeroizing::new(text) };
    if text.trim().is_empty() {
        return Err(Failure::usage("there is no text to send"));
    }
    let text = match reply_to {
        Some(place) => Zeroizing::new(refer(home.clone(), &conversation, place).await?.write(&text)),
        None => text,
    };
    let say = Account::Say { conversation: contact.clone(), text: Private(text) };
    let Reply::Queued { sequence, waiting } = online(home, say).await? else { return Err(unexpected()) };
    if json {
        object(&json!({"conversation": contact, "sequence": sequence, "waiting": waiting}))?;
    } else {
        status(&format!(
            "handed in; {waiting} for {contact} not arrived yet; they go out while you are online"
        ));
    }
    Ok(())
}

/// Hands in a file.
pub(super) async fn send_file(
    home: Option<PathBuf>,
    contact: String,
    path: &Path,
    json: bool,
) -> Result<(), Failure> {
    let send = of_file(contact.clone(), path)?;
    let sending = online(home, send).await?;
    if json && let Reply::Sending { messages, rounds, seconds } = sending {
        return Ok(object(&json!({
            "conversation": contact, "messages": messages, "rounds": rounds, "seconds": seconds,
        }))?);
    }
    status(&takes(&contact, &sending));
    Ok(())
}

/// What is asked to send a file.
///
/// # Errors
/// What to tell the person.
pub(crate) fn of_file(conversation: String, path: &Path) -> Result<Account, Failure> {
    let at = path.display();
    let unread = |error: io::Error| Failure::usage(format!("cannot read {at}: {error}"));
    let file = open_file(path).map_err(unread)?;
    if !file.metadata().map_err(unread)?.is_file() {
        return Err(Failure::usage(format!("{at} is no file")));
    }
    let mut content = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 1));
    // One byte more than there may be shows what is too long.
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut content).map_err(unread)?;
    if content.is_empty() || content.len() > FILE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{at} is empty or longer than 64 KiB; only short files can be sent"
        )));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Account::SendFile { conversation, name, content: Private::new(BASE64_NOPAD.encode(&content)) })
}

/// How long it takes until a file has arrived.
pub(crate) fn takes(contact: &str, sending: &Reply) -> String {
    let Reply::Sending { messages, rounds, seconds } = sending else { return unexpected().message };
    format!(
        "the file takes {messages} messages, one in each turn with {contact}: {rounds} rounds or more, {}, while you are both \
         online; texts go between its parts",
        span(*seconds)
    )
}

/// The text of that place, as a reply names it.
async fn refer(home: Option<PathBuf>, conversation: &Conversation, place: u64) -> Result<Reference, Failure> {
    let name = conversation.name.clone();
    let asked = Account::Past { conversation: name.clone(), before: place.checked_add(1), most: 1 };
    let Reply::Past { texts, .. } = quietly(home, asked).await? else { return Err(unexpected()) };
    let none = || {
        Failure::other(format!(
            "there is no text #{place} of {name}; 'sotto history {name}' shows those there are, with their numbers"
        ))
    };
    let past = texts.into_iter().find(|past| past.place == place).ok_or_else(none)?;
    let whose = conversation.whose(past.from.as_deref()).ok_or_else(none)?;
    Ok(Reference::to(whose, past.sequence, &past.text.0))
}

/// All of standard input, less the end of its last line.
fn read_text() -> Result<Zeroizing<String>, Failure> {
    let is_typed = io::stdin().is_terminal();
    if is_typed {
        writeln!(io::stderr(), "type the text; end it with Ctrl-D on a line of its own")?;
    }
    // Never grown, so that no copy stays behind: the longest text, the end of its line, and one byte that is too much.
    let room = TEXT_MAX + 3;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    io::stdin().lock().take(room as u64).read_to_end(&mut bytes)?;
    let text = core::str::from_utf8(&bytes).map_err(|_| Failure::usage("the text is not UTF-8"))?;
    if is_typed && text.split('\n').any(|line| line.len() >= TYPED_MAX) {
        return Err(Failure::usage(CUT));
    }
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() > TEXT_MAX {
        return Err(Failure::usage("a text has at most 16 KiB"));
    }
    Ok(Zeroizing::new(text.to_owned()))
}
