//! What other nodes call here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::Raft;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use sotto_log::{
    LogId, RaftSnapshot, Role, SNAPSHOT_MAX, StateMachine, Tenure, TypeConfig, Vote, snapshot_of,
};
use sotto_protocol::table::slot_of;
use sotto_protocol::{Deposit, Round};
use sotto_wire::Refused;
use sotto_wire::address::parse_authority;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::feed::{Feed, Followers, LEADS, feed};
use super::listen::Caller;
use super::proto::peer_server::Peer;
use super::{Joined, Member, convert, proto};
use crate::cluster::NodeId;
use crate::rounds::{Place, Rounds};

/// For so long a caller waits that is ahead of this node: less than it has patience.
const CATCHING_UP: Duration = Duration::from_secs(1);
/// Deposits in one call, at most.
const DEPOSITS_MAX: usize = 4096;

/// Answers the calls of other nodes.
pub(crate) struct PeerService {
    pub(crate) this: NodeId,
    /// Whether the cluster was there before this node.
    pub(crate) joins: bool,
    pub(crate) joined: Joined,
    /// Places of those that follow this node.
    pub(crate) followers: Arc<Semaphore>,
    /// Held while a snapshot comes: it takes as much memory as it has bytes.
    pub(crate) snapshots: Semaphore,
    pub(crate) rounds: Rounds,
}

impl PeerService {
    /// The log's group, of which only a voter is a member.
    fn group(&self, Caller(caller): Caller) -> Result<Raft<TypeConfig, StateMachine>, Status> {
        match caller {
            NodeId::Voter(_) => {
                self.member()?.raft.ok_or_else(|| Status::unimplemented("this node has no vote"))
            }
            NodeId::Answerer(_) => Err(Status::permission_denied("the caller has no vote")),
        }
    }

    /// The log here; whoever calls before it is open calls again.
    fn member(&self) -> Result<Member, Status> {
        self.joined.borrow().clone().ok_or_else(|| Status::unavailable("the log is not open yet"))
    }

    /// Only the node that leads takes what others send on, so that nothing goes in circles.
    fn leads(&self) -> Result<(), Status> {
        match *self.member()?.role.borrow() {
            Role::Leads { .. } => Ok(()),
            Role::Follows { .. } => Err(Status::unavailable("another node leads")),
        }
    }
}

fn malformed(malformed: convert::Malformed) -> Status {
    Status::invalid_argument(malformed.to_string())
}

/// Which node calls.
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request.extensions().get().copied().ok_or_else(|| Status::internal("nobody calls"))
}

/// Nobody speaks for another node.
fn is_of(vote: &Vote, Caller(caller): Caller) -> Result<(), Status> {
    if NodeId::Voter(vote.leader_id.node_id) == caller { Ok(()) } else { Err(malformed(convert::Malformed)) }
}

/// Whether others do well to follow this node: one that leads has enough to do, and one that knows of nobody who leads has no news.
fn is_first_choice(member: &Member) -> Result<(), Status> {
    match *member.role.borrow() {
        Role::Follows { leader: Some(_) } => Ok(()),
        Role::Follows { leader: None } => Err(Status::unavailable("this node knows of nobody who leads")),
        Role::Leads { .. } => Err(Status::unavailable(LEADS)),
    }
}

/// Waits until this node has what the caller has, for a moment: the leader tells what is committed a little before the others
/// apply it. Who lacks more would have nothing to tell.
async fn has_all_of(member: &Member, last: Option<LogId>) -> Result<(), Status> {
    let mut changes = member.kept.changes();
    let caught_up = async { while !member.kept.has(last) && changes.changed().await.is_ok() {} };
    let in_time = tokio::time::timeout(CATCHING_UP, caught_up).await;
    in_time.map_err(|_| Status::unavailable("this node is behind the caller"))
}

/// What a leader may say.
pub(crate) fn append_of(
    message: proto::AppendRequest,
    caller: Caller,
) -> Result<AppendEntriesRequest<TypeConfig>, Status> {
    let request = convert::take_append(message).map_err(malformed)?;
    is_of(&request.vote, caller)?;
    Ok(request)
}

