//! What lasts and was told to no program yet, on the disk: neither the end of the participant nor its death takes a warning
//! away from the person. It names contacts, so it is sealed under a key of the account: where the state is closed with a
//! passphrase, this is, too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use sotto_protocol::Client;
use zeroize::Zeroizing;

use super::face::Face;
use super::journal::{Journal, KEPT_MAX};
use super::message::{Note, Severity};
use crate::store::{remove_with_leftover, seal};

pub(crate) const FILE: &str = "news";
/// What is sealed has a multiple of so many bytes.
const STEP_BYTES: usize = 4096;
/// Before what is sealed. Before that there were files that began with a bracket.
const VERSION: u8 = 1;
const DOMAIN: &[u8] = b"sotto v1 news\0";
/// More than the longest of [`KEPT_MAX`] lines take.
const BYTES_MAX: u64 = 4 << 20;

/// Removes what waits to be told, with the account that it is about.
pub(crate) fn forget(directory: &Path) -> io::Result<()> {
    remove_with_leftover(&directory.join(FILE))
}

/// A note in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Note(Note),
    /// As programs before wrote it, which did not tell how much it is to be heeded.
    Line(String),
}

impl Kept {
    fn note(self) -> Note {
        match self {
            Self::Note(note) => note,
            Self::Line(line) => Note::new(Severity::Warning, line),
        }
    }
}

/// The file of an account.
pub(crate) struct News {
    path: PathBuf,
    key: Zeroizing<[u8; seal::KEY_BYTES]>,
    /// Whether nothing but what is sealed is believed.
    sealed: bool,
    writing: Mutex<()>,
}

impl News {
    /// Of the account with this seed. Beside a state that is closed, what is not sealed was put there by somebody else.
    pub(super) fn of(directory: &Path, account_seed: &[u8; 32], is_closed: bool) -> Self {
        let key = Sha256::new_with_prefix(DOMAIN).chain_update(account_seed).finalize().into();
        Self {
            path: directory.join(FILE),
            key: Zeroizing::new(key),
            sealed: is_closed,
            writing: Mutex::new(()),
        }
    }

    /// Seals what was written before it was sealed.
    pub(crate) fn seal_old(directory: &Path, client: &Client, was_closed: bool) -> io::Result<()> {
        let news = Self::of(directory, client.account_seed(), was_closed);
        let notes = news.notes()?;
        news.write_notes(&notes)
    }

    /// What waits to be told, also that it cannot be read.
    pub(super) fn read(&self) -> Vec<Note> {
        self.notes().unwrap_or_else(|error| {
            let path = self.path.display();
            let line = format!("warning: what happened before cannot be read: {path}: {error}");
            vec![Note::new(Severity::Warning, line)]
        })
    }

