//! What was said and what came, kept on this machine: in one log that is sealed under a key of the account, with what became of
//! each text, up to a number that the person sets.
//!
//! The history follows the client's state and is never asked for what to say or acknowledge. A text that came stays in the state
//! until it was shown, one that was said until it has arrived; so whatever a crash kept out of the history is found there when
//! the two are compared ([`History::settle`]), and what is there already is not taken again.

pub(crate) mod files;
mod record;
mod settle;
#[cfg(all(test, unix))]
mod stolen;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use sotto_protocol::ConversationId;
use zeroize::Zeroizing;

use super::blocked::Blocked;
use crate::store::log::{Opened, SealedLog, chunks_of};
use crate::store::{remove_with_leftover, seal};
use files::{Coming, Going, Saved};
use record::{By, Fate, Past, Record};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use record::{fuzz, valid};
pub(crate) use settle::Stand;

pub(crate) const FILE: &str = "history";
const DOMAIN: &[u8] = b"sotto v1 history\0";
/// Texts that are kept if the person does not say how many.
const KEEP: u32 = 10_000;
/// The most that can be kept.
pub(crate) const KEEP_MAX: u32 = 100_000;
/// And bytes of them.
const BYTES_MAX: usize = 64 << 20;
/// More than names, numbers and times of a text take in the log.
const OVERHEAD_BYTES: usize = 40;
/// A log is written anew when so many chunks of it say nothing any more, and as many as say something.
const WASTE_CHUNKS: u64 = 256;

/// Removes what is kept, with the account that it is about.
pub(crate) fn forget(directory: &Path) -> io::Result<()> {
    remove_with_leftover(&directory.join(FILE))
}

/// The history of an account.
pub(crate) struct History {
    path: PathBuf,
    key: Zeroizing<[u8; seal::KEY_BYTES]>,
    kept: Mutex<Kept>,
}

/// What is known of it.
struct Kept {
    file: Kind,
    /// By place.
    texts: VecDeque<Past>,
    /// The next text's place.
    next: u64,
    /// Bytes of the texts.
    bytes: usize,
    keep: u32,
    /// Places of texts that were said and have not arrived.
    open: BTreeSet<u64>,
    /// Places of texts that came, by their numbers; of several of one number, from before a state was brought back, the last.
    numbers: BTreeMap<u64, u64>,
    /// Of those that nobody has seen.
    unread: BTreeMap<u64, u64>,
    /// Conversations of which nothing is shown.
    blocked: BTreeSet<ConversationId>,
    /// Files that come, the oldest first.
    pieces: Vec<Coming>,
    saved: Vec<Saved>,
    sending: Vec<Going>,
}

/// What is written to.
enum Kind {
    Log(SealedLog),
    /// There is none yet, or what there is lacks something that could not be written: it is written as a whole next time.
    Anew,
    /// Nothing: it is only looked at.
    Looked,
    /// Nothing: what there is cannot be read, and is left alone.
    Unreadable,
}

impl History {
    /// The history in a directory, of the account with this seed; and what is wrong with it, for the person.
    pub(crate) fn open(directory: &Path, account_seed: &[u8; 32]) -> (Self, Option<String>) {
        Self::open_for(directory, account_seed, false)
    }

    /// The same, of which nothing is changed on the disk.
    pub(crate) fn look(directory: &Path, account_seed: &[u8; 32]) -> (Self, Option<String>) {
        Self::open_for(directory, account_seed, true)
    }

