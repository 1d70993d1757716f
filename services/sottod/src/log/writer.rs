//! The thread that owns the files.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};

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
}

impl Writer {
    /// Opens the log of a directory. The thread holds `guard` for as long as it may touch files.
    pub(super) async fn start(
        disk: Arc<dyn Disk>,
        options: Options,
        guard: impl Send + 'static,
    ) -> Result<(Self, Opened), LogError> {
        let (orders, mut received) = mpsc::channel(WAITING);
        let (reply, opened) = oneshot::channel();
        let work = move || {
            let _guard = guard;
            let mut store = match Store::open(disk, options) {
                Ok((store, opened)) => {
                    let _ = reply.send(Ok(opened));
                    store
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                    return;
                }
            };
            while let Some(order) = received.blocking_recv() {
                match order {
                    Order::Run(work) => work(&mut store),
                    Order::Stop(done) => {
                        drop((store, _guard));
                        let _ = done.send(());
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("sottod-log".to_owned())
            .spawn(work)
            .map_err(LogError::file("the thread of the log", "start"))?;
        let opened = opened.await.map_err(|_| LogError::Ended("its thread is gone".to_owned()))??;
        Ok((Self { orders, failed: Arc::default() }, opened))
    }

    /// Has the thread do something, after everything that was ordered before.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let (reply, result) = oneshot::channel();
        let failed = Arc::clone(&self.failed);
        let order = Order::Run(Box::new(move |store| {
            let result = work(store);
            if let Err(error) = &result {
                // What was refused and left the store at work is nobody's failure but the asker's.
                if !matches!(error, LogError::Refused(_)) || store.has_failed() {
                    let _ = failed.set(error.clone());
                }
            }
            // Who asked may have gone.
            let _ = reply.send(result);
        }));
        self.orders.send(order).await.map_err(|_| self.failure("it was closed"))?;
        result.await.map_err(|_| self.failure("its thread is gone"))?
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

    use super::super::tests::{Simulated, options};
    use super::{LogError, Writer};

    #[tokio::test]
    async fn only_what_ends_the_log_is_its_failure() {
        let disk = Simulated::default();
        let (writer, _) = Writer::start(Arc::new(disk.clone()), options(1), ()).await.unwrap();
        let refused = writer.run(|store| store.entry(77).map(drop)).await;
        assert!(matches!(refused, Err(LogError::Refused(_))));
        assert!(matches!(writer.failure("otherwise"), LogError::Ended(what) if what == "otherwise"));
        disk.crash_at(Some(0));
        assert!(writer.run(|store| store.save_vote(crate::log::entry::Vote::new(1, 1))).await.is_err());
        assert!(matches!(writer.failure("otherwise"), LogError::File { .. }));
        writer.stop().await;
    }
}
