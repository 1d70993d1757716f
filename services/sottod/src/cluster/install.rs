//! Bringing a node's directory to the place where it runs, where there is no program to copy files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sotto_files::replace;

use super::read as read_cluster;
use crate::announcement;
use crate::backup::{BackupError, NAMES, read_small};
use crate::data::{self, DataError};
use crate::identity::{Identity, root_of};
use crate::manifest_keys::is_file;
use crate::secrets::IdentityError;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    /// There was nothing before.
    Made,
    /// So many files are others than before.
    Changed(usize),
    /// Everything was there already, or nothing was brought.
    Unchanged,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// One of the directories cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The same of what says who the node is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What was brought cannot be read.
    #[error(transparent)]
    Read(#[from] BackupError),
    /// Neither is there anything to install, nor was it before.
    #[error(
        "{}: no node is there, and none in {} either; bring the directory of a new node ('sottod cluster node'): one that ran \
         before and has lost its log must not come back under its number", from.display(), data.display()
    )]
    Nothing {
        /// From where.
        from: PathBuf,
        /// To where.
        data: PathBuf,
    },
    /// A file is missing of what was brought.
    #[error("{}: it is missing; bring all files of the directory that 'sottod cluster' made", .0.display())]
    Incomplete(PathBuf),
    /// What is there is another node's.
    #[error("{}: another node is there; nothing was changed: give the directory of the same node, or another place", .0.display())]
    OtherNode(PathBuf),
    /// The same of one that does not follow on what they have seen.
    #[error(
        "{}: what it announces does not follow on what is announced there: it has another text under the same number, or a \
         manifest key from before; nothing was changed: bring the announcement of a node that runs, and sign again if need be",
        .0.display()
    )]
    Other(PathBuf),
    /// Clients have seen newer announcements, and would refuse this server.
    #[error(
        "{}: it announces number {brought}, and number {there} was announced already; nothing was changed: bring what \
         'sottod certify' has signed last", from.display()
    )]
    Older {
        /// What was brought.
        from: PathBuf,
        /// Its number.
        brought: u64,
        /// The one that is there.
        there: u64,
    },
}

/// Makes the keys, certificates, announcement and settings in `data` those in `from`, the directory of a node of a cluster that no
/// server has used; `data` has no node, or the same one, which keeps its log. If there is nothing in `from`, a node that is there stays as
/// it is. What an interruption leaves is completed by doing it again.
///
/// # Errors
/// [`InstallError`], with nothing changed unless a disk fails.
pub(crate) fn install(from: &Path, data: &Path) -> Result<Installed, InstallError> {
    let exists = Identity::exists(data);
    if !Identity::exists(from) {
        let nothing = || InstallError::Nothing { from: from.to_owned(), data: data.to_owned() };
        return exists.then_some(Installed::Unchanged).ok_or_else(nothing);
    }
    let brought = read_small(from)?;
    let there = |name: &str| brought.iter().any(|(other, _)| *other == name);
    // Once another manifest key signs, the first is gone.
    let needed = |name: &str| !is_file(name) || !brought.iter().any(|(other, _)| is_file(other));
    if let Some(name) = NAMES.iter().find(|name| needed(name) && !there(name)) {
        return Err(InstallError::Incomplete(from.join(name)));
    }
    let lock = data::take(data)?;
    if exists {
        same_node(from, data)?;
    } else {
        data::ensure_no_log(data)?;
    }
    let mut changed = 0;
    for (name, content) in &brought {
        let path = data.join(name);
        let failed = |source| DataError::Directory { path: path.clone(), source };
        match fs::read(&path) {
            Ok(there) if there == content.as_slice() => continue,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error).into()),
            Ok(_) | Err(_) => {}
        }
        replace(&path, content, 0o600).map_err(failed)?;
        changed += 1;
    }
    drop(lock);
    Ok(match (exists, changed) {
        (false, _) => Installed::Made,
        (true, 0) => Installed::Unchanged,
        (true, changed) => Installed::Changed(changed),
    })
}

