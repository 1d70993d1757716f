//! Handing in one text, without looking at what came.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use serde_json::json;
use sotto_protocol::TEXT_MAX;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::link::{online, quietly};
use super::print::{object, status};
use crate::daemon::message::{Account, Private, Reply};
use crate::daemon::unexpected;

pub(super) async fn send(
    home: Option<PathBuf>,
    contact: String,
    text: String,
    json: bool,
) -> Result<(), Failure> {
    // One that is not there is no reason to come online.
    let Reply::Conversations(all) = quietly(home.clone(), Account::Contacts).await? else {
        return Err(unexpected());
    };
    if !all.iter().any(|conversation| conversation.name == contact) {
        return Err(Failure::other(format!(
            "there is no contact or group '{contact}'; 'sotto contacts' lists those there are"
        )));
    }
    let text = if text == "-" { read_text()? } else { Zeroizing::new(text) };
    if text.trim().is_empty() {
        return Err(Failure::usage("there is no text to send"));
    }
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

/// All of standard input, less the end of its last line.
fn read_text() -> Result<Zeroizing<String>, Failure> {
    if io::stdin().is_terminal() {
        writeln!(io::stderr(), "type the text; end it with Ctrl-D on a line of its own")?;
    }
    // Never grown, so that no copy stays behind: the longest text, the end of its line, and one byte that is too much.
    let room = TEXT_MAX + 3;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    io::stdin().lock().take(room as u64).read_to_end(&mut bytes)?;
    let text = core::str::from_utf8(&bytes).map_err(|_| Failure::usage("the text is not UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() > TEXT_MAX {
        return Err(Failure::usage("a text has at most 16 KiB"));
    }
    Ok(Zeroizing::new(text.to_owned()))
}
