//! The log of a node that puts nothing in order: it follows what others have committed, and keeps that.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use sotto_protocol::Round;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt as _};

use super::disk::Disk;
use super::entry::{Entry, LogId, Vote};
use super::kept::Kept;
use super::pinned::LogFiles;
use super::record::Record;
use super::snapshot::Snapshot;
use super::state::State;
use super::store::{Options, Store};
use super::writer::Writer;
use super::{Doing, Feed, LogError, Proposal, ProposeError, Role, RoundLog, SealedRound, Sequencer, Size};

/// A node that is followed says this often that it is there, and who leads.
pub const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// Who has said nothing for so long is followed no more.
const SILENCE: Duration = Duration::from_secs(2);
/// For so long a node is followed that knows of nobody who leads: longer than an election.
const LEADERLESS: Duration = Duration::from_secs(3);
/// Pause before another node is asked.
const PAUSE: Duration = Duration::from_millis(100);
/// After so long it is asked whether there is somebody better to follow than a second choice; twice as long each time that somebody
/// was, as a better one that is soon lost again shall not be gone to for ever.
const LOOKING: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];
/// Entries applied at a time when a log is opened.
const OPENING: u64 = 64;

/// What a node that is followed says.
#[derive(Debug)]
pub struct Fed {
    /// Who leads, as far as it knows.
    pub leader: Option<u64>,
    /// What it says.
    pub what: Food,
}

/// What comes next.
#[derive(Debug)]
pub enum Food {
    /// Entries behind all that came before; or none, as a sign of life.
    Entries(Vec<Entry>),
    /// The file of a snapshot from which to go on.
    Snapshot(Vec<u8>),
}

/// What a node says for as long as it is followed.
pub type Feeding = Pin<Box<dyn Stream<Item = Fed> + Send>>;

/// The way to the nodes that can be followed.
pub trait Upstream: Send + Sync + 'static {
    /// Follows one of them, another one than before if there is another, from behind an entry on. `None` if none can be followed
    /// now.
    fn follow(&mut self, last: Option<LogId>) -> impl Future<Output = Option<Feeding>> + Send;

    /// Whether what is followed was a second choice, and a first one can be followed by now, which then comes next.
    fn is_better_there(&mut self, last: Option<LogId>) -> impl Future<Output = bool> + Send;
}

/// A log that is followed.
pub struct FollowingLog {
    kept: Kept,
    role: watch::Receiver<Role>,
    following: AbortHandle,
}

impl FollowingLog {
    /// Opens the log of a directory, or begins one, and follows from where that ends. `guard` is held as long as files may be
    /// touched; `joining` is handed what others can follow here.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn start(
        upstream: impl Upstream,
        joining: impl FnOnce(Kept, watch::Receiver<Role>) + Send,
        disk: Arc<dyn Disk>,
        options: Options,
        guard: impl Send + 'static,
    ) -> Result<Self, LogError> {
        let (writer, opened) = Writer::start(disk, options, guard).await?;
        Self::over(upstream, joining, Kept::new(writer, opened)).await
    }

    /// The same without a thread: an order to the disk takes as long as `pace` says.
    #[cfg(any(test, feature = "testing"))]
    pub async fn start_inline(
        upstream: impl Upstream,
        joining: impl FnOnce(Kept, watch::Receiver<Role>) + Send,
        disk: Arc<dyn Disk>,
        options: Options,
        pace: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Self, LogError> {
        let (writer, opened) = Writer::start_inline(disk, options, pace).await?;
        Self::over(upstream, joining, Kept::new(writer, opened)).await
    }

    async fn over(
        upstream: impl Upstream,
        joining: impl FnOnce(Kept, watch::Receiver<Role>) + Send,
        kept: Kept,
    ) -> Result<Self, LogError> {
        // Nothing is here that was not committed.
        loop {
            let next = kept.machine.lock().next_index();
            let read = move |store: &mut Store| store.entries(next..next + OPENING, u64::MAX);
            let entries = kept.writer.run(read).await?;
            if entries.is_empty() {
                break;
            }
            kept.apply(&entries);
        }
        let (teller, role) = watch::channel(Role::Follows { leader: None });
        joining(kept.clone(), role.clone());
        let following = follow(upstream, kept.clone(), teller);
        let following = tokio::spawn(async move {
            // The end of what tells who leads is what others see of it; the writer knows why.
            let Err(error) = following.await;
            tracing::error!(%error, "the round log is followed no more");
        });
        Ok(Self { kept, role, following: following.abort_handle() })
    }
}

impl FollowingLog {
    /// The way to its files, for whoever copies them.
    pub fn files(&self) -> LogFiles {
        self.kept.files()
    }
}

