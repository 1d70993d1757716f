//! What was said before.

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::failure::Failure;
use super::link::quietly;
use super::options::HistoryOptions;
use super::print::{filed, harmless, object, quoted, said, status};
use crate::daemon::message::{Account, Past, PastMark, Reply};
use crate::daemon::unexpected;

/// Texts that are asked for at a time.
const PAGE: u32 = 500;

pub(super) async fn history(home: Option<PathBuf>, options: HistoryOptions) -> Result<(), Failure> {
    let HistoryOptions { contact, last, json, keep } = options;
    if let Some(texts) = keep {
        keeps(quietly(home.clone(), Account::Keep { texts }).await?)?;
    }
    match contact {
        Some(contact) => print(texts(home, contact, last).await?, json),
        None if keep.is_none() => keeps(quietly(home, Account::Keeps).await?),
        None => Ok(()),
    }
}

fn keeps(reply: Reply) -> Result<(), Failure> {
    let Reply::Keeps { most, texts } = reply else { return Err(unexpected()) };
    match most {
        0 => status("nothing that is said is kept; 'sotto history --keep N' keeps the last N texts"),
        most => {
            status(&format!("the last {most} texts are kept, sealed, on this machine; there are {texts}"));
        }
    }
    Ok(())
}

/// The last texts of a conversation, in order.
async fn texts(home: Option<PathBuf>, contact: String, last: u32) -> Result<Vec<Past>, Failure> {
    let (mut pages, mut before, mut left) = (Vec::new(), None, last);
    while left > 0 {
        let asked = Account::Past { conversation: contact.clone(), before, most: left.min(PAGE) };
        let Reply::Past { texts, more } = quietly(home.clone(), asked).await? else {
            return Err(unexpected());
        };
        let Some(first) = texts.first() else { break };
        before = Some(first.place);
        left = left.saturating_sub(u32::try_from(texts.len()).unwrap_or(u32::MAX));
        pages.push(texts);
        if !more {
            break;
        }
    }
    Ok(pages.into_iter().rev().flatten().collect())
}

fn print(texts: Vec<Past>, as_json: bool) -> Result<(), Failure> {
    if texts.is_empty() && !as_json {
        status("nothing is kept of this conversation");
    }
    for past in texts {
        if as_json {
            object(&json!({
                "place": past.place, "at": past.at_ms, "from": past.from, "text": *past.text.0,
                "sequence": past.sequence, "mark": past.mark, "settled": past.settled_ms, "quote": past.quote, "file": past.file,
            }))?;
            continue;
        }
        let who = past.from.as_deref().map_or_else(|| "you".to_owned(), harmless);
        let (when, mark, quote) = (when(past.at_ms), mark(past.mark), quoted(past.quote.as_ref()));
        let quote = format!("{quote}{}", filed(past.file.as_ref(), past.from.is_some()));
        said(&format!("#{} {when}{mark} {who}{quote}: ", past.place), &past.text.0)?;
    }
    Ok(())
}

/// By the clock and in the zone of this machine.
fn when(at_ms: Option<u64>) -> String {
    let at = at_ms.and_then(|at| i64::try_from(at).ok()).and_then(|at| Timestamp::from_millisecond(at).ok());
    match at {
        Some(at) => at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        None => "----------------".to_owned(),
    }
}

fn mark(mark: PastMark) -> &'static str {
    match mark {
        PastMark::Queued => " [waits]",
        PastMark::Sent => " [sent]",
        PastMark::Arrived => " [arrived]",
        PastMark::NotSent => " [not sent]",
        PastMark::Unread => " [unread]",
        PastMark::Read => "",
    }
}
