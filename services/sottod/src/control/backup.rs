//! Sending a backup to whoever asks: the server goes on meanwhile.

use core::time::Duration;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use sotto_log::LogFiles;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError, oneshot, watch};

use crate::backup::Taken;

/// How long the log's thread may be busy before it comes to the backup.
const BUSY: Duration = Duration::from_secs(20);
/// How long whoever takes a backup may stand still, and take in all: the log's files of its beginning stay until its end.
const STALL: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// What backups are taken of.
pub(crate) struct Backups {
    data: PathBuf,
    /// Once the log is open.
    log: watch::Receiver<Option<LogFiles>>,
    /// One at a time.
    room: Semaphore,
}

impl Backups {
    pub(crate) fn new(data: PathBuf, log: watch::Receiver<Option<LogFiles>>) -> Self {
        Self { data, log, room: Semaphore::new(1) }
    }

    /// Takes one, which is still to be sent.
    pub(super) async fn take(&self) -> anyhow::Result<(Taken, SemaphorePermit<'_>)> {
        let place = self.room.try_acquire();
        let place = place.map_err(|_: TryAcquireError| anyhow::anyhow!("another backup is being taken"))?;
        let log = self.log.borrow().clone().context("the server is still reading its log; try again")?;
        let pinned = tokio::time::timeout(BUSY, log.pin()).await.context("the disk does not answer")??;
        let data = self.data.clone();
        let taken = tokio::task::spawn_blocking(move || Taken::of(&data, pinned)).await??;
        Ok((taken, place))
    }
}

/// Sends it. If this is dropped, the sending ends.
pub(super) async fn send(taken: Taken, stream: UnixStream) -> anyhow::Result<()> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(STALL))?;
    let _cut = Cut(stream.try_clone()?);
    let (reply, sent) = oneshot::channel();
    let until = Instant::now() + LONGEST;
    // A disk that hangs shall hang nothing that the end of the process waits for.
    std::thread::Builder::new().name("sottod-backup".to_owned()).spawn(move || {
        // Who asked may have gone.
        let _ = reply.send(taken.write(io::BufWriter::with_capacity(1 << 20, Bounded { stream, until })));
    })?;
    Ok(sent.await??)
}

/// Ends all that is written to a connection.
struct Cut(StdStream);

impl Drop for Cut {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

struct Bounded {
    stream: StdStream,
    until: Instant,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
