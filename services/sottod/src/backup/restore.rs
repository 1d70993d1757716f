//! A data directory from a backup.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sotto_files::sync_directory;

use super::archive::Part;
use super::{BackupError, Checked, LOG, NAMES, check, is_of_keys};
use crate::cluster::Cluster;
use crate::data::{self, DataError};
use crate::identity::Identity;

/// What was restored.
pub(crate) struct Restored {
    /// What was in the backup.
    pub(crate) backup: Checked,
    /// What keeps the directory from being served as it is, such as a certificate that has ended meanwhile.
    pub(crate) unfit: Option<DataError>,
}

/// Makes a data directory of a backup, of which every byte is checked before.
///
/// # Errors
/// [`BackupError`]; before the first byte is written if it is about the backup, or the directory is not empty.
pub(crate) fn restore(from: &Path, to: &Path) -> Result<Restored, BackupError> {
    let backup = check(from)?;
    if backup.summary.voters > 1 {
        return Err(BackupError::OfCluster { path: from.to_owned(), nodes: backup.summary.voters });
    }
    let failed = |source| BackupError::File { path: to.to_owned(), source };
    match fs::read_dir(to).map(|mut there| there.next().is_some()) {
        Ok(true) => return Err(BackupError::NotEmpty(to.to_owned())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(false) | Err(_) => {}
    }
    let _lock = data::take(to)?;
    // The keys come behind the log, and what says that they are there is last: a server refuses what is in between.
    let in_log = backup.files.iter().filter(|(name, _)| name.starts_with(LOG));
    for (name, part) in in_log {
        write(&to.join(name), part).map_err(failed)?;
    }
    sync_directory(&to.join(LOG)).map_err(failed)?;
    let of_keys = backup.files.keys().map(String::as_str).filter(|name| is_of_keys(name));
    for name in of_keys.chain(NAMES) {
        if let Some(part) = backup.files.get(name) {
            write(&to.join(name), part).map_err(failed)?;
            sync_directory(to).map_err(failed)?;
        }
    }
    Ok(Restored { unfit: fitness(to).err(), backup })
}

fn write(path: &Path, part: &Part) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(&mut part.clone(), &mut file)?;
    file.sync_all()
}

/// Whether a server would start with the keys and certificates that are there.
fn fitness(data: &Path) -> Result<(), DataError> {
    let identity = Identity::load(data, None)?;
    Cluster::load(data, &identity.root)?;
    Ok(())
}
