//! A disk in memory that crashes where it is told to, and keeps of what was not synced what a real one might.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::disk::{Disk, DiskFile};

const SECTOR: usize = 512;

/// Clones are the same disk.
#[derive(Clone, Default)]
pub struct Simulated(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<Naming>,
    files: BTreeMap<u64, Content>,
    trace: Vec<String>,
    crash_at: Option<usize>,
    crashed: bool,
    observer: Option<Observer>,
}

/// Is told every operation that changes anything, and whether the disk has crashed in it.
type Observer = Arc<dyn Fn(&str, bool) + Send + Sync>;

#[derive(Clone)]
enum Naming {
    Put(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

struct OpenFile {
    disk: Simulated,
    name: String,
    file: u64,
}

impl Simulated {
    fn with<T>(&self, operation: impl FnOnce(&mut Inner) -> T) -> T {
        operation(&mut self.0.lock().unwrap())
    }

    /// From now on, the operation with this number fails, and so does everything after it.
    pub fn crash_at(&self, operation: Option<usize>) {
        self.with(|inner| inner.crash_at = operation);
    }

    /// Has every operation told that changes anything, and whether the disk has crashed in it.
    pub fn observe(&self, observer: impl Fn(&str, bool) + Send + Sync + 'static) {
        self.with(|inner| inner.observer = Some(Arc::new(observer)));
    }

    /// Whether it has.
    pub fn crashed(&self) -> bool {
        self.with(|inner| inner.crashed)
    }

    /// All operations that change anything, so far.
    pub fn trace(&self) -> Vec<String> {
        self.with(|inner| inner.trace.clone())
    }

    /// What is found after a crash: what was synced, and of all else any beginning, of which the last write is torn.
    pub fn survivor(&self, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        self.with(|inner| {
            let mut names = inner.durable_names.clone();
            let kept = rng.random_range(0..=inner.pending_names.len());
            inner.pending_names[..kept].iter().for_each(|naming| naming.apply(&mut names));
            let mut files = BTreeMap::new();
            for file in names.values() {
                let now = inner.files[file].survive(&mut rng);
                files.insert(*file, Content { durable: now.clone(), now, pending: Vec::new() });
            }
            let inner = Inner { durable_names: names.clone(), names, files, ..Inner::default() };
            Self(Arc::new(Mutex::new(inner)))
        })
    }

    /// What the next process finds if this one is killed and the machine goes on: everything that was written, though
    /// what was not synced can still be lost.
    pub fn after_kill(&self) -> Self {
        self.with(|inner| {
            let inner = Inner {
                names: inner.names.clone(),
                durable_names: inner.durable_names.clone(),
                pending_names: inner.pending_names.clone(),
                files: inner.files.clone(),
                ..Inner::default()
            };
            Self(Arc::new(Mutex::new(inner)))
        })
    }

    /// The names and sizes of all files.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> Vec<(String, usize)> {
        self.with(|inner| {
            inner.names.iter().map(|(name, file)| (name.clone(), inner.files[file].now.len())).collect()
        })
    }

    /// Flips a bit behind everybody's back.
    #[cfg(test)]
    pub(crate) fn flip(&self, name: &str, bit: usize) {
        self.with(|inner| {
            let file = inner.names[name];
            let content = inner.files.get_mut(&file).unwrap();
            content.now[bit / 8] ^= 1 << (bit % 8);
            content.durable.clone_from(&content.now);
        });
    }
}

impl Inner {
    /// Counts an operation; an error if the disk has crashed. One that crashes the disk may still have had its effect.
    fn operate(&mut self, what: String, effect: impl FnOnce(&mut Self)) -> io::Result<()> {
        if self.crashed {
            return Err(io::Error::other("the disk has crashed"));
        }
        self.crashed = self.crash_at.is_some_and(|at| self.trace.len() >= at);
        if let Some(observer) = &self.observer {
            observer(&what, self.crashed);
        }
        self.trace.push(what);
        if self.crashed {
            effect(self);
            return Err(io::Error::other("the disk crashes"));
        }
        effect(self);
        Ok(())
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.pending_names.push(naming);
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Put(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to) => {
                let file = names.remove(from).unwrap();
                names.insert(to.clone(), file);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Content {
    fn survive(&self, rng: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let kept = rng.random_range(0..=self.pending.len());
        self.pending[..kept].iter().for_each(|change| change.apply(&mut bytes));
        if let Some(Change::Write(offset, written)) = self.pending.get(kept) {
            if rng.random() {
                let part = rng.random_range(0..=written.len());
                Change::Write(*offset, written[..part].to_vec()).apply(&mut bytes);
            } else {
                // Its sectors reached the disk in any order.
                Change::Write(*offset, written.clone()).apply(&mut bytes);
                let end = bytes.len();
                let mut start = *offset;
                while start < end {
                    let next = end.min((start / SECTOR + 1) * SECTOR);
                    if rng.random() {
                        bytes[start..next].fill(0);
                    }
                    start = next;
                }
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, written) => {
                bytes.resize(bytes.len().max(offset + written.len()), 0);
                bytes[*offset..offset + written.len()].copy_from_slice(written);
            }
            Self::Truncate(length) => bytes.truncate(*length),
        }
    }
}

impl Disk for Simulated {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|inner| inner.names.keys().cloned().collect()))
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        self.with(|inner| {
            if create {
                let file = inner.files.last_key_value().map_or(0, |(newest, _)| newest + 1);
                inner.files.insert(file, Content::default());
                inner.operate(format!("create {name}"), |inner| {
                    inner.name(Naming::Put(name.to_owned(), file));
                })?;
            }
            let file = *inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
            Ok(Box::new(OpenFile { disk: self.clone(), name: name.to_owned(), file }) as Box<dyn DiskFile>)
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let naming = Naming::Rename(from.to_owned(), to.to_owned());
        self.with(|inner| inner.operate(format!("rename {from} {to}"), |inner| inner.name(naming)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let naming = Naming::Remove(name.to_owned());
        self.with(|inner| inner.operate(format!("remove {name}"), |inner| inner.name(naming)))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.with(|inner| {
            inner.operate("sync names".to_owned(), |inner| {
                if !inner.crashed {
                    inner.durable_names.clone_from(&inner.names);
                    inner.pending_names.clear();
                }
            })
        })
    }
}

impl OpenFile {
    fn change(&self, what: String, change: Change) -> io::Result<()> {
        self.disk.with(|inner| {
            inner.operate(what, |inner| {
                let content = inner.files.get_mut(&self.file).unwrap();
                change.apply(&mut content.now);
                content.pending.push(change);
            })
        })
    }
}

impl DiskFile for OpenFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.with(|inner| inner.files[&self.file].now.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        self.disk.with(|inner| {
            let bytes = inner.files[&self.file].now.get(offset..offset + buffer.len());
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let what = format!("write {} {offset} {:08x}", self.name, crc32c::crc32c(bytes));
        self.change(what, Change::Write(offset as usize, bytes.to_vec()))
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.change(format!("truncate {} {bytes}", self.name), Change::Truncate(bytes as usize))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.with(|inner| {
            inner.operate(format!("sync {}", self.name), |inner| {
                if !inner.crashed {
                    let content = inner.files.get_mut(&self.file).unwrap();
                    content.durable.clone_from(&content.now);
                    content.pending.clear();
                }
            })
        })
    }
}
