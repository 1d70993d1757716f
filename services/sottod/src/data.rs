//! The directory that keeps a server over restarts.
//!
//! ```text
//! lock       held by the process that uses the directory
//! pool       the same, by one that has chosen it among others
//! control    where it listens for commands while it runs, see `control`
//! root.key   the secret half of the cluster's root key; may be kept elsewhere
//! identity   who the server is, see `identity`, with manifest.key, token.key, node.key and node.pem
//! announcement   what the root key has signed, see `announcement`, with seeds and seed.key
//! cluster    which node of a cluster it is, see `cluster`, with peer.key and peer.pem
//! log/       the round log
//! keys/      public keys of retrieval, see `keys::files`: none of it is needed
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpir::Engine;
use rand::TryRng;
use rand::rngs::SysRng;
use sotto_files::sync_directory;
use sotto_log::offline::{self, LoggedRound, Summary};
use sotto_log::{
    Directory, Disk, DurableLog, FollowingLog, Group, Kept, LogError, LogFiles, Options, PinnedFile, Role,
    Upstream, pin_at_rest,
};
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::{RootKey, Token};
use tokio::sync::watch;

use crate::announcement::{self, Announced, Wanted};
use crate::certificate::CertificateError;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::control::{Backups, Socket, SocketError};
use crate::host::unix_now;
use crate::identity::{CertificateFiles, Identity};
use crate::secrets::IdentityError;
use crate::seeds::SEGMENTS;
use crate::server::{StartError, first_rounds};

const LOCK: &str = "lock";
const LOG: &str = "log";
const KEYS: &str = "keys";
const POOL: &str = "pool";
/// A server that has just ended lets go of its directory within this, and so does a program that was started by this process
/// and holds a copy of the lock until it runs.
const LETS_GO: Duration = Duration::from_secs(2);

/// After so many bytes a new file begins: what is retired is removed in steps of this.
const SEGMENT_BYTES: u64 = 64 << 20;

/// A data directory that this process alone uses.
pub(crate) struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    /// The cluster that it is of, if it is not of a server alone.
    cluster: Option<Cluster>,
    disk: Arc<dyn Disk>,
    lock: File,
}

impl DataDirectory {
    /// Takes a directory into use, or makes one. Its certificate can be replaced by another one.
    pub(crate) fn open(path: &Path, certificate: Option<&CertificateFiles>) -> Result<Self, DataError> {
        let lock = take(path)?;
        make_identity(path)?;
        let identity = Identity::load(path, certificate)?;
        let cluster = Cluster::load(path, &identity.root)?;
        let failed = |source| DataError::Directory { path: path.to_owned(), source };
        let disk = Arc::new(Directory::new(&path.join(LOG)).map_err(failed)?);
        Ok(Self { path: path.to_owned(), identity, cluster, disk, lock })
    }

    /// What it announces under a configuration, whose first round would be `first` if there were none yet.
    pub(crate) fn announce(
        &self,
        engine: &dyn Engine,
        config: &Config,
        first: Round,
    ) -> Result<Announced, StartError> {
        let parameters = config.parameters(engine, self.identity.manifest.verifying_key().to_bytes())?;
        let wanted = wanted(&self.path, &self.identity.root, config, parameters, first)?;
        let announced = announcement::take_up(&self.path, &self.identity.root, None, wanted);
        Ok(announced.map_err(DataError::from)?)
    }

    /// The same directory with its log on another disk.
    #[cfg(test)]
    pub(crate) fn on_disk(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }

    /// Who the server is, and which node of a cluster. The directory stays in use until the log is closed.
    pub(crate) fn split(self) -> (Identity, Option<Cluster>, DataLog) {
        let Self { path, identity, cluster, disk, lock } = self;
        let (lock, root) = (Arc::new(lock), identity.root);
        (identity, cluster, DataLog { path, disk, lock, root, files: watch::Sender::new(None) })
    }
}

