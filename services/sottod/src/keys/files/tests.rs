//! Which keys are there after a start, and what slow disks and full ones cost.

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
    let mut left: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
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
