//! Whom a node without a vote follows, and what it takes for an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use sotto_log::{Entry, encode_entry, log_id};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;

use super::proto::peer_client::PeerClient;
use super::proto::peer_server::{Peer, PeerServer};
use super::{Fed, Followable, Food, SNAPSHOT_MAX, Upstream, Upstreams, proto, take};
use crate::cluster::NodeId;

fn piece(snapshot: &'static [u8], snapshot_ends: bool) -> proto::FollowResponse {
    let snapshot = Bytes::from_static(snapshot);
    proto::FollowResponse { snapshot, snapshot_ends, leader: 2, ..proto::FollowResponse::default() }
}

#[test]
fn pieces_of_a_snapshot_are_signs_of_life_until_it_is_whole() {
    let mut snapshot = Vec::new();
    for part in [&b"ab"[..], b"", b"c"] {
        let fed = take(piece(part, false), &mut snapshot);
        assert!(matches!(fed, Some(Fed { leader: Some(2), what: Food::Entries(none) }) if none.is_empty()));
    }
    let whole = take(piece(b"d", true), &mut snapshot);
    assert!(matches!(whole, Some(Fed { what: Food::Snapshot(bytes), .. }) if bytes == b"abcd"));
    assert!(snapshot.is_empty());
}

#[test]
fn what_is_not_of_the_protocol_ends_it() {
    let entry = Entry { log_id: log_id(1, 1, 0), payload: openraft::EntryPayload::Blank };
    let encoded = Bytes::from(encode_entry(&entry));
    let said = |entries: Vec<Bytes>| proto::FollowResponse { entries, ..proto::FollowResponse::default() };
    let fed = take(said(vec![encoded.clone()]), &mut Vec::new());
    assert!(matches!(fed, Some(Fed { leader: None, what: Food::Entries(entries) }) if entries == [entry]));
    assert!(take(said(vec![encoded.slice(1..)]), &mut Vec::new()).is_none());
    assert!(take(said(vec![encoded.clone(); 65]), &mut Vec::new()).is_none());
    // Entries between the pieces of a snapshot, and one that is longer than any.
    assert!(take(said(vec![encoded]), &mut vec![1]).is_none());
    assert!(take(piece(b"a", false), &mut vec![0; SNAPSHOT_MAX]).is_none());
}

/// How a node answers who wants to follow it.
#[derive(Clone, Copy, PartialEq)]
enum Now {
    NotThere,
    Leads,
    Follows,
    Silent,
}

/// A node that can be followed as long as it is there, and says nothing but that it is.
#[derive(Clone)]
struct Node(watch::Sender<Now>);

type Feed = ReceiverStream<Result<proto::FollowResponse, Status>>;

#[tonic::async_trait]
impl Peer for Node {
    type FollowStream = Feed;