/// The round log of a data directory, not yet read.
pub(crate) struct DataLog {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    lock: Arc<File>,
    root: RootKey,
    /// Told when it is open.
    files: watch::Sender<Option<LogFiles>>,
}

impl DataLog {
    /// Listens for commands.
    pub(crate) fn control(&self) -> Result<Socket, SocketError> {
        Socket::bind(&self.path, Arc::clone(&self.lock))
    }

    /// Where keys of retrieval are kept.
    pub(crate) fn keys(&self) -> PathBuf {
        self.path.join(KEYS)
    }

    /// What backups are taken of.
    pub(crate) fn backups(&self) -> Backups {
        Backups::new(self.path.clone(), self.files.subscribe())
    }

    /// Opens it, alone.
    #[cfg(test)]
    pub(crate) async fn open(self) -> Result<DurableLog, LogError> {
        self.open_in(None).await
    }

    /// Opens it, as a member of a group if there is one.
    pub(crate) async fn open_in(self, group: Option<Group>) -> Result<DurableLog, LogError> {
        let options = options(group.is_some(), self.root);
        let log = match group {
            None => DurableLog::start(self.disk, options, self.lock).await,
            Some(group) => DurableLog::start_in(group, self.disk, options, self.lock).await,
        }?;
        self.files.send_replace(Some(log.files()));
        Ok(log)
    }

    /// Opens it, and follows others.
    pub(crate) async fn follow(
        self,
        upstream: impl Upstream,
        joining: impl FnOnce(Kept, watch::Receiver<Role>) + Send,
    ) -> Result<FollowingLog, LogError> {
        let log =
            FollowingLog::start(upstream, joining, self.disk, options(true, self.root), self.lock).await?;
        self.files.send_replace(Some(log.files()));
        Ok(log)
    }
}

fn options(grouped: bool, root: RootKey) -> Options {
    let salts = || {
        let mut salt = [0; 8];
        SysRng.try_fill_bytes(&mut salt).map_err(io::Error::other)?;
        Ok(u64::from_le_bytes(salt))
    };
    Options { segment_bytes: SEGMENT_BYTES, grouped, root: Some(root), salts: Box::new(salts) }
}

/// Makes a data directory with a new identity, or says that there is one. `before` writes what must be there before.
///
/// # Errors
/// [`DataError::Exists`] if there is an identity, or whatever keeps it from being made.
pub(crate) fn create(path: &Path, before: impl FnOnce() -> io::Result<()>) -> Result<(), DataError> {
    let _lock = take(path)?;
    if Identity::exists(path) {
        return Err(DataError::Exists(path.to_owned()));
    }
    before().map_err(|source| DataError::Directory { path: path.to_owned(), source })?;
    make_identity(path)
}

/// Makes a directory's certificates anew, signs what a configuration announces, if that is not what was signed, and makes
/// more seeds if it is told to: for the rounds behind the newest in the log or, if the directory was restored from a backup,
/// for those that the clock leads to.
pub(crate) fn certify(
    engine: &dyn Engine,
    path: &Path,
    root: Option<&Path>,
    config: &Config,
    more: bool,
) -> Result<(), StartError> {
    let root_key = Identity::certify(path, root).map_err(DataError::from)?;
    Cluster::certify(path, &root_key)?;
    let identity = Identity::load(path, None).map_err(DataError::from)?;
    let parameters = config.parameters(engine, identity.manifest.verifying_key().to_bytes())?;
    let (mut first, _) = first_rounds(config, unix_now());
    let _lock = if announcement::has_seeds(path) && !more { None } else { share(path)? };
    if more && !config.restored {
        // Numbers go on from the log's, whatever the clock says.
        first = offline::check(&path.join(LOG)).map_err(DataError::from)?.newest.unwrap_or(first);
    }
    let wanted = Wanted { more, ..wanted(path, &identity.root, config, parameters, first)? };
    announcement::take_up(path, &identity.root, root, wanted).map_err(DataError::from)?;
    Ok(())
}

