//! The bridge from asynchronous tasks to the threads that compute.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// A pool of threads for heavy work, which never runs on the threads that serve connections.
///
/// There are three lanes into the same pool: answers for clients, of which only so many run at once; keys of clients,
/// which wait for each other and not in front of answers; and jobs of the server itself: builds, one at a time, and digests
/// of requests, as many as there are places for those.
#[derive(Clone)]
pub(crate) struct Compute {
    place: Executor,
    answers: Arc<Semaphore>,
    keys: Arc<Semaphore>,
    /// Answers that may be computed at once.
    most: usize,
}

/// Where jobs run.
#[derive(Clone)]
enum Executor {
    Threads(Arc<rayon::ThreadPool>),
    /// On the runtime's own thread, when the time has passed that the job is to take.
    #[cfg(test)]
    Inline(Arc<dyn Fn() -> core::time::Duration + Send + Sync>),
}

/// Threads for each that keys of clients may take at a time: nobody limits how often they are uploaded.
const THREADS_PER_KEYS: usize = 4;

/// A job did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the computation failed")]
pub(crate) struct Failed;

impl Compute {
    pub(crate) fn new(threads: usize, jobs: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let name = |number| format!("sottod-compute-{number}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()?;
        let keys = (threads / THREADS_PER_KEYS).max(1);
        Ok(Self::over(Executor::Threads(Arc::new(pool)), jobs, keys))
    }

    /// Without threads, so that what happens depends on nothing but what was asked for.
    #[cfg(test)]
    pub(crate) fn inline(
        jobs: usize,
        duration: impl Fn() -> core::time::Duration + Send + Sync + 'static,
    ) -> Self {
        Self::over(Executor::Inline(Arc::new(duration)), jobs, 1)
    }

    fn over(place: Executor, most: usize, keys: usize) -> Self {
        Self { place, answers: Arc::new(Semaphore::new(most)), keys: Arc::new(Semaphore::new(keys)), most }
    }

    /// Answers that are computed now.
    pub(crate) fn answering(&self) -> usize {
        self.most.saturating_sub(self.answers.available_permits())
    }

    /// Runs a job that answers a client when its turn comes. Callers bound how many of them wait.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        self.in_turn(&self.answers, job).await
    }

    /// Runs a job that reads a client's keys when its turn comes. Callers bound how many of them wait.
    pub(crate) async fn read_keys<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        self.in_turn(&self.keys, job).await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        lane: &Arc<Semaphore>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let permit = Arc::clone(lane).acquire_owned().await.map_err(|_| Failed)?;
        // The job keeps its permit even if nobody waits for it any more.
        self.start(move || {
            let result = job();
            drop(permit);
            result
        })
        .await
    }

    /// Runs a job of the server itself.
    pub(crate) async fn run_own<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        self.start(job).await
    }

    async fn start<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Failed> {
        let (reply, result) = oneshot::channel();
        // A panic in a job would end the process; here it ends the job, whose data nobody sees again.
        let job = move || {
            if let Ok(result) = catch_unwind(AssertUnwindSafe(job)) {
                // Nobody waits any more: fine.
                let _ = reply.send(result);
            }
        };
        match &self.place {
            Executor::Threads(pool) => pool.spawn(job),
            #[cfg(test)]
            Executor::Inline(duration) => {
                let duration = duration();
                tokio::spawn(async move {
                    tokio::time::sleep(duration).await;
                    job();
                });
            }
        }
        result.await.map_err(|_| Failed)
    }
}
