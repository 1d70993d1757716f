//! A log of records that only the holder of a key can read, or have made, and of which a crash leaves what was appended before, or
//! all of what was being appended (integers little-endian).
//!
//! ```text
//! file    = head | chunks of 4,096 bytes, numbered from 1; their number rises in steps of 256
//! head    = "sotto log" | version, u8 = 1 | id (16) | sealed nothing (40) | zeros up to 4,096 bytes
//! chunk   = sealed plain, or noise
//! plain   = batch, u64 | number in the batch, u16 | is the last, u8 | length, u16 | content | zeros up to 4,056 bytes
//! batch   = length of a record, u32 | record | length, u32 | record | ...; the contents of its chunks, one behind the other
//! ```
//!
//! Seals are [`super::seal`]'s, with what the log is for, the file's id and the chunk's number (0 of the head) as associated data: no
//! chunk passes for another, nor one of an older file for one of this. Where nothing was written there is noise, and nobody
//! else sees the difference; so a chunk that was cut off by a crash is as good as none, and so is a batch without its
//! end. The number of a batch is drawn: what is left of one that was cut off does not join the next.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rand::Rng as _;
use zeroize::Zeroizing;

use super::seal::{KEY_BYTES, NONCE_BYTES, TAG_BYTES, open, seal};

const MAGIC: &[u8; 9] = b"sotto log";
const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const CHUNK_BYTES: usize = 4096;
const PLAIN_BYTES: usize = CHUNK_BYTES - NONCE_BYTES - TAG_BYTES;
const PREFIX_BYTES: usize = 8 + 2 + 1 + 2;
const CONTENT_BYTES: usize = PLAIN_BYTES - PREFIX_BYTES;
/// A file grows by so many chunks: its size tells little of what is in it.
const STEP_CHUNKS: u64 = 256;
/// Of a file, with its head: 256 MiB.
const CHUNKS_MAX: u64 = 1 << 16;
/// Of a batch, so that what it takes in memory while it is written has a bound. A record is less.
const BATCH_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

type Key = Zeroizing<[u8; KEY_BYTES]>;

/// A log that can be appended to.
pub(crate) struct SealedLog {
    file: File,
    seals: Seals,
    /// The chunk that is written next.
    next: u64,
    chunks: u64,
}

/// A log as it was found.
pub(crate) struct Opened {
    pub(crate) log: SealedLog,
    pub(crate) records: Vec<Zeroizing<Vec<u8>>>,
    /// Whether something is missing between them that was there once.
    pub(crate) is_damaged: bool,
}

struct Seals {
    key: Key,
    domain: &'static [u8],
    id: [u8; ID_BYTES],
}

impl Seals {
    fn associated(&self, chunk: u64) -> Vec<u8> {
        [self.domain, &[VERSION], &self.id, &chunk.to_le_bytes()].concat()
    }

    fn head(&self) -> Vec<u8> {
        let sealed = seal(&self.key, &self.associated(0), &[]);
        let mut head = [&MAGIC[..], &[VERSION], &self.id, &sealed].concat();
        head.resize(CHUNK_BYTES, 0);
        head
    }

    /// Appends the chunks of a batch, the first of which has this number.
    fn batch(&self, content: &[u8], first: u64, to: &mut Vec<u8>) {
        let batch = rand::make_rng::<rand::rngs::StdRng>().next_u64();
        let parts = content.chunks(CONTENT_BYTES);
        let last = parts.len().saturating_sub(1);
        for (number, part) in parts.enumerate() {
            let mut plain = Zeroizing::new(Vec::with_capacity(PLAIN_BYTES));
            plain.extend(batch.to_le_bytes());
            // A batch has at most 1 MiB and one record.
            plain.extend((number as u16).to_le_bytes());
            plain.push(u8::from(number == last));
            plain.extend((part.len() as u16).to_le_bytes());
            plain.extend(part);
            plain.resize(PLAIN_BYTES, 0);
            to.extend(seal(&self.key, &self.associated(first + number as u64), &plain));
        }
    }

