//! What was said before the screen came: asked for when a conversation is opened, and as far as one scrolls or searches.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sotto_protocol::ConversationId;

use super::model::{Model, View};
use super::thread::{By, Fate, Said};
use super::update::{Act, Purpose, keys};
use crate::daemon::message::{Account, Past, PastMark};

/// Texts that are asked for at a time: some screens of them.
const PAGE: u32 = 200;
/// Older ones are asked for when so many are left above what is shown.
const NEAR: u64 = 100;

/// What is to be asked for now.
pub(super) fn wanted(model: &mut Model) -> Option<Act> {
    let seeks = matches!(&model.view, View::Search(search) if search.failed);
    if !model.is_online() {
        return None;
    }
    let thread = model.thread_mut()?;
    let is_near = thread.top.is_some_and(|top| top.text < thread.first() + NEAR);
    let before = &mut thread.before;
    if !before.more || before.asked || (before.place.is_some() && !is_near && !seeks) {
        return None;
    }
    before.asked = true;
    let (id, before) = (thread.standing.id, thread.before.place);
    Some(Act::Ask(Account::PastOf { id, before, most: PAGE }, Purpose::Before(id)))
}

/// It comes, or does not.
pub(super) fn came(model: &mut Model, id: ConversationId, texts: Option<(Vec<Past>, bool)>) {
    let zone = model.zone.clone();
    let Some(thread) = model.of(id) else { return };
    thread.before.asked = false;
    let Some((texts, more)) = texts else {
        thread.before.more = false;
        return;
    };
    thread.before.more = more && !texts.is_empty();
    thread.before.place = texts.first().map(|past| past.place).or(Some(0));
    // What nobody has seen comes by itself.
    let seen = texts.into_iter().filter(|past| past.mark != PastMark::Unread);
    let said: Vec<Said> = seen.map(|past| said(past, &zone)).collect();
    thread.take_before(said);
    let is_open = model.open == Some(id);
    if is_open && matches!(&model.view, View::Search(search) if search.failed) {
        keys::find(model, true);
    }
}

fn said(past: Past, zone: &TimeZone) -> Said {
    let by = match (past.from, past.number) {
        (Some(name), Some(number)) => By::Other { name, number, sequence: past.sequence },
        _ => By::Me(match past.mark {
            PastMark::Arrived => Fate::Arrived(past.sequence),
            PastMark::NotSent => Fate::Refused,
            _ => Fate::Queued(past.sequence),
        }),
    };
    let at = past.at_ms.and_then(|at_ms| local(at_ms, zone));
    Said { by, text: past.text.0, at, quote: past.quote, file: past.file, again: false }
}

/// By the clock in a zone.
pub(super) fn local(at_ms: u64, zone: &TimeZone) -> Option<DateTime> {
    let at = Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?;
    Some(at.to_zoned_datetime(zone.clone()).datetime())
}
