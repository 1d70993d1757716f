//! The bridge from asynchronous tasks to the threads that compute.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// A pool of threads for heavy work, which never runs on the threads that serve connections.
///
/// There are two lanes into the same pool: jobs of clients, of which only so many run at once, and those of the server
/// itself, which its only caller starts one at a time.
#[derive(Clone)]
pub(crate) struct Compute {
    place: Place,
    lane: Arc<Semaphore>,
    jobs: usize,
}

/// Where jobs run.
#[derive(Clone)]
enum Place {
    Threads(Arc<rayon::ThreadPool>),
    /// On the runtime's own thread, when the time has passed that the job is to take.
    #[cfg(test)]
    Inline(Arc<dyn Fn() -> core::time::Duration + Send + Sync>),
}

/// A job did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the computation failed")]
pub(crate) struct Failed;

impl Compute {
    pub(crate) fn new(threads: usize, jobs: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let name = |number| format!("sottod-compute-{number}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()?;
        Ok(Self { place: Place::Threads(Arc::new(pool)), lane: Arc::new(Semaphore::new(jobs)), jobs })
    }

    /// Without threads, so that what happens depends on nothing but what was asked for.
    #[cfg(test)]
    pub(crate) fn inline(
        jobs: usize,
        duration: impl Fn() -> core::time::Duration + Send + Sync + 'static,
    ) -> Self {
        Self { place: Place::Inline(Arc::new(duration)), lane: Arc::new(Semaphore::new(jobs)), jobs }
    }

    /// Clients' jobs that run now.
    pub(crate) fn running(&self) -> usize {
        self.jobs.saturating_sub(self.lane.available_permits())
    }

    /// Runs a client's job when its turn comes. Callers bound how many of them wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let permit = Arc::clone(&self.lane).acquire_owned().await.map_err(|_| Failed)?;
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
            Place::Threads(pool) => pool.spawn(job),
            #[cfg(test)]
            Place::Inline(duration) => {
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
