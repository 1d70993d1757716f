//! Reading a log whose server does not run.

use std::collections::BTreeMap;
use std::path::Path;

use openraft::EntryPayload;
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::{Deposit, Round};

use super::Disk;
use super::disk::Directory;
use super::error::LogError;
use super::record::{self, Record};
use super::state::State;
use super::store::read;

/// What a log holds, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files of entries.
    pub segments: u64,
    /// Their sizes.
    pub bytes: u64,
    /// Entries in them.
    pub entries: u64,
    /// Deposits in them.
    pub deposits: u64,
    /// Rounds that are not retired.
    pub rounds: u64,
    /// Accounts that are known.
    pub accounts: u64,
    /// Registration tokens that are spent.
    pub tokens: u64,
    /// The highest number of a round that was ever opened.
    pub newest: Option<Round>,
    /// Index of the last entry.
    pub last: Option<u64>,
    /// Nodes that have a vote in the group of the log.
    pub voters: u64,
    /// Bytes behind the last whole append, which the next start cuts off. A crash leaves such an end, and then nobody was
    /// ever told that it is stored; a copy that was cut short has one as well.
    pub torn: u64,
}

/// A round, as far as its entries are still there; it may be retired.
#[derive(Clone, Debug, Default)]
pub struct LoggedRound {
    /// Whether it is closed to deposits.
    pub sealed: Option<[u8; 32]>,
    /// Under what it can be, or could be, retrieved.
    pub manifest: Option<SignedManifest>,
    /// Its deposits.
    pub deposits: Vec<Deposit>,
}

/// Reads and checks every byte of the log in a directory, and changes nothing.
///
/// # Errors
/// [`LogError`] with the first thing that is wrong.
pub fn check(directory: &Path) -> Result<Summary, LogError> {
    walk(directory, |_| {})
}

/// The rounds in the log of a directory, which is checked.
///
/// # Errors
/// [`LogError`] with the first thing that is wrong.
pub fn rounds(directory: &Path) -> Result<BTreeMap<Round, LoggedRound>, LogError> {
    let mut rounds: BTreeMap<Round, LoggedRound> = BTreeMap::new();
    walk(directory, |record| match record {
        Record::Deposits(round, deposits) => {
            rounds.entry(*round).or_default().deposits.extend(record::split(deposits));
        }
        Record::Seal(round, seed, _) => rounds.entry(*round).or_default().sealed = Some(*seed),
        Record::Publish(round, manifest) => {
            rounds.entry(*round).or_default().manifest = Some((**manifest).clone());
        }
        Record::Open(_)
        | Record::Accounts(_)
        | Record::Closed(_)
        | Record::Vacant(_)
        | Record::Begun(_)
        | Record::Retire(_)
        | Record::Spent(_)
        | Record::Lots(_)
        | Record::Directory(_)
        | Record::Announced(_)
        | Record::Table(..)
        | Record::FormerPublish(..) => {}
    })?;
    Ok(rounds)
}

fn walk(directory: &Path, visit: impl FnMut(&Record)) -> Result<Summary, LogError> {
    let disk = Directory::read_only(directory).map_err(LogError::file("the directory", "open"))?;
    summarise(&disk, visit)
}

/// What the log on a disk holds, of which nothing is changed; and hands over each record.
///
/// # Errors
/// [`LogError`], also of a log that is damaged.
pub fn summarise(disk: &dyn Disk, mut visit: impl FnMut(&Record)) -> Result<Summary, LogError> {
    let mut summary = Summary::default();
    let mut state: Option<State> = None;
    let mut deposits: BTreeMap<Round, u64> = BTreeMap::new();
    let found = read(disk, &mut |snapshot, entry| {
        summary.entries += 1;
        let state = state
            .get_or_insert_with(|| snapshot.map_or_else(State::default, |snapshot| snapshot.state.clone()));
        // What came too late, for instance from a node that led before, stands in the log and changes nothing.
        let refused = Some(entry.log_id) > state.applied && state.apply(&entry).refused.is_some();
        if let EntryPayload::Normal(batch) = &entry.payload
            && !refused
        {
            for record in &batch.0 {
                visit(record);
                if let Record::Deposits(round, bytes) = record {
                    *deposits.entry(*round).or_default() += record::split(bytes).count() as u64;
                }
            }
        }
    })?;
    let state = state.or(found.snapshot.map(|snapshot| snapshot.state)).unwrap_or_default();
    for (round, stored) in state.rounds.iter().filter(|(_, round)| !round.gone) {
        if deposits.get(round).copied().unwrap_or(0) != stored.deposits {
            return Err(LogError::Refused("a round has lost deposits"));
        }
    }
    summary.deposits = deposits.values().sum();
    summary.segments = found.segments.len() as u64;
    summary.bytes = found.segments.iter().map(|segment| segment.bytes).sum();
    summary.rounds = state.rounds().count() as u64;
    summary.accounts = state.accounts.len() as u64;
    summary.tokens = state.tokens.len() as u64;
    summary.voters = state.membership.membership().voter_ids().count() as u64;
    summary.newest = state.newest();
    summary.last = found.last.map(|last| last.index);
    summary.torn = found.torn.map_or(0, |torn| torn.bytes);
    Ok(summary)
}