/// What a candidate may ask.
pub(crate) fn vote_of(
    message: proto::VoteRequest,
    caller: Caller,
) -> Result<VoteRequest<TypeConfig>, Status> {
    let request = convert::take_vote(message).map_err(malformed)?;
    is_of(&request.vote, caller)?;
    Ok(request)
}

/// The snapshot that a leader may send.
pub(crate) fn snapshot_from(
    ballot: Option<proto::Ballot>,
    data: Vec<u8>,
    caller: Caller,
) -> Result<(Vote, RaftSnapshot), Status> {
    let vote = convert::take_leader(ballot).map_err(malformed)?;
    is_of(&vote, caller)?;
    let snapshot = snapshot_of(data).map_err(|_| Status::invalid_argument("this is no snapshot"))?;
    if snapshot.meta.last_log_id.is_some_and(|last| last.leader_id.term > vote.leader_id.term) {
        return Err(malformed(convert::Malformed));
    }
    Ok((vote, snapshot))
}

fn ended<E>(_: E) -> Status {
    Status::unavailable("the group has ended here")
}

fn word(refused: Option<Refused>) -> String {
    refused.map_or_else(String::new, |refused| refused.reason().to_owned())
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn append(
        &self,
        request: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendResponse>, Status> {
        let caller = caller(&request)?;
        let group = self.group(caller)?;
        let request = append_of(request.into_inner(), caller)?;
        let response = group.append_entries(request).await.map_err(ended)?;
        Ok(Response::new(convert::put_appended(response)))
    }

    async fn vote(
        &self,
        request: Request<proto::VoteRequest>,
    ) -> Result<Response<proto::VoteResponse>, Status> {
        let caller = caller(&request)?;
        let group = self.group(caller)?;
        // It may have had a log under its number that is lost, and would not know for whom it has voted, and what it has stored.
        if self.joins && self.member()?.kept.voters().is_empty() {
            return Err(Status::unavailable("this node has nothing of the log yet"));
        }
        let request = request.into_inner();
        let pre = request.pre;
        let request = vote_of(request, caller)?;
        let response = if pre { group.pre_vote(request).await } else { group.vote(request).await };
        Ok(Response::new(convert::put_voted(&response.map_err(ended)?)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<proto::SnapshotChunk>>,
    ) -> Result<Response<proto::SnapshotResponse>, Status> {
        let caller = caller(&request)?;
        let group = self.group(caller)?;
        let _place = self.snapshots.try_acquire().map_err(|_| Status::unavailable("another one comes"))?;
        let mut chunks = request.into_inner();
        let (mut ballot, mut data) = (None, Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            ballot = ballot.or(chunk.ballot);
            if data.len() + chunk.data.len() > SNAPSHOT_MAX {
                return Err(Status::invalid_argument("a snapshot is longer than any"));
            }
            data.extend_from_slice(&chunk.data);
        }
        let (vote, snapshot) = snapshot_from(ballot, data, caller)?;
        let response = group.install_full_snapshot(vote, snapshot).await.map_err(ended)?;
        Ok(Response::new(proto::SnapshotResponse { ballot: Some(convert::put_ballot(&response.vote)) }))
    }

    async fn transfer(
        &self,
        request: Request<proto::TransferRequest>,
    ) -> Result<Response<proto::TransferResponse>, Status> {
        let caller = caller(&request)?;
        let group = self.group(caller)?;
        let proto::TransferRequest { from, to, last } = request.into_inner();
        let from = convert::take_leader(from).map_err(malformed)?;
        is_of(&from, caller)?;
        let last = convert::take_some(last).map_err(malformed)?;
        let request = TransferLeaderRequest::new(from, to, last);
        let accepted = group.handle_transfer_leader(request).await.map_err(ended)?.is_ok();
        Ok(Response::new(proto::TransferResponse { accepted }))
    }

    type FollowStream = Feed;

    async fn follow(&self, request: Request<proto::FollowRequest>) -> Result<Response<Feed>, Status> {
        let member = self.member()?;
        let proto::FollowRequest { last, leader } = request.into_inner();
        let last = convert::take_some(last).map_err(malformed)?;
        if !leader {
            is_first_choice(&member)?;
        }
        let place = Arc::clone(&self.followers).try_acquire_owned();
        let place = place.map_err(|_| Status::resource_exhausted("enough nodes follow this one"))?;
        if let Some(last) = last
            && member.kept.is_of_log(last).await.map_err(ended)? == Some(false)
        {
            return Err(Status::failed_precondition("the caller has another log"));
        }
        if !leader {
            has_all_of(&member, last).await?;
        }
        Ok(Response::new(feed(Followers { this: self.this, member, leader, place }, last)))
    }

    async fn deposits(
        &self,
        request: Request<proto::DepositsRequest>,
    ) -> Result<Response<proto::DepositsResponse>, Status> {
        self.leads()?;
        let deposits = request.into_inner().deposits;
        if deposits.len() > DEPOSITS_MAX {
            return Err(Status::invalid_argument("too many deposits"));
        }
        let mut refused = vec![String::new(); deposits.len()];
        let mut storing = JoinSet::new();
        for (at, proto::AccountDeposit { account, round, deposit, tenure }) in
            deposits.into_iter().enumerate()
        {
            let account: [u8; 32] = account.as_ref().try_into().map_err(|_| malformed(convert::Malformed))?;
            let deposit = Deposit::decode(&deposit).map_err(|_| malformed(convert::Malformed))?;
            let tenure = Tenure { slot: slot_of(&deposit), number: tenure };
            let rounds = self.rounds.clone();
            storing.spawn(async move {
                (at, rounds.deposit(account, Round(round), deposit, Some(tenure)).await.err())
            });
        }
        while let Some(stored) = storing.join_next().await {
            let (at, outcome) = stored.map_err(|_| Status::internal("a deposit was lost"))?;
            refused[at] = word(outcome);
        }
        Ok(Response::new(proto::DepositsResponse { refused }))
    }

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        self.leads()?;
        let proto::RegisterRequest { account, token, shown, tenure } = request.into_inner();
        let fixed = |bytes: &Bytes| bytes.as_ref().try_into().map_err(|_| malformed(convert::Malformed));
        let token = if token.is_empty() {
            None
        } else {
            Some(token.as_ref().try_into().map_err(|_| malformed(convert::Malformed))?)
        };
        let shown = shown.map(|slot| Tenure { slot, number: tenure });
        let outcome = self.rounds.register(fixed(&account)?, token, shown).await;
        let (slot, refused) = match outcome {
            Ok(slot) => (slot, None),
            Err(refused) => (None, Some(refused)),
        };
        let (slot, tenure) = (slot.map(|given| given.slot), slot.map_or(0, |given| given.number));
        Ok(Response::new(proto::RegisterResponse { refused: word(refused), slot, tenure }))
    }

    async fn close(
        &self,
        request: Request<proto::CloseRequest>,
    ) -> Result<Response<proto::CloseResponse>, Status> {
        self.leads()?;
        let proto::CloseRequest { account, slot, tenure } = request.into_inner();
        let account: [u8; 32] = account.as_ref().try_into().map_err(|_| malformed(convert::Malformed))?;
        let tenure = slot.map(|slot| Tenure { slot, number: tenure });
        let refused = word(self.rounds.close(account, tenure).await.err());
        Ok(Response::new(proto::CloseResponse { refused }))
    }

    async fn place(
        &self,
        request: Request<proto::PlaceRequest>,
    ) -> Result<Response<proto::PlaceResponse>, Status> {
        let Caller(this) = caller(&request)?;
        self.leads()?;
        let (host, port) =
            parse_authority(&request.into_inner().authority).map_err(|_| malformed(convert::Malformed))?;
        self.rounds.place(Place { this, authority: format!("{host}:{port}") }).await;
        Ok(Response::new(proto::PlaceResponse {}))
    }
}

#[cfg(test)]
mod tests;
