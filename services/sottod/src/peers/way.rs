//! Connections to the other nodes, opened when they are needed and again when they break.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use sotto_wire::RootKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::MESSAGE_MAX;
use super::proto::peer_client::PeerClient;
use crate::certificate::CertificateError;
use crate::cluster::{Cluster, NodeId};
use crate::peer_certificate::server_name;

/// For the connection and its handshake.
const CONNECTING: Duration = Duration::from_secs(1);
/// A node that says nothing for twice this long is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Flow-control windows: an append is on its way at a time.
const WINDOW: u32 = 8 << 20;

/// The way to every other node that is known.
#[derive(Clone)]
pub(crate) struct Ways(Arc<BTreeMap<NodeId, PeerClient<Channel>>>);

impl Ways {
    /// To the members of a cluster. Nothing is opened yet.
    ///
    /// # Errors
    /// [`CertificateError`] if the node's certificate cannot be shown.
    pub(crate) fn new(cluster: &Cluster, root: &RootKey) -> Result<Self, CertificateError> {
        let tls = cluster.certificate.client_config(root)?;
        let voters = cluster.voters.iter().map(|(number, address)| (NodeId::Voter(*number), address));
        let answerers =
            cluster.answerers.iter().map(|(number, address)| (NodeId::Answerer(*number), address));
        let others = voters.chain(answerers).filter(|(node, _)| *node != cluster.this);
        let ways = others.map(|(node, address)| (node, way(node, address.clone(), &tls)));
        Ok(Self(Arc::new(ways.collect())))
    }

    /// To one of the voters.
    pub(super) fn to(&self, number: u64) -> Option<PeerClient<Channel>> {
        self.0.get(&NodeId::Voter(number)).cloned()
    }

    /// To all of them, the voters first, each by its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (NodeId, PeerClient<Channel>)> + '_ {
        self.0.iter().map(|(node, way)| (*node, way.clone()))
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
