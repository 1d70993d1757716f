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
use pir_core::Scheme;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use client::{Connection, Download};
use frame::HEADER_BYTES;
pub(crate) use frame::Kind;
use workers::Workers;

/// A server on loopback. Dropping it closes all connections.
pub(crate) struct Server<S: Scheme> {
    pub(crate) address: SocketAddr,
    served: Arc<Served<S>>,
    task: AbortHandle,
}

/// What all connections share.
struct Served<S: Scheme> {
    elements: Arc<Vec<u8>>,
    database: S::Database,
    /// The longest message a client may send.
    most: usize,
    workers: Workers,
    /// CPU time of all answers, nanoseconds.
    answering: AtomicU64,
}

impl<S: Scheme> Server<S> {
    /// Prepares the database and serves it; every answer is computed by one of `threads` threads, from start to end.
    pub(crate) async fn start(
        parameters: &S::Parameters,
        elements: Arc<Vec<u8>>,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let database = S::setup(parameters, &elements)?;
        let most = S::query_bytes(parameters).max(S::public_keys_bytes()).max(size_of::<u64>());
        let workers = Workers::start(threads)?;
        let served = Arc::new(Served { elements, database, most, workers, answering: AtomicU64::new(0) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let shared = served.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = shared.clone();
                // A client learns of an error when its connection closes.
                connections.spawn(async move { drop(serve(&served, stream).await) });
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

impl<S: Scheme> Drop for Server<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S: Scheme>(served: &Arc<Served<S>>, mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut keys = None;
    while let Some((kind, body)) = frame::read(&mut stream, served.most).await? {
        let reply = match kind {
            Kind::Ping => Ok(Vec::new()),
            Kind::Download => {
                let count = <[u8; 8]>::try_from(&body[..]).map(u64::from_le_bytes);
                let count = count.ok().and_then(|count| usize::try_from(count).ok());
                let bytes = count.and_then(|count| served.elements.get(..count));
                let bytes = bytes.context("a download of more than there is")?;
                frame::write(&mut stream, Kind::Done, bytes).await?;
                continue;
            }
            Kind::Keys => hold_keys(served, &mut keys, body).await,
            Kind::Query => answer(served, keys.as_ref(), body).await,
            Kind::Done | Kind::Refused => bail!("a reply from a client"),
        };
        match reply {
            Ok(body) => frame::write(&mut stream, Kind::Done, &body).await?,
            Err(error) => frame::write(&mut stream, Kind::Refused, error.to_string().as_bytes()).await?,
        }
    }
    Ok(())
}

async fn hold_keys<S: Scheme>(
    served: &Arc<Served<S>>,
    keys: &mut Option<Arc<S::PublicKeys>>,
    body: Vec<u8>,
) -> anyhow::Result<Vec<u8>> {
    let (decoded, _) = served.workers.run(move || S::decode_public_keys(&body)).await?;
    *keys = Some(Arc::new(decoded?));
    Ok(Vec::new())
}

async fn answer<S: Scheme>(
    served: &Arc<Served<S>>,
    keys: Option<&Arc<S::PublicKeys>>,
    body: Vec<u8>,
) -> anyhow::Result<Vec<u8>> {
    let (keys, shared) = (keys.context("a query before the keys")?.clone(), served.clone());
    let (answer, time) = served.workers.run(move || S::answer(&shared.database, &keys, &body)).await?;
    let answer = answer?;
    served.answering.fetch_add((time * 1e6) as u64, Ordering::Relaxed);
    Ok(answer)
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

    use pir_core::{Scheme, SealPir};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::{Connection, Kind, Server, verify};

    /// What comes back over the socket must be the element, and garbage must not end the connection or the server.
    #[tokio::test]
    async fn a_query_over_the_socket_yields_the_element_and_garbage_is_refused() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut elements = vec![0; 100 * 288];
        rng.fill_bytes(&mut elements);
        let elements = Arc::new(elements);
        let parameters = SealPir::parameters(100, 288).unwrap();
        let server = Server::<SealPir>::start(&parameters, elements.clone(), 2).await.unwrap();
        let mut connection = Connection::open(server.address).await.unwrap();

        let key = SealPir::client_key(&[1; 32]);
        let query = SealPir::queries(&key, &[(&parameters, 42)], &mut rng).unwrap().pop().unwrap();
        assert!(connection.call(Kind::Query, &query).await.is_err(), "no keys yet");
        assert!(connection.call(Kind::Keys, &[0; 9]).await.is_err());
        assert!(connection.call(Kind::Ping, &[]).await.unwrap().is_empty());
        connection.call(Kind::Keys, &SealPir::encode_public_keys(&key)).await.unwrap();
        assert!(connection.call(Kind::Query, &[0; 9]).await.is_err());
        assert!(server.answering_ms() == 0.0, "nothing was answered");
        let answer = connection.call(Kind::Query, &query).await.unwrap();
        let element = SealPir::extract(&parameters, &key, 42, &answer).unwrap();
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
        let parameters = SealPir::parameters(10, 288).unwrap();
        let server = Server::<SealPir>::start(&parameters, elements.clone(), 1).await.unwrap();
        let mut connection = Connection::open(server.address).await.unwrap();
        let long = vec![0; SealPir::public_keys_bytes() + 1];
        assert!(connection.call(Kind::Keys, &long).await.is_err());
        assert!(connection.call(Kind::Ping, &[]).await.is_err());
        assert!(Connection::open(server.address).await.unwrap().call(Kind::Ping, &[]).await.is_ok());
    }
}