    async fn follow(&self, request: Request<proto::FollowRequest>) -> Result<Response<Feed>, Status> {
        let now = *self.0.borrow();
        match now {
            Now::NotThere => return Err(Status::unavailable("the log is not open yet")),
            Now::Leads if !request.into_inner().leader => return Err(Status::unavailable("it leads")),
            Now::Silent => core::future::pending().await,
            Now::Leads | Now::Follows => {}
        }
        let (sender, receiver) = mpsc::channel(1);
        let mut changes = self.0.subscribe();
        tokio::spawn(async move {
            let alive = proto::FollowResponse { leader: 1, ..proto::FollowResponse::default() };
            while *changes.borrow_and_update() == now && sender.send(Ok(alive.clone())).await.is_ok() {
                let _ = timeout(Duration::from_millis(20), changes.changed()).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn append(
        &self,
        _: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendResponse>, Status> {
        unreachable!()
    }

    async fn vote(&self, _: Request<proto::VoteRequest>) -> Result<Response<proto::VoteResponse>, Status> {
        unreachable!()
    }

    async fn snapshot(
        &self,
        _: Request<Streaming<proto::SnapshotChunk>>,
    ) -> Result<Response<proto::SnapshotResponse>, Status> {
        unreachable!()
    }

    async fn transfer(
        &self,
        _: Request<proto::TransferRequest>,
    ) -> Result<Response<proto::TransferResponse>, Status> {
        unreachable!()
    }

    async fn deposits(
        &self,
        _: Request<proto::DepositsRequest>,
    ) -> Result<Response<proto::DepositsResponse>, Status> {
        unreachable!()
    }

    async fn register(
        &self,
        _: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        unreachable!()
    }

    async fn close(&self, _: Request<proto::CloseRequest>) -> Result<Response<proto::CloseResponse>, Status> {
        unreachable!()
    }

    async fn place(&self, _: Request<proto::PlaceRequest>) -> Result<Response<proto::PlaceResponse>, Status> {
        unreachable!()
    }
}

/// Three nodes that vote and an answerer, and what each does.
struct Nodes(BTreeMap<NodeId, (watch::Sender<Now>, PeerClient<Channel>)>);

impl Nodes {
    fn start() -> Arc<Self> {
        let nodes = [NodeId::Voter(1), NodeId::Voter(2), NodeId::Voter(3), NodeId::Answerer(1)];
        Arc::new(Self(nodes.map(|node| (node, Self::node())).into()))
    }

    fn node() -> (watch::Sender<Now>, PeerClient<Channel>) {
        let now = watch::Sender::new(Now::NotThere);
        let (incoming, streams) = mpsc::channel::<Result<DuplexStream, std::io::Error>>(1);
        let served = PeerServer::new(Node(now.clone()));
        let streams = ReceiverStream::new(streams);
        tokio::spawn(Server::builder().add_service(served).serve_with_incoming(streams));
        let connector = service_fn(move |_| {
            let incoming = incoming.clone();
            async move {
                let (near, far) = duplex(1 << 16);
                incoming.send(Ok(far)).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let channel = Endpoint::from_static("http://node").connect_with_connector_lazy(connector);
        (now, PeerClient::new(channel))
    }

    fn are(&self, now: [Now; 4]) {
        for ((node, _), now) in self.0.values().zip(now) {
            node.send_replace(now);
        }
    }
}

impl Followable for Arc<Nodes> {
    fn all(&self) -> Vec<(NodeId, PeerClient<Channel>)> {
        self.0.iter().map(|(node, (_, client))| (*node, client.clone())).collect()
    }
}

#[tokio::test]
async fn a_second_choice_is_followed_until_there_is_a_first() {
    use Now::{Follows, Leads, NotThere, Silent};
    let nodes = Nodes::start();
    let (followed, whom) = watch::channel(None);
    let mut upstreams = Upstreams::new(NodeId::Answerer(2), Arc::clone(&nodes), followed);
    let whom = || *whom.borrow();
    assert!(upstreams.follow(None).await.is_none() && whom().is_none());

    // While the nodes start, the one that leads may be the only one there.
    nodes.are([NotThere, Leads, NotThere, NotThere]);
    let mut feeding = upstreams.follow(None).await.unwrap();
    assert_eq!(whom(), Some(NodeId::Voter(2)));
    assert!(feeding.next().await.is_some());
    assert!(!upstreams.is_better_there(None).await && whom() == Some(NodeId::Voter(2)));
    // An answerer is nothing better, and who does not answer keeps nobody from asking the next.
    nodes.are([Silent, Leads, NotThere, Follows]);
    assert!(!upstreams.is_better_there(None).await);
    nodes.are([Silent, Leads, Follows, Follows]);
    assert!(timeout(Duration::from_secs(1), upstreams.is_better_there(None)).await.unwrap());
    assert!(feeding.next().await.is_some(), "who is followed does not know yet");
    drop(feeding);
    // Who was found is asked first, and nobody waits for the silent one.
    let feeding = timeout(Duration::from_secs(1), upstreams.follow(None)).await.unwrap().unwrap();
    assert_eq!(whom(), Some(NodeId::Voter(3)));
    // That is a first choice.
    nodes.are([Follows, Leads, Follows, Follows]);
    assert!(!upstreams.is_better_there(None).await);
    drop(feeding);

    // An answerer is a second choice, too; and the same node can be the better one, now that it does not lead.
    nodes.are([NotThere, NotThere, NotThere, Follows]);
    let feeding = upstreams.follow(None).await.unwrap();
    assert_eq!(whom(), Some(NodeId::Answerer(1)));
    assert!(!upstreams.is_better_there(None).await);
    drop(feeding);
    nodes.are([NotThere, NotThere, Leads, NotThere]);
    let _feeding = upstreams.follow(None).await.unwrap();
    assert_eq!(whom(), Some(NodeId::Voter(3)));
    nodes.are([Leads, NotThere, Follows, NotThere]);
    assert!(upstreams.is_better_there(None).await);
    let _feeding = upstreams.follow(None).await.unwrap();
    assert_eq!(whom(), Some(NodeId::Voter(3)));
    assert!(!upstreams.is_better_there(None).await);
}
