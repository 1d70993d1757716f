//! The messages of the log's group, to and from the wire. Whatever is missing or malformed is refused.

use bytes::Bytes;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use sotto_log::{Entry, LogId, TypeConfig, Vote, check_number, decode_entry, encode_entry, log_id};

use super::proto;

/// Above all terms that others may speak of: an election makes the next one, which must still be one.
const TERMS_END: u64 = 1 << 47;
/// Entries in one call: a leader sends no more than four.
const ENTRIES_MAX: usize = 64;

/// What came is not of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node of the cluster sent what is not of the protocol")]
pub(super) struct Malformed;

impl From<sotto_log::Malformed> for Malformed {
    fn from(_: sotto_log::Malformed) -> Self {
        Self
    }
}

pub(super) fn put_log_id(log_id: &LogId) -> proto::LogId {
    proto::LogId { term: log_id.leader_id.term, node: log_id.leader_id.node_id, index: log_id.index }
}

pub(super) fn take_log_id(message: proto::LogId) -> Result<LogId, Malformed> {
    Ok(log_id(check_number(message.term)?, message.node, check_number(message.index)?))
}

pub(super) fn take_some(message: Option<proto::LogId>) -> Result<Option<LogId>, Malformed> {
    message.map(take_log_id).transpose()
}

pub(crate) fn put_ballot(vote: &Vote) -> proto::Ballot {
    proto::Ballot { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
}

pub(super) fn take_ballot(message: Option<proto::Ballot>) -> Result<Vote, Malformed> {
    let proto::Ballot { term, node, committed } = message.ok_or(Malformed)?;
    let term = check_number(term)?;
    if term >= TERMS_END {
        return Err(Malformed);
    }
    Ok(if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

/// The ballot of whoever leads, which is always committed.
pub(super) fn take_leader(message: Option<proto::Ballot>) -> Result<Vote, Malformed> {
    let vote = take_ballot(message)?;
    if vote.committed { Ok(vote) } else { Err(Malformed) }
}

pub(crate) fn put_append(request: &AppendEntriesRequest<TypeConfig>) -> proto::AppendRequest {
    proto::AppendRequest {
        ballot: Some(put_ballot(&request.vote)),
        previous: request.prev_log_id.as_ref().map(put_log_id),
        committed: request.leader_commit.as_ref().map(put_log_id),
        entries: request.entries.iter().map(|entry| Bytes::from(encode_entry(entry))).collect(),
    }
}

pub(super) fn take_append(
    message: proto::AppendRequest,
) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
    let previous = take_some(message.previous)?;
    if message.entries.len() > ENTRIES_MAX {
        return Err(Malformed);
    }
    let vote = take_leader(message.ballot)?;
    let first = previous.map_or(0, |previous| previous.index + 1);
    let mut entries = Vec::with_capacity(message.entries.len());
    for (next, encoded) in (first..).zip(&message.entries) {
        let entry = decode_entry(encoded)?;
        // Entries follow each other, whoever sends them, and nobody leads under an older ballot than they were written under.
        if entry.log_id.index != next || entry.log_id.leader_id.term > vote.leader_id.term {
            return Err(Malformed);
        }
        entries.push(entry);
    }
    Ok(AppendEntriesRequest {
        vote,
        prev_log_id: previous,
        leader_commit: take_some(message.committed)?,
        entries,
    })
}

/// Entries in their order, from wherever they begin.
pub(super) fn take_entries(encoded: &[Bytes]) -> Result<Vec<Entry>, Malformed> {
    if encoded.len() > ENTRIES_MAX {
        return Err(Malformed);
    }
    encoded.iter().map(|encoded| decode_entry(encoded).map_err(Malformed::from)).collect()
}

pub(super) fn put_appended(response: AppendEntriesResponse<TypeConfig>) -> proto::AppendResponse {
    use proto::append_response::Result as Kind;

    let (result, stored, ballot) = match response {
        AppendEntriesResponse::Success => (Kind::Success, None, None),
        AppendEntriesResponse::PartialSuccess(stored) => (Kind::Partial, stored, None),
        AppendEntriesResponse::Conflict => (Kind::Conflict, None, None),
        AppendEntriesResponse::HigherVote(vote) => (Kind::Higher, None, Some(vote)),
    };
    proto::AppendResponse {
        result: result.into(),
        stored: stored.as_ref().map(put_log_id),
        ballot: ballot.as_ref().map(put_ballot),
    }
}

pub(super) fn take_appended(
    message: proto::AppendResponse,
) -> Result<AppendEntriesResponse<TypeConfig>, Malformed> {
    use proto::append_response::Result as Kind;

    Ok(match Kind::try_from(message.result).map_err(|_| Malformed)? {
        Kind::Success => AppendEntriesResponse::Success,
        Kind::Partial => AppendEntriesResponse::PartialSuccess(take_some(message.stored)?),
        Kind::Conflict => AppendEntriesResponse::Conflict,
        Kind::Higher => AppendEntriesResponse::HigherVote(take_ballot(message.ballot)?),
    })
}

pub(crate) fn put_vote(request: &VoteRequest<TypeConfig>, pre: bool) -> proto::VoteRequest {
    proto::VoteRequest {
        ballot: Some(put_ballot(&request.vote)),
        last: request.last_log_id.as_ref().map(put_log_id),
        pre,
        transfer: request.leadership_transfer,
    }
}

pub(super) fn take_vote(message: proto::VoteRequest) -> Result<VoteRequest<TypeConfig>, Malformed> {
    let mut request = VoteRequest::new(take_ballot(message.ballot)?, take_some(message.last)?);
    request.leadership_transfer = message.transfer;
    Ok(request)
}

pub(super) fn put_voted(response: &VoteResponse<TypeConfig>) -> proto::VoteResponse {
    proto::VoteResponse {
        ballot: Some(put_ballot(&response.vote)),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(put_log_id),
    }
}

pub(super) fn take_voted(message: proto::VoteResponse) -> Result<VoteResponse<TypeConfig>, Malformed> {
    let (ballot, last) = (take_ballot(message.ballot)?, take_some(message.last)?);
    Ok(VoteResponse::new(ballot, last, message.granted))
}
