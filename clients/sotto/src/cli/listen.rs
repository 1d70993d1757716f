//! Everything that happens, for scripts: a program of the running participant, which stays online when it ends.

use core::pin::pin;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::failure::Failure;
use super::link::Link;
use super::options::ListenOptions;
use super::print::{self, object, status};
use crate::daemon::message::{Account, Message, Note, Reply, Request, Step, Told};
use crate::daemon::{interrupted, unexpected};

pub(super) async fn listen(home: Option<PathBuf>, options: ListenOptions) -> Result<(), Failure> {
    let mut link = Link::open(home).await?;
    link.send(&Request::Listen).await?;
    let Message::Reply(reply) = link.next().await? else { return Err(unexpected()) };
    let Reply::Listening(_) = reply.into_result()? else { return Err(unexpected()) };
    let ends = options.until.map(|time| Instant::now() + time);
    let mut interrupted = pin!(interrupted());
    let mut listener = Listener { link, json: options.json, shown: 0, showing: 0 };
    loop {
        let enough = options.count.is_some_and(|count| listener.shown >= count);
        // What was printed is known as shown before this ends.
        if enough && listener.showing == 0 {
            return Ok(());
        }
        tokio::select! {
            () = &mut interrupted => return Ok(()),
            () = until(ends) => return Ok(()),
            message = listener.link.next() => match message? {
                Message::Told(told) => listener.hear(told, enough).await?,
                Message::Reply(Reply::Done) => listener.showing = listener.showing.saturating_sub(1),
                Message::Reply(reply) => return Err(reply.into_result().err().unwrap_or_else(unexpected)),
            },
        }
    }
}

struct Listener {
    link: Link,
    json: bool,
    /// Texts that were printed.
    shown: u64,
    /// Of these, such of which the participant has not said that it knows.
    showing: usize,
}

impl Listener {
    async fn hear(&mut self, told: Told, enough: bool) -> Result<(), Failure> {
        match &told {
            // What is not printed waits for the next who looks.
            Told::Text(_) if enough => return Ok(()),
            Told::Text(text) if !self.json => print::text(text, false)?,
            Told::Note(Note { line, .. }) if !self.json => status(line),
            _ if !self.json => {}
            told => {
                if let Some(value) = as_object(told) {
                    object(&value)?;
                }
            }
        }
        if let Told::Text(text) = told {
            self.shown += 1;
            self.showing += 1;
            let shown = Account::Shown { id: text.id, number: text.number };
            self.link.send(&Request::Account(shown)).await?;
        }
        Ok(())
    }
}

/// What a program reads. `id` is the number of a conversation, which stays when it is renamed.
fn as_object(told: &Told) -> Option<Value> {
    Some(match told {
        Told::Text(text) => json!({
            "event": "text", "id": text.id, "conversation": text.conversation, "from": text.from,
            "text": *text.text.0, "sequence": text.sequence, "at": text.at_ms, "quote": text.quote,
            "file": text.file, "again": text.again,
        }),
        Told::Said(said) => json!({
            "event": "said", "id": said.id, "text": *said.text.0, "sequence": said.sequence, "at": said.at_ms,
            "quote": said.quote, "file": said.file,
        }),
        Told::Arrived { id, sequence } => json!({"event": "arrived", "id": id, "sequence": sequence}),
        Told::Note(Note { line, severity }) => json!({"event": "note", "severity": severity, "line": line}),
        Told::Audited(audited) => json!({
            "event": "audited", "round": audited.round, "unit": audited.unit, "found": audited.found,
            "line": audited.line, "proof": audited.proof,
        }),
        Told::Step { round, step } => {
            let step = match step {
                Step::Opened { .. } => "opened",
                Step::Deposited => "deposited",
                Step::Ready => "ready",
            };
            json!({"event": "step", "round": round, "step": step})
        }
        Told::Round(cost) => json!({
            "event": "round", "round": cost.round, "deposits": cost.deposits, "bytes_up": cost.bytes_up,
            "bytes_down": cost.bytes_down,
            "bytes_day": cost.bytes_day,
        }),
        Told::Connection { connected, node } => {
            json!({"event": "connection", "connected": connected, "node": node})
        }
        Told::Standing(standing) => json!({
            "event": "conversation", "id": standing.id, "name": standing.conversation.name,
            "kind": standing.conversation.kind, "established": standing.conversation.established,
            "queued": standing.conversation.queued, "unread": standing.conversation.unread,
            "sent": standing.sent, "files": standing.conversation.files,
        }),
        Told::Forgotten { id } => json!({"event": "forgotten", "id": id}),
        // One who listens gets the texts themselves, whoever has seen them.
        Told::Unread { .. } | Told::Seen { .. } | Told::Files(_) => return None,
    })
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => core::future::pending().await,
    }
}
