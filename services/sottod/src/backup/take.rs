//! What goes into a backup.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::Path;

use sotto_log::PinnedFile;
use zeroize::Zeroizing;

use super::archive::Archive;
use super::{BYTES_MAX, BackupError, LOG, NAMES, is_of_keys};
use crate::data;
use crate::host::unix_now;

/// How often files are read again that were being changed, and after what pause.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// A file of the data directory, and what is in it.
pub(crate) type Small = (String, Zeroizing<Vec<u8>>);

/// Everything that a backup will hold.
pub(crate) struct Taken {
    small: Vec<Small>,
    log: Vec<PinnedFile>,
    made_ms: u64,
}

impl Taken {
    /// The files of a data directory, and of its log as they were at one moment.
    ///
    /// # Errors
    /// [`BackupError`].
    pub(crate) fn of(data: &Path, log: Vec<PinnedFile>) -> Result<Self, BackupError> {
        // Certificates and announcements may be made anew at any time, and go with their keys.
        let mut small = read_small(data)?;
        for _ in 0..ATTEMPTS {
            let again = read_small(data)?;
            if again == small {
                return Ok(Self { small, log, made_ms: unix_now().0 });
            }
            small = again;
            std::thread::sleep(PAUSE);
        }
        Err(BackupError::Changing)
    }

    /// Writes it.
    pub(crate) fn write(self, out: impl Write) -> io::Result<()> {
        let mut archive = Archive::begin(out, self.made_ms)?;
        for (name, content) in &self.small {
            archive.add(name, content.len() as u64, content.as_slice())?;
        }
        for file in self.log {
            let (name, bytes) = (format!("{LOG}{}", file.name), file.bytes);
            archive.add(&name, bytes, file)?;
        }
        archive.finish()
    }
}

/// Writes a backup of a directory whose server does not run.
///
/// # Errors
/// [`BackupError`], also if a server runs.
pub(crate) fn at_rest(data: &Path, out: &mut File) -> Result<(), BackupError> {
    let (_lock, log) = data::log_at_rest(data)?;
    let file = |source| BackupError::File { path: data.to_owned(), source };
    Taken::of(data, log)?.write(io::BufWriter::new(out)).map_err(file)
}

/// Files that are there only while a manifest key follows on another, or after that.
fn names_of_keys(data: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| is_of_keys(name)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// The files of a data directory that are there, but those of its log.
///
/// # Errors
/// [`BackupError`].
pub(crate) fn read_small(data: &Path) -> Result<Vec<Small>, BackupError> {
    let mut small = Vec::new();
    let others = names_of_keys(data).map_err(|source| BackupError::File { path: data.to_owned(), source })?;
    for name in others.into_iter().chain(NAMES.map(str::to_owned)) {
        let path = data.join(&name);
        let failed = |source| BackupError::File { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let bytes = fs::metadata(&path).map_err(failed)?.len();
        let mut content =
            Zeroizing::new(Vec::with_capacity(usize::try_from(bytes.min(BYTES_MAX)).unwrap_or(0)));
        file.take(BYTES_MAX + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > BYTES_MAX {
            return Err(failed(io::Error::other("it is longer than any such file")));
        }
        small.push((name, content));
    }
    Ok(small)
}