/// Whether two directories are of the same node, and the first announces nothing older.
fn same_node(from: &Path, data: &Path) -> Result<(), InstallError> {
    let root = root_of(from)?;
    let known = |directory| Ok::<_, DataError>(read_cluster(directory)?.map(|known| known.this));
    if root_of(data)? != root || known(from)? != known(data)? {
        return Err(InstallError::OtherNode(data.to_owned()));
    }
    let announced = |directory| Ok::<_, IdentityError>(announcement::serial(directory, &root)?.unwrap_or(0));
    let (brought, there) = (announced(from)?, announced(data)?);
    if brought < there {
        return Err(InstallError::Older { from: from.to_owned(), brought, there });
    }
    let said = |directory| announcement::said(directory, &root);
    if let (Some(ours), Some(known)) = (said(from)?, said(data)?)
        && ours.succeeds(&known).is_err()
    {
        return Err(InstallError::Other(from.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use mpir::noop;
    use sotto_protocol::Round;

    use super::super::making::tests::{config, make as make_cluster};
    use super::Installed::{Changed, Made, Unchanged};
    use super::{InstallError, NAMES, install};
    use crate::data::{self, DataDirectory, DataError};

    /// What a node has but its log.
    fn files(directory: &Path) -> Vec<Vec<u8>> {
        NAMES.iter().map(|name| fs::read(directory.join(name)).unwrap()).collect()
    }

    #[test]
    fn a_node_is_installed_once_and_keeps_its_log_when_its_certificates_are_made_anew() {
        let place = tempfile::tempdir().unwrap();
        make_cluster(place.path(), 3);
        let (from, data) = (place.path().join("node1"), place.path().join("volume/node"));
        // As a platform may show it: to a group, too.
        for name in NAMES {
            fs::set_permissions(from.join(name), Permissions::from_mode(0o440)).unwrap();
        }
        assert_eq!(install(&from, &data).unwrap(), Made);
        assert_eq!(files(&data), files(&from));
        let opened = DataDirectory::open(&data, None).unwrap();
        opened.announce(&*noop(), &config(), Round(1)).unwrap();
        let busy = install(&from, &data);
        assert!(matches!(busy, Err(InstallError::Data(DataError::InUse(_)))), "{busy:?}");
        drop(opened);
        fs::write(data.join("log/segment-1"), b"log").unwrap();
        assert_eq!(install(&from, &data).unwrap(), Unchanged);

        for name in NAMES {
            fs::set_permissions(from.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        let before = fs::read(data.join("peer.pem")).unwrap();
        data::certify(&*noop(), &from, Some(&place.path().join("root.key")), &config(), false).unwrap();
        assert_eq!(install(&from, &data).unwrap(), Changed(4));
        assert_eq!(files(&data), files(&from));
        assert_ne!(fs::read(data.join("peer.pem")).unwrap(), before);
        assert_eq!(fs::read(data.join("log/segment-1")).unwrap(), b"log");
        // Without what was brought it goes on as it is.
        let empty = place.path().join("empty");
        fs::create_dir(&empty).unwrap();
        assert_eq!(install(&empty, &data).unwrap(), Unchanged);
    }

    #[test]
    fn nothing_takes_the_place_of_another_node_or_of_something_newer() {
        let place = tempfile::tempdir().unwrap();
        make_cluster(place.path(), 3);
        let (from, data) = (place.path().join("node1"), place.path().join("data"));
        let missing = install(&place.path().join("nowhere"), &data);
        assert!(matches!(missing, Err(InstallError::Nothing { .. })) && !data.exists(), "{missing:?}");
        fs::rename(from.join("peer.key"), place.path().join("kept")).unwrap();
        let incomplete = install(&from, &data);
        assert!(matches!(incomplete, Err(InstallError::Incomplete(_))) && !data.exists(), "{incomplete:?}");
        fs::rename(place.path().join("kept"), from.join("peer.key")).unwrap();
        // A log whose keys are gone is not given others.
        fs::create_dir_all(data.join("log")).unwrap();
        fs::write(data.join("log/segment-1"), b"log").unwrap();
        let logged = install(&from, &data);
        assert!(matches!(logged, Err(InstallError::Data(DataError::IdentityMissing(_)))), "{logged:?}");
        fs::remove_dir_all(&data).unwrap();

        assert_eq!(install(&from, &data).unwrap(), Made);
        let there = files(&data);
        let other = install(&place.path().join("node2"), &data);
        assert!(matches!(other, Err(InstallError::OtherNode(_))), "{other:?}");
        let elsewhere = tempfile::tempdir().unwrap();
        make_cluster(elsewhere.path(), 3);
        let stranger = install(&elsewhere.path().join("node1"), &data);
        assert!(matches!(stranger, Err(InstallError::OtherNode(_))), "{stranger:?}");
        assert_eq!(files(&data), there);
        let root = place.path().join("root.key");
        data::certify(&*noop(), &data, Some(&root), &crate::Config { retained: 3, ..config() }, false)
            .unwrap();
        let there = files(&data);
        let older = install(&from, &data);
        assert!(matches!(older, Err(InstallError::Older { brought: 1, there: 2, .. })), "{older:?}");
        // Another text under the same number, as of two changes that were signed apart.
        data::certify(&*noop(), &from, Some(&root), &crate::Config { retained: 4, ..config() }, false)
            .unwrap();
        let two = install(&from, &data);
        assert!(matches!(two, Err(InstallError::Other(_))), "{two:?}");
        assert_eq!(files(&data), there);
    }
}
