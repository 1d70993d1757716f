//! The state directory: one file with everything that must survive, replaced atomically, used by one process at a time.

pub(crate) mod export;
pub(crate) mod format;
pub(crate) mod log;
pub(crate) mod passphrase;
pub(crate) mod seal;
#[cfg(test)]
mod tests;
pub(crate) mod wipe;

use core::fmt;
use core::time::Duration;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use sotto_files::{replace, sync_directory};
use sotto_participant::host::{Disk, StorageError};
use sotto_protocol::Round;
use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::manifest::SIGNATURE_BYTES;
use zeroize::Zeroizing;

use crate::Address;
use format::{Content, Problem};
use passphrase::{Key, Passphrase};

const STATE: &str = "state";
/// There until the server has taken the account.
const JOINING: &str = "joining";
const LOCK: &str = "lock";
/// The signed directory of the server's nodes: nothing is lost with it.
const NODES: &str = "nodes";
const NODES_BYTES: u64 = (DIRECTORY_BYTES + SIGNATURE_BYTES) as u64;
/// Screens on other machines that come to this account.
pub(crate) const DEVICES: &str = "devices";
/// Permissions of all files.
const PRIVATE: u32 = 0o600;
/// Held by whoever is about to use the state, until that is known to others.
const STARTING: &str = "starting";

/// A state directory, locked for this process.
pub struct Store {
    directory: PathBuf,
    address: Address,
    /// Under which the state is closed, if it is.
    key: Option<Key>,
    /// Held open: the lock lasts as long as the file.
    _lock: File,
}

/// Why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No environment variable tells where the state directory is.
    #[error("no place for the state directory; name one with --home DIRECTORY")]
    NoHome,
    /// Another process has it.
    #[error("another program is using {}; wait until it is done, or name another directory with --home", .0.display())]
    Locked(PathBuf),
    /// There is none.
    #[error("there is no state in {}; run 'sotto init --server ADDRESS --name NAME' first", .0.display())]
    Missing(PathBuf),
    /// There is one already.
    #[error("{} already holds a state; name another directory with --home", .0.display())]
    Exists(PathBuf),
    /// The file is not what was written.
    ///
    /// An old copy would encrypt once more under keys that were used, so it must not be restored.
    #[error(
        "the state in {} is damaged ({what}); do not restore an old copy, start anew with another --home",
        .directory.display()
    )]
    Damaged {
        /// Where.
        directory: PathBuf,
        /// How it shows.
        what: &'static str,
    },
    /// It is closed with a passphrase, and none was given.
    #[error(
        "the state in {} is closed with a passphrase; run this in a terminal, or name a file that holds it in \
         SOTTO_PASSPHRASE_FILE",
        .0.display()
    )]
    Closed(PathBuf),
    /// A passphrase was given for one that is open.
    #[error(
        "the state in {} is not closed, though there is a passphrase for it: somebody may have put it there; if it was you, \
         'sotto passphrase' closes it, and without SOTTO_PASSPHRASE_FILE it is used as it is",
        .0.display()
    )]
    Open(PathBuf),
    /// It is closed with another one.
    #[error("that is not the passphrase of the state in {}", .0.display())]
    Passphrase(PathBuf),
    /// The system has no memory to make a key of the passphrase.
    #[error("not enough memory to open the state in {}: its passphrase takes {memory} MiB", .directory.display())]
    Memory {
        /// Where.
        directory: PathBuf,
        /// What it takes, MiB.
        memory: u32,
    },
    /// The file comes from a newer program.
    #[error("the state in {} was written by a newer sotto; update this one", .0.display())]
    Newer(PathBuf),
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl StoreError {
    /// A name of the reason for programs, which stays when the sentence changes.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "store-no-home",
            Self::Locked(_) => "store-locked",
            Self::Missing(_) => "store-missing",
            Self::Exists(_) => "store-exists",
            Self::Damaged { .. } => "store-damaged",
            Self::Closed(_) => "store-closed",
            Self::Open(_) => "store-open",
            Self::Passphrase(_) => "store-passphrase",
            Self::Memory { .. } => "store-memory",
            Self::Newer(_) => "store-newer",
            Self::Io { .. } => "store-io",
        }
    }
}

impl From<StoreError> for StorageError {
    fn from(error: StoreError) -> Self {
        Self { code: error.code(), sentence: error.to_string() }
    }
}

impl Disk for Store {
    fn save(&self, snapshot: &[u8]) -> Result<(), StorageError> {
        Self::save(self, snapshot).map_err(StorageError::from)
    }

    fn keep_directory(&self, directory: &[u8]) -> Result<(), StorageError> {
        Self::keep_directory(self, directory).map_err(StorageError::from)
    }

    fn directory(&self) -> Option<Vec<u8>> {
        self.known_nodes()
    }

    fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<String, String> {
        let kept = Self::keep_proof(self, round, proof).map_err(|error| error.to_string())?;
        Ok(kept.display().to_string())
    }
}

