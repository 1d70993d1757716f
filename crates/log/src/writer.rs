//! The thread that owns the files.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
#[cfg(any(test, feature = "testing"))]
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Size;
use super::disk::Disk;
use super::error::LogError;
use super::store::{Opened, Options, Store};

/// Orders that wait for the thread.
const WAITING: usize = 64;

enum Order {
    Run(Box<dyn FnOnce(&mut Store) + Send>),
    Stop(oneshot::Sender<()>),
}

/// The way to the thread. It ends when told to, or when the last of these is gone.
#[derive(Clone)]
pub(super) struct Writer {
    orders: mpsc::Sender<Order>,
    /// The first thing that went wrong.
    failed: Arc<OnceLock<LogError>>,
    /// As of the last thing that was done.
    size: Arc<Mutex<Size>>,
}

/// What the thread holds: the files, and what keeps others away from them.
struct Owner<G> {
    store: Store,
    _guard: G,
}

impl<G> Owner<G> {
    /// Opens the log, and tells what was found.
    fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        guard: G,
        found: oneshot::Sender<Result<Opened, LogError>>,
    ) -> Option<Self> {
        let (opened, owner) = match Store::open(disk, options) {
            Ok((store, opened)) => (Ok(opened), Some(Self { store, _guard: guard })),
            Err(error) => (Err(error), None),
        };
        // Who asked may have gone.
        let _ = found.send(opened);
        owner
    }

    /// Does what is ordered; `None` if that was the end.
    fn execute(mut self, order: Order) -> Option<Self> {
        match order {
            Order::Run(work) => {
                work(&mut self.store);
                Some(self)
            }
            Order::Stop(done) => {
                drop(self);
                let _ = done.send(());
                None
            }
        }
    }
}

impl Writer {
    /// Opens the log of a directory. The thread holds `guard` for as long as it may touch files.
    pub(super) async fn start(
        disk: Arc<dyn Disk>,
        options: Options,
        guard: impl Send + 'static,
    ) -> Result<(Self, Opened), LogError> {
        let (orders, mut received) = mpsc::channel(WAITING);
        let (found, opened) = oneshot::channel();
        let work = move || {
            let mut owner = Owner::open(disk, options, guard, found);
            while let Some(working) = owner
                && let Some(order) = received.blocking_recv()
            {
                owner = working.execute(order);
            }
        };
        std::thread::Builder::new()
            .name("sottod-log".to_owned())
            .spawn(work)
            .map_err(LogError::file("the thread of the log", "start"))?;
        Self::opened(orders, opened).await
    }

    /// The same with a task in place of the thread, so that what happens depends on nothing but what was ordered. Each
    /// order takes as long as `pace` says.
    #[cfg(any(test, feature = "testing"))]
    pub(super) async fn start_inline(
        disk: Arc<dyn Disk>,
        options: Options,
        pace: impl Fn() -> Duration + Send + 'static,
    ) -> Result<(Self, Opened), LogError> {
        let (orders, mut received) = mpsc::channel(WAITING);
        let (found, opened) = oneshot::channel();
        tokio::spawn(async move {
            let mut owner = Owner::open(disk, options, (), found);
            while let Some(working) = owner
                && let Some(order) = received.recv().await
            {
                tokio::time::sleep(pace()).await;
                owner = working.execute(order);
            }
        });
        Self::opened(orders, opened).await
    }

    async fn opened(
        orders: mpsc::Sender<Order>,
        opened: oneshot::Receiver<Result<Opened, LogError>>,
    ) -> Result<(Self, Opened), LogError> {
        let opened = opened.await.map_err(|_| LogError::Ended("its thread is gone".to_owned()))??;
        let Opened { segments, bytes, entries, .. } = &opened;
        let size = Size {
            segments: *segments,
            bytes: *bytes,
            entries: usize::try_from(*entries).unwrap_or(usize::MAX),
        };
        Ok((Self { orders, failed: Arc::default(), size: Arc::new(Mutex::new(size)) }, opened))
    }

    /// Has the thread do something, after everything that was ordered before.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let (reply, result) = oneshot::channel();
        // Who asked may have gone.
        self.order(work, |result| drop(reply.send(result))).await?;
        result.await.map_err(|_| self.failure("its thread is gone"))?
    }

    /// The same without waiting for it: the thread tells what became of it, in the order of all that was ordered.
    pub(super) async fn order<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, LogError> + Send + 'static,
        done: impl FnOnce(Result<T, LogError>) + Send + 'static,
    ) -> Result<(), LogError> {
        let (failed, size) = (Arc::clone(&self.failed), Arc::clone(&self.size));
        let order = Order::Run(Box::new(move |store| {
            let result = work(store);
            *size.lock().unwrap_or_else(PoisonError::into_inner) = store.size();
            if let Err(error) = &result {
                // What was refused and left the store at work is nobody's failure but the asker's.
                if !matches!(error, LogError::Refused(_)) || store.has_failed() {
                    let _ = failed.set(error.clone());
                }
            }
            done(result);
        }));
        self.orders.send(order).await.map_err(|_| self.failure("it was closed"))
    }

    /// How much there is of the log. Asks nobody: whoever measures changes nothing.
    pub(super) fn size(&self) -> Size {
        *self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread. When this returns, all files are closed and the guard is released.
    pub(super) async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.orders.send(Order::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
    }

    /// What went wrong first, or else `otherwise`.
    pub(super) fn failure(&self, otherwise: &str) -> LogError {
        self.failed.get().cloned().unwrap_or_else(|| LogError::Ended(otherwise.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{LogError, Writer};
    use crate::testing::{Simulated, options};

    #[tokio::test]
    async fn only_what_ends_the_log_is_its_failure() {
        let disk = Simulated::default();
        let (writer, _) = Writer::start(Arc::new(disk.clone()), options(1), ()).await.unwrap();
        let refused = writer.run(|store| store.entry(77).map(drop)).await;
        assert!(matches!(refused, Err(LogError::Refused(_))));
        assert!(matches!(writer.failure("otherwise"), LogError::Ended(what) if what == "otherwise"));
        disk.crash_at(Some(0));
        assert!(writer.run(|store| store.save_vote(crate::entry::Vote::new(1, 1))).await.is_err());
        assert!(matches!(writer.failure("otherwise"), LogError::File { .. }));
        writer.stop().await;
    }
}