/// Follows one node after the other.
async fn follow(
    mut upstream: impl Upstream,
    kept: Kept,
    role: watch::Sender<Role>,
) -> Result<Infallible, LogError> {
    let [mut looking, most] = LOOKING;
    loop {
        let last = kept.machine.lock().applied;
        let tell = |leader| {
            let now = Role::Follows { leader };
            role.send_if_modified(|known| core::mem::replace(known, now) != now);
        };
        let Some(mut feeding) = upstream.follow(last).await else {
            tell(None);
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut led = Instant::now();
        let mut better = pin!(better(&mut upstream, &kept, looking));
        let is_left = loop {
            // First, as somebody who has always more to tell would else be followed for ever.
            let fed = tokio::select! {
                biased;
                () = &mut better => break true,
                fed = tokio::time::timeout(SILENCE, feeding.next()) => fed,
            };
            let Ok(Some(fed)) = fed else { break false };
            if !kept.take(fed.what).await? {
                tracing::warn!("a node that was followed sent what does not follow; another one is asked");
                break false;
            }
            tell(fed.leader);
            if fed.leader.is_some() {
                led = Instant::now();
            } else if led.elapsed() > LEADERLESS {
                break false;
            }
        };
        // Who leads is most likely the same as before, and nothing is told until somebody else says so.
        if is_left {
            looking = most.min(2 * looking);
        } else {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Waits until there is somebody better to follow.
async fn better(upstream: &mut impl Upstream, kept: &Kept, looking: Duration) {
    loop {
        tokio::time::sleep(looking).await;
        let last = kept.machine.lock().applied;
        if upstream.is_better_there(last).await {
            return;
        }
    }
}

impl Kept {
    /// Stores and applies what came; whether it is what comes next.
    fn take(&self, food: Food) -> Doing<'_, Result<bool, LogError>> {
        Box::pin(async move {
            match food {
                Food::Entries(entries) => self.take_entries(entries).await,
                Food::Snapshot(bytes) => match Snapshot::decode(&bytes) {
                    Ok(snapshot) if snapshot.state.is_beyond(self.machine.lock().applied) => {
                        if let Some(last) = snapshot.state.applied {
                            self.take_note(last).await?;
                        }
                        self.machine.adopt(snapshot).await.map(|()| true)
                    }
                    _ => Ok(false),
                },
            }
        })
    }

    /// What an entry changes, or that it changes nothing, is for whoever proposed it.
    fn apply(&self, entries: &[Entry]) {
        for entry in entries {
            self.machine.change(entry);
        }
    }

    async fn take_entries(&self, entries: Vec<Entry>) -> Result<bool, LogError> {
        let applied = self.machine.lock().applied;
        let next = applied.map_or(0, |applied| applied.index + 1);
        let mut term = applied.map_or(0, |applied| applied.leader_id.term);
        for (index, entry) in (next..).zip(&entries) {
            if entry.log_id.index != index || entry.log_id.leader_id.term < term {
                return Ok(false);
            }
            term = entry.log_id.leader_id.term;
        }
        let Some(last) = entries.last().map(|last| last.log_id) else { return Ok(true) };
        self.take_note(last).await?;
        let kept = entries.clone();
        self.writer.run(move |store| store.append(kept)).await?;
        self.apply(&entries);
        Ok(true)
    }

    /// A log is never of a later term than the vote beside it.
    async fn take_note(&self, last: LogId) -> Result<(), LogError> {
        let vote = Vote::new_committed(last.leader_id.term, last.leader_id.node_id);
        let save = move |store: &mut Store| {
            let is_known = store.vote().is_some_and(|known| known.leader_id.term >= vote.leader_id.term);
            if is_known { Ok(()) } else { store.save_vote(vote) }
        };
        self.writer.run(save).await
    }
}

impl Sequencer for FollowingLog {
    fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    fn propose(&self, _: Vec<Record>) -> Doing<'_, Proposal> {
        let proposal: Proposal = Box::pin(async { Err(ProposeError::Elsewhere) });
        Box::pin(core::future::ready(proposal))
    }

    fn hand_over(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}

impl Feed for FollowingLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.kept.machine.lock()
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.kept.changes()
    }

    fn sealed(&self, round: Round) -> Doing<'_, Result<SealedRound, LogError>> {
        Box::pin(async move { self.kept.sealed(round).await })
    }
}

impl RoundLog for FollowingLog {
    fn reclaim(&self) -> Doing<'_, Result<(), LogError>> {
        Box::pin(async move { self.kept.reclaim().await })
    }

    fn failure(&self) -> LogError {
        self.kept.writer.failure("the log is followed no more")
    }

    fn size(&self) -> Size {
        self.kept.writer.size()
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.following.abort();
            self.kept.writer.stop().await;
        })
    }
}

#[cfg(test)]
mod tests;
