//! The nodes that one without a vote can follow.

use std::time::Duration;

use sotto_log::{Fed, Feeding, Food, LogId, SNAPSHOT_MAX, Upstream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::proto::peer_client::PeerClient;
use super::{Ways, convert, proto};
use crate::cluster::NodeId;

/// Whoever has not answered by then is not followed.
const CALL: Duration = Duration::from_millis(1500);

/// Voters first, so that no chain of nodes is longer than it must be; and each answerer begins with another voter.
pub(crate) struct Upstreams<W = Ways> {
    this: NodeId,
    ways: W,
    /// The one that is followed, or was last.
    followed: watch::Sender<Option<NodeId>>,
    /// Whether that may lead, or has no vote: while nodes start, or are lost, there may be nobody else.
    is_second_choice: bool,
    /// Who was found to be a better one, and is asked first.
    found: Option<NodeId>,
}

/// The ways to all other nodes that can be followed.
pub(crate) trait Followable: Send + Sync + 'static {
    fn all(&self) -> Vec<(NodeId, PeerClient<Channel>)>;
}

impl<W: Followable> Upstreams<W> {
    pub(crate) fn new(this: NodeId, ways: W, followed: watch::Sender<Option<NodeId>>) -> Self {
        Self { this, ways, followed, is_second_choice: false, found: None }
    }

    fn candidates(&self) -> Vec<(NodeId, PeerClient<Channel>)> {
        let (NodeId::Voter(number) | NodeId::Answerer(number)) = self.this;
        let (mut voters, answerers): (Vec<_>, Vec<_>) =
            self.ways.all().into_iter().partition(|(node, _)| is_voter(*node));
        let count = voters.len().max(1) as u64;
        voters.rotate_left(usize::try_from(number % count).unwrap_or(0));
        voters.into_iter().chain(answerers).collect()
    }
}

fn is_voter(node: NodeId) -> bool {
    matches!(node, NodeId::Voter(_))
}

/// Asks a node to be followed.
async fn ask(
    node: NodeId,
    mut client: PeerClient<Channel>,
    last: Option<LogId>,
    leader: bool,
) -> Option<Streaming<proto::FollowResponse>> {
    let request = proto::FollowRequest { last: last.as_ref().map(convert::put_log_id), leader };
    match tokio::time::timeout(CALL, client.follow(Request::new(request))).await {
        Ok(Ok(response)) => return Some(response.into_inner()),
        Ok(Err(status)) => tell_refusal(node, &status),
        Err(_) => tracing::debug!(?node, "a node does not answer"),
    }
    None
}

impl<W: Followable> Upstream for Upstreams<W> {
    async fn follow(&mut self, last: Option<LogId>) -> Option<Feeding> {
        let before = self.followed.send_replace(None);
        let found = self.found.take();
        let mut candidates = self.candidates();
        // Who was followed was lost, or is left for somebody better.
        candidates.sort_by_key(|(node, _)| (Some(*node) != found, Some(*node) == before));
        // The leader has enough to do, and is followed if nobody else can be.
        for leader in [false, true] {
            for (node, client) in &candidates {
                if let Some(responses) = ask(*node, client.clone(), last, leader).await {
                    tracing::info!(?node, "this node follows another one");
                    self.is_second_choice = leader || !is_voter(*node);
                    self.followed.send_replace(Some(*node));
                    return Some(fed(responses));
                }
            }
        }
        None
    }

    async fn is_better_there(&mut self, last: Option<LogId>) -> bool {
        if !self.is_second_choice {
            return false;
        }
        let voters = self.candidates().into_iter().filter(|(node, _)| is_voter(*node));
        let asked = voters.map(|(node, client)| async move { (node, ask(node, client, last, false).await) });
        let mut asked: JoinSet<_> = asked.collect();
        while let Some(answered) = asked.join_next().await {
            if let Ok((node, Some(_))) = answered {
                self.found = Some(node);
                return true;
            }
        }
        false
    }
}

fn tell_refusal(node: NodeId, status: &Status) {
    if status.code() == Code::FailedPrecondition {
        tracing::warn!(
            ?node,
            "a node has another log than this one, which is of another cluster or was restored from a backup: stop this \
             node, remove the directory 'log' of its data, and start it again"
        );
    } else {
        tracing::debug!(?node, %status, "a node cannot be followed");
    }
}

/// What comes, as far as it is of the protocol.
fn fed(responses: Streaming<proto::FollowResponse>) -> Feeding {
    let mut snapshot = Vec::new();
    Box::pin(responses.map_while(move |response| take(response.ok()?, &mut snapshot)))
}

/// What a response says; nothing if it is not of the protocol. Pieces of a snapshot are signs of life but for the last.
fn take(response: proto::FollowResponse, snapshot: &mut Vec<u8>) -> Option<Fed> {
    let leader = Some(response.leader).filter(|leader| *leader != 0);
    let is_whole = response.snapshot_ends;
    if !snapshot.is_empty() || !response.snapshot.is_empty() {
        if !response.entries.is_empty() || snapshot.len() + response.snapshot.len() > SNAPSHOT_MAX {
            return None;
        }
        snapshot.extend_from_slice(&response.snapshot);
    }
    let what = match is_whole {
        true => Food::Snapshot(core::mem::take(snapshot)),
        false => Food::Entries(convert::take_entries(&response.entries).ok()?),
    };
    Some(Fed { leader, what })
}

#[cfg(test)]
mod tests;
