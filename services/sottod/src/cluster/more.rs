//! Making the data directory of one more node of a cluster.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sotto_files::sync_directory;

use super::making::NewNode;
use super::{Cluster, Known, NodeId, read};
use crate::announcement;
use crate::data::{DataError, changed_by_making};
use crate::identity::Identity;

/// Makes `out`, the data directory of a node that is to be, with all that it has in common with the one of `like`, a node of the
/// same cluster that may be at work.
///
/// # Errors
/// [`DataError`], also if there is something at `out`, or the number was known as another node's when `like` was made.
pub(crate) fn make(
    out: &Path,
    like: &Path,
    root: Option<&Path>,
    this: NodeId,
    node: &NewNode,
) -> Result<(), DataError> {
    let failed = |source| DataError::Directory { path: out.to_owned(), source };
    let wrong = |what| DataError::Cluster { path: like.join(super::FILE), what };
    let Known { mut voters, mut answerers, .. } = read(like)?.ok_or_else(|| wrong("it is missing"))?;
    let is_taken = match this {
        NodeId::Voter(number) => voters.contains_key(&number),
        NodeId::Answerer(number) => answerers.contains_key(&number),
    };
    if is_taken {
        return Err(DataError::NumberTaken(this.to_string()));
    }
    if let NodeId::Voter(number) = this {
        voters.insert(number, node.peers.clone());
        answerers.clear();
    }
    let key = Identity::root_key_for(like, root)?;
    let making = beside(out);
    match fs::remove_dir_all(&making) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let changed = changed_by_making(&making);
    DirBuilder::new().recursive(true).mode(0o700).create(&making).map_err(failed)?;
    announcement::copy(like, &making)?;
    Identity::copy(like, &making, &key)?;
    node.configure(&making)?;
    Cluster::create(&making, this, (&voters, &answerers), true, &key)?;
    // An empty directory is replaced, and nothing else.
    sync_directory(&making).and_then(|()| fs::rename(&making, out)).map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => DataError::Exists(out.to_owned()),
        _ => failed(error),
    })?;
    changed.iter().try_for_each(|directory| sync_directory(directory)).map_err(failed)
}

/// Where it is until it is complete.
fn beside(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".making");
    out.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::super::NodeId::{Answerer, Voter};
    use super::super::making::tests::{config, make as make_cluster, node};
    use super::make;
    use crate::data::{DataDirectory, DataError};
    use mpir::noop;
    use sotto_protocol::Round;

    #[test]
    fn one_more_node_is_like_the_others_and_founds_nothing() {
        let place = tempfile::tempdir().unwrap();
        make_cluster(place.path(), 3);
        let (like, root) = (place.path().join("node2"), place.path().join("root.key"));
        for (name, this, known) in [("node4", Voter(4), 4), ("answerer1", Answerer(1), 3)] {
            let out = place.path().join(name);
            make(&out, &like, Some(&root), this, &node("n4")).unwrap();
            let again = make(&out, &like, Some(&root), this, &node("n4"));
            assert!(matches!(again, Err(DataError::Exists(_))), "{again:?}");
            assert!(!out.join("root.key").exists());
            let data = DataDirectory::open(&out, None).unwrap();
            data.announce(&*noop(), &config(), Round(1)).unwrap();
            let cluster = data.split().1.unwrap();
            assert_eq!((cluster.this, cluster.voters.len(), cluster.joins), (this, known, true));
        }
        // A node that forgot how it voted must not come back under its number.
        let out = place.path().join("other");
        let taken = make(&out, &like, Some(&root), Voter(3), &node("n3"));
        assert!(matches!(taken, Err(DataError::NumberTaken(_))) && !out.exists());
        let rootless = make(&out, &like, None, Voter(5), &node("n5"));
        assert!(rootless.is_err() && !out.exists());
    }
}
