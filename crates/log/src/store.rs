//! All files of a log. One thread owns this; after an error that may have left anything undone, it does nothing more.

mod change;
mod recovery;

use std::collections::VecDeque;
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;

use sotto_wire::RootKey;

use super::disk::{Disk, DiskFile};
use super::entry::{Entry, LogId, Vote, decode_all};
use super::error::LogError;
use super::state::State;
use super::{Size, frame, segment};

pub(super) use change::APPEND_MAX;
pub(super) use recovery::{Torn, read};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use recovery::{decode_vote, encode_vote};

/// The file of the vote.
pub(super) const VOTE: &str = "vote";

/// How a store is laid out.
pub struct Options {
    /// Bytes after which a new segment begins.
    pub segment_bytes: u64,
    /// Whether the log is that of a group of several nodes, of which one may go on behind the snapshot of another.
    pub grouped: bool,
    /// Who signs announcements that may stand in the log. Without, as for whoever only reads, all of them count that follow on each
    /// other.
    pub root: Option<RootKey>,
    /// Draws the salts of new segments, which nobody else must know.
    pub salts: Box<dyn FnMut() -> io::Result<u64> + Send>,
}

/// A log's files.
pub(super) struct Store {
    disk: Arc<dyn Disk>,
    options: Options,
    /// Without a gap, ascending; the last is written to.
    segments: Vec<Segment>,
    active: Box<dyn DiskFile>,
    /// Where the entries are, from `first` on.
    places: VecDeque<Location>,
    first: u64,
    last: Option<LogId>,
    /// What the group has committed, as far as this node has been told.
    committed: Option<LogId>,
    vote: Option<Vote>,
    snapshot: Option<SnapshotSummary>,
    /// Entries up to this one are no part of the log any more, though some are still read for their deposits.
    purged: Option<LogId>,
    /// The frame written or read last: most are asked for right after.
    recent: Vec<Entry>,
    failed: Option<LogError>,
}

/// A segment's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) header: segment::Header,
    pub(super) bytes: u64,
    /// CRC-32C of the whole file.
    pub(super) checksum: u32,
}

/// What the store needs to know of its snapshot.
struct SnapshotSummary {
    floor: u64,
}

/// Where an entry's frame is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    segment: u32,
    at: u32,
    bytes: u32,
}

/// What a log held when it was opened.
pub(super) struct Opened {
    /// The state of the snapshot, or of the beginning.
    pub(super) state: State,
    /// As in the options.
    pub(super) root: Option<RootKey>,
    pub(super) segments: usize,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) torn: Option<Torn>,
}

impl Store {
    pub(super) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(super) fn committed(&self) -> Option<LogId> {
        self.committed
    }

    /// The last entry that is no part of the log any more, and the last of all.
    pub(super) fn bounds(&self) -> (Option<LogId>, Option<LogId>) {
        (self.purged, self.last)
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(super) fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The snapshot's file.
    pub(super) fn snapshot(&self) -> Result<Option<Vec<u8>>, LogError> {
        self.alive()?;
        match self.snapshot {
            Some(_) => recovery::read_snapshot(&*self.disk),
            None => Ok(None),
        }
    }

    /// Entries of the log in a range of indices, from its beginning, until `most` bytes are read; at least one, if
    /// there is one.
    pub(super) fn entries(
        &mut self,
        range: impl RangeBounds<u64>,
        most: u64,
    ) -> Result<Vec<Entry>, LogError> {
        self.alive()?;
        let purged = self.purged.map_or(0, |purged| purged.index + 1);
        let (start, end) = bounds(range);
        let (start, end) = (start.max(purged), end.min(self.next_index()));
        let mut entries = Vec::new();
        let mut bytes = 0;
        for index in start..end {
            if bytes >= most {
                break;
            }
            entries.push(self.entry(index)?);
            bytes += self.place(index).map_or(0, |place| u64::from(place.bytes));
        }
        Ok(entries)
    }

    /// An entry that is still there, part of the log or not.
    pub(super) fn entry(&mut self, index: u64) -> Result<Entry, LogError> {
        self.alive()?;
        let find = |entries: &[Entry]| entries.iter().find(|entry| entry.log_id.index == index).cloned();
        if let Some(entry) = find(&self.recent) {
            return Ok(entry);
        }
        let place = self.place(index).ok_or(LogError::Refused("an entry that is not there was asked for"))?;
        self.recent = self.read_frame(place)?;
        find(&self.recent).ok_or_else(|| place.corrupt("an entry is not where it was written"))
    }

    pub(super) fn size(&self) -> Size {
        Size {
            segments: self.segments.len(),
            bytes: self.segments.iter().map(|segment| segment.bytes).sum(),
            entries: self.places.len(),
        }
    }

    /// Whether segments could be removed if the state with this floor were made a snapshot, and are together as long as
    /// a segment may become: every snapshot also completes the one that is written to, however short it is.
    pub(super) fn reclaimable(&self, floor: u64) -> bool {
        let freed = self.segments.windows(2).take_while(|pair| pair[1].header.first <= floor);
        freed.map(|pair| pair[0].bytes).sum::<u64>() >= self.options.segment_bytes
    }

    fn read_frame(&self, place: Location) -> Result<Vec<Entry>, LogError> {
        let name = segment::name(place.segment.into());
        let mut bytes = vec![0; place.bytes as usize];
        let read = LogError::file(&name, "read");
        let newest = self.newest();
        if newest.header.number == u64::from(place.segment) {
            self.active.read_at(place.at.into(), &mut bytes).map_err(read)?;
        } else {
            let file = self.disk.open(&name, false).map_err(LogError::file(&name, "open"))?;
            file.read_at(place.at.into(), &mut bytes).map_err(read)?;
        }
        let salt = self.segment(place.segment.into()).map_or(0, |segment| segment.header.salt);
        let payload = frame::reread(salt, &bytes).map_err(|what| place.corrupt(what))?;
        Ok(decode_all(&payload).map_err(|malformed| place.corrupt(malformed.0))?.1)
    }

    /// Whether it does nothing any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn alive(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn next_index(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    fn place(&self, index: u64) -> Option<Location> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.places.get(at).copied()
    }

    fn segment(&self, number: u64) -> Option<&Segment> {
        let first = self.segments.first()?.header.number;
        self.segments.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    fn newest(&self) -> &Segment {
        self.segments.last().expect("a store is opened with a segment, and never removes its last one")
    }
}

impl Location {
    fn corrupt(self, what: &'static str) -> LogError {
        LogError::corrupt(&segment::name(self.segment.into()), self.at.into(), what)
    }
}

fn bounds(range: impl RangeBounds<u64>) -> (u64, u64) {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    let start = match range.start_bound() {
        Included(start) => *start,
        Excluded(before) => before.saturating_add(1),
        Unbounded => 0,
    };
    let end = match range.end_bound() {
        Included(last) => last.saturating_add(1),
        Excluded(end) => *end,
        Unbounded => u64::MAX,
    };
    (start, end)
}
