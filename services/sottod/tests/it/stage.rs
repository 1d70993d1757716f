//! Servers that listen, in real time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mpir::Engine;
use sotto_session::{ByteStream, Dial, Dialled, Pending, Tcp};
use sottod::{Config, Running};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;
use tokio::sync::RwLock;

/// What a busy machine may add to a limit.
pub(crate) const LATE: Duration = Duration::from_secs(6);

/// Floods take the machine for themselves; everything else can be tried side by side.
static TURNS: RwLock<()> = RwLock::const_new(());

/// The way to a server.
#[derive(Clone)]
pub(crate) struct Wire(SocketAddr);

pub(crate) fn start(engine: Arc<dyn Engine>, config: Config) -> (Running, Wire) {
    let running = sottod::start(engine, config).unwrap();
    let wire = Wire(running.local_addr());
    (running, wire)
}

impl Wire {
    /// A connection of which this end holds few bytes that nobody reads.
    pub(crate) async fn narrow(&self, bytes: u32) -> Box<dyn ByteStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Box::new(socket.connect(self.0).await.unwrap())
    }
}

impl Dial for Wire {
    fn dial(&self, _: &str) -> Pending<io::Result<Dialled>> {
        Tcp.dial(&self.0.to_string())
    }
}

fn play(test: impl Future<Output = ()>) {
    Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(test);
}

/// Plays an attack beside others.
pub(crate) fn attack(attack: impl Future<Output = ()>) {
    play(async {
        let _turn = TURNS.read().await;
        attack.await;
    });
}

/// Plays an attack that takes the machine.
pub(crate) fn flood(attack: impl Future<Output = ()>) {
    play(async {
        let _turn = TURNS.write().await;
        attack.await;
    });
}
