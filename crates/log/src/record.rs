//! What entries of the log change.

use core::fmt;

use bytes::Bytes;
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::manifest::{FormerManifest, MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, SignedDirectory, UnixMillis};
use sotto_wire::Announced;

use super::codec::{Malformed, Reader, put_count, take_ascending};
use crate::tenure::Tenure;

/// Most bytes of one kind of record in one entry.
pub(super) const ENTRY_MAX: usize = 512 << 10;
/// Deposits in an entry that is full.
const DEPOSITS_PER_ENTRY: usize = ENTRY_MAX / DEPOSIT_BYTES;
/// Accounts in an entry that is full.
const ACCOUNTS_PER_ENTRY: usize = ENTRY_MAX / 32;
/// Slots in an entry that is full.
const SLOTS_PER_ENTRY: usize = ENTRY_MAX / 8;
/// Spent tokens in an entry that is full.
const TOKENS_PER_ENTRY: usize = ENTRY_MAX / 16;

/// What a round's table is made of beside its deposits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSeal {
    /// Lots of slots that had been begun when the round was sealed.
    pub lots: u32,
    /// From which the boxes follow that fill the places without a deposit. Nobody who sees boxes may know it, so it is gone
    /// with the round.
    pub cover: [u8; 32],
}

// Whoever knows it tells cover from messages.
impl fmt::Debug for TableSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableSeal(..)")
    }
}

/// What tells one registration token from another.
pub type TokenId = [u8; 16];

/// One change. Deposits name no account: who sent one is stored nowhere.
#[derive(Clone, PartialEq, Eq)]
pub enum Record {
    /// A round takes deposits; its number is used up.
    Open(Round),
    /// Deposits for the open round, as they are sent, one behind the other.
    Deposits(Round, Bytes),
    /// Accounts that are not known yet, ascending.
    Accounts(Vec<Account>),
    /// A round takes no more.
    Seal(Round, [u8; 32], UnixMillis),
    /// A sealed round could be retrieved under this manifest, of an earlier version. Only logs from then have it.
    FormerPublish(Round, Box<FormerManifest>),
    /// A sealed round can be retrieved under this manifest.
    Publish(Round, Box<SignedManifest>),
    /// A round is forgotten.
    Retire(Round),
    /// So many lots of slots have been begun.
    Lots(u32),
    /// What the table of a round that is sealed with the next record is made of.
    Table(Round, TableSeal),
    /// Accounts that are no more, ascending. Whose slots are vacant then is said elsewhere and later.
    Closed(Vec<Account>),
    /// Slots that nobody has any more, ascending, with the numbers of their next tenures.
    Vacant(Vec<Tenure>),
    /// Tenures that have been begun, as lots are, ascending.
    Begun(Vec<Tenure>),
    /// Registration tokens that are spent, ascending. For which accounts is stored nowhere, and so they never share an
    /// entry with any.
    Spent(Vec<TokenId>),
    /// Where people find the nodes.
    Directory(Box<SignedDirectory>),
    /// What the server announces from now on: another manifest key.
    Announced(Box<Announced>),
}

// What people deposit is for nobody's logs.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Deposits(..) => "Deposits",
            Self::Accounts(_) => "Accounts",
            Self::Seal(..) => "Seal",
            Self::FormerPublish(..) => "FormerPublish",
            Self::Publish(..) => "Publish",
            Self::Retire(_) => "Retire",
            Self::Spent(_) => "Spent",
            Self::Closed(_) => "Closed",
            Self::Vacant(_) => "Vacant",
            Self::Begun(_) => "Begun",
            Self::Lots(_) => "Lots",
            Self::Table(..) => "Table",
            Self::Directory(_) => "Directory",
            Self::Announced(_) => "Announced",
        })
    }
}

/// The entries that store what came at one time: deposits of a round, and what goes with new accounts. Who came first is for nobody who reads the disk,
/// and what is refused because the round is over takes nothing else with it.
pub fn entries(
    round: Round,
    mut deposits: Vec<Deposit>,
    mut accounts: Vec<Account>,
    lots: Option<u32>,
    begun: Vec<Tenure>,
) -> (Vec<Vec<Record>>, Vec<Vec<Record>>) {
    deposits.sort_unstable_by(|a, b| (a.label, &a.sealed.0).cmp(&(b.label, &b.sealed.0)));
    accounts.sort_unstable();
    accounts.dedup();
    let deposits = deposits.chunks(DEPOSITS_PER_ENTRY);
    let deposits = deposits.map(|chunk| vec![Record::Deposits(round, join(chunk))]).collect();
    let mut others: Vec<Vec<Record>> =
        accounts.chunks(ACCOUNTS_PER_ENTRY).map(|chunk| vec![Record::Accounts(chunk.to_vec())]).collect();
    if let Some(lots) = lots {
        // An account comes to be known with the lot of its slot, or not at all.
        others.resize_with(others.len().max(1), Vec::new);
        others[0].insert(0, Record::Lots(lots));
        if !begun.is_empty() {
            others[0].insert(1, Record::Begun(begun));
        }
    }
    (deposits, others)
}

