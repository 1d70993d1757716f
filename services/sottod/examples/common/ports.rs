//! Ports for programs that end and are started again.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use rand::RngExt;

/// Below those that systems give to whoever asks for any: nobody else comes by one of these while its program is down.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// Whoever was given a port may not listen yet, or not just now.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Ports on which nobody listens, and that nobody was given.
pub(crate) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = Vec::with_capacity(count);
    while ports.len() < count {
        let port = rand::rng().random_range(PORTS);
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) if given.insert(port) => ports.push(port),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ports)
}
