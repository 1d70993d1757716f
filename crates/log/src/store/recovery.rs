//! Reading a log from its beginning, as every start and every check does.

use std::collections::VecDeque;

use super::{Location, Segment, VOTE};
use crate::codec::{Malformed, Reader};
use crate::disk::{Disk, TEMPORARY, read_all};
use crate::entry::{Entry, LogId, Vote, decode_all, take_number};
use crate::error::LogError;
use crate::segment;
use crate::snapshot::{self, Snapshot};

/// What the files of a log hold. Nothing has been changed.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) vote: Option<Vote>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) segments: Vec<Segment>,
    pub(super) places: VecDeque<Location>,
    pub(super) first: u64,
    pub(crate) last: Option<LogId>,
    pub(super) committed: Option<LogId>,
    pub(crate) torn: Option<Torn>,
    /// Files that were not complete when they were to take the place of others.
    pub(super) leftovers: Vec<String>,
}

/// What a crash left of the last append. It was never acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    pub(crate) segment: u64,
    /// Where it begins; 0 if it is the whole segment.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// Is shown every entry, and the snapshot.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Option<&Snapshot>, Entry);

/// Reads and checks everything, and shows every entry to `visit`.
pub(crate) fn read(disk: &dyn Disk, visit: Visit<'_>) -> Result<Found, LogError> {
    let names = disk.names().map_err(LogError::file("the directory", "list"))?;
    let mut found = Found {
        leftovers: names.iter().filter(|name| name.ends_with(TEMPORARY)).cloned().collect(),
        ..Found::default()
    };
    let has = |name| names.iter().any(|other| other == name);
    if has(VOTE) {
        found.vote = Some(read_vote(disk)?);
    }
    if has(snapshot::NAME) {
        let decode = |bytes: Vec<u8>| Snapshot::decode(&bytes).map_err(malformed(snapshot::NAME));
        found.snapshot = read_snapshot(disk)?.map(decode).transpose()?;
    }
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    numbers.sort_unstable();
    for (at, number) in numbers.iter().enumerate() {
        found.read_segment(disk, *number, at + 1 == numbers.len(), visit)?;
    }
    if let Some(snapshot) = &found.snapshot
        && found.places.is_empty()
        && found.first == snapshot.state.next_index()
    {
        // All segments before the snapshot were removed, and nothing has been written since.
        found.last = snapshot.state.applied;
    }
    found.check()?;
    Ok(found)
}

impl Found {
    fn read_segment(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        newest: bool,
        visit: Visit<'_>,
    ) -> Result<(), LogError> {
        let name = segment::name(number);
        let corrupt = |at: usize, what| LogError::corrupt(&name, at as u64, what);
        let bytes = read_all(disk, &name, segment::BYTES_MAX).map_err(LogError::file(&name, "read"))?;
        let bytes = bytes.ok_or_else(|| corrupt(0, "the segment is longer than any"))?;
        let Some(scanned) = segment::scan(number, &bytes, newest)? else {
            self.torn = Some(Torn { segment: number, at: 0, bytes: bytes.len() as u64 });
            return Ok(());
        };
        let header = scanned.header;
        match self.segments.last() {
            None => self.first = header.first,
            Some(before) if before.header.number + 1 != number => {
                return Err(corrupt(0, "a segment before this one is missing"));
            }
            Some(_) => {}
        }
        if header.first != self.first + self.places.len() as u64 {
            return Err(corrupt(24, "entries before this segment are missing"));
        }
        let short = u32::try_from(number).map_err(|_| corrupt(16, "the segment's number is too high"))?;
        let mut ends = scanned.frames.iter().skip(1).map(|(at, _)| *at).chain([scanned.end]);
        for (at, payload) in &scanned.frames {
            let corrupt = |what| corrupt(*at, what);
            let (committed, entries) =
                decode_all(&payload.bytes()).map_err(|Malformed(what)| corrupt(what))?;
            let end = ends.next().unwrap_or(scanned.end);
            // A segment is shorter than 2^32 bytes.
            let place = Location { segment: short, at: *at as u32, bytes: (end - at) as u32 };
            for entry in entries {
                let expected = self.first + self.places.len() as u64;
                if entry.log_id.index != expected || self.last > Some(entry.log_id) {
                    return Err(corrupt("an entry does not follow the one before"));
                }
                self.places.push_back(place);
                self.last = Some(entry.log_id);
                visit(self.snapshot.as_ref(), entry);
            }
            self.committed = self.committed.max(committed);
        }
        let whole = &bytes[..scanned.end];
        self.segments.push(Segment { header, bytes: whole.len() as u64, checksum: crc32c::crc32c(whole) });
        if scanned.end < bytes.len() {
            let torn = (bytes.len() - scanned.end) as u64;
            self.torn = Some(Torn { segment: number, at: scanned.end as u64, bytes: torn });
        }
        Ok(())
    }

