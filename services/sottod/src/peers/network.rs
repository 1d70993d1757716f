//! The log's group as it calls its other members.

use std::time::Duration;

use bytes::Bytes;
use openraft::BasicNode;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use sotto_log::{Called, Doing, GroupLink, GroupNetwork, RaftSnapshot, Sent, TypeConfig, Vote};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::proto::peer_client::PeerClient;
use super::{Ways, convert, proto};
use crate::cluster::NodeId;

/// Bytes of a snapshot in one message.
const CHUNK: usize = 1 << 20;
/// For a snapshot as a whole.
const SNAPSHOT: Duration = Duration::from_secs(60);
/// What an append is given beyond a beat of the group, for the other's disk.
const DISK: Duration = Duration::from_secs(3);

/// Opens ways to members.
pub(crate) struct Network(pub(crate) Ways);

/// The way to one member.
pub(crate) struct Link {
    client: PeerClient<Channel>,
}

type Failed = RPCError<TypeConfig>;

impl GroupNetwork for Network {
    fn reach(&mut self, number: u64, node: &BasicNode) -> Box<dyn GroupLink> {
        Box::new(Link { client: self.0.at(NodeId::Voter(number), &node.addr) })
    }
}

/// A request with a deadline.
fn within<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

fn failed(status: &Status) -> Failed {
    match status.code() {
        // Nobody is there, and hurry is of no use.
        tonic::Code::Unavailable => Unreachable::new(status).into(),
        _ => NetworkError::new(status).into(),
    }
}

fn malformed(malformed: convert::Malformed) -> Failed {
    NetworkError::new(&malformed).into()
}

impl GroupLink for Link {
    fn append(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Called<'_, AppendEntriesResponse<TypeConfig>> {
        Box::pin(async move {
            let limit = option.hard_ttl() + if request.entries.is_empty() { Duration::ZERO } else { DISK };
            let call = within(convert::put_append(&request), limit);
            let answer = self.client.append(call).await.map_err(|status| failed(&status))?;
            convert::take_appended(answer.into_inner()).map_err(malformed)
        })
    }

    fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        before: bool,
        option: RPCOption,
    ) -> Called<'_, VoteResponse<TypeConfig>> {
        Box::pin(async move {
            let call = within(convert::put_vote(&request, before), option.hard_ttl());
            let answer = self.client.vote(call).await.map_err(|status| failed(&status))?;
            convert::take_voted(answer.into_inner()).map_err(malformed)
        })
    }

    fn snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshot,
        cancel: Doing<'static, ReplicationClosed>,
    ) -> Sent<'_> {
        Box::pin(async move {
            let data = Bytes::from(snapshot.snapshot);
            let ballot = convert::put_ballot(&vote);
            let chunks = (0..data.len().div_ceil(CHUNK).max(1)).map(move |at| proto::SnapshotChunk {
                ballot: (at == 0).then_some(ballot),
                data: data.slice(at * CHUNK..data.len().min((at + 1) * CHUNK)),
            });
            let call = within(tokio_stream::iter(chunks), SNAPSHOT);
            let unreachable = |status: &Status| StreamingError::Unreachable(Unreachable::new(status));
            tokio::select! {
                biased;
                closed = cancel => Err(closed.into()),
                answer = self.client.snapshot(call) => {
                    let answer = answer.map_err(|status| unreachable(&status))?.into_inner();
                    let vote = convert::take_ballot(answer.ballot);
                    let vote = vote.map_err(|malformed| StreamingError::Network(NetworkError::new(&malformed)))?;
                    Ok(SnapshotResponse::new(vote))
                }
            }
        })
    }

    fn transfer(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Called<'_, TransferLeaderResponse<TypeConfig>> {
        Box::pin(async move {
            let message = proto::TransferRequest {
                from: Some(convert::put_ballot(request.from_leader())),
                to: *request.to_node_id(),
                last: request.last_log_id().map(convert::put_log_id),
            };
            let call = within(message, option.hard_ttl());
            let answer = self.client.transfer(call).await.map_err(|status| failed(&status))?.into_inner();
            let refused =
                || NetworkError::new(&std::io::Error::other("the other node does not want to lead"));
            if answer.accepted { Ok(Ok(())) } else { Err(refused().into()) }
        })
    }
}
