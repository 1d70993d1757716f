//! A bounded pool of threads that compute, each job on one thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, anyhow};
use tokio::sync::{mpsc, oneshot};

use crate::cpu;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that end when this is dropped and what waits is done. Jobs begin in the order in which they came.
pub(super) struct Workers {
    jobs: mpsc::Sender<Job>,
}

impl Workers {
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        // Whoever finds no place here waits in the order of coming.
        let (jobs, waiting) = mpsc::channel(1);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..count {
            let waiting = waiting.clone();
            let thread = thread::Builder::new().name(format!("answer-{number}"));
            thread.spawn(move || work(&waiting)).context("cannot start a thread")?;
        }
        Ok(Self { jobs })
    }

    /// What `work` returns, and the CPU time it took, milliseconds.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<(T, f64)> {
        let (sender, receiver) = oneshot::channel();
        // Nobody waits any more where the receiver is gone.
        let job: Job = Box::new(move || drop(sender.send(cpu::timed(work))));
        self.jobs.send(job).await.map_err(|_| anyhow!("no thread is left to compute"))?;
        receiver.await.context("a computation panicked")
    }
}

fn work(waiting: &Mutex<mpsc::Receiver<Job>>) {
    // Whatever an engine would do in parallel stays on this thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match (job, &pool) {
            (Some(job), Ok(pool)) => pool.install(job),
            _ => return,
        }
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
        let workers = Arc::new(Workers::start(2).unwrap());
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
