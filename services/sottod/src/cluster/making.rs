//! Making the data directories of a new cluster.
//!
//! ```text
//! node1, node2, ...   a data directory for each node that votes: they sign and announce the same
//! answerers/          the same for each that does not: answerer1, answerer2, ...
//! root.key            the root key, which no node has
//! address             what clients are given; there when all else is
//! making/             all of that until it is complete
//! ```
//!
//! A `node1` that is there, and empty, before the cluster is made may be a file system of its own: what belongs there is copied
//! into it. So each node's container can be given a volume with nothing but what is its own.
//!
//! A crash leaves nothing that was complete and is not used: what is in `making` without an address is made again, and with
//! one it only has to be moved.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sotto_files::{replace, sync_directory};
use sotto_wire::{Address, RootKey};

use super::{Cluster, NodeId, Places};
use crate::announcement;
use crate::data::{DataError, changed_by_making};
use crate::identity::Identity;
use crate::key_file::create_key;
use crate::secrets::{ROOT, key_error};

const ADDRESS: &str = "address";
const MAKING: &str = "making";
const NODE: &str = "node";
const ANSWERERS: &str = "answerers";
const ANSWERER: &str = "answerer";

/// The nodes of a new cluster.
#[derive(Default)]
pub(crate) struct NewNodes {
    pub(crate) voters: Vec<NewNode>,
    pub(crate) answerers: Vec<NewNode>,
}

/// What one node has of its own.
pub(crate) struct NewNode {
    /// Under which host and port it listens for the others. Several answerers may share that, and are not followed then.
    pub(crate) peers: String,
    /// Its configuration, and the name of that.
    pub(crate) settings: (&'static str, String),
}

/// What is found or begun in a directory.
pub(crate) enum Begun {
    /// A cluster, complete, with its address.
    There(Address),
    /// The same, which an earlier attempt had left to be moved only.
    Completed(Address),
    /// The first node, which does not announce anything yet.
    First(Box<Making>),
}

/// A cluster that is being made.
pub(crate) struct Making {
    out: PathBuf,
    nodes: NewNodes,
    root: SigningKey,
    _lock: File,
}

/// Begins a cluster in a directory, or finds one there.
pub(crate) fn begin(out: &Path, nodes: NewNodes) -> Result<Begun, DataError> {
    let failed = |source| DataError::Directory { path: out.to_owned(), source };
    let making = out.join(MAKING);
    let changed = changed_by_making(&making);
    DirBuilder::new().recursive(true).mode(0o700).create(out).map_err(failed)?;
    changed.iter().try_for_each(|directory| sync_directory(directory)).map_err(failed)?;
    let lock = File::open(out).map_err(failed)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => DataError::InUse(out.to_owned()),
        TryLockError::Error(source) => failed(source),
    })?;
    if let Some(address) = read_address(out)? {
        return Ok(Begun::There(address));
    }
    if let Some(address) = read_address(&making)? {
        publish(out).map_err(failed)?;
        return Ok(Begun::Completed(address));
    }
    if is_half(out).map_err(failed)? {
        return Err(DataError::HalfCluster(out.to_owned()));
    }
    match fs::remove_dir_all(&making) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let root = making.join(ROOT);
    let first = making.join(format!("{NODE}1"));
    let private = |path: &Path| DirBuilder::new().mode(0o700).create(path).map_err(failed);
    private(&making)?;
    let seed = create_key(&root).map_err(|source| key_error(&root, source))?;
    let this = Making { out: out.to_owned(), nodes, root: SigningKey::from_bytes(&seed), _lock: lock };
    private(&first)?;
    Identity::create_under(&first, &this.root)?;
    if let Some(node) = this.nodes.voters.first() {
        node.configure(&first)?;
    }
    Ok(Begun::First(Box::new(this)))
}

impl Making {
    /// The data directory of the first node, whose announcement is made next: it becomes that of all.
    pub(crate) fn first(&self) -> PathBuf {
        self.directory(NodeId::Voter(1))
    }

    /// The file of the root key.
    pub(crate) fn root(&self) -> PathBuf {
        self.out.join(MAKING).join(ROOT)
    }

    /// The public half of the root key.
    pub(crate) fn root_key(&self) -> RootKey {
        RootKey(self.root.verifying_key().to_bytes())
    }

