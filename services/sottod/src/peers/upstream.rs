//! The nodes that one without a vote can follow.

use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::proto::peer_client::PeerClient;
use super::{Ways, convert, proto};
use crate::cluster::NodeId;
use crate::log::{Fed, Feeding, Food, LogId, SNAPSHOT_MAX, Upstream};

/// Whoever has not answered by then is not followed.
const CALL: Duration = Duration::from_millis(1500);

/// Voters first, so that no chain of nodes is longer than it must be; and each answerer begins with another voter.
pub(crate) struct Upstreams {
    this: NodeId,
    ways: Ways,
    /// The one that is followed, or was last.
    followed: watch::Sender<Option<NodeId>>,
}

impl Upstreams {
    pub(crate) fn new(this: NodeId, ways: Ways, followed: watch::Sender<Option<NodeId>>) -> Self {
        Self { this, ways, followed }
    }

    fn candidates(&self) -> Vec<(NodeId, PeerClient<Channel>)> {
        let (NodeId::Voter(number) | NodeId::Answerer(number)) = self.this;
        let (mut voters, answerers): (Vec<_>, Vec<_>) =
            self.ways.all().into_iter().partition(|(node, _)| matches!(node, NodeId::Voter(_)));
        let count = voters.len().max(1) as u64;
        voters.rotate_left(usize::try_from(number % count).unwrap_or(0));
        voters.into_iter().chain(answerers).collect()
    }
}

impl Upstream for Upstreams {
    async fn follow(&mut self, last: Option<LogId>) -> Option<Feeding> {
        let before = self.followed.send_replace(None);
        let (others, same): (Vec<_>, Vec<_>) =
            self.candidates().into_iter().partition(|(node, _)| Some(*node) != before);
        // The leader has enough to do, and is followed if nobody else can be.
        for leader in [false, true] {
            for (node, client) in others.iter().chain(&same) {
                let request = proto::FollowRequest { last: last.as_ref().map(convert::put_log_id), leader };
                let mut client = client.clone();
                match tokio::time::timeout(CALL, client.follow(Request::new(request))).await {
                    Ok(Ok(response)) => {
                        tracing::info!(?node, "this node follows another one");
                        self.followed.send_replace(Some(*node));
                        return Some(fed(response.into_inner()));
                    }
                    Ok(Err(status)) => tell_refusal(*node, &status),
                    Err(_) => tracing::debug!(?node, "a node does not answer"),
                }
            }
        }
        None
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
mod tests {
    use bytes::Bytes;

    use super::{Fed, Food, SNAPSHOT_MAX, proto, take};
    use crate::log::{Entry, encode_entry, log_id};

    fn piece(snapshot: &'static [u8], snapshot_ends: bool) -> proto::FollowResponse {
        let snapshot = Bytes::from_static(snapshot);
        proto::FollowResponse { snapshot, snapshot_ends, leader: 2, ..proto::FollowResponse::default() }
    }

    #[test]
    fn pieces_of_a_snapshot_are_signs_of_life_until_it_is_whole() {
        let mut snapshot = Vec::new();
        for part in [&b"ab"[..], b"", b"c"] {
            let fed = take(piece(part, false), &mut snapshot);
            assert!(
                matches!(fed, Some(Fed { leader: Some(2), what: Food::Entries(none) }) if none.is_empty())
            );
        }
        let whole = take(piece(b"d", true), &mut snapshot);
        assert!(matches!(whole, Some(Fed { what: Food::Snapshot(bytes), .. }) if bytes == b"abcd"));
        assert!(snapshot.is_empty());
    }

    #[test]
    fn what_is_not_of_the_protocol_ends_it() {
        let entry = Entry { log_id: log_id(1, 1, 0), payload: openraft::EntryPayload::Blank };
        let encoded = Bytes::from(encode_entry(&entry));
        let said =
            |entries: Vec<Bytes>| proto::FollowResponse { entries, ..proto::FollowResponse::default() };
        let fed = take(said(vec![encoded.clone()]), &mut Vec::new());
        assert!(
            matches!(fed, Some(Fed { leader: None, what: Food::Entries(entries) }) if entries == [entry])
        );
        assert!(take(said(vec![encoded.slice(1..)]), &mut Vec::new()).is_none());
        assert!(take(said(vec![encoded.clone(); 65]), &mut Vec::new()).is_none());
        // Entries between the pieces of a snapshot, and one that is longer than any.
        assert!(take(said(vec![encoded]), &mut vec![1]).is_none());
        assert!(take(piece(b"a", false), &mut vec![0; SNAPSHOT_MAX]).is_none());
    }
}