/// What an operator wants announced of a directory.
fn wanted(
    path: &Path,
    root: &RootKey,
    config: &Config,
    parameters: ServerParameters,
    first: Round,
) -> Result<Wanted, DataError> {
    let log = path.join(LOG);
    let segments = config.seed_segments.unwrap_or(SEGMENTS);
    if is_empty(&log).map_err(|source| DataError::Directory { path: log.clone(), source })? {
        // Nodes of a cluster begin with what the cluster has signed, whatever their own clocks say.
        let covers =
            if Cluster::is_of_one(path) && announcement::has_seeds(path) { None } else { Some(first) };
        return Ok(Wanted { parameters, segments, first, covers, more: false });
    }
    let first = match (announcement::has_seeds(path), announcement::said(path, root)?) {
        (true, Some(_)) => first,
        // The manifest key gets its end, and the log may be far beyond what the clock says.
        (true, None) => offline::check(&log)?.newest.map_or(first, |newest| newest.max(first)),
        // A log from before there were seeds: they begin with the newest round, which may still be open.
        (false, _) => offline::check(&log)?.newest.unwrap_or(first),
    };
    // A log that was restored goes on where the clock is, which may be beyond the seeds.
    let covers = match config.restored {
        true => Some(offline::check(&log)?.newest.map_or(first, |newest| newest.max(first))),
        false => None,
    };
    Ok(Wanted { parameters, segments, first: covers.unwrap_or(first), covers, more: false })
}

fn is_empty(directory: &Path) -> io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut files) => Ok(files.next().transpose()?.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes an identity where there is none, and no log that needs one.
fn make_identity(path: &Path) -> Result<(), DataError> {
    if Identity::exists(path) {
        return Ok(());
    }
    ensure_no_log(path)?;
    Identity::create(path)?;
    tracing::info!("new keys were made");
    Ok(())
}

/// Fails if there is a log: under new keys, nobody could make use of it.
pub(crate) fn ensure_no_log(path: &Path) -> Result<(), DataError> {
    let log = path.join(LOG);
    match is_empty(&log).map_err(|source| DataError::Directory { path: log, source })? {
        true => Ok(()),
        false => Err(DataError::IdentityMissing(path.to_owned())),
    }
}

/// The first of the data directories in a directory that no process uses, by their names; it is kept until what is returned with
/// it is dropped.
pub(crate) fn take_one(pool: &Path) -> Result<(PathBuf, File), DataError> {
    let failed = |source| DataError::Directory { path: pool.to_owned(), source };
    let entries: Vec<_> = fs::read_dir(pool).and_then(Iterator::collect).map_err(failed)?;
    let mut directories: Vec<PathBuf> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| Identity::exists(path)).collect();
    // The second before the tenth.
    directories.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    for directory in &directories {
        let failed = |source| DataError::Directory { path: directory.clone(), source };
        let open = |name| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).open(directory.join(name))
        };
        let (taken, lock) = (open(POOL).map_err(failed)?, open(LOCK).map_err(failed)?);
        // Whoever serves it without a pool holds the second alone.
        match taken.try_lock().and_then(|()| lock.try_lock()) {
            Ok(()) => return Ok((directory.clone(), taken)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
    Err(DataError::NoneFree { pool: pool.to_owned(), count: directories.len() })
}

/// Makes what is missing of a directory, durably, and locks it, for which it waits a little.
pub(crate) fn take(path: &Path) -> Result<File, DataError> {
    let failed = |source| DataError::Directory { path: path.to_owned(), source };
    let lock = make(path).map_err(failed)?;
    let taken = patiently(|| lock.try_lock());
    taken.map_err(|error| match error {
        TryLockError::WouldBlock => DataError::InUse(path.to_owned()),
        TryLockError::Error(source) => failed(source),
    })?;
    Ok(lock)
}

/// Tries until whoever may just be letting go has done so.
fn patiently(lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    let waits_until = Instant::now() + LETS_GO;
    loop {
        match lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < waits_until => std::thread::sleep(LETS_GO / 50),
            taken => return taken,
        }
    }
}