    /// Makes the other nodes after the first, and moves all to its place.
    pub(crate) fn finish(&self, address: &Address) -> Result<(), DataError> {
        let failed = |source| DataError::Directory { path: self.out.clone(), source };
        let place = |(node, number): (&NewNode, u64)| (number, node.peers.clone());
        let NewNodes { voters, answerers } = &self.nodes;
        let places: Places = voters.iter().zip(1..).map(place).collect();
        let none = Places::new();
        for (node, number) in voters.iter().zip(1..) {
            self.make(node, NodeId::Voter(number), (&places, &none))?;
        }
        if !answerers.is_empty() {
            let directory = self.out.join(MAKING).join(ANSWERERS);
            DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
        }
        // Who shares its address with others cannot be asked for.
        let is_own = |node: &NewNode| answerers.iter().filter(|other| other.peers == node.peers).count() == 1;
        let mut before = Places::new();
        for (node, number) in answerers.iter().zip(1..) {
            self.make(node, NodeId::Answerer(number), (&places, &before))?;
            if is_own(node) {
                before.extend([place((node, number))]);
            }
        }
        let line = format!("{address}\n");
        replace(&self.out.join(MAKING).join(ADDRESS), line.as_bytes(), 0o644).map_err(failed)?;
        publish(&self.out).map_err(failed)
    }

    /// Makes what there is not yet of a node's directory: that of the first there is already.
    fn make(&self, node: &NewNode, this: NodeId, known: (&Places, &Places)) -> Result<(), DataError> {
        let (first, directory) = (self.first(), self.directory(this));
        if directory != first {
            let failed = |source| DataError::Directory { path: self.out.clone(), source };
            DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
            announcement::copy(&first, &directory)?;
            Identity::copy(&first, &directory, &self.root)?;
            node.configure(&directory)?;
        }
        Cluster::create(&directory, this, known, false, &self.root)
    }

    fn directory(&self, node: NodeId) -> PathBuf {
        let making = self.out.join(MAKING);
        match node {
            NodeId::Voter(number) => making.join(format!("{NODE}{number}")),
            NodeId::Answerer(number) => making.join(ANSWERERS).join(format!("{ANSWERER}{number}")),
        }
    }
}

impl NewNode {
    pub(super) fn configure(&self, directory: &Path) -> Result<(), DataError> {
        let (name, text) = &self.settings;
        let failed = |source| DataError::Directory { path: directory.to_owned(), source };
        replace(&directory.join(name), text.as_bytes(), 0o644).map_err(failed)
    }
}

/// The address in a directory, if there is one.
fn read_address(directory: &Path) -> Result<Option<Address>, DataError> {
    let path = directory.join(ADDRESS);
    match fs::read_to_string(&path) {
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|_| DataError::Cluster { path, what: "it holds no address of a server" }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DataError::Directory { path, source }),
    }
}

/// Whether there is something of a cluster, in its place, without the address. An empty directory is a place for a node.
fn is_half(out: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_node = name.to_str().is_some_and(|name| name.starts_with(NODE) || name == ANSWERERS);
        if name == ROOT || (is_node && fs::read_dir(entry.path())?.next().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Moves what is complete to its place, the address last. It can be done again from wherever it was left.
fn publish(out: &Path) -> io::Result<()> {
    let making = out.join(MAKING);
    for entry in fs::read_dir(&making)? {
        let name = entry?.file_name();
        if name != ADDRESS {
            move_to(&making.join(&name), &out.join(&name))?;
        }
    }
    sync_directory(out)?;
    fs::rename(making.join(ADDRESS), out.join(ADDRESS))?;
    sync_directory(out)?;
    fs::remove_dir(&making)
}

/// Moves a file or a directory, which may lie on another file system, into a directory that is there already. What was moved
/// before, and left by a crash, is moved again.
fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    let from_data = fs::symlink_metadata(from)?;
    match fs::rename(from, to) {
        Err(error) if is_of_another_place(&error) => {}
        moved => return moved,
    }
    if !from_data.is_dir() {
        replace(to, &fs::read(from)?, from_data.permissions().mode())?;
        return fs::remove_file(from);
    }
    match DirBuilder::new().mode(0o700).create(to) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        move_to(&from.join(&name), &to.join(&name))?;
    }
    sync_directory(to)?;
    fs::remove_dir(from)
}

/// Whether a rename fails because its target is another file system, or one is mounted on it, or has something in it.
fn is_of_another_place(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::CrossesDevices | ErrorKind::ResourceBusy | ErrorKind::DirectoryNotEmpty)
}

#[cfg(test)]
pub(super) mod tests;
