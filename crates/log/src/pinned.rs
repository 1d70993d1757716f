//! The files of a log as they were at one moment, for whoever copies them while it goes on.
//!
//! A log's files only grow, or are replaced or removed whole, and an open file stays what it was: nothing has to wait for the
//! copy, and nothing is kept for it but the space of what is removed meanwhile.

use std::io::{self, Read};

use super::disk::{Disk, DiskFile};
use super::error::LogError;
use super::store::{Store, VOTE};
use super::writer::Writer;
use super::{segment, snapshot};
use crate::Doing;

/// The way to the files of a log that is open.
#[derive(Clone)]
pub struct LogFiles {
    pub(super) writer: Writer,
}

impl LogFiles {
    /// All of them, with everything in them that was acknowledged before.
    ///
    /// # Errors
    /// [`LogError`] if the log has failed.
    pub fn pin(&self) -> Doing<'_, Result<Vec<PinnedFile>, LogError>> {
        Box::pin(async move { self.writer.run(|store| store.pin()).await })
    }
}

/// An open file, as long as it was. Reading begins at its start.
pub struct PinnedFile {
    /// Its name in the log's directory.
    pub name: String,
    /// Its size when it was pinned.
    pub bytes: u64,
    file: Box<dyn DiskFile>,
    at: u64,
}

impl PinnedFile {
    fn open(disk: &dyn Disk, name: String, bytes: Option<u64>) -> Result<Self, LogError> {
        let file = disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => file.bytes().map_err(LogError::file(&name, "measure"))?,
        };
        Ok(Self { name, bytes, file, at: 0 })
    }
}

impl Read for PinnedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes - self.at).unwrap_or(usize::MAX);
        let (buffer, _) = buffer.split_at_mut(left.min(buffer.len()));
        self.file.read_at(self.at, buffer)?;
        self.at += buffer.len() as u64;
        Ok(buffer.len())
    }
}

impl Store {
    /// All files, as they are now.
    pub(super) fn pin(&self) -> Result<Vec<PinnedFile>, LogError> {
        self.alive()?;
        let disk = self.disk();
        let mut files = Vec::new();
        if self.vote().is_some() {
            files.push(PinnedFile::open(disk, VOTE.to_owned(), None)?);
        }
        if self.has_snapshot() {
            files.push(PinnedFile::open(disk, snapshot::NAME.to_owned(), None)?);
        }
        for segment in self.segments() {
            let name = segment::name(segment.header.number);
            files.push(PinnedFile::open(disk, name, Some(segment.bytes))?);
        }
        Ok(files)
    }
}

/// The files of a log that nobody writes to.
///
/// # Errors
/// [`LogError`].
pub fn pin_at_rest(disk: &dyn Disk) -> Result<Vec<PinnedFile>, LogError> {
    let mut names = disk.names().map_err(LogError::file("the directory", "list"))?;
    names.retain(|name| is_of_a_log(name));
    names.sort_unstable();
    names.into_iter().map(|name| PinnedFile::open(disk, name, None)).collect()
}

/// Whether a log has files of this name.
pub fn is_of_a_log(name: &str) -> bool {
    name == VOTE || name == snapshot::NAME || segment::number(name).is_some()
}