impl Store {
    /// Where the state is by default: `$SOTTO_HOME`, else `$XDG_DATA_HOME/sotto`, else `~/.local/share/sotto`.
    ///
    /// # Errors
    /// [`StoreError::NoHome`] if none of these is set.
    pub fn default_directory() -> Result<PathBuf, StoreError> {
        default_directory(|name| std::env::var_os(name)).ok_or(StoreError::NoHome)
    }

    /// Makes a directory that nobody else may enter, if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn prepare(directory: &Path) -> Result<(), StoreError> {
        make_directory(directory).map_err(|source| io_error("make the directory", directory, source))
    }

    /// Makes and locks a directory for a new state. Nothing is written before [`Store::save`].
    ///
    /// # Errors
    /// [`StoreError::Exists`] if it holds a state, [`StoreError::Locked`] if another process is using it.
    pub fn create(directory: &Path, address: Address) -> Result<Self, StoreError> {
        Self::prepare(directory)?;
        let lock = lock(directory)?;
        if directory.join(STATE).exists() {
            return Err(StoreError::Exists(directory.to_owned()));
        }
        Ok(Self { directory: directory.to_owned(), address, key: None, _lock: lock })
    }

    /// Locks a directory and reads its state: the store and the client's snapshot.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Locked`], [`StoreError::Damaged`], [`StoreError::Newer`],
    /// [`StoreError::Closed`].
    pub fn open(directory: &Path) -> Result<(Self, Zeroizing<Vec<u8>>), StoreError> {
        Self::open_with(directory, None)
    }

    /// The same of a state that is closed with a passphrase, if one is given.
    ///
    /// # Errors
    /// As for [`Store::open`]; [`StoreError::Passphrase`], [`StoreError::Memory`]; [`StoreError::Open`] if it is not closed, so that
    /// nobody gets an open one to be used in its place.
    pub fn open_with(
        directory: &Path,
        passphrase: Option<&Passphrase>,
    ) -> Result<(Self, Zeroizing<Vec<u8>>), StoreError> {
        if !directory.join(STATE).exists() {
            return Err(StoreError::Missing(directory.to_owned()));
        }
        let lock = lock(directory)?;
        let State { address, snapshot, key } = read(directory, passphrase)?;
        Ok((Self { directory: directory.to_owned(), address, key, _lock: lock }, snapshot))
    }

    /// Reads the server's address and the client's snapshot as they were saved last, also while another process is using the
    /// directory. They are only to be looked at: who takes part with them uses keys a second time.
    ///
    /// # Errors
    /// As for [`Store::open_with`], but for [`StoreError::Locked`].
    pub fn read(
        directory: &Path,
        passphrase: Option<&Passphrase>,
    ) -> Result<(Address, Zeroizing<Vec<u8>>), StoreError> {
        if !Self::is_there(directory) {
            return Err(StoreError::Missing(directory.to_owned()));
        }
        let State { address, snapshot, .. } = read(directory, passphrase)?;
        Ok((address, snapshot))
    }

    /// Whether a directory holds a state that is closed with a passphrase.
    ///
    /// # Errors
    /// As for [`Store::open`], but for [`StoreError::Locked`].
    pub fn is_closed(directory: &Path) -> Result<bool, StoreError> {
        match Self::read(directory, None) {
            Ok(_) => Ok(false),
            Err(StoreError::Closed(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether the next [`Store::save`] closes the state with a passphrase.
    #[must_use]
    pub fn has_passphrase(&self) -> bool {
        self.key.is_some()
    }

    /// Closes the state with a passphrase from the next [`Store::save`] on, with another one, or with none any more.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn set_passphrase(&mut self, passphrase: Option<&Passphrase>) -> Result<(), StoreError> {
        let key = passphrase.map(Key::new).transpose();
        self.key = key.map_err(|problem| problem.at(&self.directory))?;
        Ok(())
    }

    /// The same with what has opened an export.
    pub(crate) fn close_with(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// Waits until nobody else is about to use a directory, and keeps others from it while the file is open.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Io`].
    pub(crate) async fn starting(directory: &Path) -> Result<File, StoreError> {
        let (path, file) = starting(directory)?;
        let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
        let locked = locked.unwrap_or_else(|error| Err(io::Error::other(error)));
        locked.map_err(|source| io_error("lock", &path, source))
    }

    /// As [`Store::starting`], but None if somebody is.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Io`].
    pub(crate) fn try_starting(directory: &Path) -> Result<Option<File>, StoreError> {
        let (path, file) = starting(directory)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(io_error("lock", &path, source)),
        }
    }

    /// Keeps all others from using a directory while the file is open, whatever is in it.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::Io`].
    pub(crate) fn hold(directory: &Path) -> Result<File, StoreError> {
        lock(directory)
    }

    /// The server this state belongs to.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Replaces the state. When this returns, the new state is on the disk; if it fails, or the machine does, the old
    /// one is there whole.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn save(&self, snapshot: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(STATE);
        let bytes = format::encode(&self.address, snapshot, self.key.as_ref());
        replace(&path, &bytes, PRIVATE).map_err(|source| io_error("write", &path, source))
    }

    /// Keeps a proof against the server: for this user alone, in a file named by its round. One proof of a round is enough.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(format!("proof-{round}.sotto"));
        replace(&path, proof, PRIVATE).map_err(|source| io_error("write", &path, source))?;
        Ok(path)
    }

    /// Keeps a signed directory of the server's nodes, in place of the one before.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep_directory(&self, directory: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(NODES);
        replace(&path, directory, PRIVATE).map_err(|source| io_error("write", &path, source))
    }

    /// The directory of nodes that is kept, not verified; none if it cannot be read.
    #[must_use]
    pub fn known_nodes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = open_file(&self.directory.join(NODES)).ok()?;
        // One byte more than there may be shows what is too long.
        file.take(NODES_BYTES + 1).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether a directory holds a state.
    #[must_use]
    pub fn is_there(directory: &Path) -> bool {
        directory.join(STATE).exists()
    }

    /// Whether a directory holds the state of an account that may not be known to its server yet.
    #[must_use]
    pub fn is_joining(directory: &Path) -> bool {
        directory.join(JOINING).exists() && directory.join(STATE).exists()
    }

    /// Notes that the account may not be known to its server yet, or that it is.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn set_joining(&self, joining: bool) -> Result<(), StoreError> {
        let path = self.directory.join(JOINING);
        let done = match joining {
            true => replace(&path, b"", PRIVATE),
            false => fs::remove_file(&path).and_then(|()| sync_directory(&self.directory)),
        };
        done.map_err(|source| io_error("change", &path, source))
    }

    /// Removes the state, which nobody can use after that, and what goes with it. Proofs against the server stay.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn discard(self) -> Result<(), StoreError> {
        for name in [NODES, STATE, JOINING, DEVICES] {
            let path = self.directory.join(name);
            remove_with_leftover(&path).map_err(|source| io_error("remove", &path, source))?;
        }
        sync_directory(&self.directory).map_err(|source| io_error("change", &self.directory, source))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("directory", &self.directory).finish_non_exhaustive()
    }
}

