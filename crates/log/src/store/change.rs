//! Everything that changes files. Each step leaves them so that a crash right after it is recovered from.

use std::collections::VecDeque;
use std::sync::Arc;

use super::recovery::{Found, encode_vote, read};
use super::{Location, Opened, Options, Segment, SnapshotSummary, Store, VOTE};
use crate::disk::{Disk, DiskFile, replace};
use crate::entry::{Entry, LogId, Vote, encode, put_optional_log_id};
use crate::error::LogError;
use crate::snapshot::{self, Snapshot};
use crate::state::State;
use crate::{frame, segment};

/// Most bytes of entries in one append, unless a single entry is longer.
pub(crate) const APPEND_MAX: usize = 2 << 20;

impl Store {
    /// Opens the log of a directory, or begins one, and cuts off what a crash left of the last append.
    pub(crate) fn open(disk: Arc<dyn Disk>, mut options: Options) -> Result<(Self, Opened), LogError> {
        let mut found = read(&*disk, &mut |_, _| {})?;
        clean(&*disk, &found)?;
        if found.is_behind() && !options.grouped {
            return Err(LogError::corrupt(snapshot::NAME, 0, "the log ends before its snapshot"));
        }
        let (state, taken) = match found.snapshot.take() {
            Some(snapshot) => {
                let floor = snapshot.state.floor();
                (snapshot.state, Some(SnapshotSummary { floor }))
            }
            None => (State::default(), None),
        };
        let active = match found.segments.last() {
            Some(newest) => {
                let name = segment::name(newest.header.number);
                let mut file = disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
                // A process that was killed may have written what the machine can still lose. It counts from here on,
                // and the next append may go to another file.
                file.sync().map_err(LogError::file(&name, "sync"))?;
                disk.sync_names().map_err(LogError::file("the directory", "sync"))?;
                file
            }
            None => {
                let first = state.next_index().max(found.first);
                let (segment, file) = create(&*disk, &mut options, 1, first)?;
                found.segments.push(segment);
                found.first = first;
                file
            }
        };
        let opened = Opened {
            segments: found.segments.len(),
            bytes: found.segments.iter().map(|segment| segment.bytes).sum(),
            entries: found.places.len() as u64,
            torn: found.torn,
            state: state.clone(),
            root: options.root,
        };
        let Found { vote, segments, places, first, last, committed, .. } = found;
        let mut store = Self {
            disk,
            options,
            segments,
            active,
            places,
            first,
            last,
            committed: committed.max(state.applied),
            vote,
            snapshot: taken,
            purged: state.applied,
            recent: Vec::new(),
            failed: None,
        };
        if state.is_beyond(store.last) {
            // A crash came between a snapshot of another node and what followed.
            store.begin_behind(&state)?;
        }
        store.remove_unneeded()?;
        Ok((store, opened))
    }

