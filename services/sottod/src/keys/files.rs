//! Public keys of retrieval on the disk, each file under the SHA-256 of what it holds, so that a server that starts again, or
//! has no room in memory, does not ask everybody for them at once.
//!
//! Nothing says whose they are: who names a digest has the file or not. None of it is needed: what is damaged or missing is
//! asked for again, and nothing waits for the disk to have it for good. Two threads touch the disk, one that writes and removes
//! and one that reads, and nobody holds a lock meanwhile: a disk that stands still holds up those two, and callers wait as long as
//! they like.

mod disk;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use disk::{Disk, FileSystem, UNFINISHED};

type Name = [u8; 32];

/// What a disk gives a file at least.
const BLOCK_BYTES: usize = 4096;
/// Memory for what waits to be written. What comes beyond stays in memory alone.
const WAITING_BYTES: usize = 64 << 20;
/// Callers that wait to be read for; one more is told that there is nothing.
const READS_MAX: usize = 1024;
/// How long the end of a server waits for what is to be written.
const END: Duration = Duration::from_secs(1);

/// The files of a directory.
pub(crate) struct KeyFiles {
    /// Bytes of each file.
    bytes: usize,
    shared: Arc<Shared>,
    reads: SyncSender<Read>,
}

struct Read {
    name: Name,
    reply: oneshot::Sender<Option<Vec<u8>>>,
}

struct Write {
    name: Name,
    encoded: Bytes,
    reply: oneshot::Sender<io::Result<()>>,
}

struct Shared {
    directory: PathBuf,
    /// How many files there are at most.
    most: usize,
    disk: Box<dyn Disk>,
    known: Mutex<Known>,
    /// Told when the thread that writes has something to do, and when it has nothing.
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    names: HashSet<Name>,
    /// The same, the oldest first.
    order: VecDeque<Name>,
    /// To be removed. Nothing is written before these are gone, so they are no more than there may be files.
    leaving: VecDeque<Name>,
    /// To be written.
    waiting: VecDeque<Write>,
    is_writing: bool,
    /// What is being written, as long as nobody has forgotten it.
    writing: Option<Name>,
    is_ending: bool,
}

impl KeyFiles {
    /// Those in a directory, which is made if it is missing, of `bytes` bytes each, and `budget` bytes in all at most, where none
    /// counts for less than a block of the disk. What is older than `age` serves nobody any more.
    pub(crate) fn open(directory: &Path, bytes: usize, budget: usize, age: Duration) -> io::Result<Self> {
        Self::open_on(Box::new(FileSystem), directory, bytes, budget, age)
    }

    fn open_on(
        disk: Box<dyn Disk>,
        directory: &Path,
        bytes: usize,
        budget: usize,
        age: Duration,
    ) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let written = entry.metadata().and_then(|metadata| Ok((metadata.len(), metadata.modified()?)));
            let (length, written) = written?;
            let Some(name) = entry.file_name().to_str().and_then(name_of) else {
                // Of a write that was broken off. What is not ours stays.
                if entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name_of(name.strip_suffix(UNFINISHED)?))
                    .is_some()
                {
                    disk.remove(&entry.path());
                }
                continue;
            };
            let is_old = SystemTime::now().duration_since(written).is_ok_and(|passed| passed > age);
            if is_old || usize::try_from(length) != Ok(bytes) {
                disk.remove(&entry.path());
            } else {
                found.push((written, name));
            }
        }
        found.sort_unstable();
        let order: VecDeque<Name> = found.into_iter().map(|(_, name)| name).collect();
        let mut known = Known { names: order.iter().copied().collect(), order, ..Known::default() };
        let most = budget / bytes.max(BLOCK_BYTES);
        known.make_room(most);
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            most,
            disk,
            known: Mutex::new(known),
            changed: Condvar::new(),
        });
        let (reads, to_read) = sync_channel(READS_MAX);
        let (writer, reader) = (Arc::clone(&shared), Arc::clone(&shared));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("key files").spawn(move || writer.write_and_remove())?;
        named("key files, reading").spawn(move || reader.read(bytes, &to_read))?;
        Ok(Self { bytes, shared, reads })
    }

    /// Has keys kept, and the oldest dropped beyond the budget; tells what became of it. None if there is nothing to do, or more
    /// waits to be written than there is memory for.
    pub(crate) fn keep(&self, digest: &Name, encoded: Bytes) -> Option<oneshot::Receiver<io::Result<()>>> {
        if encoded.len() != self.bytes || self.shared.most == 0 {
            return None;
        }
        let mut known = self.shared.known();
        let is_full = known.waiting.len() >= WAITING_BYTES / self.bytes.max(BLOCK_BYTES);
        let waits = || known.waiting.iter().any(|write| write.name == *digest);
        if is_full || known.names.contains(digest) || known.writing == Some(*digest) || waits() {
            return None;
        }
        let (reply, kept) = oneshot::channel();
        known.waiting.push_back(Write { name: *digest, encoded, reply });
        self.shared.changed.notify_all();
        Some(kept)
    }

    /// Whether there may be keys of this digest.
    pub(crate) fn has(&self, digest: &Name) -> bool {
        self.shared.known().names.contains(digest)
    }

    /// The keys of this digest, if they are there and whole.
    pub(crate) fn read(&self, digest: &Name) -> impl Future<Output = Option<Vec<u8>>> + Send + use<> {
        let (reply, read) = oneshot::channel();
        // Without a place it is dropped, and nobody waits for it.
        let _ = self.has(digest).then(|| self.reads.try_send(Read { name: *digest, reply }));
        async { read.await.ok().flatten() }
    }

    /// Drops keys that nobody uses any more.
    pub(crate) fn forget(&self, digest: &Name) {
        self.shared.forget(digest);
    }
}

