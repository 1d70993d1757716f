//! The file of a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use sotto_log::{Disk, DiskFile, is_of_a_log, summarise};
use tar::{EntryType, Header};

use super::{About, BYTES_MAX, BackupError, LOG, NAMES, VERSION, is_of_keys};
use crate::Summary;

const ABOUT: &str = "sotto-backup";
const SUMS: &str = "SHA256SUMS";
/// Most files: a log of 4 TiB has as many segments.
const FILES_MAX: usize = 1 << 16;
/// Longest list of their sums.
const SUMS_MAX: u64 = 8 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// Writes one.
pub(super) struct Archive<W: Write> {
    tar: tar::Builder<W>,
    sums: String,
}

impl<W: Write> Archive<W> {
    pub(super) fn begin(out: W, made_ms: u64) -> io::Result<Self> {
        let mut archive = Self { tar: tar::Builder::new(out), sums: String::new() };
        let about = About { version: VERSION, program: env!("CARGO_PKG_VERSION").to_owned(), made_ms };
        let about = serde_json::to_vec(&about)?;
        archive.add(ABOUT, about.len() as u64, about.as_slice())?;
        Ok(archive)
    }

    /// Adds a file of exactly so many bytes.
    pub(super) fn add(&mut self, name: &str, bytes: u64, content: impl Read) -> io::Result<()> {
        let mut content = Summed { content, sum: Sha256::new(), bytes: 0 };
        self.put(name, bytes, &mut content)?;
        if content.bytes != bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file has become shorter"));
        }
        let sum = HEXLOWER.encode(&content.sum.finalize());
        self.sums.push_str(&format!("{sum}  {name}\n"));
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let sums = core::mem::take(&mut self.sums);
        self.put(SUMS, sums.len() as u64, sums.as_bytes())?;
        self.tar.into_inner()?.flush()
    }

    fn put(&mut self, name: &str, bytes: u64, content: impl Read) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_size(bytes);
        self.tar.append_data(&mut header, name, content.take(bytes))
    }
}

struct Summed<R> {
    content: R,
    sum: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.sum.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A backup that is whole, and what is in it.
pub(crate) struct Checked {
    /// Of the log in it.
    pub(crate) summary: Summary,
    /// Of all of it.
    pub(crate) bytes: u64,
    /// Whether it is of a node of a cluster, if only of one.
    pub(crate) is_of_cluster: bool,
    pub(super) files: BTreeMap<String, Part>,
}

/// A file in an archive. Reading begins at its start.
#[derive(Clone)]
pub(super) struct Part {
    archive: Arc<File>,
    begin: u64,
    pub(super) bytes: u64,
    at: u64,
}

/// Reads and checks every byte of a backup.
///
/// # Errors
/// [`BackupError`] with the first thing that is wrong.
pub(crate) fn check(path: &Path) -> Result<Checked, BackupError> {
    let file = |source| BackupError::File { path: path.to_owned(), source };
    let archive = Arc::new(File::open(path).map_err(file)?);
    let bytes = archive.metadata().map_err(file)?.len();
    let damaged = |what| BackupError::Damaged { path: path.to_owned(), what };
    let mut files =
        list(&archive).map_err(|what| damaged(what.unwrap_or("it ends early, or is no backup")))?;
    let sums = files.remove(SUMS).ok_or_else(|| damaged("its end is missing, or it is no backup"))?;
    let sums = sums.read_all(SUMS_MAX).map_err(file)?.ok_or_else(|| damaged("its sums are too long"))?;
    let sums = String::from_utf8(sums).map_err(|_| damaged("its sums cannot be read"))?;
    let mut unlisted: BTreeSet<&String> = files.keys().collect();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(|| damaged("its sums cannot be read"))?;
        let (name, part) = files.get_key_value(name).ok_or_else(|| damaged("a file is missing"))?;
        if !unlisted.remove(name) || HEXLOWER.encode(&part.sum().map_err(file)?) != sum {
            return Err(damaged("the checksum of a file does not hold"));
        }
    }
    if !unlisted.is_empty() {
        return Err(damaged("a file has no checksum"));
    }
    let about = files.remove(ABOUT).ok_or_else(|| damaged("it does not say what it is of"))?;
    let about = about.read_all(BYTES_MAX).map_err(file)?.unwrap_or_default();
    let about: About =
        serde_json::from_slice(&about).map_err(|_| damaged("it does not say what it is of"))?;
    if about.version != VERSION {
        return Err(damaged("it is of another version of backups"));
    }
    if !files.contains_key("identity") {
        return Err(damaged("the keys are missing"));
    }
    let log = |source| BackupError::DamagedLog { path: path.to_owned(), source };
    let mut summary = summarise(&Parts(files.clone()), |_| {}).map_err(log)?;
    let mut is_of_cluster = false;
    if let Some(cluster) = files.get("cluster") {
        // A log that is empty knows of no node, and its node may have begun to vote since.
        let text = cluster.read_all(BYTES_MAX).map_err(file)?.unwrap_or_default();
        let nodes = String::from_utf8(text).ok().and_then(|text| listed_nodes(&text));
        summary.voters =
            summary.voters.max(nodes.ok_or_else(|| damaged("its list of nodes cannot be read"))?);
        is_of_cluster = true;
    }
    Ok(Checked { summary, bytes, is_of_cluster, files })
}