    /// Adds entries behind the last one. When it returns, they are durable.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Result<(), LogError> {
        self.change(|store| {
            let mut waiting = VecDeque::from(entries);
            while !waiting.is_empty() {
                store.append_some(&mut waiting)?;
            }
            Ok(())
        })
    }

    pub(crate) fn save_vote(&mut self, vote: Vote) -> Result<(), LogError> {
        self.change(|store| {
            replace(&*store.disk, VOTE, &encode_vote(&vote)).map_err(LogError::file(VOTE, "replace"))?;
            store.vote = Some(vote);
            Ok(())
        })
    }

    /// Written down with the next append: if it is lost, the group finds out again.
    pub(crate) fn save_committed(&mut self, committed: Option<LogId>) {
        self.committed = committed;
    }

    /// Removes the entries from `index` on, which were never committed.
    pub(crate) fn truncate(&mut self, index: u64) -> Result<(), LogError> {
        self.change(|store| store.truncate_from(index))
    }

    /// Takes entries up to this one, which a snapshot covers, out of the log.
    pub(crate) fn purge(&mut self, upto: LogId) -> Result<(), LogError> {
        self.change(|store| {
            store.purged = store.purged.max(Some(upto));
            store.remove_unneeded()
        })
    }

    /// Makes a state the snapshot; returns its file.
    pub(crate) fn take_snapshot(&mut self, state: State) -> Result<Vec<u8>, LogError> {
        self.change(|store| store.replace_snapshot(&Snapshot { state }))
    }

    /// Takes over a snapshot of another node. If the log is shorter than that, nothing of it is needed any more, and it goes on
    /// behind the snapshot.
    pub(crate) fn adopt_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), LogError> {
        self.change(|store| {
            store.replace_snapshot(snapshot)?;
            if snapshot.state.is_beyond(store.last) { store.begin_behind(&snapshot.state) } else { Ok(()) }
        })
    }

    /// Removes all segments, and begins one behind a state.
    fn begin_behind(&mut self, state: &State) -> Result<(), LogError> {
        let number = self.newest().header.number + 1;
        for segment in &self.segments {
            let name = segment::name(segment.header.number);
            self.disk.remove(&name).map_err(LogError::file(&name, "remove"))?;
            // One after the other, so that a crash leaves no gap.
            self.disk.sync_names().map_err(LogError::file(&name, "remove"))?;
        }
        let (segment, file) = create(&*self.disk, &mut self.options, number, state.next_index())?;
        (self.segments, self.active) = (vec![segment], file);
        self.places.clear();
        self.recent.clear();
        self.first = state.next_index();
        (self.last, self.purged) = (state.applied, state.applied);
        self.committed = self.committed.max(state.applied);
        Ok(())
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T, LogError>) -> Result<T, LogError> {
        self.alive()?;
        let result = change(self);
        if let Err(error) = &result {
            // What is durable now is unknown, and only reading it all again can tell.
            self.failed = Some(error.clone());
        }
        result
    }

    fn append_some(&mut self, waiting: &mut VecDeque<Entry>) -> Result<(), LogError> {
        let mut payload = Vec::new();
        put_optional_log_id(&mut payload, self.committed.as_ref());
        let mut entries = Vec::new();
        while let Some(entry) = waiting.pop_front() {
            let next = self.next_index() + entries.len() as u64;
            if entry.log_id.index != next {
                return Err(LogError::Refused("an entry was to be appended out of order"));
            }
            let encoded = encode(&entry);
            if !entries.is_empty() && payload.len() + encoded.len() > APPEND_MAX {
                waiting.push_front(entry);
                break;
            }
            payload.extend_from_slice(&encoded);
            entries.push(entry);
        }
        if payload.len() > frame::PAYLOAD_MAX {
            return Err(LogError::Refused("an entry is too long"));
        }
        if self.newest().bytes >= self.options.segment_bytes {
            self.roll()?;
        }
        let (name, at) = (segment::name(self.newest().header.number), self.newest().bytes);
        let frame = frame::encode(self.newest().header.salt, &payload);
        self.active.write_at(at, &frame).map_err(LogError::file(&name, "write"))?;
        self.active.sync().map_err(LogError::file(&name, "sync"))?;
        let place = Location {
            segment: u32::try_from(self.newest().header.number)
                .map_err(|_| LogError::Refused("there are too many segments"))?,
            at: u32::try_from(at).map_err(|_| LogError::Refused("a segment is too long"))?,
            bytes: u32::try_from(frame.len()).map_err(|_| LogError::Refused("an entry is too long"))?,
        };
        if let Some(newest) = self.segments.last_mut() {
            newest.bytes += frame.len() as u64;
            newest.checksum = crc32c::crc32c_append(newest.checksum, &frame);
        }
        self.places.extend(entries.iter().map(|_| place));
        self.last = entries.last().map(|entry| entry.log_id).or(self.last);
        self.recent = entries;
        Ok(())
    }

    fn roll(&mut self) -> Result<(), LogError> {
        let (number, first) = (self.newest().header.number + 1, self.next_index());
        let (segment, file) = create(&*self.disk, &mut self.options, number, first)?;
        self.segments.push(segment);
        self.active = file;
        Ok(())
    }

    fn replace_snapshot(&mut self, snapshot: &Snapshot) -> Result<Vec<u8>, LogError> {
        let bytes = snapshot.encode();
        replace(&*self.disk, snapshot::NAME, &bytes).map_err(LogError::file(snapshot::NAME, "replace"))?;
        self.snapshot = Some(SnapshotSummary { floor: snapshot.state.floor() });
        Ok(bytes)
    }

    /// Removes the segments of which neither the log nor the snapshot's rounds need anything.
    fn remove_unneeded(&mut self) -> Result<(), LogError> {
        let Some(SnapshotSummary { floor }) = self.snapshot else { return Ok(()) };
        let needed = floor.min(self.purged.map_or(0, |purged| purged.index + 1));
        while let [oldest, second, ..] = &self.segments[..] {
            if second.header.first > needed {
                break;
            }
            let (name, first) = (segment::name(oldest.header.number), second.header.first);
            self.disk.remove(&name).map_err(LogError::file(&name, "remove"))?;
            // One after the other, so that a crash leaves no gap.
            self.disk.sync_names().map_err(LogError::file(&name, "remove"))?;
            self.segments.remove(0);
            let removed = usize::try_from(first - self.first).unwrap_or(usize::MAX);
            self.places.drain(..removed.min(self.places.len()));
            self.first = first;
        }
        Ok(())
    }

    fn truncate_from(&mut self, index: u64) -> Result<(), LogError> {
        if self.purged.is_some_and(|purged| index <= purged.index) {
            return Err(LogError::Refused("committed entries were to be removed"));
        }
        let Some(place) = self.place(index) else { return Ok(()) };
        while self.newest().header.number > u64::from(place.segment) {
            let name = segment::name(self.newest().header.number);
            self.disk.remove(&name).map_err(LogError::file(&name, "remove"))?;
            self.disk.sync_names().map_err(LogError::file(&name, "remove"))?;
            self.segments.pop();
        }
        // Entries of the same append that stay must never be missing, so the file is replaced as a whole.
        let name = segment::name(place.segment.into());
        self.active = self.disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
        let mut bytes = vec![0; place.at as usize];
        self.active.read_at(0, &mut bytes).map_err(LogError::file(&name, "read"))?;
        let kept: Vec<Entry> =
            self.read_frame(place)?.into_iter().filter(|entry| entry.log_id.index < index).collect();
        let mut frame_bytes = 0;
        if !kept.is_empty() {
            let mut payload = Vec::new();
            put_optional_log_id(&mut payload, self.committed.as_ref());
            kept.iter().for_each(|entry| payload.extend(encode(entry)));
            let frame = frame::encode(self.newest().header.salt, &payload);
            frame_bytes = frame.len() as u32;
            bytes.extend(frame);
        }
        replace(&*self.disk, &name, &bytes).map_err(LogError::file(&name, "replace"))?;
        self.active = self.disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
        if let Some(newest) = self.segments.last_mut() {
            newest.bytes = bytes.len() as u64;
            newest.checksum = crc32c::crc32c(&bytes);
        }
        let left = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        self.places.truncate(left);
        let count = self.places.len();
        for place in self.places.range_mut(count - kept.len().min(count)..) {
            place.bytes = frame_bytes;
        }
        self.recent.clear();
        self.last = match index.checked_sub(1).filter(|before| *before >= self.first) {
            Some(before) => Some(self.entry(before)?.log_id),
            None => self.purged,
        };
        Ok(())
    }
}