fn default_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SOTTO_HOME")
        .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|path| path.join("sotto")))
        .or_else(|| set("HOME").map(|path| path.join(".local").join("share").join("sotto")))
}

/// What a state file says.
struct State {
    address: Address,
    snapshot: Zeroizing<Vec<u8>>,
    key: Option<Key>,
}

fn read(directory: &Path, passphrase: Option<&Passphrase>) -> Result<State, StoreError> {
    let path = directory.join(STATE);
    let bytes = open_file(&path).and_then(read_whole).map_err(|source| io_error("read", &path, source))?;
    let problem = |problem: Problem| problem.at(directory);
    match format::decode(&bytes).map_err(problem)? {
        Content::Open(..) if passphrase.is_some() => Err(StoreError::Open(directory.to_owned())),
        Content::Open(address, snapshot) => {
            Ok(State { address, snapshot: Zeroizing::new(snapshot.to_vec()), key: None })
        }
        Content::Closed(closed) => {
            let passphrase = passphrase.ok_or_else(|| StoreError::Closed(directory.to_owned()))?;
            let (key, body) = closed.open(passphrase).map_err(problem)?;
            let (address, snapshot) = format::decode_body(&body).map_err(problem)?;
            Ok(State { address, snapshot: Zeroizing::new(snapshot.to_vec()), key: Some(key) })
        }
    }
}

/// Opens a file of the directory to be read. What is none, such as a pipe, is not waited for.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
    }
    File::open(path)
}

/// All of it, in memory that is erased and was never moved.
fn read_whole(mut file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(Vec::new());
    // One more, so that the end is found without more memory.
    bytes.try_reserve_exact(size.saturating_add(1)).map_err(|_| io::ErrorKind::FileTooLarge)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a file that may be there, and what a write of it left that was cut off.
pub(crate) fn remove_with_leftover(path: &Path) -> io::Result<()> {
    let mut leftover = path.as_os_str().to_owned();
    leftover.push(".new");
    for path in [path, Path::new(&leftover)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn starting(directory: &Path) -> Result<(PathBuf, File), StoreError> {
    if !directory.join(STATE).exists() {
        return Err(StoreError::Missing(directory.to_owned()));
    }
    let path = directory.join(STARTING);
    let file = lock_file(&path)?;
    Ok((path, file))
}

/// A program that was started while this one held a lock has a copy of it until it runs.
const LETS_GO: Duration = Duration::from_millis(500);

/// A file that is only there to be locked.
fn lock_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    private(&mut options);
    options.open(path).map_err(|source| io_error("open", path, source))
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join(LOCK);
    let file = lock_file(&path)?;
    let waits_until = Instant::now() + LETS_GO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < waits_until => thread::sleep(LETS_GO / 50),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(directory.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path, source)),
        }
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { action, path: path.to_owned(), source }
}

#[cfg(unix)]
fn make_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_directory(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(PRIVATE);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}
