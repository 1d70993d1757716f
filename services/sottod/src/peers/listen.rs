//! Who may call: the other nodes of the cluster, and nobody else.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::proto::peer_server::PeerServer;
use super::{MESSAGE_MAX, PeerService};
use crate::cluster::NodeId;
use crate::peer_certificate::node_of;

/// Connections that shake hands at a time: nobody but nodes has a reason to.
const HANDSHAKES: usize = 64;
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const WINDOW: u32 = 8 << 20;

/// Serves other nodes until the end.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    this: NodeId,
    service: PeerService,
    end: CancellationToken,
) {
    let (shaken, incoming) = mpsc::channel(1);
    let accepting = accept(listener, TlsAcceptor::from(tls), this, shaken);
    let service = PeerServer::new(service)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let serving = tonic::transport::Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(service)
        .serve_with_incoming(ReceiverStream::new(incoming));
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = accepting => {}
        served = serving => {
            if served.is_err() {
                tracing::error!("other nodes are not answered any more");
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    this: NodeId,
    shaken: mpsc::Sender<io::Result<PeerStream>>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of another node could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (tls, shaken) = (tls.clone(), shaken.clone());
        tokio::spawn(async move {
            let _place = place;
            let handshake = async {
                stream.set_nodelay(true)?;
                tls.accept(stream).await
            };
            match tokio::time::timeout(HANDSHAKE, handshake).await {
                // Whoever is no node of the cluster has no certificate for it.
                Ok(Ok(stream)) => {
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let other = shown.and_then(node_of);
                    // A node has no reason to call itself.
                    if let Some(other) = other.filter(|other| *other != this) {
                        let _ = shaken.send(Ok(PeerStream(stream, Caller(other)))).await;
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "somebody who is no node of the cluster was refused");
                }
                Err(_) => {}
            }
        });
    }
}

/// The node that calls, by its certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) NodeId);

/// A connection from another node.
struct PeerStream(TlsStream<TcpStream>, Caller);

impl Connected for PeerStream {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.1
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