impl Drop for KeyFiles {
    fn drop(&mut self) {
        let mut known = self.shared.known();
        known.is_ending = true;
        self.shared.changed.notify_all();
        // Whoever opens the directory next finds all of it, unless the disk stands still.
        let _ended = self.shared.changed.wait_timeout_while(known, END, |known| !known.is_idle());
    }
}

impl Known {
    fn is_idle(&self) -> bool {
        self.leaving.is_empty() && self.waiting.is_empty() && !self.is_writing
    }

    fn make_room(&mut self, most: usize) {
        while self.order.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
            self.leaving.push_back(oldest);
        }
    }
}

impl Shared {
    fn forget(&self, digest: &Name) {
        let mut known = self.known();
        known.waiting.retain(|write| write.name != *digest);
        // What is just being written is removed when it has been.
        known.writing = known.writing.filter(|name| name != digest);
        if known.names.remove(digest) {
            known.order.retain(|other| other != digest);
            known.leaving.push_back(*digest);
            self.changed.notify_all();
        }
    }

    /// The work of the thread that writes and removes: in this order, so that what comes again is not removed for what it was
    /// before.
    fn write_and_remove(&self) {
        let mut known = self.known();
        loop {
            if let Some(name) = known.leaving.pop_front() {
                known = self.unlocked(known, || self.disk.remove(&self.path(&name))).0;
            } else if let Some(Write { name, encoded, reply }) = known.waiting.pop_front() {
                known.writing = Some(name);
                let (locked, written) = self.unlocked(known, || self.disk.store(&self.path(&name), &encoded));
                known = locked;
                let is_wanted = known.writing.take().is_some();
                if written.is_ok() && !is_wanted {
                    known.leaving.push_back(name);
                } else if written.is_ok() && known.names.insert(name) {
                    known.order.push_back(name);
                }
                known.make_room(self.most);
                let _ = reply.send(written);
            } else if known.is_ending {
                return;
            } else {
                known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner);
            }
            if known.is_idle() {
                self.changed.notify_all();
            }
        }
    }

    /// Nobody waits for the lock while the disk works.
    fn unlocked<T>(
        &self,
        mut known: MutexGuard<'_, Known>,
        work: impl FnOnce() -> T,
    ) -> (MutexGuard<'_, Known>, T) {
        known.is_writing = true;
        drop(known);
        let done = work();
        let mut known = self.known();
        known.is_writing = false;
        (known, done)
    }

    /// The work of the thread that reads.
    fn read(&self, bytes: usize, reads: &Receiver<Read>) {
        while let Ok(Read { name, reply }) = reads.recv() {
            // Who waited for too long has gone.
            if reply.is_closed() {
                continue;
            }
            let read = self.disk.load(&self.path(&name), bytes).ok();
            let whole = read.filter(|read| read.len() == bytes && Sha256::digest(read)[..] == name[..]);
            if whole.is_none() {
                self.forget(&name);
            }
            let _ = reply.send(whole);
        }
    }

    fn path(&self, digest: &Name) -> PathBuf {
        self.directory.join(HEXLOWER.encode(digest))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(name: &str) -> Option<Name> {
    HEXLOWER.decode(name.as_bytes()).ok()?.try_into().ok()
}
