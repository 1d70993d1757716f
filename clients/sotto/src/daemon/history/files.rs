//! Files that come and go, as far as they are not whole yet: they lie in the history's log, so that no crash loses a part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, Unshown};

use super::record::{Piece, Record, Sending};
use super::{History, Kept, Kind, OVERHEAD_BYTES, Stand};
use crate::daemon::parcel::{self, Parcel, Part, Says};
use crate::daemon::received::save;

/// Files of one sender that can be on their way at the same time; of more the oldest is dropped.
const COMING_MAX: usize = 2;
/// Files that can be on their way from here.
pub(crate) const SENDING_MAX: usize = 4;
/// Parts that wait in a conversation at the same time: enough for a window, and not so many that a text has to wait for all.
const AHEAD: usize = 2;

/// Parts of one file.
pub(super) struct Coming {
    pub(super) id: ConversationId,
    pub(super) from: String,
    pub(super) file: String,
    /// By number.
    pub(super) parts: BTreeMap<u16, Vec<u8>>,
}

/// Where a file is that came.
pub(super) struct Saved {
    pub(super) id: ConversationId,
    pub(super) from: String,
    pub(super) file: String,
    pub(super) path: String,
}

impl History {
    /// Keeps the parts of files that came, and puts those that are whole where the person finds them. Gives the numbers of the
    /// texts that the state needs no more.
    pub(super) fn take_files(&self, kept: &mut Kept, stand: &Stand) -> io::Result<Vec<u64>> {
        let mut taken = Vec::new();
        let mut pieces = Vec::new();
        for text in &stand.unshown {
            let Some(Part { file, number, says: Says::Content(content), .. }) = parcel::read(&text.text)
            else {
                continue;
            };
            taken.push(text.number);
            if !kept.has_piece(text, &file, number) {
                let (id, from) = (stand.id, text.from.clone());
                pieces.push(Record::Piece(Piece { id, from, file, number, content }));
            }
        }
        if taken.is_empty() && !stand.unshown.iter().any(|text| parcel::read(&text.text).is_some()) {
            return Ok(taken);
        }
        self.commit(kept, pieces)?;
        if matches!(kept.file, Kind::Looked | Kind::Unreadable) {
            return Ok(Vec::new());
        }
        // The last one of each file alone: whoever sends many costs one look.
        let mut ends = BTreeMap::new();
        for text in &stand.unshown {
            if let Some(Part { file, says: Says::End { size, name }, .. }) = parcel::read(&text.text) {
                ends.insert((text.from.clone(), file), (size, name));
            }
        }
        let mut saved = Vec::new();
        for ((from, file), (size, name)) in ends {
            let id = stand.id;
            if kept.is_saved(id, &from, &file) {
                continue;
            }
            let Some(coming) = kept.coming(id, &from, &file) else { continue };
            let whole = Parcel::of(&file, size, &name, coming.parts.values().cloned());
            if let Some(parcel) = whole {
                let path = save(self.home(), &parcel)?.display().to_string();
                saved.push(Record::Saved { id, from, file, path });
            }
        }
        self.commit(kept, saved)?;
        Ok(taken)
    }

    /// Takes a file that is to be sent.
    pub(crate) fn send(&self, id: ConversationId, parcel: &Parcel) -> io::Result<()> {
        let (name, content) = (parcel.name().to_owned(), parcel.content().to_vec());
        let mut kept = self.kept();
        kept.check_readable()?;
        self.commit(&mut kept, vec![Record::Sending(Sending { id, name, content, next: 0 })])
    }

    /// Files on their way from here.
    pub(crate) fn files_sent(&self) -> usize {
        self.kept().sending.len()
    }

    /// The first of them in each conversation, and its part that is handed in next: of more at once the other end would drop parts.
    pub(crate) fn sending(&self) -> Vec<(ConversationId, Parcel, u16)> {
        let kept = self.kept();
        let mut busy = BTreeSet::new();
        let parcel = |sending: &Sending| {
            Some((sending.id, Parcel::new(&sending.name, sending.content.clone())?, sending.next))
        };
        kept.sending.iter().filter(|sending| busy.insert(sending.id)).filter_map(parcel).collect()
    }

    /// All parts before this one were handed in.
    pub(crate) fn handed(&self, id: ConversationId, parcel: &Parcel, next: u16) -> io::Result<()> {
        self.commit(&mut self.kept(), vec![Record::Handed { id, file: parcel.file(), next }])
    }
}

