//! Memory for databases, in huge pages where the system has them: a scan of ordinary ones waits for addresses to be
//! looked up, and the system clears and hands them out one by one.
//!
//! What one database leaves is kept for the next, since a server makes new ones in every round and fresh pages are dear: the
//! system clears them, and under a host that takes back what is free it has to ask for them again, which takes several times
//! as long as filling them.

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use memmap2::MmapMut;

use crate::Error;

/// Memory that databases, and those who answer from them, have left and others may take; clones are the same pool.
#[derive(Clone, Default)]
pub struct PagePool {
    left: Arc<Mutex<Left>>,
    /// Of each type one list, each a `Scratch`.
    scratch: Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>,
}

impl PagePool {
    /// The pool's values of a type that computations use and leave.
    pub(crate) fn scratch<T: Send + 'static>(&self) -> Scratch<T> {
        let mut all = lock(&self.scratch);
        let found = all.iter().find_map(|one| Arc::clone(one).downcast::<Mutex<Vec<T>>>().ok());
        Scratch(found.unwrap_or_else(|| {
            let new = Arc::<Mutex<Vec<T>>>::default();
            all.push(Arc::clone(&new) as Arc<dyn Any + Send + Sync>);
            new
        }))
    }

    /// So many bytes with any content, to be overwritten.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system has no room for them.
    pub(crate) fn pages(&self, bytes: usize) -> Result<Pages, Error> {
        // The lock is gone before what does not fit is dropped, which takes the system a while.
        let taken = self.left().take(bytes);
        let memory = taken.or_else(|unfit| {
            drop(unfit);
            map(bytes)
        })?;
        Ok(Pages { memory: Some(memory), bytes, pool: self.clone() })
    }

    /// So many values with any content, to be overwritten.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system has no room for them.
    pub fn vector<T: Pod>(&self, length: usize) -> Result<PageVec<T>, Error> {
        let bytes = length.checked_mul(size_of::<T>()).ok_or(Error::Memory { bytes: usize::MAX })?;
        Ok(PageVec { pages: self.pages(bytes)?, values: PhantomData })
    }

    /// How many pieces were left.
    #[cfg(test)]
    pub(crate) fn pieces(&self) -> usize {
        self.left().0.len()
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        lock(&self.left)
    }
}

/// Nothing that is done under these locks can leave what they guard half done.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What computations need beside their input, as many as have run at once. They cost more to make than many a stage takes.
pub(crate) struct Scratch<T>(Arc<Mutex<Vec<T>>>);

impl<T: Default> Scratch<T> {
    /// One with any content, to be given back by [`Scratch::put`].
    pub(crate) fn take(&self) -> T {
        lock(&self.0).pop().unwrap_or_default()
    }

    /// Leaves one for the next computation.
    pub(crate) fn put(&self, used: T) {
        lock(&self.0).push(used);
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool").finish_non_exhaustive()
    }
}

/// Bytes that begin at a page.
pub(crate) struct Pages {
    /// Taken away only when this is dropped.
    memory: Option<MmapMut>,
    bytes: usize,
    /// Where it goes then.
    pool: PagePool,
}

/// Values that begin at a page.
pub struct PageVec<T> {
    pages: Pages,
    values: PhantomData<T>,
}

impl<T: Pod> Deref for PageVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.pages)
    }
}

impl<T: Pod> DerefMut for PageVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.pages)
    }
}

/// With what is in use, hardly more than was in use at once: new memory is asked for only when nothing here fits, and then all
/// of this goes back to the system.
#[derive(Default)]
struct Left(Vec<MmapMut>);

impl Left {
    /// The smallest that is large enough, if it is not far too large; otherwise all of it, to be dropped.
    fn take(&mut self, bytes: usize) -> Result<MmapMut, Vec<MmapMut>> {
        let fits = |memory: &&MmapMut| (bytes..=bytes + bytes / 4).contains(&memory.len());
        let smallest = self.0.iter().filter(fits).map(|memory| memory.len()).min();
        let place = self.0.iter().position(|memory| Some(memory.len()) == smallest);
        place.map(|place| self.0.swap_remove(place)).ok_or_else(|| core::mem::take(&mut self.0))
    }
}

/// Somewhat more than is asked for, so that it fits a database that is a little larger, too. What is never touched takes only
/// addresses, but for the rest of the last huge page.
fn map(bytes: usize) -> Result<MmapMut, Error> {
    let memory = MmapMut::map_anon(bytes + bytes / 8).map_err(|_| Error::Memory { bytes })?;
    // A wish: without huge pages everything works, more slowly.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.pool.left().0.extend(self.memory.take());
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_deref().map_or(&[], |memory| &memory[..self.bytes])
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().map_or(&mut [], |memory| &mut memory[..self.bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::{Left, PagePool, map};

    #[test]
    fn what_a_computation_leaves_is_found_by_the_next_of_its_kind_alone() {
        let pool = PagePool::default();
        pool.scratch::<Vec<u8>>().put(vec![7; 3]);
        assert_eq!(pool.clone().scratch::<u32>().take(), 0);
        let same = pool.clone().scratch::<Vec<u8>>();
        assert_eq!((same.take(), same.take()), (vec![7; 3], Vec::new()));
        assert!(PagePool::default().scratch::<Vec<u8>>().take().is_empty());
    }

    #[test]
    fn what_was_left_is_taken_where_it_fits_and_returned_where_nothing_does() {
        let mut left = Left(Vec::new());
        assert!(left.take(8000).is_err(), "nothing was left");
        left.0.extend([map(8000).unwrap(), map(16000).unwrap(), map(9000).unwrap()]);
        assert_eq!(left.take(8500).unwrap().len(), 9000, "of those that are large enough, the smallest");
        assert_eq!(left.take(8500).unwrap().len(), 10125);
        assert_eq!(left.0.len(), 1);
        assert_eq!(left.take(8500).unwrap_err().len(), 1, "18,000 would be a waste");
        assert!(left.0.is_empty(), "what fits no longer is not kept");
        left.0.push(map(8000).unwrap());
        assert_eq!(left.take(9001).unwrap_err().len(), 1, "too small");
        // A fourth more is the most.
        for (bytes, taken) in [(9000, true), (7200, true), (7199, false)] {
            left.0 = vec![map(8000).unwrap()];
            assert_eq!(left.take(bytes).is_ok(), taken, "{bytes}");
        }
    }
}
