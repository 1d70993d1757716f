//! The socket: in the data directory, for the server's own user and root alone.

use std::any::Any;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "control";
/// Where a process finds what it holds open.
const OPEN_FILES: &str = "/proc/self/fd";
/// May do everything anyway.
const ROOT: u32 = 0;

/// Why a server has no socket for commands.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for commands at {}", path.display())]
pub struct SocketError {
    path: PathBuf,
    source: io::Error,
}

/// Listens for commands. It goes away with this.
pub(crate) struct Socket {
    listener: UnixListener,
    directory: PathBuf,
    /// Whose it is.
    user: u32,
    /// Keeps others away from the directory until the socket is gone: it might be theirs.
    _lock: Box<dyn Any + Send + Sync>,
}

impl Socket {
    /// Listens in a data directory that nobody else uses, as `lock` sees to: a socket that lies there has no owner any more.
    /// To be called inside a runtime.
    pub(crate) fn bind(directory: &Path, lock: impl Send + Sync + 'static) -> Result<Self, SocketError> {
        let failed = |source| SocketError { path: directory.join(NAME), source };
        let (listener, user) = reach(directory, listen).map_err(failed)?;
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        Ok(Self { listener, directory: directory.to_owned(), user, _lock: Box::new(lock) })
    }

    /// The next connection of the same user, or of root. Others are sent away.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred().is_ok_and(|peer| [self.user, ROOT].contains(&peer.uid())) {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // One that stays is taken away by the next who listens.
        let _ = fs::remove_file(self.directory.join(NAME));
    }
}

/// Connects to the server that uses a data directory; `None` if none listens there.
pub(super) fn connect(directory: &Path) -> io::Result<Option<StdStream>> {
    match reach(directory, |path| StdStream::connect(path)) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn listen(path: &Path) -> io::Result<(StdListener, u32)> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("there is something that is no socket; move it away")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = StdListener::bind(path)?;
    // Whoever was quicker is known by who it is.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, fs::symlink_metadata(path)?.uid()))
}

/// Hands out a path of the socket for which a socket's address has room: about a hundred bytes.
fn reach<T>(directory: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = directory.join(NAME);
    if SocketAddr::from_pathname(&path).is_ok() {
        return with(&path);
    }
    if !Path::new(OPEN_FILES).exists() {
        return Err(io::Error::other("the path is too long for a socket; use a shorter data directory"));
    }
    let open = File::open(directory)?;
    with(&Path::new(OPEN_FILES).join(open.as_raw_fd().to_string()).join(NAME))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::{Socket, connect};

    #[tokio::test]
    async fn it_is_closed_to_others_and_a_stale_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        assert!(connect(directory.path()).unwrap().is_none());
        let lock = Arc::new(());
        let socket = Socket::bind(directory.path(), Arc::clone(&lock)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(connect(directory.path()).unwrap().is_some());
        assert!(socket.accept().await.is_ok());
        drop(socket);
        assert!(!path.exists() && Arc::strong_count(&lock) == 1);

        // A process that was killed leaves its own.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && connect(directory.path()).unwrap().is_none());
        let socket = Socket::bind(directory.path(), ()).unwrap();
        assert!(connect(directory.path()).unwrap().is_some());
        drop(socket);

        fs::write(&path, "a file of somebody").unwrap();
        let refused = Socket::bind(directory.path(), ()).err().unwrap();
        let refused = format!("{:#}", anyhow::Error::from(refused));
        assert!(refused.contains("move it away") && path.exists(), "{refused}");
    }

    #[tokio::test]
    async fn a_directory_with_a_long_name_has_one_too() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("x".repeat(120)).join("y".repeat(120));
        fs::create_dir_all(&long).unwrap();
        let socket = Socket::bind(&long, ()).unwrap();
        assert!(connect(&long).unwrap().is_some() && socket.accept().await.is_ok());
        drop(socket);
        assert!(!long.join("control").exists());
    }
}
