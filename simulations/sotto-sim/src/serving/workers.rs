//! A bounded number of threads that compute, each job on one thread.

use std::sync::Arc;

use anyhow::Context;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::cpu::timed;

thread_local! {
    /// Whatever an engine would do in parallel stays on its thread.
    static ALONE: Option<ThreadPool> = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok();
}

/// Jobs begin in the order in which they came.
pub(super) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// What `work` returns, and the CPU time it took, milliseconds.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<(T, f64)> {
        let place = Arc::clone(&self.0).acquire_owned().await?;
        let job = move || {
            let _place = place;
            ALONE.with(|pool| pool.as_ref().map(|pool| pool.install(|| timed(work))))
        };
        spawn_blocking(job).await.context("a computation panicked")?.context("no thread is left to compute")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Workers;

    /// More computations at a time than cores would make every one of them look slow.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_jobs_run_at_a_time_than_there_are_threads() {
        let workers = Arc::new(Workers::new(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (workers, now, most) = (workers.clone(), now.clone(), most.clone());
            tasks.spawn(async move {
                let job = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                    number
                };
                workers.run(job).await.unwrap().0
            });
        }
        let sum: i32 = tasks.join_all().await.into_iter().sum();
        assert_eq!(sum, 49 * 50 / 2);
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }
}