/// The records that say that accounts are no more.
pub fn closed(mut accounts: Vec<Account>) -> Vec<Vec<Record>> {
    accounts.sort_unstable();
    accounts.dedup();
    accounts.chunks(ACCOUNTS_PER_ENTRY).map(|chunk| vec![Record::Closed(chunk.to_vec())]).collect()
}

/// The record that says that these are in use.
pub fn in_use(slots: Vec<Tenure>) -> Vec<Vec<Record>> {
    slots.chunks(SLOTS_PER_ENTRY).map(|chunk| vec![Record::Begun(chunk.to_vec())]).collect()
}

/// The records that say that nobody has these slots any more, which are ascending.
pub fn vacant(slots: Vec<Tenure>) -> Vec<Vec<Record>> {
    slots.chunks(SLOTS_PER_ENTRY).map(|chunk| vec![Record::Vacant(chunk.to_vec())]).collect()
}

/// The records that mark tokens as spent, for ever. Nothing says who spent them, or in which order.
pub fn spent(mut tokens: Vec<TokenId>) -> Vec<Vec<Record>> {
    tokens.sort_unstable();
    tokens.dedup();
    tokens.chunks(TOKENS_PER_ENTRY).map(|chunk| vec![Record::Spent(chunk.to_vec())]).collect()
}

/// What one entry changes, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(pub Vec<Record>);

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Batch {
    /// Whether a node that reads it takes it for what was written.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_read_again(&self) -> bool {
        let mut written = Vec::new();
        self.encode(&mut written);
        Self::decode(&mut Reader::new(&written)).as_ref() == Ok(self)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.0.len());
        for record in &self.0 {
            record.encode(out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        // A record is at least its kind and a number.
        let records = reader.count(5)?;
        (0..records).map(|_| Record::decode(reader)).collect::<Result<_, _>>().map(Self)
    }
}

impl Record {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut start = |kind: u8, round: &Round| {
            out.push(kind);
            out.extend_from_slice(&round.0.to_le_bytes());
        };
        match self {
            Self::Open(round) => start(1, round),
            Self::Deposits(round, deposits) => {
                start(2, round);
                put_count(out, deposits.len() / DEPOSIT_BYTES);
                out.extend_from_slice(deposits);
            }
            Self::Accounts(accounts) => {
                out.push(3);
                put_count(out, accounts.len());
                out.extend_from_slice(accounts.as_flattened());
            }
            Self::Seal(round, seed, at) => {
                start(4, round);
                out.extend_from_slice(seed);
                out.extend_from_slice(&at.0.to_le_bytes());
            }
            Self::FormerPublish(round, manifest) => {
                start(if manifest.version() == 1 { 5 } else { 8 }, round);
                put_former(out, manifest);
            }
            Self::Publish(round, manifest) => {
                start(9, round);
                put_manifest(out, manifest);
            }
            Self::Retire(round) => start(6, round),
            Self::Lots(lots) => {
                out.push(10);
                out.extend_from_slice(&lots.to_le_bytes());
            }
            Self::Table(round, table) => {
                start(11, round);
                table.encode(out);
            }
            Self::Announced(announced) => {
                out.push(12);
                put_announced(out, announced);
            }
            Self::Spent(tokens) => {
                out.push(7);
                put_count(out, tokens.len());
                out.extend_from_slice(tokens.as_flattened());
            }
            Self::Directory(directory) => {
                out.push(13);
                put_directory(out, directory);
            }
            Self::Closed(accounts) => {
                out.push(14);
                put_count(out, accounts.len());
                out.extend_from_slice(accounts.as_flattened());
            }
            Self::Vacant(slots) => {
                out.push(15);
                put_tenures(out, slots);
            }
            Self::Begun(slots) => {
                out.push(16);
                put_tenures(out, slots);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        match kind {
            3 => return Ok(Self::Accounts(take_ascending(reader)?)),
            7 => return Ok(Self::Spent(take_ascending(reader)?)),
            10 => return Ok(Self::Lots(reader.u32()?)),
            13 => return Ok(Self::Directory(Box::new(take_directory(reader)?))),
            12 => return Ok(Self::Announced(Box::new(take_announced(reader)?))),
            14 => return Ok(Self::Closed(take_ascending(reader)?)),
            15 => return Ok(Self::Vacant(take_tenures(reader)?)),
            16 => return Ok(Self::Begun(take_tenures(reader)?)),
            _ => {}
        }
        let round = Round(reader.u64()?);
        Ok(match kind {
            1 => Self::Open(round),
            2 => {
                let deposits = reader.count(DEPOSIT_BYTES)?;
                Self::Deposits(round, Bytes::copy_from_slice(reader.take(deposits * DEPOSIT_BYTES)?))
            }
            4 => Self::Seal(round, reader.array()?, UnixMillis(reader.u64()?)),
            5 => Self::FormerPublish(round, Box::new(take_former(reader, 1)?)),
            8 => Self::FormerPublish(round, Box::new(take_former(reader, 2)?)),
            9 => Self::Publish(round, Box::new(take_manifest(reader)?)),
            6 => Self::Retire(round),
            11 => Self::Table(round, TableSeal::decode(reader)?),
            _ => return Err(Malformed("a record is of no known kind")),
        })
    }
}

impl TableSeal {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lots.to_le_bytes());
        out.extend_from_slice(&self.cover);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { lots: reader.u32()?, cover: reader.array()? })
    }
}