/// Removes what never became part of the log.
fn clean(disk: &dyn Disk, found: &Found) -> Result<(), LogError> {
    let mut remove: Vec<String> = found.leftovers.clone();
    if let Some(torn) = found.torn {
        let name = segment::name(torn.segment);
        if torn.at == 0 {
            remove.push(name);
        } else {
            let cut = LogError::file(&name, "cut");
            let mut file = disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
            file.truncate(torn.at).and_then(|()| file.sync()).map_err(cut)?;
        }
    }
    for name in &remove {
        disk.remove(name).map_err(LogError::file(name, "remove"))?;
    }
    if remove.is_empty() {
        Ok(())
    } else {
        disk.sync_names().map_err(LogError::file("the directory", "sync"))
    }
}

fn create(
    disk: &dyn Disk,
    options: &mut Options,
    number: u64,
    first: u64,
) -> Result<(Segment, Box<dyn DiskFile>), LogError> {
    let name = segment::name(number);
    let create = LogError::file(&name, "create");
    let salt = (options.salts)().map_err(LogError::file(&name, "draw a salt"))?;
    let header = segment::Header { number, first, salt };
    let bytes = header.encode();
    let file = (|| {
        let mut file = disk.open(&name, true)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.sync_names()?;
        Ok(file)
    })();
    let segment = Segment { header, bytes: bytes.len() as u64, checksum: crc32c::crc32c(&bytes) };
    Ok((segment, file.map_err(create)?))
}