    fn open(&self, chunk: u64, sealed: &[u8]) -> Option<Chunk> {
        let plain = open(&self.key, &self.associated(chunk), sealed)?;
        let (batch, rest) = plain.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (is_last, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let content = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
        Some(Chunk {
            batch: u64::from_le_bytes(*batch),
            number: u16::from_le_bytes(*number),
            is_last: *is_last != 0,
            content: Zeroizing::new(content.to_vec()),
        })
    }
}

struct Chunk {
    batch: u64,
    number: u16,
    is_last: bool,
    content: Zeroizing<Vec<u8>>,
}

/// A batch of which all chunks so far were found.
struct Begun {
    batch: u64,
    first: u64,
    chunks: u16,
    content: Zeroizing<Vec<u8>>,
}

impl SealedLog {
    /// Writes a log with these records in place of the one before, if there is one: when this returns it is on the disk; if it
    /// fails, or the machine does, the one before is there whole.
    ///
    /// # Errors
    /// What the operating system refuses; [`io::ErrorKind::FileTooLarge`].
    pub(crate) fn create(
        path: &Path,
        key: &[u8; KEY_BYTES],
        domain: &'static [u8],
        records: impl Iterator<Item = Zeroizing<Vec<u8>>>,
    ) -> io::Result<Self> {
        let mut id = [0; ID_BYTES];
        rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut id);
        let seals = Seals { key: Zeroizing::new(*key), domain, id };
        let mut bytes = seals.head();
        let mut content = Zeroizing::new(Vec::new());
        let end = |content: &mut Zeroizing<Vec<u8>>, bytes: &mut Vec<u8>| {
            let first = (bytes.len() / CHUNK_BYTES) as u64;
            seals.batch(content, first, bytes);
            content.clear();
        };
        for record in records {
            push(&mut content, &record)?;
            if content.len() >= BATCH_BYTES {
                end(&mut content, &mut bytes);
            }
        }
        end(&mut content, &mut bytes);
        let next = (bytes.len() / CHUNK_BYTES) as u64;
        let chunks = (next + 1).next_multiple_of(STEP_CHUNKS);
        if chunks > CHUNKS_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        bytes.extend(noise(chunks - next));
        sotto_files::replace(path, &bytes, 0o600)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file, seals, next, chunks })
    }

    /// Opens a log for appending, or, if it is only looked at, for nothing else.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is none, or of another key; [`io::ErrorKind::Unsupported`] if a newer program wrote it;
    /// what the operating system refuses.
    pub(crate) fn open(
        path: &Path,
        key: &[u8; KEY_BYTES],
        domain: &'static [u8],
        only_looks: bool,
    ) -> io::Result<Opened> {
        let none = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut file = match only_looks {
            true => super::open_file(path)?,
            // A pipe that is opened for both is there at once.
            false => OpenOptions::new().read(true).write(true).open(path)?,
        };
        let about = file.metadata()?;
        // Nothing else is read, or waited for.
        if !about.is_file() {
            return Err(none("it is no file"));
        }
        let chunks = about.len() / CHUNK_BYTES as u64;
        if chunks > CHUNKS_MAX {
            return Err(none("it is too large"));
        }
        let mut sealed = [0; CHUNK_BYTES];
        if chunks == 0 {
            return Err(none("it is cut short"));
        }
        file.read_exact(&mut sealed)?;
        let rest = sealed.strip_prefix(MAGIC).ok_or_else(|| none("it is no log"))?;
        let Some(([version], rest)) = rest.split_first_chunk::<1>() else { return Err(none("it is no log")) };
        match *version {
            VERSION => {}
            0 => return Err(none("its version is none")),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a newer sotto wrote it; update this one",
                ));
            }
        }
        let Some((id, rest)) = rest.split_first_chunk() else { return Err(none("it is no log")) };
        let seals = Seals { key: Zeroizing::new(*key), domain, id: *id };
        let proof = rest.get(..NONCE_BYTES + TAG_BYTES).unwrap_or_default();
        open(&seals.key, &seals.associated(0), proof)
            .ok_or_else(|| none("it was changed, or is another account's"))?;

        let (mut records, mut is_damaged, mut next) = (Vec::new(), false, 1);
        let mut begun: Option<Begun> = None;
        for number in 1..chunks {
            file.read_exact(&mut sealed)?;
            let Some(chunk) = seals.open(number, &sealed) else {
                begun = None;
                continue;
            };
            let mut batch = match (begun.take(), chunk.number) {
                (_, 0) => Begun {
                    batch: chunk.batch,
                    first: number,
                    chunks: 0,
                    content: Zeroizing::new(Vec::new()),
                },
                (Some(batch), number) if batch.batch == chunk.batch && batch.chunks == number => batch,
                // What is left of one that was cut off.
                _ => continue,
            };
            batch.content.extend_from_slice(&chunk.content);
            batch.chunks += 1;
            if chunk.is_last {
                let is_whole = split(&batch.content, &mut records);
                is_damaged |= batch.first != next || !is_whole;
                next = number + 1;
            } else {
                begun = Some(batch);
            }
        }
        Ok(Opened { log: Self { file, seals, next, chunks }, records, is_damaged })
    }

    /// Appends records: when this returns they are on the disk; if it fails, or the machine does, all or none of them are.
    ///
    /// # Errors
    /// What the operating system refuses; [`io::ErrorKind::FileTooLarge`].
    pub(crate) fn append(&mut self, records: &[Zeroizing<Vec<u8>>]) -> io::Result<()> {
        let mut content = Zeroizing::new(Vec::new());
        for record in records {
            push(&mut content, record)?;
        }
        if content.len() > 2 * BATCH_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        self.seals.batch(&content, self.next, &mut bytes);
        let next = self.next + (bytes.len() / CHUNK_BYTES) as u64;
        self.make_room(next)?;
        self.write_at(self.next, &bytes)?;
        self.file.sync_data()?;
        self.next = next;
        Ok(())
    }

    /// Writes as one does who appends something, and appends nothing: so that when the file was written last does not tell when
    /// something was appended.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn touch(&mut self) -> io::Result<()> {
        self.make_room(self.next + 1)?;
        self.write_at(self.next, &noise(1))
    }

    /// Chunks that were written, with the head.
    pub(crate) fn written(&self) -> u64 {
        self.next
    }

    fn make_room(&mut self, chunks: u64) -> io::Result<()> {
        if chunks <= self.chunks {
            return Ok(());
        }
        let chunks = chunks.next_multiple_of(STEP_CHUNKS);
        if chunks > CHUNKS_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.write_at(self.chunks, &noise(chunks - self.chunks))?;
        self.chunks = chunks;
        Ok(())
    }

    fn write_at(&mut self, chunk: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(chunk * CHUNK_BYTES as u64))?;
        self.file.write_all(bytes)
    }
}