    fn open_for(directory: &Path, account_seed: &[u8; 32], only_looks: bool) -> (Self, Option<String>) {
        let key: [u8; seal::KEY_BYTES] =
            Sha256::new_with_prefix(DOMAIN).chain_update(account_seed).finalize().into();
        let (path, key) = (directory.join(FILE), Zeroizing::new(key));
        let mut kept = Kept::new();
        let at = path.display();
        let problem = match SealedLog::open(&path, &key, DOMAIN, only_looks) {
            Ok(Opened { log, records, is_damaged }) => {
                kept.file = if only_looks { Kind::Looked } else { Kind::Log(log) };
                let understood = records.iter().filter(|record| kept.read(record)).count();
                (is_damaged || understood < records.len()).then(|| {
                    format!(
                        "warning: a part of what was said before cannot be read any more: {at} was damaged"
                    )
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                kept.file = if only_looks { Kind::Looked } else { Kind::Anew };
                None
            }
            Err(error) => {
                kept.file = Kind::Unreadable;
                Some(format!(
                    "warning: what was said before cannot be read, and nothing is kept until 'sotto history --keep N' begins anew: \
                     {at}: {error}"
                ))
            }
        };
        (Self { path, key, kept: Mutex::new(kept) }, problem)
    }

    /// Makes the file if there is none, so that whether there is one tells nothing.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let mut kept = self.kept();
        if matches!(kept.file, Kind::Anew) { self.write_anew(&mut kept) } else { Ok(()) }
    }

    /// Writes as one does who appends something, so that when the file was written last tells nothing.
    pub(crate) fn touch(&self) -> io::Result<()> {
        match &mut self.kept().file {
            Kind::Log(log) => log.touch(),
            _ => Ok(()),
        }
    }

    /// How many texts are kept, and how many there are.
    pub(crate) fn keeps(&self) -> (u32, usize) {
        let kept = self.kept();
        (kept.keep, kept.texts.len())
    }

    /// Keeps so many texts from now on, at most [`KEEP_MAX`], and forgets all but the newest of them at once; with 0 all of them.
    pub(crate) fn keep(&self, keep: u32) -> io::Result<()> {
        let mut kept = self.kept();
        kept.keep = keep.min(KEEP_MAX);
        if keep == 0 {
            kept.retain(|_| false);
        }
        kept.make_room();
        self.write_anew(&mut kept)
    }

    /// Whether a text that nobody has seen stands here, or nothing is kept.
    pub(crate) fn has_unread(&self, number: u64) -> bool {
        let kept = self.kept();
        kept.keep == 0 || kept.unread.contains_key(&number)
    }

    /// Texts of a conversation up to this number were seen.
    pub(crate) fn seen(&self, id: ConversationId, number: u64) {
        let mut kept = self.kept();
        let Kept { texts, unread, .. } = &mut *kept;
        unread.retain(|text, place| {
            let found = texts.binary_search_by_key(place, |past| past.place).ok();
            *text > number || found.and_then(|at| texts.get(at)).is_none_or(|past| past.id != id)
        });
    }

    /// The conversations of which nothing is shown.
    pub(crate) fn blocked(&self) -> Blocked {
        Blocked(self.kept().blocked.clone())
    }

    /// Shows nothing of a conversation from now on, or shows it again.
    pub(crate) fn set_blocked(&self, id: ConversationId, blocked: bool) -> io::Result<()> {
        let mut kept = self.kept();
        // Otherwise it would hold until the process ends, and nobody would know.
        kept.check_readable()?;
        let before = kept.blocked.clone();
        let written = self.commit(&mut kept, vec![Record::Blocked { id, blocked }]);
        if written.is_err() {
            // Whoever is told that it failed is not to find it done.
            kept.blocked = before;
        }
        written
    }

    /// Forgets everything of conversations that are not there any more.
    pub(crate) fn retain(&self, there: &BTreeSet<ConversationId>) -> io::Result<()> {
        let mut kept = self.kept();
        let gone = |id: &ConversationId| !there.contains(id);
        let files = kept.pieces.iter().map(|it| it.id).chain(kept.saved.iter().map(|it| it.id));
        let mut files = files.chain(kept.sending.iter().map(|it| it.sending.id));
        if !kept.texts.iter().any(|past| gone(&past.id))
            && !kept.blocked.iter().any(gone)
            && !files.any(|id| gone(&id))
        {
            return Ok(());
        }
        kept.retain(|past| there.contains(&past.id));
        kept.blocked.retain(|id| there.contains(id));
        kept.pieces.retain(|it| there.contains(&it.id));
        kept.saved.retain(|it| there.contains(&it.id));
        kept.sending.retain(|it| there.contains(&it.sending.id));
        // What is forgotten is not even left in the part of the file that is not read any more.
        self.write_anew(&mut kept)
    }

    /// Where the account is.
    fn home(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that holds it can leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what happened, and writes it down.
    fn commit(&self, kept: &mut Kept, records: Vec<Record>) -> io::Result<()> {
        // What could not be written is written with whatever comes next.
        if records.is_empty() && !matches!(kept.file, Kind::Anew) {
            return Ok(());
        }
        let encoded = records.iter().map(Record::encode).collect::<Vec<_>>();
        records.into_iter().for_each(|record| kept.take(record));
        kept.make_room();
        let useful = chunks_of(kept.bytes + kept.texts.len() * OVERHEAD_BYTES + kept.file_bytes());
        match &mut kept.file {
            Kind::Log(log) => {
                if log.written() > 2 * useful + WASTE_CHUNKS {
                    return self.write_anew(kept);
                }
                let appended = log.append(&encoded);
                if appended.is_err() {
                    kept.file = Kind::Anew;
                }
                appended
            }
            Kind::Anew => self.write_anew(kept),
            Kind::Looked | Kind::Unreadable => Ok(()),
        }
    }

    /// Writes what is known in place of what there is.
    fn write_anew(&self, kept: &mut Kept) -> io::Result<()> {
        if matches!(kept.file, Kind::Looked) {
            return Ok(());
        }
        let blocked = kept.blocked.iter().map(|id| Record::Blocked { id: *id, blocked: true });
        let first = core::iter::once(Record::Keep(kept.keep)).chain(blocked).map(|record| record.encode());
        let files = kept.files().map(|record| record.encode());
        let texts = kept.texts.iter().map(Past::encode);
        let written = SealedLog::create(&self.path, &self.key, DOMAIN, first.chain(files).chain(texts));
        kept.file = Kind::Anew;
        kept.file = Kind::Log(written?);
        Ok(())
    }

    /// What a person is told when the history cannot be written.
    pub(crate) fn unwritten(&self, error: &io::Error) -> String {
        format!("what is said cannot be kept for later: {}: {error}", self.path.display())
    }
}

impl Kept {
    /// # Errors
    /// If what there is cannot be read, and so nothing is written.
    fn check_readable(&self) -> io::Result<()> {
        match self.file {
            Kind::Unreadable => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it cannot be read; 'sotto history --keep N' begins anew",
            )),
            _ => Ok(()),
        }
    }

