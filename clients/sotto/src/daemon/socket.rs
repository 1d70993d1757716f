//! The local socket, through which only programs of the same person reach the participant: its directory is closed to
//! others, the socket is, too, and both ends ask the operating system who is at the other.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest as _, Sha256};
use tokio::net::UnixListener;

pub(crate) use tokio::net::UnixStream as Stream;

pub(crate) const NAME: &str = "socket";
/// So many bytes of a digest name a socket outside its state directory.
const MARK_BYTES: usize = 16;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// The system's addresses of sockets have about a hundred bytes.
    #[error(
        "the path of {} is too long for a local socket; name a shorter one with --home, or set XDG_RUNTIME_DIR to a \
         directory of your own",
        .0.display()
    )]
    TooLong(PathBuf),
    /// Others could come in.
    #[error("{} is open to others; close it with: chmod 700 {}", .0.display(), .0.display())]
    Open(PathBuf),
    /// It belongs to somebody else.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// There is something there that this program has not made.
    #[error("{} is there and is no socket; move it away", .0.display())]
    InTheWay(PathBuf),
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl SocketError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Listens for programs of the same user.
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    user: u32,
}

impl Listener {
    /// Listens in a state directory, which must be locked: a socket that lies there has no owner any more.
    ///
    /// # Errors
    /// [`SocketError`].
    pub(crate) fn bind(directory: &Path) -> Result<Self, SocketError> {
        let user = user().map_err(SocketError::io("ask who owns", directory))?;
        let (directory, holder, path) = find(directory)?;
        closed(&directory, user)?;
        if let Some(holder) = holder {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&holder);
            made.map_err(SocketError::io("make the directory", &holder))?;
            closed(&holder, user)?;
        }
        match fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => {
                fs::remove_file(&path).map_err(SocketError::io("remove", &path))?;
            }
            Ok(_) => return Err(SocketError::InTheWay(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(SocketError::io("look at", &path)(source)),
        }
        let listener = UnixListener::bind(&path).map_err(SocketError::io("listen at", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .map_err(SocketError::io("close", &path))?;
        Ok(Self { listener, path, user })
    }

    /// The next program of the same user. Others are sent away.
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred().is_ok_and(|peer| peer.uid() == self.user) {
                return Ok(stream);
            }
        }
    }

    /// Takes the socket away. Nobody else may be starting meanwhile.
    pub(crate) fn remove(self) {
        drop(self.listener);
        // One that stays is taken away by the next who listens.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reaches the participant of a state directory, if one is there.
///
/// # Errors
/// [`SocketError`].
pub(crate) async fn connect(directory: &Path) -> Result<Option<Stream>, SocketError> {
    let user = user().map_err(SocketError::io("ask who owns", directory))?;
    let (directory, holder, path) = find(directory)?;
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::InTheWay(path)),
        Ok(found) if found.uid() != user => return Err(SocketError::Foreign(path)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SocketError::io("look at", &path)(source)),
    }
    closed(&directory, user)?;
    holder.map_or(Ok(()), |holder| closed(&holder, user))?;
    // Reset: it ended before it took the connection.
    let gone = [io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset, io::ErrorKind::NotFound];
    match Stream::connect(&path).await {
        Ok(stream) if stream.peer_cred().is_ok_and(|peer| peer.uid() == user) => Ok(Some(stream)),
        Ok(_) => Err(SocketError::Foreign(path)),
        Err(error) if gone.contains(&error.kind()) => Ok(None),
        Err(source) => Err(SocketError::io("reach", &path)(source)),
    }
}

/// Number of the process at the other end of a connection, if the system tells.
pub(crate) fn process(stream: &Stream) -> Option<i32> {
    stream.peer_cred().ok()?.pid()
}

/// Ends the process at the other end of a connection at once: nothing is asked of it.
///
/// # Errors
/// If the system does not tell which it is, or refuses.
pub(crate) fn kill(stream: &Stream) -> io::Result<()> {
    let process = process(stream).and_then(Pid::from_raw);
    let process = process.ok_or_else(|| io::Error::other("the system does not tell which process it is"))?;
    Ok(kill_process(process, Signal::KILL)?)
}

/// Removes the socket of a state directory that is not in it, if there is one.
///
/// # Errors
/// Where it is, and why it stays.
pub(crate) fn forget(directory: &Path) -> Result<(), (PathBuf, io::Error)> {
    let Ok((_, Some(_), far)) = find(directory) else { return Ok(()) };
    match fs::remove_file(&far) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err((far, error)),
        _ => Ok(()),
    }
}

/// This process's user, as the system tells it to the other end of a socket.
fn user() -> io::Result<u32> {
    let (stream, _other) = Stream::pair()?;
    Ok(stream.peer_cred()?.uid())
}

