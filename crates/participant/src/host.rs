//! What a participant asks of the machine that it runs on, behind a seam where tests answer: the time of day, randomness,
//! long work, connections, and the disk. Time that passes is measured by [`tokio::time::Instant`] alone.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sotto_protocol::{Round, UnixMillis};
use sotto_session::Tcp;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

pub use sotto_session::{ByteStream, Dial, Dialled, Pending};

/// A machine.
pub trait Host: Dial {
    /// The time of day, as far as the machine knows it.
    fn unix_now(&self) -> UnixMillis;

    /// Fills a buffer with bytes that nobody else knows.
    fn fill(&self, bytes: &mut [u8]);

    /// Does work that takes a while where it holds up no call, and says when it is done. Work that panics is done, too.
    fn work(&self, kind: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()>;
}

/// Work that takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Drawing a secret for retrieval, and making its public keys.
    Keys,
    /// Composing a deposit and storing the client. It takes as long as its secrets make it.
    Compose,
    /// Checking a manifest.
    Believe,
    /// Looking up boxes. It takes as long as its secrets make it.
    LookUp,
    /// Building a multi-query, wanted or random.
    Query,
    /// Building a random multi-query, for when the other is late.
    Spare,
    /// Decoding a round's answers.
    Extract,
    /// Digesting queries and answers for the receipt.
    Receipt,
    /// Answering a query again.
    Audit,
    /// Reading what came and storing the client. It takes as long as its secrets make it.
    Take,
    /// What the person wants of the client.
    Person,
}

/// Where a client is kept.
pub trait Disk: Send + 'static {
    /// Replaces what is kept by this snapshot; when it returns, that survives whatever happens to the machine.
    ///
    /// # Errors
    /// Why it could not be stored; then the one before is there whole.
    fn save(&self, snapshot: &[u8]) -> Result<(), StorageError>;

    /// Keeps where the server's nodes are, in place of what was kept before.
    ///
    /// # Errors
    /// Why it could not be kept; then what was before is there whole.
    fn keep_directory(&self, directory: &[u8]) -> Result<(), StorageError>;

    /// What [`Disk::keep_directory`] kept last, if anything can be read. Whoever reads it judges it.
    fn directory(&self) -> Option<Vec<u8>>;

    /// Keeps a proof that the server has given a wrong answer in a round; the place where it is.
    ///
    /// # Errors
    /// Why it could not be kept, in words for the person.
    fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<String, String>;
}

/// That the state could not be stored, as it is told on: who hears of it compares it, and keeps no handle of the system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct StorageError {
    /// A name of the reason for programs, which stays when the sentence changes.
    pub code: &'static str,
    /// For the person.
    pub sentence: String,
}

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Host for System {
    fn unix_now(&self) -> UnixMillis {
        now()
    }

    fn fill(&self, bytes: &mut [u8]) {
        rand::make_rng::<StdRng>().fill_bytes(bytes);
    }

    fn work(&self, _: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()> {
        let running = tokio::task::spawn_blocking(work);
        Box::pin(async move {
            // Whoever waits for the work's value learns from its absence that it has failed.
            drop(running.await);
        })
    }
}

impl Dial for System {
    fn dial(&self, authority: &str) -> Pending<io::Result<Dialled>> {
        Tcp.dial(authority)
    }
}

/// Does work and gives its value; none if it panicked.
pub(crate) async fn run<T: Send + 'static>(
    host: &Arc<dyn Host>,
    kind: Work,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    // Who asked may have left.
    host.work(kind, Box::new(move || drop(reply.send(work())))).await;
    answer.await.ok()
}

/// A generator of its own, seeded by the host.
pub(crate) fn rng(host: &Arc<dyn Host>) -> StdRng {
    let mut seed = Zeroizing::new([0; 32]);
    host.fill(&mut seed[..]);
    StdRng::from_seed(*seed)
}

/// The time of the machine's clock.
#[must_use]
pub fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(since.as_millis().try_into().unwrap_or(u64::MAX))
}
