//! What it costs to move bytes, without TLS and gRPC.

use std::sync::Arc;

use anyhow::Context;
use sotto_protocol::deposit::BOX_BYTES;

use crate::cpu::process_milliseconds;
use crate::engine::EngineName;
use crate::serving::{Connection, Kind, Server};

/// Calls of a client in a round: deposit, mapping, multi-query.
const CALLS: f64 = 3.0;

/// CPU time of both ends of a connection over loopback, microseconds: for the calls of one client in a round, and for a
/// KiB that they carry.
pub(super) fn measure(quick: bool) -> anyhow::Result<[f64; 2]> {
    let (boxes, downloads, pings) = if quick { (1 << 10, 4, 100) } else { (1 << 14, 20, 3_000) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the threads of the network")?;
    runtime.block_on(async {
        let bytes = Arc::new(vec![7; boxes * BOX_BYTES]);
        let name = EngineName::Sealpir;
        let round = name.bucket(boxes, BOX_BYTES)?;
        let server = Server::start(name.engine(), &round, bytes.clone(), 1).await?;
        let mut connection = Connection::open(server.address).await?;
        connection.download(&bytes).await?;
        let start = process_milliseconds();
        for _ in 0..pings {
            connection.call(Kind::Ping, &[]).await?;
        }
        let pinged = process_milliseconds();
        for _ in 0..downloads {
            connection.download(&bytes).await?;
        }
        let downloaded = process_milliseconds() - pinged;
        let kib = (downloads * bytes.len()) as f64 / 1024.0;
        Ok([CALLS * 1e3 * (pinged - start) / f64::from(pings), 1e3 * downloaded / kib])
    })
}