    fn notes(&self) -> io::Result<Vec<Note>> {
        let size = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            // Nothing else is read, or waited for.
            file if !file.as_ref().is_ok_and(fs::Metadata::is_file) => {
                file?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
            }
            file => file?.len(),
        };
        if size > BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
        }
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "it was changed");
        let bytes = Zeroizing::new(fs::read(&self.path)?);
        let mut notes: Vec<Kept> = match bytes.split_first() {
            Some((&VERSION, sealed)) => {
                serde_json::from_slice(&seal::open(&self.key, DOMAIN, sealed).ok_or_else(changed)?)?
            }
            _ if self.sealed => return Err(changed()),
            _ => serde_json::from_slice(&bytes)?,
        };
        notes.drain(..notes.len().saturating_sub(KEPT_MAX));
        Ok(notes.into_iter().map(Kept::note).collect())
    }

    /// Writes what waits now.
    pub(super) fn write(&self, journal: &Journal) -> io::Result<()> {
        // So that nothing older is written over it.
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_notes(&journal.untold())
    }

    fn write_notes(&self, notes: &[Note]) -> io::Result<()> {
        if notes.is_empty() {
            return remove_with_leftover(&self.path);
        }
        let mut plain = Zeroizing::new(serde_json::to_vec(notes)?);
        // Its size does not tell what it says: blanks behind JSON are none of it.
        let padded = plain.len().next_multiple_of(STEP_BYTES);
        plain.resize(padded, b' ');
        let sealed = seal::seal(&self.key, DOMAIN, &plain);
        sotto_files::replace(&self.path, &[&[VERSION][..], &sealed].concat(), 0o600)
    }

    pub(super) fn unwritten(&self, error: &io::Error) -> String {
        format!("what happened cannot be kept for later: {}: {error}", self.path.display())
    }

    /// Follows the journal for as long as it is polled. Writing holds up nobody: what the wire shows does not wait for it.
    pub(super) async fn follow(self: Arc<Self>, journal: Arc<Journal>, face: Face) {
        let mut changes = journal.untold_changes();
        // Something may have happened before this was asked for the first time.
        changes.mark_changed();
        let mut told = false;
        while changes.changed().await.is_ok() {
            let (news, journal) = (Arc::clone(&self), Arc::clone(&journal));
            let written = tokio::task::spawn_blocking(move || news.write(&journal)).await;
            if let Ok(Err(error)) = written
                && !told
            {
                told = true;
                face.note(&format!("warning: {}", self.unwritten(&error)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::journal::{Entry, Journal};
    use super::{BYTES_MAX, News};
    use crate::daemon::message::{Note, Severity};

    fn alarm(line: &str) -> Note {
        Note::new(Severity::Alarm, line)
    }

    #[test]
    fn what_nobody_was_told_survives_and_what_was_told_does_not_come_again() {
        let directory = tempfile::tempdir().unwrap();
        let news = News::of(directory.path(), &[1; 32], false);
        assert!(news.read().is_empty());
        let before = Journal::new(news.read());
        // Longer than what is drawn holds by chance.
        const TWO: &str = "the second of two lines";
        for line in ["one", TWO] {
            before.write(Entry::Lasting(alarm(line)));
        }
        before.write(Entry::Passing(alarm("three")));
        news.write(&before).unwrap();

        let after = Journal::new(news.read());
        let mut listener = after.listen();
        assert_eq!(listener.next(), Some((0, Entry::Lasting(alarm("one")))));
        assert_eq!(after.untold(), [alarm(TWO)]);
        news.write(&after).unwrap();
        assert_eq!(news.read(), [alarm(TWO)]);
        let (on_disk, other) =
            (fs::read(directory.path().join("news")).unwrap(), News::of(directory.path(), &[2; 32], false));
        assert!(!on_disk.windows(TWO.len()).any(|window| window == TWO.as_bytes()));
        assert!(other.read()[0].line.contains("cannot be read"));
        listener.next().unwrap();
        assert_eq!(listener.next(), None);
        news.write(&after).unwrap();
        assert!(news.read().is_empty());
    }

    #[test]
    fn what_a_program_of_before_has_written_is_told_and_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("news");
        fs::write(&path, br#"["bob is there", "warning: another"]"#).unwrap();
        let alice = crate::testing::client("alice");
        let news = News::of(directory.path(), alice.account_seed(), false);
        let lines = ["bob is there", "warning: another"].map(|line| Note::new(Severity::Warning, line));
        assert_eq!(news.read(), lines);
        // Beside a closed state somebody else has put it there.
        let closed = News::of(directory.path(), alice.account_seed(), true);
        assert!(closed.read()[0].line.contains("cannot be read"));
        News::seal_old(directory.path(), &alice, false).unwrap();
        assert!(!fs::read(&path).unwrap().windows(12).any(|window| window == b"bob is there"));
        assert_eq!(news.read(), lines);
        assert_eq!(closed.read(), lines);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_and_stops_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let news = News::of(directory.path(), &[1; 32], false);
        let path = directory.path().join("news");
        for bytes in [b"[\"a".to_vec(), vec![b' '; BYTES_MAX as usize + 1], b"{}".to_vec()] {
            fs::write(&path, bytes).unwrap();
            let told = news.read();
            assert!(told.len() == 1 && told[0].line.contains("cannot be read"), "{told:?}");
        }
    }
}