    /// Whether the log ends before its snapshot, as that of a node does that was about to go on behind another's.
    pub(crate) fn is_behind(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.state.is_beyond(self.last))
    }

    /// What the files say about each other.
    fn check(&self) -> Result<(), LogError> {
        let wrong = |file: &str, what| Err(LogError::corrupt(file, 0, what));
        let last_term = self.last.map_or(0, |last| last.leader_id.term);
        if self.vote.map_or(0, |vote| vote.leader_id.term) < last_term {
            return wrong(VOTE, "the vote is older than the log");
        }
        let Some(snapshot) = &self.snapshot else {
            if self.segments.is_empty() && self.vote.is_some() {
                return wrong("the directory", "all segments are missing");
            }
            return if self.first == 0 { Ok(()) } else { wrong(snapshot::NAME, "the snapshot is missing") };
        };
        if self.is_behind() {
            return Ok(());
        }
        if self.first > snapshot.state.floor() || self.first > snapshot.state.next_index() {
            return wrong(snapshot::NAME, "segments that the snapshot needs are missing");
        }
        Ok(())
    }
}

pub(super) fn read_snapshot(disk: &dyn Disk) -> Result<Option<Vec<u8>>, LogError> {
    let bytes = read_all(disk, snapshot::NAME, snapshot::BYTES_MAX);
    let bytes = bytes.map_err(LogError::file(snapshot::NAME, "read"))?;
    bytes.map(Some).ok_or_else(|| LogError::corrupt(snapshot::NAME, 0, "the snapshot is longer than any"))
}

/// ```text
/// magic "SVOT" | version, u32 | term, u64 | node, u64 | committed, u8 | CRC-32C of all before, u32
/// ```
pub(crate) fn encode_vote(vote: &Vote) -> Vec<u8> {
    let mut out = VOTE_MAGIC.to_vec();
    out.extend_from_slice(&VOTE_VERSION.to_le_bytes());
    out.extend_from_slice(&vote.leader_id.term.to_le_bytes());
    out.extend_from_slice(&vote.leader_id.node_id.to_le_bytes());
    out.push(vote.committed.into());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

const VOTE_MAGIC: [u8; 4] = *b"SVOT";
const VOTE_VERSION: u32 = 1;
const VOTE_BYTES: usize = 29;

fn read_vote(disk: &dyn Disk) -> Result<Vote, LogError> {
    let bytes = read_all(disk, VOTE, VOTE_BYTES as u64).map_err(LogError::file(VOTE, "read"))?;
    bytes.as_deref().map_or(Err(Malformed("it is too long")), decode_vote).map_err(malformed(VOTE))
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote, Malformed> {
    let mut reader = Reader::new(bytes);
    let checked = Reader::new(bytes).take(VOTE_BYTES - 4)?;
    if reader.array()? != VOTE_MAGIC || reader.u32()? != VOTE_VERSION {
        return Err(Malformed("this is no vote of version 1"));
    }
    let (term, node, committed) = (take_number(&mut reader)?, reader.u64()?, reader.flag()?);
    if reader.u32()? != crc32c::crc32c(checked) {
        return Err(Malformed("the checksum of the vote does not hold"));
    }
    reader.finish()?;
    Ok(if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

fn malformed(file: &str) -> impl FnOnce(Malformed) -> LogError {
    let file = file.to_owned();
    move |Malformed(what)| LogError::corrupt(&file, 0, what)
}
