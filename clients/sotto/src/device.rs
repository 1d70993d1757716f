//! A screen on another machine: how it and the participant know each other, and what an observer between them sees.
//!
//! Both ends have an Ed25519 key that serves for nothing else, and show it in TLS 1.3 as it is (RFC 7250): there is no
//! certificate, nothing that ends, and nobody who vouches. The device knows the participant's key from the [code], and the
//! participant the device's from the pairing. Keys of the account never leave the machine of the participant.
//!
//! What goes over it is what goes over the local socket, in frames of a few sizes.

pub(crate) mod attached;
pub(crate) mod code;
pub(crate) mod key;
pub(crate) mod pairing;

use std::io;

use tokio::net::TcpStream;

/// Has a connection end some two minutes after the other machine is gone without a word, and sends what is written at once.
///
/// # Errors
/// What the system refuses; the connection is slower then, or ends later.
#[cfg(unix)]
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    use core::time::Duration;

    use rustix::net::sockopt;

    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 6)?;
    stream.set_nodelay(true)
}

#[cfg(not(unix))]
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}