/// Makes what is missing of a directory, durably, and opens its lock.
fn make(path: &Path) -> io::Result<File> {
    let log = path.join(LOG);
    let changed = changed_by_making(&log);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&log)?;
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK))?;
    for directory in changed {
        sync_directory(&directory)?;
    }
    Ok(lock)
}

/// The directories to which making this one, inside a directory that is to be used, adds names: from the deepest that is
/// there down. The last two always, as an earlier process may have ended between making and syncing them.
pub(crate) fn changed_by_making(directory: &Path) -> Vec<PathBuf> {
    let mut changed = Vec::new();
    for ancestor in directory.ancestors().skip(1) {
        // A relative path has an empty one.
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        changed.push(ancestor.to_owned());
        if changed.len() >= 2 && ancestor.exists() {
            break;
        }
    }
    changed.reverse();
    changed
}

/// Reads and checks every byte of a data directory's log, and changes nothing. No server may be using it.
///
/// # Errors
/// [`DataError`] with the first thing that is wrong.
pub fn check_log(data: &Path) -> Result<Summary, DataError> {
    let _lock = share(data)?;
    Ok(offline::check(&data.join(LOG))?)
}

/// The rounds in a data directory's log, which is checked. No server may be using it.
///
/// # Errors
/// [`DataError`] with the first thing that is wrong.
pub fn read_log(data: &Path) -> Result<BTreeMap<Round, LoggedRound>, DataError> {
    let _lock = share(data)?;
    Ok(offline::rounds(&data.join(LOG))?)
}

/// The files of a data directory's log, and what keeps servers away from them. None may be using it.
///
/// # Errors
/// [`DataError`].
pub(crate) fn log_at_rest(data: &Path) -> Result<(Option<File>, Vec<PinnedFile>), DataError> {
    let lock = share(data)?;
    match Directory::read_only(&data.join(LOG)) {
        Ok(log) => Ok((lock, pin_at_rest(&log)?)),
        // It was made, and has never run.
        Err(error) if error.kind() == io::ErrorKind::NotFound && Identity::exists(data) => {
            Ok((lock, Vec::new()))
        }
        Err(source) => Err(DataError::Directory { path: data.join(LOG), source }),
    }
}

/// Makes a registration token of a data directory's server, which may be running.
///
/// # Errors
/// [`DataError`] if the tokens' key cannot be read.
pub fn issue_token(data: &Path) -> Result<Token, DataError> {
    Ok(Identity::token_key(data)?.issue().ok_or(IdentityError::Randomness)?)
}

