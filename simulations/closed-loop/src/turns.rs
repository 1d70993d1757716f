//! When clients ask for their messages, once they know where these are.

use tokio::sync::{AcquireError, Barrier, Semaphore, SemaphorePermit};

/// How the clients of a round take turns.
pub struct Turns {
    /// Where all of them wait for the last one.
    together: Option<Barrier>,
    /// For those who ask at the same time.
    places: Semaphore,
    /// How often each of them asks for the same.
    pub(crate) attempts: u8,
}

impl Turns {
    /// Everybody asks as soon as he can, once.
    pub(crate) fn free() -> Self {
        Self { together: None, places: Semaphore::new(Semaphore::MAX_PERMITS), attempts: 1 }
    }

    /// So many clients begin at the same moment, and each asks again as soon as it has its answers.
    pub fn together(clients: usize, attempts: u8) -> Self {
        Self { together: Some(Barrier::new(clients)), attempts, ..Self::free() }
    }

    /// So many clients ask one after the other.
    pub fn one_by_one(clients: usize) -> Self {
        Self { places: Semaphore::new(1), ..Self::together(clients, 1) }
    }

    /// A client's turn, which lasts until it is dropped.
    pub(crate) async fn next(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Some(together) = &self.together {
            together.wait().await;
        }
        self.places.acquire().await
    }
}
