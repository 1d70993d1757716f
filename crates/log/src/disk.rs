//! Files as far as the log needs them, behind a seam where tests make them fail.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One directory of files.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing; `create` empties it, or makes it if there is none.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, and takes the place of one that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Takes a name away; who has opened the file reads on.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renamings and removals durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send {
    /// Its size.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads as many bytes as the buffer has; an error if there are fewer.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file, or lengthens it by zeros.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
    /// Makes contents and size durable. If it fails, nobody knows what is durable, and trying again tells nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the operating system.
pub struct Directory {
    path: PathBuf,
    /// Held open for `sync_names`.
    handle: File,
    read_only: bool,
}

impl Directory {
    /// An existing directory.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), handle: File::open(path)?, read_only: false })
    }

    /// An existing directory in which nothing is to be changed.
    pub fn read_only(path: &Path) -> io::Result<Self> {
        Ok(Self { read_only: true, ..Self::new(path)? })
    }
}

impl Disk for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only).create(create).truncate(create).mode(0o600);
        Ok(Box::new(options.open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl DiskFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The size of a file that grew is among what is synced.
        self.sync_data()
    }
}

/// Writes a whole file so that after a crash it is the old or the new one.
pub(super) fn replace(disk: &dyn Disk, name: &str, contents: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}{TEMPORARY}");
    let mut file = disk.open(&temporary, true)?;
    file.write_at(0, contents)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, name)?;
    disk.sync_names()
}

/// The end of names of files that are not complete.
pub(super) const TEMPORARY: &str = ".new";

/// Reads a whole file of at most `most` bytes; `None` if it is longer.
pub(super) fn read_all(disk: &dyn Disk, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = disk.open(name, false)?;
    let bytes = file.bytes()?;
    if bytes > most {
        return Ok(None);
    }
    let mut contents = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    file.read_at(0, &mut contents)?;
    Ok(Some(contents))
}
