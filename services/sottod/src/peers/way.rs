//! Connections to the other nodes, opened when they are needed and again when they break.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use sotto_wire::RootKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::proto::peer_client::PeerClient;
use super::upstream::Followable;
use super::{Joined, MESSAGE_MAX};
use crate::certificate::CertificateError;
use crate::cluster::{Cluster, NodeId, Places};
use crate::peer_certificate::server_name;

/// For the connection and its handshake.
const CONNECTING: Duration = Duration::from_secs(1);
/// A node that says nothing for twice this long is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Flow-control windows: an append is on its way at a time.
const WINDOW: u32 = 8 << 20;

/// The ways to other nodes.
#[derive(Clone)]
pub(crate) struct Ways(Arc<Inner>);

struct Inner {
    this: NodeId,
    tls: Arc<ClientConfig>,
    /// Who was there when this node's directory was made.
    voters: Places,
    answerers: Places,
    /// Who is there now, once the log is open.
    joined: Joined,
    /// Where each leads.
    opened: Mutex<BTreeMap<NodeId, (String, PeerClient<Channel>)>>,
}

impl Ways {
    /// From a node of a cluster. Nothing is opened yet.
    ///
    /// # Errors
    /// [`CertificateError`] if the node's certificate cannot be shown.
    pub(crate) fn new(cluster: &Cluster, root: &RootKey, joined: Joined) -> Result<Self, CertificateError> {
        let tls = cluster.certificate.client_config(root)?;
        let Cluster { this, voters, answerers, .. } = cluster;
        let (voters, answerers) = (voters.clone(), answerers.clone());
        Ok(Self(Arc::new(Inner { this: *this, tls, voters, answerers, joined, opened: Mutex::default() })))
    }

    /// To one of those that vote.
    pub(super) fn to(&self, number: u64) -> Option<PeerClient<Channel>> {
        self.voters().remove(&number).map(|address| self.at(NodeId::Voter(number), &address))
    }

    /// To a node at a place.
    pub(super) fn at(&self, node: NodeId, address: &str) -> PeerClient<Channel> {
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((found, client)) = opened.get(&node)
            && found == address
        {
            return client.clone();
        }
        let client = way(node, address.to_owned(), &self.0.tls);
        opened.insert(node, (address.to_owned(), client.clone()));
        client
    }

    /// Those that vote, as the log says; as this node's directory does as long as the log says nothing.
    fn voters(&self) -> Places {
        let joined = self.0.joined.borrow().clone();
        let voters = joined.map(|member| member.kept.voters()).filter(|voters| !voters.is_empty());
        voters.unwrap_or_else(|| self.0.voters.clone())
    }
}

impl Followable for Ways {
    /// Those that vote first, each by its number.
    fn all(&self) -> Vec<(NodeId, PeerClient<Channel>)> {
        let voters = self.voters().into_iter().map(|(number, address)| (NodeId::Voter(number), address));
        let answerers = self.0.answerers.clone().into_iter();
        let answerers = answerers.map(|(number, address)| (NodeId::Answerer(number), address));
        let others = voters.chain(answerers).filter(|(node, _)| *node != self.0.this);
        others.map(|(node, address)| (node, self.at(node, &address))).collect()
    }
}

fn way(node: NodeId, address: String, tls: &Arc<ClientConfig>) -> PeerClient<Channel> {
    let tls = TlsConnector::from(Arc::clone(tls));
    let connector = service_fn(move |_| {
        let (tls, address) = (tls.clone(), address.clone());
        let connecting = async move {
            let stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            tls.connect(server_name(node), stream).await.map(TokioIo::new)
        };
        async move {
            let connected = tokio::time::timeout(CONNECTING, connecting).await;
            connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        }
    });
    // The encryption is ours, so that HTTP sees a plain stream.
    let channel = Endpoint::from_static("http://peer.sotto.invalid")
        .connect_timeout(CONNECTING)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector_lazy(connector);
    PeerClient::new(channel).max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX)
}
