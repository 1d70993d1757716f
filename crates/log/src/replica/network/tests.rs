use std::time::Duration;

use openraft::BasicNode;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory as _, RaftNetworkV2 as _};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};

use super::{Called, GroupLink, GroupNetwork, Link, Network, Sent};
use crate::entry::{TypeConfig, Vote};
use crate::replica::{RaftSnapshot, snapshot_of};
use crate::testing::empty_snapshot_at;
use crate::{Doing, log_id};

/// Says what it was called for, as the reason why nobody is reached.
struct Naming;

fn named<T>(name: &str) -> Called<'_, T> {
    let error = Unreachable::new(&std::io::Error::other(name));
    Box::pin(async move { Err(error.into()) })
}

impl GroupNetwork for Naming {
    fn reach(&mut self, _: u64, _: &BasicNode) -> Box<dyn GroupLink> {
        Box::new(Self)
    }
}

impl GroupLink for Naming {
    fn append(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<'_, AppendEntriesResponse<TypeConfig>> {
        named("append")
    }

    fn vote(
        &mut self,
        _: VoteRequest<TypeConfig>,
        before: bool,
        _: RPCOption,
    ) -> Called<'_, VoteResponse<TypeConfig>> {
        named(if before { "a vote before the election" } else { "a vote in it" })
    }

    fn snapshot(&mut self, _: Vote, _: RaftSnapshot, cancel: Doing<'static, ReplicationClosed>) -> Sent<'_> {
        Box::pin(async { Err(cancel.await.into()) })
    }

    fn transfer(
        &mut self,
        _: TransferLeaderRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<'_, TransferLeaderResponse<TypeConfig>> {
        named("transfer")
    }
}

async fn link(network: Option<Box<dyn GroupNetwork>>) -> Link {
    Network(network).new_client(2, &BasicNode::default()).await
}

fn said<T>(called: Result<T, RPCError<TypeConfig>>) -> String {
    called.err().map(|error| error.to_string()).unwrap_or_default()
}

fn option() -> RPCOption {
    RPCOption::new(Duration::from_secs(1))
}

fn request() -> VoteRequest<TypeConfig> {
    VoteRequest::new(Vote::new(1, 2), None)
}

fn snapshot() -> RaftSnapshot {
    snapshot_of(empty_snapshot_at(log_id(1, 1, 1))).unwrap()
}

/// Whoever is cut off asks before it calls for an election; what votes at once instead unseats whoever leads.
#[tokio::test]
async fn a_vote_before_an_election_is_another_one_than_that_in_it() {
    let mut link = link(Some(Box::new(Naming))).await;
    assert!(said(link.pre_vote(request(), option()).await).contains("a vote before the election"));
    assert!(said(link.vote(request(), option()).await).contains("a vote in it"));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_given_up_is_given_up() {
    let mut link = link(Some(Box::new(Naming))).await;
    let closed = async { ReplicationClosed::new("given up") };
    let sent = link.full_snapshot(Vote::new(1, 2), snapshot(), closed, option());
    let sent = tokio::time::timeout(Duration::from_secs(1), sent).await.unwrap();
    assert!(matches!(sent, Err(StreamingError::Closed(_))), "{sent:?}");
}

#[tokio::test]
async fn a_group_of_one_reaches_nobody() {
    let mut link = link(None).await;
    assert!(said(link.vote(request(), option()).await).contains("this group has one member"));
    assert!(said(link.pre_vote(request(), option()).await).contains("this group has one member"));
    let sent = link.full_snapshot(Vote::new(1, 2), snapshot(), core::future::pending(), option()).await;
    assert!(matches!(sent, Err(StreamingError::Unreachable(_))), "{sent:?}");
}
