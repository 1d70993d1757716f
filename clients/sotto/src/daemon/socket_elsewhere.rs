//! Where there are no local sockets with owners, there is no running participant to reach.

use std::io;
use std::path::{Path, PathBuf};

pub(crate) type Stream = tokio::io::DuplexStream;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// No such sockets.
    #[error("'sotto run' needs local sockets with an owner, which this operating system does not have")]
    Unsupported,
}

/// Nothing listens.
pub(crate) struct Listener(core::convert::Infallible);

impl Listener {
    pub(crate) fn bind(_: &Path) -> Result<Self, SocketError> {
        Err(SocketError::Unsupported)
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self.0 {}
    }

    pub(crate) fn remove(self) {
        match self.0 {}
    }
}

/// Nobody is there.
///
/// # Errors
/// None.
pub(crate) async fn connect(_: &Path) -> Result<Option<Stream>, SocketError> {
    Ok(None)
}

pub(crate) const NAME: &str = "socket";

/// There is none.
pub(crate) fn process(_: &Stream) -> Option<i32> {
    None
}

/// There is nobody to end.
///
/// # Errors
/// Always.
pub(crate) fn kill(_: &Stream) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is none.
///
/// # Errors
/// None.
pub(crate) fn forget(_: &Path) -> Result<(), (PathBuf, io::Error)> {
    Ok(())
}