/// About so many chunks such records take when they are written together.
pub(crate) fn chunks_of(bytes: usize) -> u64 {
    (bytes.div_ceil(CONTENT_BYTES) + 1) as u64
}

fn push(content: &mut Zeroizing<Vec<u8>>, record: &[u8]) -> io::Result<()> {
    let length = u32::try_from(record.len()).ok().filter(|length| *length as usize <= BATCH_BYTES);
    let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
    // Grown anew, so that no copy stays behind.
    if content.capacity() - content.len() < LENGTH_BYTES + record.len() {
        let room = (content.len() + LENGTH_BYTES + record.len()).next_power_of_two();
        let mut grown = Zeroizing::new(Vec::with_capacity(room));
        grown.extend_from_slice(content);
        *content = grown;
    }
    content.extend(length.to_le_bytes());
    content.extend_from_slice(record);
    Ok(())
}

/// Whether a batch is made of records.
fn split(content: &[u8], records: &mut Vec<Zeroizing<Vec<u8>>>) -> bool {
    let mut rest = content;
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((record, behind)) = behind.split_at_checked(length) else { return false };
        records.push(Zeroizing::new(record.to_vec()));
        rest = behind;
    }
    rest.is_empty()
}

fn noise(chunks: u64) -> Vec<u8> {
    // A file has at most 256 MiB.
    let mut noise = vec![0; chunks as usize * CHUNK_BYTES];
    rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut noise);
    noise
}

/// Any bytes as the log of a key that everybody has.
#[cfg(test)]
pub(crate) fn read(path: &Path) -> io::Result<Vec<Zeroizing<Vec<u8>>>> {
    SealedLog::open(path, &[7; KEY_BYTES], b"test", true).map(|opened| opened.records)
}