    fn new() -> Self {
        Self {
            file: Kind::Anew,
            texts: VecDeque::new(),
            next: 1,
            bytes: 0,
            keep: KEEP,
            open: BTreeSet::new(),
            numbers: BTreeMap::new(),
            unread: BTreeMap::new(),
            blocked: BTreeSet::new(),
            pieces: Vec::new(),
            saved: Vec::new(),
            sending: Vec::new(),
        }
    }

    /// Takes over a record that was written; whether it is one.
    fn read(&mut self, record: &[u8]) -> bool {
        match Record::decode(record) {
            // Places rise: what stands elsewhere was not written like that.
            Some(Record::Text(past)) if past.place < self.next => false,
            Some(record) => {
                self.take(record);
                true
            }
            None => false,
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Text(past) => {
                self.next = past.place.saturating_add(1);
                self.bytes += past.text.0.len();
                match past.by {
                    By::Me { fate: Fate::Waits, .. } => {
                        self.open.insert(past.place);
                    }
                    By::Me { .. } => {}
                    By::Other { number, .. } => {
                        self.numbers.insert(number, past.place);
                    }
                }
                self.texts.push_back(past);
            }
            Record::Fate { place, sequence, fate, at_ms } => {
                let Some(past) = self.at_mut(place) else { return };
                past.by = By::Me { sequence, fate, at_ms };
                if fate != Fate::Waits {
                    self.open.remove(&place);
                }
            }
            Record::Keep(keep) => self.keep = keep.min(KEEP_MAX),
            Record::Blocked { id, blocked: true } => {
                self.blocked.insert(id);
            }
            Record::Blocked { id, blocked: false } => {
                self.blocked.remove(&id);
            }
            Record::Piece(piece) => self.take_piece(piece),
            Record::Saved { id, from, file, path } => self.take_saved(Saved { id, from, file, path }),
            Record::Sending(sending) => self.sending.extend(Going::of(sending)),
            Record::Handed { id, file, next } => self.take_handed(id, &file, next),
        }
    }

    fn at(&self, place: u64) -> Option<&Past> {
        let found = self.texts.binary_search_by_key(&place, |past| past.place).ok()?;
        self.texts.get(found)
    }

    fn at_mut(&mut self, place: u64) -> Option<&mut Past> {
        let found = self.texts.binary_search_by_key(&place, |past| past.place).ok()?;
        self.texts.get_mut(found)
    }

    fn retain(&mut self, stays: impl Fn(&Past) -> bool) {
        self.texts.retain(stays);
        self.bytes = self.texts.iter().map(|past| past.text.0.len()).sum();
        let there: BTreeSet<u64> = self.texts.iter().map(|past| past.place).collect();
        self.open.retain(|place| there.contains(place));
        self.numbers.retain(|_, place| there.contains(place));
        self.unread.retain(|_, place| there.contains(place));
    }

    /// Forgets the oldest that have arrived or were seen, as long as there are too many. Of the others there are as many as the
    /// state has room for.
    fn make_room(&mut self) {
        let mut at = 0;
        while self.texts.len() > self.keep as usize || self.bytes > BYTES_MAX {
            let Some(past) = self.texts.get(at) else { return };
            let number = match past.by {
                By::Other { number, .. } => {
                    Some(number).filter(|_| self.numbers.get(&number) == Some(&past.place))
                }
                By::Me { .. } => None,
            };
            if self.open.contains(&past.place)
                || number.is_some_and(|number| self.unread.contains_key(&number))
            {
                at += 1;
            } else if let Some(past) = self.texts.remove(at) {
                self.bytes -= past.text.0.len();
                number.map(|number| self.numbers.remove(&number));
            }
        }
    }
}

/// Whether there is a history in a directory.
#[cfg(test)]
fn exists(directory: &Path) -> bool {
    std::fs::exists(directory.join(FILE)).unwrap_or(true)
}
