//! Public keys of retrieval on the disk, each file under the SHA-256 of what it holds, so that a server that starts again, or
//! has no room in memory, does not ask everybody for them at once.
//!
//! Nothing says whose they are: who names a digest has the file or not. None of it is needed: what is damaged or missing is
//! asked for again, and nothing waits for the disk to have it for good.

use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

type Name = [u8; 32];

/// How the name of a file ends that is being written.
const UNFINISHED: &str = ".new";

/// What a disk gives a file at least.
const BLOCK_BYTES: usize = 4096;

/// The files of a directory.
pub(crate) struct KeyFiles {
    directory: PathBuf,
    /// Bytes of each file.
    bytes: usize,
    /// How many there are at most.
    most: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    names: HashSet<Name>,
    /// The same, the oldest first.
    order: VecDeque<Name>,
}

impl KeyFiles {
    /// Those in a directory, which is made if it is missing, of `bytes` bytes each, and `budget` bytes in all at most, where none
    /// counts for less than a block of the disk. What is older than `age` serves nobody any more.
    pub(crate) fn open(directory: &Path, bytes: usize, budget: usize, age: Duration) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let most = budget / bytes.max(BLOCK_BYTES);
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
                    remove(&entry.path());
                }
                continue;
            };
            let is_old = SystemTime::now().duration_since(written).is_ok_and(|passed| passed > age);
            if is_old || usize::try_from(length) != Ok(bytes) {
                remove(&entry.path());
            } else {
                found.push((written, name));
            }
        }
        found.sort_unstable();
        let order: VecDeque<Name> = found.into_iter().map(|(_, name)| name).collect();
        let known = Known { names: order.iter().copied().collect(), order };
        let files = Self { directory: directory.to_owned(), bytes, most, known: Mutex::new(known) };
        files.make_room(&mut files.known());
        Ok(files)
    }

    /// Keeps keys, and drops the oldest beyond the budget.
    pub(crate) fn keep(&self, digest: &Name, encoded: &[u8]) -> io::Result<()> {
        if encoded.len() != self.bytes || self.most == 0 || self.has(digest) {
            return Ok(());
        }
        let path = self.path(digest);
        let unfinished = path.with_extension(&UNFINISHED[1..]);
        // Two uploads of the same write the same.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let written = file.and_then(|mut file| file.write_all(encoded));
        let mut known = self.known();
        let renamed = written.and_then(|()| fs::rename(&unfinished, &path));
        // A disk that is full is not filled with halves, which no budget counts.
        renamed.inspect_err(|_| remove(&unfinished))?;
        if known.names.insert(*digest) {
            known.order.push_back(*digest);
        }
        self.make_room(&mut known);
        Ok(())
    }

    /// Whether there may be keys of this digest.
    pub(crate) fn has(&self, digest: &Name) -> bool {
        self.known().names.contains(digest)
    }

    /// The keys of this digest, if they are there and whole.
    pub(crate) fn read(&self, digest: &Name) -> Option<Vec<u8>> {
        if !self.has(digest) {
            return None;
        }
        let mut encoded = Vec::with_capacity(self.bytes);
        let read = File::open(self.path(digest))
            .and_then(|file| file.take(self.bytes as u64 + 1).read_to_end(&mut encoded));
        if read.is_ok() && encoded.len() == self.bytes && Sha256::digest(&encoded)[..] == digest[..] {
            return Some(encoded);
        }
        self.forget(digest);
        None
    }

    /// Drops keys that nobody uses any more.
    pub(crate) fn forget(&self, digest: &Name) {
        let mut known = self.known();
        if known.names.remove(digest) {
            known.order.retain(|other| other != digest);
            remove(&self.path(digest));
        }
    }

    fn make_room(&self, known: &mut Known) {
        while known.order.len() > self.most
            && let Some(oldest) = known.order.pop_front()
        {
            known.names.remove(&oldest);
            remove(&self.path(&oldest));
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

/// What is left is dropped at the next start.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, "a file of keys is left");
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use data_encoding::HEXLOWER;
    use sha2::{Digest, Sha256};

    use super::KeyFiles;

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
        files.keep(&digest, &encoded).unwrap();
        digest
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
        assert_eq!(files.read(&digests[0]), None);
        for (digest, number) in digests[1..].iter().zip(2..) {
            assert_eq!(files.read(digest), Some(keys(number).1));
        }
        // Again and again changes nothing.
        keep(&files, 4);
        keep(&files, 4);
        assert_eq!(count(path), 3);
        files.forget(&digests[3]);
        files.forget(&digests[0]);
        assert_eq!((files.read(&digests[3]), count(path)), (None, 2));
        drop(files);
        assert_eq!((open(path, 1).has(&digests[1]), count(path)), (false, 1));
        assert_eq!((open(path, 0).has(&digests[2]), count(path)), (false, 0));
    }

    /// A disk gives a file a block, however little it holds.
    #[test]
    fn small_keys_are_counted_as_what_they_take_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let files = KeyFiles::open(directory.path(), 8, 3 * 4096, AGE).unwrap();
        for number in 1..=4_u64 {
            let encoded = number.to_le_bytes();
            files.keep(&Sha256::digest(encoded).into(), &encoded).unwrap();
        }
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
        assert_eq!((files.read(&spoiled), files.has(&spoiled)), (None, false));
        fs::remove_file(file(&cut)).unwrap();
        assert_eq!((files.read(&cut), files.has(&cut)), (None, false));
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
        assert!(files.keep(&digest, &encoded).is_err() && !files.has(&digest));
        assert_eq!(count(path), 3);
        assert!(open(path, 9).has(&good));
        // What does not fit is not kept, whatever its digest is.
        files.keep(&[7; 32], &[0; BYTES - 1]).unwrap();
        assert!(!files.has(&[7; 32]));
    }
}
