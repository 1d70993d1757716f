//! Entries of the log as Raft knows them, and their encoding.
//!
//! ```text
//! payload of a frame   committed (25) | entries, each: length, u32 | term, u64 | node, u64 | index, u64 | kind, u8 | body
//! log id, optional     0, or 1 | term, u64 | node, u64 | index, u64; 25 bytes, zeros where there is none
//! ```
//!
//! `committed` is what the node knew to be committed when the frame was written: where replay may begin to apply without
//! asking anybody.

use std::collections::{BTreeMap, BTreeSet};

use openraft::impls::leader_id_adv;
use openraft::{BasicNode, EntryPayload};
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;

use super::codec::{Malformed, NONE_IS_ZERO, Reader, ascends, put_count};
use super::record::Batch;
use super::state::Applied;

openraft::declare_raft_types!(
    /// The types of the Raft group.
    pub TypeConfig:
        D = Batch,
        R = Applied,
        NodeId = u64,
        Node = BasicNode,
        LeaderId = LeaderId,
        AsyncRuntime = Runtime,
);

/// Tokio, whose tasks draw random numbers from the seed of the [scope](DeterministicRng::scope) they were begun in: openraft
/// spreads its ticks and elections by chance, and a simulation must repeat them.
pub(crate) type Runtime = DeterministicRng<TokioRuntime>;
/// Term and node: what identifies a leader on the disk, whether its entry is committed or not.
pub(crate) type LeaderId = leader_id_adv::LeaderId<u64, u64>;
/// Some [records](crate::Record) in the order of the log, or a change of members.
pub type Entry = openraft::Entry<LeaderId, EntryPayload<Batch, u64, BasicNode>>;
/// Where an entry is in the order, and in whose term it came there.
pub type LogId = openraft::LogId<LeaderId>;
/// For whom a node has voted.
pub type Vote = openraft::Vote<LeaderId>;
pub(super) type Membership = openraft::Membership<u64, BasicNode>;
pub(super) type StoredMembership = openraft::StoredMembership<LeaderId, u64, BasicNode>;

/// Most nodes of a group, and most configurations of a change of members.
const NODES_MAX: usize = 64;
/// Above all indices and terms there can be: who counts on from one below it never overflows.
pub(super) const NUMBER_END: u64 = 1 << 48;
/// Stands where there is none.
const NO_LOG_ID: LogId = log_id(0, 0, 0);
/// Longest address of a node.
const ADDRESS_MAX: usize = 256;

/// The place of an entry.
pub const fn log_id(term: u64, node_id: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id }, index }
}

/// An entry as segments hold it, with its length, and as nodes send it to each other.
pub fn encode(entry: &Entry) -> Vec<u8> {
    let mut out = vec![0; 4];
    put_log_id(&mut out, &entry.log_id);
    match &entry.payload {
        EntryPayload::Blank => out.push(0),
        EntryPayload::Normal(batch) => {
            out.push(1);
            batch.encode(&mut out);
        }
        EntryPayload::Membership(membership) => {
            out.push(2);
            put_membership(&mut out, membership);
        }
    }
    let length = u32::try_from(out.len() - 4).expect("entries are bounded far below 2^32 bytes");
    out[..4].copy_from_slice(&length.to_le_bytes());
    out
}

/// The entries in a frame's payload, and what was committed then.
pub(super) fn decode_all(payload: &[u8]) -> Result<(Option<LogId>, Vec<Entry>), Malformed> {
    let mut reader = Reader::new(payload);
    let committed = take_optional_log_id(&mut reader)?;
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let length = reader.u32()?;
        entries.push(decode(reader.take(length as usize)?)?);
    }
    Ok((committed, entries))
}

/// The entry that [`encode`] encoded.
pub fn decode_one(bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut reader = Reader::new(bytes);
    let length = reader.u32()?;
    let entry = decode(reader.take(length as usize)?)?;
    reader.finish()?;
    Ok(entry)
}

fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut reader = Reader::new(bytes);
    let log_id = take_log_id(&mut reader)?;
    let payload = match reader.u8()? {
        0 => EntryPayload::Blank,
        1 => EntryPayload::Normal(Batch::decode(&mut reader)?),
        2 => EntryPayload::Membership(take_membership(&mut reader)?),
        _ => return Err(Malformed("an entry is of no known kind")),
    };
    reader.finish()?;
    Ok(Entry { log_id, payload })
}

pub(super) fn put_log_id(out: &mut Vec<u8>, log_id: &LogId) {
    out.extend_from_slice(&log_id.leader_id.term.to_le_bytes());
    out.extend_from_slice(&log_id.leader_id.node_id.to_le_bytes());
    out.extend_from_slice(&log_id.index.to_le_bytes());
}

pub(super) fn take_log_id(reader: &mut Reader<'_>) -> Result<LogId, Malformed> {
    Ok(log_id(take_number(reader)?, reader.u64()?, take_number(reader)?))
}

