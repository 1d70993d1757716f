//! Ports for programs that end and are started again.

use std::io;
use std::net::TcpListener;

use rand::RngExt;

/// Below those that systems give to whoever asks for any: nobody else comes by one of these while its program is down.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// Ports on which nobody listens.
pub(crate) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let mut held = Vec::new();
    while held.len() < count {
        match TcpListener::bind(("127.0.0.1", rand::rng().random_range(PORTS))) {
            Ok(listener) => held.push(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
