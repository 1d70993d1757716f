//! The side of the commands.

use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{Answer, LINE_MAX, Request, socket};

/// Longer than an answer takes, if the server is at work.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody listens.
    #[error("no server is running in {}, or it has just begun to start: see 'sottod serve --data'", .0.display())]
    NotRunning(PathBuf),
    /// The server says why.
    #[error("{0}")]
    Refused(String),
    /// Something else answers, or breaks off.
    #[error("the server that runs in {} gave no answer that can be read; is it of another version?", .0.display())]
    Malformed(PathBuf),
    /// The operating system refused.
    #[error("cannot ask the server that runs in {}", path.display())]
    Io {
        /// The data directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Asks the server that runs in a data directory; its answer, and what follows behind it.
pub(crate) fn ask<T: DeserializeOwned>(
    data: &Path,
    request: Request,
) -> Result<(T, BufReader<UnixStream>), AskError> {
    let failed = |source| AskError::Io { path: data.to_owned(), source };
    let malformed = || AskError::Malformed(data.to_owned());
    let stream = socket::connect(data).map_err(failed)?;
    let mut stream = stream.ok_or_else(|| AskError::NotRunning(data.to_owned()))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut line = serde_json::to_vec(&request).map_err(io::Error::other).map_err(failed)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut stream = BufReader::new(stream);
    line.clear();
    let most = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    stream.by_ref().take(most).read_until(b'\n', &mut line).map_err(failed)?;
    match serde_json::from_slice(&line).map_err(|_| malformed())? {
        Answer::Done(done) => Ok((done, stream)),
        Answer::Refused(why) => Err(AskError::Refused(why)),
    }
}