/// Hands in what a conversation has room for, from this part on; the one that is next then. A part that waits was handed in, whether
/// that was written down or not.
///
/// # Errors
/// Why it cannot be sent at all.
pub(crate) fn hand_in(
    client: &mut Client,
    id: ConversationId,
    parcel: &Parcel,
    next: u16,
) -> Result<u16, sotto_protocol::Error> {
    let (mut next, waiting) = room(client, id, parcel, next)?;
    for _ in waiting..AHEAD {
        if next > parcel.parts() {
            break;
        }
        match client.queue_text(id, &parcel.text(next)) {
            Ok(_) => next += 1,
            Err(sotto_protocol::Error::Input(sotto_protocol::error::InputError::TooManyTexts)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

/// The part that is next, and how many wait.
pub(crate) fn room(
    client: &Client,
    id: ConversationId,
    parcel: &Parcel,
    next: u16,
) -> Result<(u16, usize), sotto_protocol::Error> {
    let file = parcel.file();
    let waiting = client.outgoing_texts(id)?.waiting;
    let parts = waiting.iter().filter_map(|text| parcel::read(&text.text)).filter(|part| part.file == file);
    let numbers: Vec<u16> = parts.map(|part| part.number).collect();
    let last = numbers.iter().max().map_or(0, |number| number + 1);
    Ok((next.max(last), numbers.len()))
}

/// Whether there is something to hand in.
pub(crate) fn has_room(client: &Client, id: ConversationId, parcel: &Parcel, next: u16) -> bool {
    // Who cannot send learns why by trying.
    room(client, id, parcel, next).map_or(true, |(_, waiting)| waiting < AHEAD)
}

impl Kept {
    fn coming(&self, id: ConversationId, from: &str, file: &str) -> Option<&Coming> {
        self.pieces.iter().find(|coming| coming.id == id && coming.from == from && coming.file == file)
    }

    fn has_piece(&self, text: &Unshown, file: &str, number: u16) -> bool {
        self.is_saved(text.conversation, &text.from, file)
            || self
                .coming(text.conversation, &text.from, file)
                .is_some_and(|it| it.parts.contains_key(&number))
    }

    /// Where a file is that came.
    pub(super) fn path(&self, id: ConversationId, from: &str, file: &str) -> Option<&str> {
        let is_it = |saved: &&Saved| saved.id == id && saved.from == from && saved.file == file;
        self.saved.iter().rev().find(is_it).map(|saved| saved.path.as_str())
    }

    /// Whether it is still there: one that the person has removed can be sent again.
    fn is_saved(&self, id: ConversationId, from: &str, file: &str) -> bool {
        self.path(id, from, file).is_some_and(|path| fs::exists(Path::new(path)).unwrap_or(true))
    }

    pub(super) fn take_piece(&mut self, piece: Piece) {
        let Piece { id, from, file, number, content } = piece;
        let is_it = |coming: &Coming| coming.id == id && coming.from == from && coming.file == file;
        if !self.pieces.iter().any(is_it) {
            let by_it = |coming: &Coming| coming.id == id && coming.from == from;
            if self.pieces.iter().filter(|coming| by_it(coming)).count() >= COMING_MAX
                && let Some(oldest) = self.pieces.iter().position(by_it)
            {
                self.pieces.remove(oldest);
            }
            let parts = BTreeMap::new();
            self.pieces.push(Coming { id, from: from.clone(), file: file.clone(), parts });
        }
        if let Some(coming) = self
            .pieces
            .iter_mut()
            .find(|coming| coming.id == id && coming.from == from && coming.file == file)
        {
            coming.parts.insert(number, content);
        }
    }

    pub(super) fn take_saved(&mut self, saved: Saved) {
        self.pieces.retain(|it| it.id != saved.id || it.from != saved.from || it.file != saved.file);
        if self.saved.len() >= super::KEEP as usize {
            self.saved.remove(0);
        }
        self.saved.push(saved);
    }

    pub(super) fn take_handed(&mut self, id: ConversationId, file: &str, next: u16) {
        self.sending.retain_mut(|sending| {
            let Some(parcel) = Parcel::new(&sending.name, sending.content.clone()) else { return false };
            if sending.id != id || parcel.file() != file {
                return true;
            }
            sending.next = next;
            next <= parcel.parts()
        });
    }

    /// What is written of files when all is written anew.
    pub(super) fn files(&self) -> impl Iterator<Item = Record> + '_ {
        let pieces = self.pieces.iter().flat_map(|coming| {
            coming.parts.iter().map(|(number, content)| {
                Record::Piece(Piece {
                    id: coming.id,
                    from: coming.from.clone(),
                    file: coming.file.clone(),
                    number: *number,
                    content: content.clone(),
                })
            })
        });
        let saved = self.saved.iter().map(|saved| Record::Saved {
            id: saved.id,
            from: saved.from.clone(),
            file: saved.file.clone(),
            path: saved.path.clone(),
        });
        pieces.chain(saved).chain(self.sending.iter().cloned().map(Record::Sending))
    }

    /// Bytes of that.
    pub(super) fn file_bytes(&self) -> usize {
        let coming: usize = self.pieces.iter().flat_map(|coming| coming.parts.values()).map(Vec::len).sum();
        let saved =
            self.saved.iter().map(|it| it.from.len() + it.file.len() + it.path.len() + OVERHEAD_BYTES);
        coming
            + saved.sum::<usize>()
            + self.sending.iter().map(|sending| sending.content.len()).sum::<usize>()
    }
}
