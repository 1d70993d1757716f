//! The room where requests are answered, many clients' at a time.
//!
//! Requests for one round gather in [tiles](tiles): a pass over a database serves all of a tile, which costs far less than a
//! pass for each. A tile is answered unit by unit; what is ready of one client's answer goes to that client at once, and
//! waits in memory of its own if the client reads slowly. So a slow reader delays nobody else.
//!
//! What waits is bounded by what let it in: requests and answers each have as many places as the configuration says, and
//! all of a round have one size.

mod reply;
mod tiles;
mod work;

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::PublicKeys;
use sotto_protocol::Round;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use reply::Reply;

use crate::compute::Compute;
use crate::round_database::RoundDatabase;
use reply::Part;
use tiles::Tiles;

/// How requests gather.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// Clients in a tile, at most.
    pub(crate) most: usize,
    /// How long a tile that is not full waits for more.
    pub(crate) patience: Duration,
}

/// A request that is to be answered, of the right size for its round.
pub(crate) struct Retrieval {
    /// Nobody's who waits: a round may retire before its turn, and its database is then gone.
    pub(crate) database: Weak<RoundDatabase>,
    pub(crate) keys: PublicKeys,
    /// Under which the keys are known.
    pub(crate) keys_digest: [u8; 32],
    pub(crate) request: Bytes,
}

/// Takes requests in; cheap to clone.
#[derive(Clone)]
pub(crate) struct Room(Arc<Shared>);

struct Shared {
    tiles: Mutex<Tiles<work::Member>>,
    /// There may be a tile to answer, or one to wait for.
    news: Notify,
    compute: Compute,
    signing_key: Arc<SigningKey>,
    /// Units answered in one job, whose answers are sent before the next.
    units_per_job: usize,
}

impl Room {
    /// Opens the room: `workers` tiles are answered at the same time, until `stop`.
    pub(crate) fn open(
        compute: Compute,
        signing_key: Arc<SigningKey>,
        (gathering, workers, units_per_job): (Gathering, usize, usize),
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let tiles = Mutex::new(Tiles::new(gathering));
        let shared = Shared { tiles, news: Notify::new(), compute, signing_key, units_per_job };
        let shared = Arc::new(shared);
        for _ in 0..workers.max(1) {
            tracker.spawn(work::work(Arc::clone(&shared), stop.clone()));
        }
        Self(shared)
    }

    /// Takes a request in. What comes back is its answer, as it becomes ready.
    pub(crate) fn submit(&self, round: Round, retrieval: Retrieval) -> Reply {
        let (parts, reply) = mpsc::unbounded_channel::<Part>();
        let member = work::Member::new(retrieval, parts);
        self.0.tiles.lock().unwrap_or_else(PoisonError::into_inner).join(round, member, Instant::now());
        self.0.news.notify_one();
        Reply::new(reply)
    }
}