/// Keeps servers out, but nobody who only reads, and waits a little for one that ends. A copy has no lock, and needs none.
fn share(data: &Path) -> Result<Option<File>, DataError> {
    let failed = |source| DataError::Directory { path: data.to_owned(), source };
    let lock = match File::open(data.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match patiently(|| lock.try_lock_shared()) {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(DataError::InUse(data.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// It cannot be read or written.
    #[error("data directory {}: {source}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process uses it.
    #[error("data directory {}: another process is using it", .0.display())]
    InUse(PathBuf),
    /// None of those in a directory is free.
    #[error("{}: {count} data directories are there, and none is free; 'sottod cluster new' makes them", pool.display())]
    NoneFree {
        /// Where they are.
        pool: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// It says nothing usable of who the server is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It says nothing usable of its cluster.
    #[error("{}: {what}; copy it again from where 'sottod cluster new' made it", path.display())]
    Cluster {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The certificate for the cluster's other nodes cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Where a cluster is to be made, there is something of another one.
    #[error(
        "{}: something of a cluster is there, but no 'address': name another directory, or remove root.key and the nodes \
         from it if no machine uses them", .0.display()
    )]
    HalfCluster(PathBuf),
    /// A number is a node's.
    #[error("{0} is one of the cluster: give --number with a number that no node ever had")]
    NumberTaken(String),
    /// There is a log, and no identity.
    #[error("data directory {}: its keys are missing, and its log needs them; restore them from a backup", .0.display())]
    IdentityMissing(PathBuf),
    /// There is an identity already.
    #[error("data directory {}: it is in use already; start it with 'sottod serve --data', or name another one", .0.display())]
    Exists(PathBuf),
    /// Its log cannot be read, or is not what was written.
    #[error("round log: {0}")]
    Log(#[from] LogError),
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};

    use sotto_log::RoundLog as _;
    use sotto_log::testing::Verbs as _;
    use sotto_protocol::deposit::BOX_BYTES;
    use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

    use super::{
        DataDirectory, DataError, LETS_GO, LOCK, changed_by_making, check_log, create, read_log, share, take,
        take_one,
    };

    #[test]
    fn every_process_takes_another_directory_of_a_pool() {
        let pool = tempfile::tempdir().unwrap();
        let made = |name: &str| pool.path().join(name);
        for name in ["answerer10", "answerer2", "answerer1"] {
            create(&made(name), || Ok(())).unwrap();
        }
        fs::create_dir(made("other")).unwrap();
        let (first, kept) = take_one(pool.path()).unwrap();
        let (second, _kept) = take_one(pool.path()).unwrap();
        assert_eq!((first, second), (made("answerer1"), made("answerer2")));
        let direct = File::open(made("answerer10").join(LOCK)).unwrap();
        direct.lock().unwrap();
        assert!(matches!(take_one(pool.path()), Err(DataError::NoneFree { count: 3, .. })));
        drop(direct);
        assert_eq!(take_one(pool.path()).unwrap().0, made("answerer10"));
        drop(kept);
        assert_eq!(take_one(pool.path()).unwrap().0, made("answerer1"));
    }

    /// So that nobody reads of a server that has ended that it is still there.
    #[test]
    fn who_reads_and_who_serves_waits_for_one_that_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        create(directory.path(), || Ok(())).unwrap();
        let ending = || {
            let lock = File::open(directory.path().join(LOCK)).unwrap();
            lock.lock().unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(LETS_GO / 10);
                drop(lock);
            })
        };
        let lets_go = ending();
        assert!(share(directory.path()).unwrap().is_some());
        lets_go.join().unwrap();
        let lets_go = ending();
        take(directory.path()).unwrap();
        lets_go.join().unwrap();
    }

    #[test]
    fn every_directory_that_gets_a_name_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        let missing: Vec<PathBuf> = ["", "a", "a/b", "a/b/c"].iter().map(|name| there.join(name)).collect();
        assert_eq!(changed_by_making(&there.join("a/b/c/log")), missing);
        fs::create_dir_all(there.join("a/b/c")).unwrap();
        assert_eq!(changed_by_making(&there.join("a/b/c/log")), missing[2..]);
        assert_eq!(changed_by_making(Path::new("data/log")), [Path::new("."), Path::new("data")]);
    }

    fn deposits(labels: core::ops::Range<u8>) -> Vec<Deposit> {
        labels
            .map(|label| Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) })
            .collect()
    }

    /// A node that led may have written deposits for a round that another one has sealed before they counted.
    #[tokio::test]
    async fn deposits_that_were_refused_are_no_fault_of_a_log_and_in_no_round() {
        const ROUND: Round = Round(5);
        let data = tempfile::tempdir().unwrap();
        let log = DataDirectory::open(data.path(), None).unwrap().split().2.open().await.unwrap();
        log.open(ROUND).await.unwrap();
        log.append(ROUND, deposits(1..9), Vec::new(), None).await.unwrap();
        log.seal(ROUND, [1; 32], None, UnixMillis(1)).await.unwrap();
        assert!(log.append(ROUND, deposits(9..12), Vec::new(), None).await.is_err());
        log.close().await;
        assert_eq!(check_log(data.path()).unwrap().deposits, 8);
        assert_eq!(read_log(data.path()).unwrap()[&ROUND].deposits.len(), 8);
    }
}
