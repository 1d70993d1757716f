//! The session there is just now, for calls that outlive it.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use sotto_session::Session;
use sotto_wire::{Failure, Refused};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::Phase;
use super::keys::PublicKeys;

const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(4);

/// Gives the current session, and repeats calls over lost ones.
#[derive(Clone)]
pub(crate) struct Sessions {
    current: watch::Receiver<Option<Session>>,
    discarded: mpsc::UnboundedSender<Session>,
    /// What a stand-in is to have.
    offered: watch::Sender<PublicKeys>,
    uploads: Arc<Uploads>,
}

#[derive(Default)]
struct Uploads {
    bytes: AtomicU64,
    time: Mutex<Duration>,
}

/// How long a call is worth repeating.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) until: Instant,
    pub(crate) attempts: u32,
}

impl Sessions {
    pub(crate) fn new(
        current: watch::Receiver<Option<Session>>,
        discarded: mpsc::UnboundedSender<Session>,
        offered: watch::Sender<PublicKeys>,
    ) -> Self {
        Self { current, discarded, offered, uploads: Arc::default() }
    }

    /// Has keys uploaded to the stand-in, at once if there is one; once, however often they are offered.
    pub(crate) fn offer(&self, keys: &PublicKeys) {
        self.offered.send_if_modified(|offered| {
            let are_new = offered.digest != keys.digest;
            *offered = keys.clone();
            are_new
        });
    }

    /// Whether there is no session just now.
    pub(crate) fn are_lost(&self) -> bool {
        self.current.borrow().is_none()
    }

    /// What was uploaded since this was last asked.
    pub(crate) fn uploads(&self) -> Phase {
        let mut time = self.uploads.time.lock().unwrap_or_else(PoisonError::into_inner);
        Phase { bytes: self.uploads.bytes.swap(0, Ordering::Relaxed), time: core::mem::take(&mut time) }
    }

    /// Uploads keys, again while that fails for a reason that may pass.
    pub(crate) async fn upload(&self, patience: Patience, keys: &PublicKeys) -> Result<(), Failure> {
        self.call(patience, keys, |session| async move { self.upload_keys(&session, keys).await }).await
    }

    /// Makes a call, and makes the same call again while its answer is lost, the session has lapsed, or the server has
    /// lost the keys, which are then uploaded again.
    pub(crate) async fn call<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        patience: Patience,
        keys: &PublicKeys,
        call: impl Fn(Session) -> F,
    ) -> Result<T, Failure> {
        let repeat = async {
            let mut pause = PAUSE_FIRST;
            let mut attempt = 0;
            loop {
                attempt += 1;
                let session = self.session().await?;
                let failure = match call(session.clone()).await {
                    Ok(value) => return Ok(value),
                    Err(failure) => failure,
                };
                if attempt >= patience.attempts {
                    return Err(failure);
                }
                match failure {
                    Failure::Refused(Refused::UnknownKeys) => self.upload_keys(&session, keys).await?,
                    // Only the link ends when nobody takes these, and with it everything.
                    Failure::Refused(Refused::UnknownSession) => drop(self.discarded.send(session)),
                    Failure::Unreachable | Failure::Refused(Refused::Busy) => {}
                    Failure::Refused(_) | Failure::Nonsense(_) | Failure::Flood => return Err(failure),
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MOST);
            }
        };
        timeout_at(patience.until, repeat).await.unwrap_or(Err(Failure::Unreachable))
    }

    async fn session(&self) -> Result<Session, Failure> {
        let mut current = self.current.clone();
        let session = current.wait_for(Option::is_some).await.map_err(|_| Failure::Unreachable)?;
        session.clone().ok_or(Failure::Unreachable)
    }

    async fn upload_keys(&self, session: &Session, keys: &PublicKeys) -> Result<(), Failure> {
        let started = Instant::now();
        session.upload_keys(keys.encoded.clone()).await?;
        self.uploads.bytes.fetch_add(keys.encoded.len() as u64, Ordering::Relaxed);
        let mut time = self.uploads.time.lock().unwrap_or_else(PoisonError::into_inner);
        *time += started.elapsed();
        Ok(())
    }
}