/// An index or a term.
pub(super) fn take_number(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    check_number(reader.u64()?)
}

/// An index or a term, if there can be such a one.
pub fn check_number(number: u64) -> Result<u64, Malformed> {
    if number < NUMBER_END { Ok(number) } else { Err(Malformed("a number is higher than there can be")) }
}

pub(super) fn put_optional_log_id(out: &mut Vec<u8>, log_id: Option<&LogId>) {
    out.push(log_id.is_some().into());
    put_log_id(out, log_id.unwrap_or(&NO_LOG_ID));
}

pub(super) fn take_optional_log_id(reader: &mut Reader<'_>) -> Result<Option<LogId>, Malformed> {
    let some = reader.flag()?;
    let log_id = take_log_id(reader)?;
    if some || log_id == NO_LOG_ID { Ok(some.then_some(log_id)) } else { Err(NONE_IS_ZERO) }
}

pub(super) fn put_membership(out: &mut Vec<u8>, membership: &Membership) {
    put_count(out, membership.get_joint_config().len());
    for voters in membership.get_joint_config() {
        put_count(out, voters.len());
        voters.iter().for_each(|node| out.extend_from_slice(&node.to_le_bytes()));
    }
    put_count(out, membership.nodes().count());
    for (node, at) in membership.nodes() {
        out.extend_from_slice(&node.to_le_bytes());
        put_count(out, at.addr.len());
        out.extend_from_slice(at.addr.as_bytes());
    }
}

pub(super) fn take_membership(reader: &mut Reader<'_>) -> Result<Membership, Malformed> {
    let bounded = |count, most| if count <= most { Ok(count) } else { Err(Malformed("too many nodes")) };
    let mut configurations = Vec::new();
    for _ in 0..bounded(reader.count(4)?, NODES_MAX)? {
        let mut voters = BTreeSet::new();
        for _ in 0..bounded(reader.count(8)?, NODES_MAX)? {
            let node = reader.u64()?;
            ascends(voters.last(), &node)?;
            voters.insert(node);
        }
        configurations.push(voters);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..bounded(reader.count(12)?, NODES_MAX)? {
        let node = reader.u64()?;
        ascends(nodes.last_key_value().map(|(last, _)| last), &node)?;
        let bytes = bounded(reader.count(1)?, ADDRESS_MAX)?;
        let address =
            core::str::from_utf8(reader.take(bytes)?).map_err(|_| Malformed("an address is no text"))?;
        nodes.insert(node, BasicNode::new(address));
    }
    Membership::new(configurations, nodes)
        .map_err(|_| Malformed("a configuration has no voters, or one that is no node"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;
    use openraft::{BasicNode, EntryPayload};
    use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
    use sotto_protocol::{Round, UnixMillis};

    use super::{Entry, Membership, decode_all, encode, log_id, put_optional_log_id};
    use crate::record::{Batch, Record};

    fn entries() -> Vec<Entry> {
        let manifest =
            SignedManifest { bytes: [3; MANIFEST_BYTES], signature: [4; SIGNATURE_BYTES], segment: None };
        let records = vec![
            Record::Open(Round(7)),
            Record::Deposits(Round(7), Bytes::from(vec![5; 2 * 304])),
            Record::Accounts(vec![[1; 32], [2; 32]]),
            Record::Seal(Round(7), [9; 32], UnixMillis(1234)),
            Record::Publish(Round(7), Box::new(manifest)),
            Record::Retire(Round(7)),
            Record::Spent(vec![[3; 16], [4; 16]]),
        ];
        let nodes = BTreeMap::from([(1, BasicNode::new("a:1")), (2, BasicNode::new(""))]);
        let membership = Membership::new(vec![BTreeSet::from([1]), BTreeSet::from([1, 2])], nodes).unwrap();
        let payloads = [
            EntryPayload::Membership(membership),
            EntryPayload::Blank,
            EntryPayload::Normal(Batch(records)),
            EntryPayload::Normal(Batch::default()),
        ];
        let entry = |(index, payload)| Entry { log_id: log_id(3, 1, index), payload };
        (0..).zip(payloads).map(entry).collect()
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let entries = entries();
        let mut payload = Vec::new();
        put_optional_log_id(&mut payload, Some(&entries[1].log_id));
        entries.iter().for_each(|entry| payload.extend(encode(entry)));
        assert_eq!(decode_all(&payload), Ok((Some(entries[1].log_id), entries)));
    }

    #[test]
    fn no_bytes_make_a_reader_panic_or_ask_for_more_memory_than_they_take() {
        let mut payload = Vec::new();
        put_optional_log_id(&mut payload, None);
        entries().iter().for_each(|entry| payload.extend(encode(entry)));
        for at in 0..payload.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = payload.clone();
                changed[at] = value;
                let _ = decode_all(&changed);
            }
            let _ = decode_all(&payload[..at]);
        }
    }
}
