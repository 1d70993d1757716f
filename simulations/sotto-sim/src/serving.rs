//! One prepared database behind a socket: what a deployed engine's users see of it.
//!
//! A message is a kind (one byte), a length (four bytes, little-endian) and as many bytes. A client uploads its public
//! keys once per connection and then sends queries; or it downloads the whole database. This serves measurements; the
//! real service is `sottod`.

mod client;
mod frame;
mod workers;

use core::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail, ensure};
use mpir::{Contents, Engine, PreparedRound, PublicKeys, Query, RoundSpec};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use client::{Connection, Download};
use frame::HEADER_BYTES;
pub(crate) use frame::Kind;
use workers::Workers;

/// A server on loopback. Dropping it closes all connections.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    served: Arc<Served>,
    task: AbortHandle,
}

/// What all connections share.
struct Served {
    engine: Arc<dyn Engine>,
    elements: Arc<Vec<u8>>,
    prepared: Box<dyn PreparedRound>,
    /// The longest message a client may send.
    most: usize,
    workers: Workers,
    /// CPU time of all answers, nanoseconds.
    answering: AtomicU64,
}

impl Server {
    /// Prepares the one database of a round and serves it; every answer is computed by one of `threads` threads, from start
    /// to end.
    pub(crate) async fn start(
        engine: Arc<dyn Engine>,
        round: &RoundSpec,
        elements: Arc<Vec<u8>>,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let different = core::slice::from_ref(&*elements);
        let prepared = engine.prepare(round, Contents { different, copies: 1 })?;
        let sizes = prepared.sizes();
        let most = sizes.request.bytes().max(sizes.keys).max(size_of::<u64>());
        let workers = Workers::new(threads);
        let answering = AtomicU64::new(0);
        let served = Arc::new(Served { engine, elements, prepared, most, workers, answering });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let shared = served.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = shared.clone();
                // A client learns of an error when its connection closes.
                connections.spawn(async move { drop(served.serve(stream).await) });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, served, task: task.abort_handle() })
    }

    /// CPU time of all answers so far, milliseconds.
    pub(crate) fn answering_ms(&self) -> f64 {
        self.served.answering.load(Ordering::Relaxed) as f64 / 1e6
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let mut keys = None;
        while let Some((kind, body)) = frame::read(&mut stream, self.most).await? {
            let reply = match kind {
                Kind::Ping => Ok(Vec::new()),
                Kind::Download => {
                    let count = <[u8; 8]>::try_from(&body[..]).map(u64::from_le_bytes);
                    let count = count.ok().and_then(|count| usize::try_from(count).ok());
                    let bytes = count.and_then(|count| self.elements.get(..count));
                    let bytes = bytes.context("a download of more than there is")?;
                    frame::write(&mut stream, Kind::Done, bytes).await?;
                    continue;
                }
                Kind::Keys => self.hold_keys(&mut keys, body).await,
                Kind::Query => self.answer(keys.as_ref(), body).await,
                Kind::Done | Kind::Refused => bail!("a reply from a client"),
            };
            match reply {
                Ok(body) => frame::write(&mut stream, Kind::Done, &body).await?,
                Err(error) => frame::write(&mut stream, Kind::Refused, error.to_string().as_bytes()).await?,
            }
        }
        Ok(())
    }

    async fn hold_keys(&self, keys: &mut Option<PublicKeys>, body: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let engine = self.engine.clone();
        let (decoded, _) = self.workers.run(move || engine.public_keys(&body)).await?;
        *keys = Some(decoded?);
        Ok(Vec::new())
    }

    async fn answer(self: &Arc<Self>, keys: Option<&PublicKeys>, body: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let (keys, shared) = (keys.context("a query before the keys")?.clone(), self.clone());
        let answer = move || shared.prepared.answer(0, &[Query { keys: &keys, request: &body }]).pop();
        let (answer, time) = self.workers.run(answer).await?;
        let answer = answer.context("one answer")??;
        self.answering.fetch_add((time * 1e6) as u64, Ordering::Relaxed);
        Ok(answer)
    }
}

/// Checks what a measurement rests on: that the element is the database's.
pub(crate) fn verify(elements: &[u8], index: usize, element: &[u8]) -> anyhow::Result<()> {
    let stored = elements.get(index * element.len()..).and_then(|rest| rest.get(..element.len()));
    ensure!(!element.is_empty() && stored == Some(element), "element {index} is not the database's");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use std::sync::Arc;

    use mpir::{Engine, RoundSpec};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::{Connection, Kind, Server, verify};
    use crate::engine::{Client, EngineName};

    fn engine(elements: usize) -> (Arc<dyn Engine>, RoundSpec) {
        (EngineName::Sealpir.engine(), EngineName::Sealpir.bucket(elements, 288).unwrap())
    }

    /// What comes back over the socket must be the element, and garbage must not end the connection or the server.
    #[tokio::test]
    async fn a_query_over_the_socket_yields_the_element_and_garbage_is_refused() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut elements = vec![0; 100 * 288];
        rng.fill_bytes(&mut elements);
        let elements = Arc::new(elements);
        let (engine, round) = engine(100);
        let server = Server::start(engine.clone(), &round, elements.clone(), 2).await.unwrap();
        let mut connection = Connection::open(server.address).await.unwrap();

        let mut client = Client::new(&*engine, &[1; 32]).unwrap();
        let request = client.half.ask(round, &[Some(42)], &mut rng).unwrap();
        assert!(connection.call(Kind::Query, &request.bytes).await.is_err(), "no keys yet");
        assert!(connection.call(Kind::Keys, &[0; 9]).await.is_err());
        assert!(connection.call(Kind::Ping, &[]).await.unwrap().is_empty());
        connection.call(Kind::Keys, &client.half.public_keys()).await.unwrap();
        assert!(connection.call(Kind::Query, &[0; 9]).await.is_err());
        assert!(server.answering_ms() == 0.0, "nothing was answered");
        let answer = connection.call(Kind::Query, &request.bytes).await.unwrap();
        let element = request.pending.read(&[], &answer).pop().unwrap().unwrap();
        verify(&elements, 42, &element).unwrap();
        assert!(verify(&elements, 41, &element).is_err());
        assert!(server.answering_ms() > 0.0);

        let download = connection.download(&elements).await.unwrap();
        assert!(download.first <= download.all);
        let mut other = elements.to_vec();
        other[100 * 288 - 1] ^= 1;
        assert!(connection.download(&other).await.is_err(), "a changed byte is seen");
    }

    /// A length is a claim: it must not be believed before memory is taken for it.
    #[tokio::test]
    async fn too_long_a_message_closes_the_connection() {
        let elements = Arc::new(vec![7; 10 * 288]);
        let (engine, round) = engine(10);
        let server = Server::start(engine.clone(), &round, elements.clone(), 1).await.unwrap();
        let mut connection = Connection::open(server.address).await.unwrap();
        let long = vec![0; engine.public_keys_bytes() + 1];
        assert!(connection.call(Kind::Keys, &long).await.is_err());
        assert!(connection.call(Kind::Ping, &[]).await.is_err());
        assert!(Connection::open(server.address).await.unwrap().call(Kind::Ping, &[]).await.is_ok());
    }
}
