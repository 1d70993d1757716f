//! What programs are shown of the history.

use sotto_protocol::ConversationId;

use super::record::{By, Fate, Past};
use super::settle::Stand;
use super::{History, Kept};
use crate::daemon::message::{self, PastMark, Private, Quote, Said, Text};
use crate::daemon::parcel::{self, Part, Says};
use crate::daemon::reply::{self, Reference, Writer};

/// A page goes into one frame: so many bytes of JSON, of which a byte of a text takes at most six.
const PAGE_BYTES: usize = 192 * 1024;
const WORST_BYTES: usize = 6;
/// More than the rest of a text takes.
const REST_BYTES: usize = 512 + WORST_BYTES * QUOTED_BYTES;
/// So much of a text is quoted at most.
const QUOTED_BYTES: usize = 120;
/// A text that is quoted is looked for among so many texts before.
const LOOKED_BACK: usize = 20_000;

impl History {
    /// Texts of a conversation before a place, or the newest, in order: at most so many, and as many as go into a frame. And
    /// whether there are older ones.
    pub(crate) fn page(&self, stand: &Stand, before: Option<u64>, most: u32) -> (Vec<message::Past>, bool) {
        let kept = self.kept();
        let end =
            before.map_or(kept.texts.len(), |before| kept.texts.partition_point(|past| past.place < before));
        let mut of_it = kept.texts.iter().take(end).rev().filter(|past| past.id == stand.id());
        let (mut page, mut bytes) = (Vec::new(), 0);
        let mut more = false;
        for past in of_it.by_ref() {
            bytes += WORST_BYTES * past.text.0.len() + REST_BYTES;
            if page.len() >= most as usize || (bytes > PAGE_BYTES && !page.is_empty()) {
                more = true;
                break;
            }
            page.push(kept.shown(past, stand));
        }
        page.reverse();
        (page, more)
    }

    /// What was said from here, with what the history knows of what it tells of.
    pub(crate) fn present_said(&self, mut said: Said, group: bool) -> Said {
        let kept = self.kept();
        if let Some((name, file)) = kept.file(&said.text.0, said.id, None) {
            (said.text, said.file) = (name, Some(file));
        }
        if let Some(quote) = &mut said.quote
            && let Some(sought) = quote.sought.take()
        {
            quote.text = kept.quoted(said.id, u64::MAX, (quote.from.as_deref(), group), &sought);
        }
        said
    }

    /// The name of a file whose end was said under this number, if it has arrived.
    pub(crate) fn arrived_file(&self, id: ConversationId, sequence: u32) -> Option<String> {
        let kept = self.kept();
        let is_it = |past: &&Past| {
            past.id == id
                && matches!(past.by, By::Me { sequence: of_it, fate: Fate::Arrived, .. } if of_it == sequence)
        };
        let past = kept.texts.iter().rev().take(LOOKED_BACK).find(is_it)?;
        kept.file(&past.text.0, id, None).map(|(name, _)| name.0.to_string())
    }

    /// A text that nobody has seen, with when it came.
    pub(crate) fn present(&self, mut text: Text) -> Text {
        let kept = self.kept();
        let past = kept.unread.get(&text.number).and_then(|place| kept.at(*place));
        text.at_ms = past.filter(|past| past.id == text.id).and_then(|past| known(past.at_ms));
        if let Some((name, file)) = kept.file(&text.text.0, text.id, Some(&text.from)) {
            (text.text, text.file) = (name, Some(file));
        }
        if let Some(quote) = &mut text.quote
            && let Some(sought) = quote.sought.take()
        {
            let writer = (quote.from.as_deref(), text.group);
            quote.text = kept.quoted(text.id, u64::MAX, writer, &sought);
        }
        text
    }
}

impl Kept {
    fn shown(&self, past: &Past, stand: &Stand) -> message::Past {
        let (from, number, sequence, mark) = match &past.by {
            By::Me { sequence, fate, .. } => {
                let mark = match fate {
                    Fate::Waits if stand.is_sent(*sequence) => PastMark::Sent,
                    Fate::Waits => PastMark::Queued,
                    Fate::Arrived => PastMark::Arrived,
                    Fate::NotSent => PastMark::NotSent,
                };
                (None, None, *sequence, mark)
            }
            By::Other { from, number, sequence } => {
                let is_unread = self.unread.get(number) == Some(&past.place);
                let mark = if is_unread { PastMark::Unread } else { PastMark::Read };
                (Some(from.clone()), Some(*number), *sequence, mark)
            }
        };
        let by = from.clone().map_or(Writer::Me, Writer::Other);
        let (reference, said) = reply::read(&past.text.0);
        let quote = reference.map(|sought| {
            let from = sought.writer(&stand.roster, &by).name();
            let writer = (from.as_deref(), stand.roster.is_group());
            Quote { text: self.quoted(past.id, past.place, writer, &sought), from, sought: None }
        });
        let file = self.file(said, past.id, from.as_deref());
        let settled_ms = match &past.by {
            By::Me { at_ms, .. } => known(*at_ms),
            By::Other { .. } => None,
        };
        message::Past {
            place: past.place,
            number,
            sequence,
            from,
            text: file.as_ref().map_or_else(|| Private::new(said), |(name, _)| name.clone()),
            file: file.map(|(_, file)| file),
            at_ms: known(past.at_ms),
            mark,
            settled_ms,
            quote,
        }
    }

    /// The name of a file that a text tells of, and where it is.
    fn file(&self, text: &str, id: ConversationId, from: Option<&str>) -> Option<(Private, message::File)> {
        let Part { file, says: Says::End { size, name }, .. } = parcel::read(text)? else { return None };
        let path = from.and_then(|from| self.path(id, from, &file)).map(str::to_owned);
        Some((Private::new(name), message::File { size, path }))
    }

    /// How the text of a conversation begins that something before a place refers to, if it is by whom that says: None for this
    /// person. In a group, whoever chooses the number could otherwise have its own words shown as another member's.
    fn quoted(
        &self,
        id: ConversationId,
        before: u64,
        (writer, is_group): (Option<&str>, bool),
        sought: &Reference,
    ) -> Option<Private> {
        let end = self.texts.partition_point(|past| past.place < before);
        let found = self.texts.iter().take(end).rev().take(LOOKED_BACK).find(|past| {
            let (is_writers, number) = match &past.by {
                By::Me { sequence, .. } => (writer.is_none(), *sequence),
                // Between two there is one other, whatever it was called then.
                By::Other { from, sequence, .. } => {
                    (writer.is_some_and(|writer| !is_group || writer == from), *sequence)
                }
            };
            past.id == id && is_writers && number == sought.sequence && sought.fits(&past.text.0)
        })?;
        let said = reply::read(&found.text.0).1;
        Some(Private::new(reply::beginning(said, QUOTED_BYTES)))
    }
}

fn known(at_ms: u64) -> Option<u64> {
    Some(at_ms).filter(|at_ms| *at_ms > 0)
}
