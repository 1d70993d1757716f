//! The way to a server: TCP, and TLS under the key of its cluster.

use core::time::Duration;
use std::error::Error;
use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig};
use sotto_wire::root::node_name;
use sotto_wire::{Address, Transport};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::ConnectError;

/// Opens a channel to the server; it is opened again with the same care if it breaks.
///
/// # Errors
/// [`ConnectError::Unreachable`]; [`ConnectError::WrongKey`] or [`ConnectError::Certificate`] for a certificate that is not
/// the cluster's, or not valid now.
pub async fn channel(
    endpoint: Endpoint,
    address: &Address,
    patience: Duration,
) -> Result<Channel, ConnectError> {
    let authority = address.authority();
    let failed = |error| judge(&error).unwrap_or_else(|| ConnectError::Unreachable(authority.clone()));
    match address.transport() {
        Transport::Plaintext => {
            let authority = authority.clone();
            let connector = service_fn(move |_| {
                let authority = authority.clone();
                async move { plain(&authority).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await.map_err(failed)
        }
        Transport::Tls => {
            let config = address.root_key().client_config().map_err(|_| ConnectError::WrongKey)?;
            let authority = authority.clone();
            let connector = service_fn(move |_| {
                let (config, authority) = (Arc::clone(&config), authority.clone());
                async move { secure(config, &authority, patience).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await.map_err(failed)
        }
    }
}

/// What a channel of any kind is told first.
///
/// # Errors
/// [`ConnectError::Unreachable`] if there is no such authority.
pub fn endpoint(address: &Address) -> Result<Endpoint, ConnectError> {
    // The encryption is ours, so that HTTP sees a plain stream either way.
    let authority = address.authority();
    Endpoint::from_shared(format!("http://{authority}")).map_err(|_| ConnectError::Unreachable(authority))
}

/// Without encryption, whatever the name stands for.
async fn plain(authority: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(authority).await?;
    if !stream.peer_addr()?.ip().is_loopback() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn secure(
    config: Arc<ClientConfig>,
    authority: &str,
    patience: Duration,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let connecting = async {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(config).connect(node_name(), stream).await
    };
    tokio::time::timeout(patience, connecting).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// What is wrong with whoever answered, if somebody did.
fn judge(error: &(dyn Error + 'static)) -> Option<ConnectError> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            )) => return Some(ConnectError::Certificate),
            Some(rustls::Error::InvalidCertificate(_)) => return Some(ConnectError::WrongKey),
            _ => next = error.source(),
        }
    }
    None
}
