//! Public keys of retrieval on the disk, each file under the SHA-256 of what it holds, so that a server that starts again, or
//! has no room in memory, does not ask everybody for them at once.
//!
//! Nothing says whose they are: who names a digest has the file or not. None of it is needed: what is damaged or missing is
//! asked for again, and nothing waits for the disk to have it for good. Two threads touch the disk, one that writes and removes
//! and one that reads, and nobody holds a lock meanwhile: a disk that stands still holds up those two, and callers wait as long as
//! they like.

mod disk;

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

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs::{self, File};
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::SystemTime;

    use bytes::Bytes;
    use data_encoding::HEXLOWER;
    use sha2::{Digest, Sha256};

    use super::disk::{Disk, FileSystem};
    use super::{KeyFiles, READS_MAX, WAITING_BYTES};

    const BYTES: usize = 5000;
    const AGE: Duration = Duration::from_secs(3600);

    fn keys(number: u8) -> ([u8; 32], Vec<u8>) {
        let encoded = vec![number; BYTES];
        (Sha256::digest(&encoded).into(), encoded)
    }

    fn open(directory: &Path, sets: usize) -> KeyFiles {
        KeyFiles::open(directory, BYTES, sets * BYTES, AGE).unwrap()
    }

    fn keep(files: &KeyFiles, number: u8) -> [u8; 32] {
        let (digest, encoded) = keys(number);
        if let Some(kept) = files.keep(&digest, encoded.into()) {
            kept.blocking_recv().unwrap().unwrap();
        }
        settle(files);
        digest
    }

    fn read(files: &KeyFiles, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(files.read(digest));
        settle(files);
        read
    }

    /// Until nothing is left to be done.
    fn settle(files: &KeyFiles) {
        let known = files.shared.known();
        drop(files.shared.changed.wait_while(known, |known| !known.is_idle()).unwrap());
    }

    fn count(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn keys_are_there_after_a_start_and_the_oldest_go_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let digests: Vec<[u8; 32]> = {
            let files = open(path, 3);
            (1..=4).map(|number| keep(&files, number)).collect()
        };
        assert_eq!(count(path), 3);
        let files = open(path, 3);
        assert_eq!(read(&files, &digests[0]), None);
        for (digest, number) in digests[1..].iter().zip(2..) {
            assert_eq!(read(&files, digest), Some(keys(number).1));
        }
        // Again and again changes nothing.
        keep(&files, 4);
        keep(&files, 4);
        assert_eq!(count(path), 3);
        files.forget(&digests[3]);
        files.forget(&digests[0]);
        settle(&files);
        assert_eq!((read(&files, &digests[3]), count(path)), (None, 2));
        drop(files);
        for (room, digest) in [(1, &digests[1]), (0, &digests[2])] {
            let files = open(path, room);
            settle(&files);
            assert_eq!((files.has(digest), count(path)), (false, room));
        }
    }

    /// A disk gives a file a block, however little it holds.
    #[test]
    fn small_keys_are_counted_as_what_they_take_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let files = KeyFiles::open(directory.path(), 8, 3 * 4096, AGE).unwrap();
        for number in 1..=4_u64 {
            let encoded = number.to_le_bytes();
            let kept = files.keep(&Sha256::digest(encoded).into(), Bytes::copy_from_slice(&encoded));
            kept.unwrap().blocking_recv().unwrap().unwrap();
        }
        settle(&files);
        assert_eq!(count(directory.path()), 3);
    }

    #[test]
    fn what_is_damaged_is_missing_and_what_is_old_or_half_written_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let files = open(path, 9);
        let [spoiled, cut, old, good] = [1, 2, 3, 4].map(|number| keep(&files, number));
        let file = |digest: &[u8; 32]| path.join(HEXLOWER.encode(digest));
        fs::write(file(&spoiled), vec![9; BYTES]).unwrap();
        assert_eq!((read(&files, &spoiled), files.has(&spoiled)), (None, false));
        fs::remove_file(file(&cut)).unwrap();
        assert_eq!((read(&files, &cut), files.has(&cut)), (None, false));
        fs::write(file(&cut), vec![2; BYTES - 1]).unwrap();
        fs::write(file(&spoiled).with_extension("new"), "half").unwrap();
        fs::write(path.join("notes"), "not ours").unwrap();
        let long_ago = SystemTime::now() - 2 * AGE;
        File::options().write(true).open(file(&old)).unwrap().set_modified(long_ago).unwrap();
        drop(files);
        let files = open(path, 9);
        assert!(files.has(&good) && !files.has(&old) && !files.has(&cut));
        let mut left: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [HEXLOWER.encode(&good), "notes".into()]);
        // What cannot be written leaves nothing behind, and what cannot be removed is in nobody's way.
        let (digest, encoded) = keys(8);
        fs::create_dir(file(&digest)).unwrap();
        let kept = files.keep(&digest, encoded.into()).unwrap().blocking_recv().unwrap();
        assert!(kept.is_err() && !files.has(&digest));
        assert_eq!(count(path), 3);
        assert!(open(path, 9).has(&good));
        // What does not fit is not kept, whatever its digest is.
        assert!(files.keep(&[7; 32], vec![0; BYTES - 1].into()).is_none());
        assert!(!files.has(&[7; 32]));
    }

    /// A disk that stands still while it is closed.
    #[derive(Default)]
    struct Gate {
        is_closed: Mutex<bool>,
        opened: Condvar,
    }

    impl Gate {
        fn set(&self, closed: bool) {
            *self.is_closed.lock().unwrap() = closed;
            self.opened.notify_all();
        }

        fn pass(&self) {
            let is_closed = self.is_closed.lock().unwrap();
            drop(self.opened.wait_while(is_closed, |is_closed| *is_closed).unwrap());
        }
    }

    /// Opens it in the end, also if a test fails.
    struct Closed(Arc<Gate>);

    impl Closed {
        fn new(gate: &Arc<Gate>) -> Self {
            gate.set(true);
            Self(Arc::clone(gate))
        }
    }

    impl Drop for Closed {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }

    struct Gated(Arc<Gate>);

    impl Disk for Gated {
        fn store(&self, path: &Path, content: &[u8]) -> io::Result<()> {
            self.0.pass();
            FileSystem.store(path, content)
        }

        fn load(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
            self.0.pass();
            FileSystem.load(path, bytes)
        }

        fn remove(&self, path: &Path) {
            self.0.pass();
            FileSystem.remove(path);
        }
    }

    /// Calls look into the files under the lock of all keys: whoever waited for the disk there would hold up every retrieval.
    #[tokio::test]
    async fn a_disk_that_stands_still_holds_up_nobody_and_fills_no_memory() {
        const LARGE: usize = 1 << 20;
        let directory = tempfile::tempdir().unwrap();
        let gate = Arc::<Gate>::default();
        let disk = Box::new(Gated(Arc::clone(&gate)));
        let files = Arc::new(KeyFiles::open_on(disk, directory.path(), LARGE, 9 * LARGE, AGE).unwrap());
        let [first, second, third] = [1, 2, 3].map(|number| Bytes::from(vec![number; LARGE]));
        let digest = |encoded: &Bytes| Sha256::digest(encoded).into();
        files.keep(&digest(&first), first.clone()).unwrap().await.unwrap().unwrap();
        let closed = Closed::new(&gate);

        let (calls, name) = (Arc::clone(&files), digest(&first));
        let called = tokio::task::spawn_blocking(move || {
            let read = calls.read(&name);
            calls.forget(&name);
            assert!(!calls.has(&name));
            let keep = |number: u64| calls.keep(&Sha256::digest(number.to_le_bytes()).into(), second.clone());
            (read, (0..3 * WAITING_BYTES as u64 / LARGE as u64).filter_map(keep).collect::<Vec<_>>())
        });
        let called = tokio::time::timeout(Duration::from_secs(20), called).await;
        let (read, waiting) = called.expect("nobody waits for the disk").unwrap();
        // One has left the row for the disk, before or after.
        assert!(waiting.len().abs_diff(WAITING_BYTES / LARGE) <= 1, "{}", waiting.len());
        assert!(tokio::time::timeout(Duration::from_millis(20), read).await.is_err());
        assert!(files.keep(&digest(&third), third.clone()).is_none(), "there is no room");
        let names: Vec<_> = files.shared.known().waiting.iter().map(|write| write.name).collect();
        names.iter().for_each(|name| files.forget(name));
        drop(closed);

        files.keep(&digest(&third), third.clone()).unwrap().await.unwrap().unwrap();
        assert_eq!(files.read(&digest(&third)).await.as_deref(), Some(&third[..]));
        let closed = Closed::new(&gate);
        let mut told_at_once = 0;
        let mut reads = Vec::new();
        for _ in 0..2 * READS_MAX {
            let mut read = Box::pin(files.read(&digest(&third)));
            let told = tokio::time::timeout(Duration::ZERO, &mut read).await;
            told_at_once += usize::from(told == Ok(None));
            reads.push(read);
        }
        // One is on its way.
        assert!(told_at_once.abs_diff(READS_MAX) <= 1, "{told_at_once} were told that there is nothing");
        drop(closed);
    }

    /// What is removed late must not be what came meanwhile.
    #[tokio::test]
    async fn keys_that_come_again_while_they_are_being_removed_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let gate = Arc::<Gate>::default();
        let disk = Box::new(Gated(Arc::clone(&gate)));
        let files = KeyFiles::open_on(disk, directory.path(), BYTES, 9 * BYTES, AGE).unwrap();
        let (digest, encoded) = keys(1);
        files.keep(&digest, encoded.clone().into()).unwrap().await.unwrap().unwrap();
        let closed = Closed::new(&gate);
        files.forget(&digest);
        let kept = files.keep(&digest, encoded.clone().into()).unwrap();
        drop(closed);
        kept.await.unwrap().unwrap();
        assert_eq!(files.read(&digest).await, Some(encoded));
    }

    /// Keys that were replaced while they were written are on no disk afterwards.
    #[tokio::test]
    async fn keys_that_are_forgotten_while_they_are_being_written_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let gate = Arc::<Gate>::default();
        let disk = Box::new(Gated(Arc::clone(&gate)));
        let files = KeyFiles::open_on(disk, directory.path(), BYTES, 9 * BYTES, AGE).unwrap();
        let (digest, encoded) = keys(1);
        let closed = Closed::new(&gate);
        let kept = files.keep(&digest, encoded.clone().into()).unwrap();
        while files.shared.known().writing != Some(digest) {
            tokio::task::yield_now().await;
        }
        assert!(files.keep(&digest, encoded.clone().into()).is_none(), "it is on its way");
        files.forget(&digest);
        // What comes again in the meantime is there.
        let (other, more) = keys(2);
        let also = files.keep(&other, more.clone().into()).unwrap();
        drop(closed);
        kept.await.unwrap().unwrap();
        also.await.unwrap().unwrap();
        settle(&files);
        assert!(!files.has(&digest) && files.has(&other));
        assert_eq!(count(directory.path()), 1);
    }
}
