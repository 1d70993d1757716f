//! The disk under the files of keys, behind a seam where tests answer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How the name of a file ends that is being written.
pub(super) const UNFINISHED: &str = ".new";

/// What a disk does. Any of it may take as long as it likes.
pub(super) trait Disk: Send + Sync + 'static {
    /// Makes a file of that name and content, or leaves nothing.
    fn store(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// The first bytes of a file, one more than so many at most.
    fn load(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>>;

    /// What is left is dropped at the next start.
    fn remove(&self, path: &Path);
}

/// That of the machine.
pub(super) struct FileSystem;

impl Disk for FileSystem {
    fn store(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let unfinished = path.with_extension(&UNFINISHED[1..]);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let written = file.and_then(|mut file| file.write_all(content));
        let renamed = written.and_then(|()| fs::rename(&unfinished, path));
        // A disk that is full is not filled with halves, which no budget counts.
        renamed.inspect_err(|_| self.remove(&unfinished))
    }

    fn load(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
        let mut content = Vec::with_capacity(bytes);
        File::open(path)?.take(bytes as u64 + 1).read_to_end(&mut content)?;
        Ok(content)
    }

    fn remove(&self, path: &Path) {
        if let Err(error) = fs::remove_file(path) {
            tracing::debug!(%error, "a file of keys is left");
        }
    }
}
