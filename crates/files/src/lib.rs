//! Files of which a crash leaves the old or the new, whole: the state of a client, the keys of a server.
//!
//! ```
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("state");
//! sotto_files::replace(&path, b"one", 0o600)?;
//! sotto_files::replace(&path, b"two", 0o600)?;
//! assert_eq!(std::fs::read(&path)?, b"two");
//! # Ok::<_, std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces a file, or makes it, with permissions `mode` where the system has such. When this returns, the new one is on
/// the disk; if it fails, or the machine does, the old one is there whole.
///
/// The new one is written beside it under its name with `.new` at the end: always the same name, so that a crash leaves
/// no second copy of a secret for good. Who replaces another's file leaves it to its owner, as far as the system allows.
///
/// # Errors
/// What the operating system refuses.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    // What lies there, from a crash or from somebody else, has a mode of its own, or is a link to another place.
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    system::permit(&mut options, mode);
    let mut file = options.open(new)?;
    if let Ok(old) = fs::metadata(path) {
        system::leave_to_owner(&file, &old)?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(new, path)?;
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => sync_directory(Path::new(".")),
        Some(directory) => sync_directory(directory),
        None => Ok(()),
    }
}

/// Makes durable which names a directory holds.
///
/// # Errors
/// What the operating system refuses.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    system::sync_directory(directory)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
    use std::path::Path;

    pub(super) fn permit(options: &mut OpenOptions, mode: u32) {
        options.mode(mode);
    }

    pub(super) fn leave_to_owner(file: &File, old: &Metadata) -> io::Result<()> {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
            return Ok(());
        }
        match fchown(file, Some(old.uid()), Some(old.gid())) {
            // Only root gives files away. Whoever else may replace this one keeps the new one.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            done => done,
        }
    }

    pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }
}

// Elsewhere a file belongs to who made it, and a directory cannot be opened as a file: the rename is as durable as the
// system makes it.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(super) fn permit(_: &mut OpenOptions, _: u32) {}

    pub(super) fn leave_to_owner(_: &File, _: &Metadata) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::replace;

    #[test]
    fn what_lies_in_the_way_decides_neither_where_a_secret_goes_nor_who_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("key"), directory.path().join("elsewhere"));
        fs::write(&elsewhere, "theirs").unwrap();
        symlink(&elsewhere, directory.path().join("key.new")).unwrap();
        replace(&path, b"secret", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(fs::read(&elsewhere).unwrap(), b"theirs");

        fs::write(directory.path().join("key.new"), "left by a crash").unwrap();
        replace(&path, b"second", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing else is left");
    }

    /// Somebody whose groups have changed, and whose files have not: root alone can give files away.
    #[test]
    fn who_may_not_give_a_file_to_its_group_replaces_it_all_the_same() {
        use std::os::unix::fs::chown;
        use std::os::unix::process::CommandExt as _;
        use std::process::Command;

        const NOBODY: u32 = 65534;
        if let Some(path) = std::env::var_os("SOTTO_FILES_REPLACED") {
            return replace(path.as_ref(), b"new", 0o600).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let (path, program) = (directory.path().join("state"), directory.path().join("program"));
        fs::write(&path, "old").unwrap();
        if chown(&path, Some(NOBODY), Some(0)).is_err() {
            return; // Only root can play this.
        }
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let name = "tests::who_may_not_give_a_file_to_its_group_replaces_it_all_the_same";
        let replaced = Command::new(&program)
            .args(["--exact", name])
            .env("SOTTO_FILES_REPLACED", &path)
            .current_dir(directory.path())
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stdout));
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn where_the_new_cannot_be_written_the_old_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        replace(&path, b"old", 0o600).unwrap();
        fs::create_dir(directory.path().join("state.new")).unwrap();
        assert!(replace(&path, b"new", 0o600).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
