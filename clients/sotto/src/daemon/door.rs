//! Where screens of paired devices come in: a socket of TCP, TLS under keys that both ends know, and nothing for anybody else.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::devices::{CODE_LASTS, Devices, unkept};
use super::frame::{self, Frames};
use super::message::Private;
use crate::cli::failure::Failure;
use crate::device::code::{Code, is_authority};
use crate::device::key::{Public, shown};
use crate::device::pairing::{Pair, Paired};

/// Connections at the same time, those included that are yet to say who they are.
const GUESTS_MAX: usize = 16;
/// For the handshake, and for a pairing.
const PATIENCE: Duration = Duration::from_secs(10);

/// The way in for devices.
pub(crate) struct Door {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    devices: Arc<Devices>,
    own: Public,
    address: SocketAddr,
    seats: Arc<Semaphore>,
}

/// Somebody who has connected.
pub(crate) struct Knocking {
    stream: TcpStream,
    _seat: OwnedSemaphorePermit,
}

/// What became of one who has connected.
pub(crate) enum Came {
    /// A device that is known.
    Device(Box<Guest>),
    /// One that is known from now on.
    Paired(String),
    /// One with a wrong code, or a name that could not be.
    Refused,
    /// Nobody.
    Nobody,
}

/// A device that is known, as long as it is.
pub(crate) struct Guest {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) key: Public,
    _seat: OwnedSemaphorePermit,
}

impl Door {
    /// Opens it at an address of this machine.
    ///
    /// # Errors
    /// What to tell the person.
    pub(crate) async fn open(at: SocketAddr, devices: Arc<Devices>) -> Result<Self, Failure> {
        let key = devices.key().map_err(unkept)?;
        let listener = TcpListener::bind(at).await;
        let bound = listener.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) =
            bound.map_err(|error| Failure::other(format!("cannot listen at {at}: {error}")))?;
        let known = Arc::clone(&devices);
        let config = key.server_config(Arc::new(move |key| known.lets_in(key)));
        let config = config.map_err(|error| Failure::other(format!("cannot speak TLS: {error}")))?;
        let seats = Arc::new(Semaphore::new(GUESTS_MAX));
        Ok(Self { listener, acceptor: TlsAcceptor::from(config), devices, own: key.public(), address, seats })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next who comes, as far as there are seats. Whoever has none hears that the connection ends.
    pub(crate) async fn accept(&self) -> io::Result<Knocking> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() {
                // Without it, all is slower, and a seat is taken for longer.
                let _ = crate::device::prepare(&stream);
                return Ok(Knocking { stream, _seat: seat });
            }
        }
    }

    /// Finds out who it is, and takes a device that comes for the first time; `of` is whose account this is.
    pub(crate) async fn receive(&self, knocking: Knocking, of: &str) -> Came {
        let Knocking { stream, _seat } = knocking;
        let received = async {
            let Ok(stream) = self.acceptor.accept(stream).await else { return Came::Nobody };
            let Some(key) = shown(stream.get_ref().1.peer_certificates()) else { return Came::Nobody };
            match self.devices.name(&key) {
                Some(_) => Came::Device(Box::new(Guest { stream, key, _seat })),
                None => self.pair(stream, &key, of).await,
            }
        };
        timeout(PATIENCE, received).await.unwrap_or(Came::Nobody)
    }

    async fn pair(&self, stream: TlsStream<TcpStream>, key: &Public, of: &str) -> Came {
        let (input, mut output) = split(stream);
        let Ok(Some(Pair { secret, name })) = Frames::new(input, frame::AWAY).next().await else {
            return Came::Nobody;
        };
        let paired = self.devices.pair(key, &secret.0, &name, of);
        // One that leaves meanwhile can be revoked.
        let _ = frame::write(&mut output, &paired, frame::AWAY).await;
        let _ = output.shutdown().await;
        match paired {
            Paired::Welcome { .. } => Came::Paired(name),
            _ => Came::Refused,
        }
    }

    /// A code for one device, that reaches this machine `at` a host and port, or where the door is; and for how many minutes it
    /// serves.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn code(&self, at: Option<String>) -> Result<(Private, u64), Failure> {
        let authority = match at {
            Some(at) if is_authority(&at) => at,
            Some(at) => {
                return Err(Failure::usage(format!("'{at}' is no host and port, like 192.168.1.20:7371")));
            }
            None if self.address.ip().is_unspecified() => {
                return Err(Failure::usage(format!(
                    "this listens at all addresses of the machine: name the one by which the device reaches it, like \
                     --at 192.168.1.20:{}",
                    self.address.port()
                )));
            }
            None => self.address.to_string(),
        };
        let code = Code { authority, participant: self.own, secret: self.devices.wait() };
        Ok((code.write(), CODE_LASTS.as_secs() / 60))
    }

    /// Waits until a device is no longer known.
    pub(crate) async fn revoked(&self, key: &Public) {
        self.devices.revoked(key).await;
    }
}

#[cfg(test)]
mod tests;