/// How many nodes a list of them has.
fn listed_nodes(text: &str) -> Option<u64> {
    let cluster: toml::Table = toml::from_str(text).ok()?;
    Some(cluster.get("members")?.as_array()?.len() as u64)
}

/// The files of an archive, if all are what a backup has, or what is wrong; `None` if the archive cannot be read.
fn list(archive: &Arc<File>) -> Result<BTreeMap<String, Part>, Option<&'static str>> {
    let mut files = BTreeMap::new();
    let mut reader = tar::Archive::new(&**archive);
    let mut is_last = false;
    for entry in reader.entries_with_seek().map_err(|_| None)? {
        let entry = entry.map_err(|_| None)?;
        if is_last {
            return Err(Some("there is something behind its end"));
        }
        let name = entry.path_bytes();
        let name = core::str::from_utf8(&name).map_err(|_| Some("it has a file that is none of a backup"))?;
        is_last = name == SUMS;
        let is_ours = is_last || name == ABOUT || is_restored(name);
        if !is_ours || entry.header().entry_type() != EntryType::Regular || files.len() >= FILES_MAX {
            return Err(Some("it has a file that is none of a backup"));
        }
        let part = Part {
            archive: Arc::clone(archive),
            begin: entry.raw_file_position(),
            bytes: entry.size(),
            at: 0,
        };
        if files.insert(name.to_owned(), part).is_some() {
            return Err(Some("it has a file twice"));
        }
    }
    Ok(files)
}

/// Whether a file of this name belongs into a data directory.
fn is_restored(name: &str) -> bool {
    NAMES.contains(&name) || is_of_keys(name) || name.strip_prefix(LOG).is_some_and(is_of_a_log)
}

impl Part {
    fn read_all(&self, most: u64) -> io::Result<Option<Vec<u8>>> {
        if self.bytes > most {
            return Ok(None);
        }
        let mut content = Vec::new();
        self.clone().read_to_end(&mut content)?;
        Ok(Some(content))
    }

    fn sum(&self) -> io::Result<[u8; 32]> {
        let (mut part, mut sum, mut chunk) = (self.clone(), Sha256::new(), vec![0; CHUNK]);
        loop {
            match part.read(&mut chunk)? {
                0 => return Ok(sum.finalize().into()),
                read => sum.update(chunk.get(..read).unwrap_or_default()),
            }
        }
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes - self.at).unwrap_or(usize::MAX);
        let (buffer, _) = buffer.split_at_mut(left.min(buffer.len()));
        // Where an archive ends early, so does what is said of it.
        self.archive.read_exact_at(buffer, self.begin + self.at)?;
        self.at += buffer.len() as u64;
        Ok(buffer.len())
    }
}

/// The log in a backup. Nothing of it changes.
struct Parts(BTreeMap<String, Part>);

fn unchanged<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a backup is not written to"))
}

impl Disk for Parts {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().filter_map(|name| name.strip_prefix(LOG)).map(str::to_owned).collect())
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        match self.0.get(&format!("{LOG}{name}")) {
            Some(part) if !create => Ok(Box::new(part.clone())),
            _ => unchanged(),
        }
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unchanged()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unchanged()
    }

    fn sync_names(&self) -> io::Result<()> {
        unchanged()
    }
}

impl DiskFile for Part {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.archive.read_exact_at(buffer, self.begin + offset)
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        unchanged()
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        unchanged()
    }

    fn sync(&mut self) -> io::Result<()> {
        unchanged()
    }
}
