//! Bounds in bytes on what waits in memory for clients.

use std::sync::Arc;

use sotto_wire::Refused;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counted in these, so that the most there can be fits what counts them.
const UNIT_BYTES: usize = 1 << 10;

/// Memory that calls take parts of.
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    most: u32,
}

impl Memory {
    /// So many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let most = Self::units(bytes).min(u32::MAX >> 4);
        Self { free: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// A part of it, given back when it is dropped. Something that is larger than all there is takes all.
    pub(crate) fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let part = Self::units(bytes).min(self.most);
        Arc::clone(&self.free).try_acquire_many_owned(part).map_err(|_| Refused::Busy)
    }

    /// The same as soon as there is as much. Callers bound how many of them wait.
    pub(crate) async fn wait(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let part = Self::units(bytes).min(self.most);
        Arc::clone(&self.free).acquire_many_owned(part).await.map_err(|_| Refused::Internal)
    }

    fn units(bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use sotto_wire::Refused;

    use super::Memory;

    #[tokio::test]
    async fn nobody_gets_more_than_there_is_and_somebody_always_gets_something() {
        let memory = Memory::new(10 << 10);
        let parts = [memory.take(6 << 10).unwrap(), memory.take(4000).unwrap()];
        assert_eq!(memory.take(1).err(), Some(Refused::Busy));
        drop(parts);
        let all = memory.take(usize::MAX).unwrap();
        assert_eq!(memory.take(1).err(), Some(Refused::Busy));
        let waiting = memory.wait(3 << 10);
        tokio::pin!(waiting);
        assert!(futures_are_pending(&mut waiting).await);
        drop(all);
        let part = waiting.await.unwrap();
        assert_eq!(part.num_permits(), 3);
        assert!(memory.take(8 << 10).is_err() && memory.take(7 << 10).is_ok());
    }

    async fn futures_are_pending<F: Future + Unpin>(future: &mut F) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
