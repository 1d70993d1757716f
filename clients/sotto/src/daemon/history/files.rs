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
    /// How many there are.
    pub(super) all: u16,
    /// Whether some came since this process has begun: of what was given up nobody is to wait for the rest.
    pub(super) is_alive: bool,
}

/// A file that goes.
pub(super) struct Going {
    pub(super) sending: Sending,
    /// What it is called on its way.
    pub(super) file: String,
}

impl Going {
    /// None of what cannot be sent.
    pub(super) fn of(sending: Sending) -> Option<Self> {
        let file = Parcel::new(&sending.name, sending.content.clone())?.file();
        Some(Self { sending, file })
    }
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
        let parts: Vec<(&Unshown, Part)> =
            stand.unshown.iter().filter_map(|text| Some((text, parcel::read(&text.text)?))).collect();
        // The last end of each file alone: whoever sends many costs one look.
        let mut ends = BTreeMap::new();
        for (place, (text, part)) in parts.iter().enumerate() {
            if matches!(part.says, Says::End { .. }) {
                ends.insert((text.from.clone(), part.file.clone()), place);
            }
        }
        let ends: BTreeSet<usize> = ends.into_values().collect();
        let (mut taken, mut pieces) = (Vec::new(), Vec::new());
        // In the order in which they came: a file that is whole is put away before parts of another one want its room.
        for (place, (text, part)) in parts.into_iter().enumerate() {
            let Part { file, number, parts, says } = part;
            let (id, from) = (stand.id, text.from.clone());
            match says {
                Says::Content(content) => {
                    taken.push(text.number);
                    if !kept.has_piece(text, &file, number) {
                        pieces.push(Piece { id, from, file, number, parts, content });
                    }
                }
                Says::End { size, name } if ends.contains(&place) => {
                    self.keep_pieces(kept, core::mem::take(&mut pieces))?;
                    self.end_file(kept, (id, from, file), size, &name)?;
                }
                Says::End { .. } => {}
            }
        }
        self.keep_pieces(kept, pieces)?;
        // What cannot be kept stays in the state.
        Ok(if matches!(kept.file, Kind::Looked | Kind::Unreadable) { Vec::new() } else { taken })
    }

    fn keep_pieces(&self, kept: &mut Kept, pieces: Vec<Piece>) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let came: BTreeSet<_> =
            pieces.iter().map(|piece| (piece.id, piece.from.clone(), piece.file.clone())).collect();
        let written = self.commit(kept, pieces.into_iter().map(Record::Piece).collect());
        for coming in &mut kept.pieces {
            coming.is_alive |= came.contains(&(coming.id, coming.from.clone(), coming.file.clone()));
        }
        written
    }

    /// Puts a file of which the end came where the person finds it, if all of it came.
    fn end_file(
        &self,
        kept: &mut Kept,
        (id, from, file): (ConversationId, String, String),
        size: u32,
        name: &str,
    ) -> io::Result<()> {
        if matches!(kept.file, Kind::Looked | Kind::Unreadable) || kept.is_saved(id, &from, &file) {
            return Ok(());
        }
        let Some(coming) = kept.pieces.iter_mut().find(|coming| coming.is(id, &from, &file)) else {
            return Ok(());
        };
        coming.is_alive = false;
        let Some(parcel) = Parcel::of(&file, size, name, coming.parts.values().cloned()) else {
            return Ok(());
        };
        let path = save(self.home(), &parcel)?.display().to_string();
        self.commit(kept, vec![Record::Saved { id, from, file, path }])
    }

    /// Takes a file that is to be sent.
    pub(crate) fn send(&self, id: ConversationId, parcel: &Parcel) -> io::Result<()> {
        let (name, content) = (parcel.name().to_owned(), parcel.content().to_vec());
        let mut kept = self.kept();
        kept.check_readable()?;
        self.commit(&mut kept, vec![Record::Sending(Sending { id, name, content, next: 0 })])
    }

    /// Whether the same file, of the same name, is on its way to a conversation already.
    pub(crate) fn sends(&self, id: ConversationId, parcel: &Parcel) -> bool {
        let file = parcel.file();
        self.kept().sending.iter().any(|going| going.sending.id == id && going.file == file)
    }

    /// Files on their way from here.
    pub(crate) fn files_sent(&self) -> usize {
        self.kept().sending.len()
    }

    /// The first of them in each conversation, and its part that is handed in next: of more at once the other end would drop parts.
    pub(crate) fn sending(&self) -> Vec<(ConversationId, Parcel, u16)> {
        let kept = self.kept();
        let mut busy = BTreeSet::new();
        let parcel = |Going { sending, .. }: &Going| {
            Some((sending.id, Parcel::new(&sending.name, sending.content.clone())?, sending.next))
        };
        kept.sending.iter().filter(|going| busy.insert(going.sending.id)).filter_map(parcel).collect()
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

impl Coming {
    fn is(&self, id: ConversationId, from: &str, file: &str) -> bool {
        self.id == id && self.from == from && self.file == file
    }
}

impl Kept {
    fn coming(&self, id: ConversationId, from: &str, file: &str) -> Option<&Coming> {
        self.pieces.iter().find(|coming| coming.is(id, from, file))
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
        let Piece { id, from, file, number, parts: all, content } = piece;
        let is_it = |coming: &Coming| coming.is(id, &from, &file);
        if !self.pieces.iter().any(is_it) {
            let by_it = |coming: &Coming| coming.id == id && coming.from == from;
            if self.pieces.iter().filter(|coming| by_it(coming)).count() >= COMING_MAX
                && let Some(oldest) = self.pieces.iter().position(by_it)
            {
                self.pieces.remove(oldest);
            }
            let (parts, is_alive) = (BTreeMap::new(), false);
            self.pieces.push(Coming { id, from: from.clone(), file: file.clone(), parts, all, is_alive });
        }
        if let Some(coming) = self.pieces.iter_mut().find(|coming| coming.is(id, &from, &file)) {
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
        // Of two that are the same it is the first that goes.
        let it = self.sending.iter().position(|going| going.sending.id == id && going.file == file);
        if let Some(Going { sending, .. }) = it.and_then(|it| self.sending.get_mut(it)) {
            sending.next = next;
            if next > parcel::parts(sending.content.len()) {
                it.map(|it| self.sending.remove(it));
            }
        }
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
                    parts: coming.all,
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
        pieces.chain(saved).chain(self.sending.iter().map(|going| Record::Sending(going.sending.clone())))
    }

    /// Bytes of that.
    pub(super) fn file_bytes(&self) -> usize {
        let coming: usize = self.pieces.iter().flat_map(|coming| coming.parts.values()).map(Vec::len).sum();
        let saved =
            self.saved.iter().map(|it| it.from.len() + it.file.len() + it.path.len() + OVERHEAD_BYTES);
        coming
            + saved.sum::<usize>()
            + self.sending.iter().map(|going| going.sending.content.len()).sum::<usize>()
    }
}
