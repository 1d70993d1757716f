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
pub(crate) fn check(directory: &Path) -> Result<Summary, LogError> {
    walk(directory, |_| {})
}

/// The rounds in the log of a directory, which is checked.
///
/// # Errors
/// [`LogError`] with the first thing that is wrong.
pub(crate) fn rounds(directory: &Path) -> Result<BTreeMap<Round, LoggedRound>, LogError> {
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

pub(crate) fn summarise(disk: &dyn Disk, mut visit: impl FnMut(&Record)) -> Result<Summary, LogError> {
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

#[cfg(test)]
mod tests {
    use sotto_protocol::deposit::BOX_BYTES;
    use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

    use crate::data::DataDirectory;
    use crate::log::{RoundLog, Verbs};

    const ROUND: Round = Round(5);

    fn deposits(labels: core::ops::Range<u8>) -> Vec<Deposit> {
        labels
            .map(|label| Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) })
            .collect()
    }

    /// A node that led may have written deposits for a round that another one has sealed before they counted.
    #[tokio::test]
    async fn deposits_that_were_refused_are_no_fault_of_a_log_and_in_no_round() {
        let data = tempfile::tempdir().unwrap();
        let log = DataDirectory::open(data.path(), None).unwrap().split().2.open().await.unwrap();
        log.open(ROUND).await.unwrap();
        log.append(ROUND, deposits(1..9), Vec::new(), None).await.unwrap();
        log.seal(ROUND, [1; 32], None, UnixMillis(1)).await.unwrap();
        assert!(log.append(ROUND, deposits(9..12), Vec::new(), None).await.is_err());
        log.close().await;
        assert_eq!(crate::check_log(data.path()).unwrap().deposits, 8);
        assert_eq!(crate::read_log(data.path()).unwrap()[&ROUND].deposits.len(), 8);
    }
}
