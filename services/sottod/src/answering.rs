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

use std::sync::{Arc, Mutex, PoisonError};

use sotto_protocol::Round;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use work::Retrieval;

use crate::compute::Compute;
use crate::config::Limits;
use crate::manifest_keys::Said;
use reply::{Part, Reply};
use tiles::{Gathering, Tiles};
use work::{Member, Shared, work};

/// Takes requests in; cheap to clone.
#[derive(Clone)]
pub(crate) struct Room(Arc<Shared>);

impl Room {
    /// Opens the room, until `stop`.
    pub(crate) fn open(
        compute: Compute,
        said: watch::Receiver<Arc<Said>>,
        limits: &Limits,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let gathering = Gathering { most: limits.tile, patience: limits.gather };
        let tiles = Mutex::new(Tiles::new(gathering));
        let units_per_job = 4 * limits.threads;
        let shared = Arc::new(Shared { tiles, news: Notify::new(), compute, said, units_per_job });
        for _ in 0..limits.computing.max(1) {
            tracker.spawn(work(Arc::clone(&shared), stop.clone()));
        }
        Self(shared)
    }

    /// Takes a request in. What comes back is its answer, as it becomes ready.
    pub(crate) fn submit(&self, round: Round, retrieval: Retrieval) -> Reply {
        let (parts, reply) = mpsc::unbounded_channel::<Part>();
        let member = Member::new(retrieval, parts);
        let mut tiles = self.0.tiles.lock().unwrap_or_else(PoisonError::into_inner);
        tiles.join(round, member, Instant::now(), Member::waits);
        drop(tiles);
        self.0.news.notify_one();
        Reply::new(reply)
    }
}
