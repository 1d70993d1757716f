//! Servers that listen in memory, in simulated time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mpir::Engine;
use sotto_session::{ByteStream, Dial, Dialled, Pending};
use tokio::io::{DuplexStream, duplex};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::compute::Compute;
use crate::config::Config;
use crate::connections::{Listener, Stream};
use crate::host::System;
use crate::server::{Running, Surrounded, start_in};

/// What may add to a limit: nothing but that the limits of a library are in whole milliseconds.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// Bytes of a connection that nobody has read, in each direction.
const BUFFER: usize = 64 << 10;

/// The way to a server.
#[derive(Clone)]
pub(super) struct Wire(mpsc::UnboundedSender<DuplexStream>);

struct Incoming(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Incoming {
    async fn next(&mut self) -> io::Result<Box<dyn Stream>> {
        match self.0.recv().await {
            Some(stream) => Ok(Box::new(stream)),
            // Nobody will come any more.
            None => core::future::pending().await,
        }
    }
}

pub(super) fn start(engine: Arc<dyn Engine>, mut config: Config) -> (Running, Wire) {
    let (dial, incoming) = mpsc::unbounded_channel();
    config.listen.set_port(7370);
    let surrounded = Surrounded {
        host: Arc::new(System),
        compute: Compute::inline(config.limits.computing, || Duration::ZERO),
        listener: Incoming(incoming),
        local: config.listen,
    };
    (start_in(surrounded, engine, config, None).unwrap(), Wire(dial))
}

impl Wire {
    fn connect(&self, buffer: usize) -> DuplexStream {
        let (near, far) = duplex(buffer);
        self.0.send(far).unwrap();
        near
    }

    /// A connection that holds few bytes that nobody reads.
    pub(super) async fn narrow(&self, bytes: u32) -> Box<dyn ByteStream> {
        Box::new(self.connect(bytes as usize))
    }
}

impl Dial for Wire {
    fn dial(&self, _: &str) -> Pending<io::Result<Dialled>> {
        let wire = self.clone();
        Box::pin(async move {
            // The way is short, but no two come at the same instant.
            sleep(Duration::from_millis(1)).await;
            Ok(Dialled { stream: Box::new(wire.connect(BUFFER)), peer: [127, 0, 0, 1].into() })
        })
    }
}

/// Plays an attack.
pub(super) fn play(attack: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(attack);
}