/// Where the socket of a state directory is: in it, or, if that path is too long for an address, in the user's runtime
/// directory under a digest of that path. With the directories that must be closed to others.
fn find(directory: &Path) -> Result<(PathBuf, Option<PathBuf>, PathBuf), SocketError> {
    let directory = fs::canonicalize(directory).map_err(SocketError::io("find", directory))?;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    match place(&directory, runtime) {
        Some((holder, path)) => Ok((directory, holder, path)),
        None => Err(SocketError::TooLong(directory)),
    }
}

/// The path of the socket, and the directory that must be made for it.
fn place(directory: &Path, runtime: Option<OsString>) -> Option<(Option<PathBuf>, PathBuf)> {
    let fits = |path: &PathBuf| SocketAddr::from_pathname(path).is_ok();
    let near = directory.join(NAME);
    if fits(&near) {
        return Some((None, near));
    }
    let holder = runtime.map(PathBuf::from).filter(|path| path.is_absolute())?.join("sotto");
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    let far = holder.join(HEXLOWER.encode(digest.get(..MARK_BYTES)?));
    fits(&far).then_some((Some(holder), far))
}

/// # Errors
/// Unless the directory is this user's own, and nobody else may enter it.
fn closed(directory: &Path, user: u32) -> Result<(), SocketError> {
    let found = fs::symlink_metadata(directory).map_err(SocketError::io("look at", directory))?;
    if !found.is_dir() {
        return Err(SocketError::InTheWay(directory.to_owned()));
    }
    if found.uid() != user {
        return Err(SocketError::Foreign(directory.to_owned()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(SocketError::Open(directory.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::{Listener, SocketError, connect, place};

    fn mode(path: PathBuf) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn only_the_owner_reaches_it_and_a_stale_one_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(connect(home.path()).await.unwrap().is_none());
        let first = Listener::bind(home.path()).unwrap();
        assert_eq!(mode(home.path().join("socket")), 0o600);
        let (reached, accepted) = tokio::join!(connect(home.path()), first.accept());
        assert!(reached.unwrap().is_some() && accepted.is_ok());

        // A process that was killed leaves its socket there.
        drop(first);
        assert!(home.path().join("socket").exists());
        assert!(connect(home.path()).await.unwrap().is_none());
        let second = Listener::bind(home.path()).unwrap();
        assert!(connect(home.path()).await.unwrap().is_some());
        second.remove();
        assert!(!home.path().join("socket").exists());
    }

    #[tokio::test]
    async fn what_others_may_have_put_there_is_not_used() {
        let homes = tempfile::tempdir().unwrap();
        let (home, elsewhere) = (homes.path().join("home"), homes.path().join("elsewhere"));
        for directory in [&home, &elsewhere] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let other = Listener::bind(&elsewhere).unwrap();
        symlink(elsewhere.join("socket"), home.join("socket")).unwrap();
        assert!(matches!(Listener::bind(&home), Err(SocketError::InTheWay(_))));
        assert!(matches!(connect(&home).await, Err(SocketError::InTheWay(_))));
        assert!(elsewhere.join("socket").exists());
        other.remove();

        fs::remove_file(home.join("socket")).unwrap();
        fs::write(home.join("socket"), b"").unwrap();
        assert!(matches!(Listener::bind(&home), Err(SocketError::InTheWay(_))));
        fs::remove_file(home.join("socket")).unwrap();

        fs::set_permissions(&home, fs::Permissions::from_mode(0o750)).unwrap();
        let refused = Listener::bind(&home).err().unwrap();
        assert!(matches!(refused, SocketError::Open(_)) && refused.to_string().contains("chmod 700 /"));
        assert!(connect(&home).await.unwrap().is_none());
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        let _listening = Listener::bind(&home).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(connect(&home).await, Err(SocketError::Open(_))));
    }

    #[test]
    fn a_path_too_long_for_an_address_moves_to_the_runtime_directory_or_is_refused() {
        let long = PathBuf::from("/").join("x".repeat(120));
        let (holder, path) = place(&long, Some("/run/user/7".into())).unwrap();
        assert_eq!(holder.unwrap(), PathBuf::from("/run/user/7/sotto"));
        let other = place(&long.join("y"), Some("/run/user/7".into())).unwrap().1;
        assert!(path.starts_with("/run/user/7/sotto") && path != other);
        assert!(place(&long, None).is_none());
        assert!(place(&long, Some("relative".into())).is_none());
        assert!(place(&long, Some(long.clone().into())).is_none());
        assert_eq!(place("/h".as_ref(), None), Some((None, "/h/socket".into())));
    }
}
