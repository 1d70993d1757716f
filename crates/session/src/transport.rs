//! The way to a server: TCP, and TLS under the key of its cluster.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use sotto_wire::root::node_name;
use sotto_wire::{Address, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::{ByteStream, ConnectError, Dial};

/// Opens a channel to the server, to peers that are watched; it is opened again with the same care if it breaks.
///
/// # Errors
/// [`ConnectError::Unreachable`]; [`ConnectError::WrongKey`] or [`ConnectError::Certificate`] for a certificate that is not
/// the cluster's, or not valid now.
pub(crate) async fn channel_on(
    dialler: Arc<dyn Dial>,
    peers: Arc<Peers>,
    endpoint: Endpoint,
    address: &Address,
    patience: Duration,
) -> Result<Channel, ConnectError> {
    let authority = address.authority();
    let failed = |error| judge(&error).unwrap_or_else(|| ConnectError::Unreachable(authority.clone()));
    match address.transport() {
        Transport::Plaintext => {
            // Without encryption, whatever the name stands for.
            peers.only_loopback();
            let authority = authority.clone();
            let connector = service_fn(move |_| {
                let (dialler, peers, authority) =
                    (Arc::clone(&dialler), Arc::clone(&peers), authority.clone());
                async move { dial(&*dialler, &peers, &authority).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await.map_err(failed)
        }
        Transport::Tls => {
            let config = address.root_key().client_config().map_err(|_| ConnectError::WrongKey)?;
            let authority = authority.clone();
            let connector = service_fn(move |_| {
                let (dialler, peers, authority) =
                    (Arc::clone(&dialler), Arc::clone(&peers), authority.clone());
                let config = Arc::clone(&config);
                let connecting = async move {
                    let stream = dial(&*dialler, &peers, &authority).await?;
                    TlsConnector::from(config).connect(node_name(), stream).await.map(TokioIo::new)
                };
                async move {
                    let connected = tokio::time::timeout(patience, connecting).await;
                    connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
                }
            });
            endpoint.connect_with_connector(connector).await.map_err(failed)
        }
    }
}

/// Who was reached over a channel, and who may be. What counts is the address of whoever answered, not the name.
#[derive(Default)]
pub(crate) struct Peers {
    remote: AtomicBool,
    loopback_only: AtomicBool,
    /// Whether the newest connection is still open: its other half is part of the connection.
    open: Mutex<Option<watch::Receiver<()>>>,
}

/// A connection whose end can be waited for.
struct Watched {
    stream: Box<dyn ByteStream>,
    _open: watch::Sender<()>,
}

impl Peers {
    /// Waits until the newest connection has ended; not at all if there is none.
    pub(crate) async fn ended(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(mut open) = open {
            // Nothing is ever sent: this ends with the sender.
            while open.changed().await.is_ok() {}
        }
    }

    fn watch(&self, stream: Box<dyn ByteStream>) -> Box<dyn ByteStream> {
        let (sender, open) = watch::channel(());
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Box::new(Watched { stream, _open: sender })
    }

    /// From now on nobody else is spoken to than this machine itself; whether that was so until now.
    pub(crate) fn only_loopback(&self) -> bool {
        self.loopback_only.store(true, Ordering::SeqCst);
        !self.remote.load(Ordering::SeqCst)
    }

    fn admit(&self, peer: IpAddr) -> io::Result<()> {
        if peer.to_canonical().is_loopback() {
            return Ok(());
        }
        // Noted first: either this sees what is demanded, or whoever demands it sees this.
        self.remote.store(true, Ordering::SeqCst);
        if self.loopback_only.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }
}

/// What a channel of any kind is told first.
///
/// # Errors
/// [`ConnectError::Unreachable`] if there is no such authority.
pub(crate) fn endpoint(address: &Address) -> Result<Endpoint, ConnectError> {
    // The encryption is ours, so that HTTP sees a plain stream either way.
    let authority = address.authority();
    Endpoint::from_shared(format!("http://{authority}")).map_err(|_| ConnectError::Unreachable(authority))
}

async fn dial(dialler: &dyn Dial, peers: &Peers, authority: &str) -> io::Result<Box<dyn ByteStream>> {
    let dialled = dialler.dial(authority).await?;
    peers.admit(dialled.peer)?;
    Ok(peers.watch(dialled.stream))
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
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

#[cfg(test)]
mod tests {
    use core::pin::Pin;
    use core::task::{Context, Poll};
    use std::io;
    use std::net::IpAddr;

    use rustls::{CertificateError, Error};
    use tokio::io::{
        AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter, ReadBuf, duplex,
    };

    use super::{Peers, judge};
    use crate::ConnectError;

    /// A stream that takes one piece at a time.
    struct Piecewise;

    impl AsyncRead for Piecewise {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Piecewise {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_watched_does_what_it_does_and_its_end_is_heard() {
        let (peers, (near, mut far)) = (Peers::default(), duplex(64));
        peers.ended().await;
        let mut watched = peers.watch(Box::new(BufWriter::new(near)));
        assert!(watched.is_write_vectored() && !peers.watch(Box::new(Piecewise)).is_write_vectored());
        let mut read = [0; 2];
        watched.write_all(b"ab").await.unwrap();
        assert!(matches!(poll_once(far.read_exact(&mut read)), Poll::Pending), "it was not flushed");
        watched.flush().await.unwrap();
        assert_eq!((far.read_exact(&mut read).await.unwrap(), &read), (2, b"ab"));
        far.write_all(b"cd").await.unwrap();
        assert_eq!((watched.read_exact(&mut read).await.unwrap(), &read), (2, b"cd"));
        watched.shutdown().await.unwrap();
        assert_eq!(far.read(&mut read).await.unwrap(), 0);

        let watched = peers.watch(watched);
        assert!(matches!(poll_once(peers.ended()), Poll::Pending));
        drop(watched);
        peers.ended().await;
    }

    fn poll_once<T>(waiting: impl Future<Output = T>) -> Poll<T> {
        core::pin::pin!(waiting).poll(&mut Context::from_waker(core::task::Waker::noop()))
    }

    /// Who only has to see to a clock is not told of an attack.
    #[test]
    fn a_certificate_of_somebody_else_is_told_from_one_that_is_not_valid_now() {
        let judged = |error| judge(&io::Error::other(Error::InvalidCertificate(error)));
        for of_time in [CertificateError::Expired, CertificateError::NotValidYet] {
            assert_eq!(judged(of_time), Some(ConnectError::Certificate));
        }
        assert_eq!(judged(CertificateError::UnknownIssuer), Some(ConnectError::WrongKey));
        assert_eq!(judge(&io::Error::other(Error::DecryptError)), None);
        assert_eq!(judge(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }

    #[test]
    fn who_demands_loopback_hears_of_others_and_meets_no_more_of_them() {
        let [here, mapped, there]: [IpAddr; 3] =
            ["127.0.0.1", "::ffff:127.0.0.1", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        let peers = Peers::default();
        assert!(peers.admit(here).is_ok() && peers.admit(mapped).is_ok());
        assert!(peers.only_loopback());
        assert!(peers.admit(mapped).is_ok() && peers.admit(there).is_err());
        assert!(!peers.only_loopback());
        let peers = Peers::default();
        assert!(peers.admit(there).is_ok(), "nobody has demanded anything yet");
        assert!(!peers.only_loopback() && peers.admit(there).is_err());
    }
}