fn put_tenures(out: &mut Vec<u8>, tenures: &[Tenure]) {
    put_count(out, tenures.len());
    for tenure in tenures {
        out.extend_from_slice(&tenure.slot.to_le_bytes());
        out.extend_from_slice(&tenure.number.to_le_bytes());
    }
}

fn take_tenures(reader: &mut Reader<'_>) -> Result<Vec<Tenure>, Malformed> {
    let count = reader.count(8)?;
    (0..count).map(|_| Ok(Tenure { slot: reader.u32()?, number: reader.u32()? })).collect()
}

/// Deposits, one behind the other.
pub(super) fn join(deposits: &[Deposit]) -> Bytes {
    deposits.iter().flat_map(Deposit::encode).collect()
}

/// The deposits that [`join`] joined.
pub(super) fn split(deposits: &[u8]) -> impl Iterator<Item = Deposit> + '_ {
    // Their lengths are right by construction, both when made and when read.
    deposits.chunks_exact(DEPOSIT_BYTES).filter_map(|deposit| Deposit::decode(deposit).ok())
}

pub(super) const MANIFEST_RECORD_BYTES: usize = MANIFEST_BYTES + SIGNATURE_BYTES;

pub(super) fn put_manifest(out: &mut Vec<u8>, manifest: &SignedManifest) {
    out.extend_from_slice(&manifest.bytes);
    out.extend_from_slice(&manifest.signature);
}

pub(super) fn take_manifest(reader: &mut Reader<'_>) -> Result<SignedManifest, Malformed> {
    Ok(SignedManifest { bytes: reader.array()?, signature: reader.array()?, segment: None })
}

pub(super) fn put_directory(out: &mut Vec<u8>, directory: &SignedDirectory) {
    out.extend_from_slice(&*directory.bytes);
    out.extend_from_slice(&directory.signature);
}

pub(super) fn take_directory(reader: &mut Reader<'_>) -> Result<SignedDirectory, Malformed> {
    let bytes = reader.take(DIRECTORY_BYTES)?;
    SignedDirectory::from_parts(bytes, &reader.array::<SIGNATURE_BYTES>()?)
        .map_err(|_| Malformed("a directory of nodes is none"))
}

pub(super) fn put_announced(out: &mut Vec<u8>, announced: &Announced) {
    out.extend_from_slice(&announced.announcement);
    out.extend_from_slice(&announced.endorsement);
}

pub(super) fn take_announced(reader: &mut Reader<'_>) -> Result<Announced, Malformed> {
    Ok(Announced { announcement: reader.array()?, endorsement: reader.array()? })
}

pub(super) fn put_former(out: &mut Vec<u8>, manifest: &FormerManifest) {
    out.extend_from_slice(manifest.bytes());
    out.extend_from_slice(manifest.signature());
}

pub(super) fn take_former(reader: &mut Reader<'_>, version: u16) -> Result<FormerManifest, Malformed> {
    const UNKNOWN: Malformed = Malformed("a manifest is of no known version");
    let bytes = reader.take(FormerManifest::bytes_of(version).ok_or(UNKNOWN)?)?;
    FormerManifest::new(version, bytes, reader.array()?).map_err(|_| UNKNOWN)
}
