//! Memory that a round leaves for the next one. The system clears pages before it hands them out, and under a host that takes back
//! what is free it has to ask for them first: that takes several times as long as filling them.

use core::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values that were used and left, as many as have been in use at once; clones are the same.
pub(crate) struct Left<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Left<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Left<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Default> Left<T> {
    /// One with any content, which is left here again when it is dropped. All that lie here are made to fit first.
    pub(crate) fn take(&self, fit: impl Fn(&mut T)) -> Taken<T> {
        let mut values = self.values();
        values.iter_mut().for_each(fit);
        let value = values.pop().unwrap_or_default();
        Taken { value, left: self.clone() }
    }

    fn values(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives back what is far more than will be needed, as a round that was larger than others has left it.
pub(crate) fn fit(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.capacity() > bytes.saturating_add(bytes / 4) {
        *buffer = Vec::new();
    }
}

/// A value in use.
pub(crate) struct Taken<T: Default> {
    value: T,
    left: Left<T>,
}

impl<T: Default> Drop for Taken<T> {
    fn drop(&mut self) {
        let value = core::mem::take(&mut self.value);
        self.left.values().push(value);
    }
}

impl<T: Default> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Taken<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::{Left, fit};

    #[test]
    fn what_is_in_use_is_given_to_nobody_else_and_what_was_left_is() {
        let left = Left::<Vec<u8>>::default();
        let as_it_is = |_: &mut Vec<u8>| {};
        let (mut one, other) = (left.take(as_it_is), left.clone().take(as_it_is));
        one.extend([1, 2, 3]);
        assert!(other.is_empty());
        drop(one);
        assert_eq!(*left.take(as_it_is), [1, 2, 3]);
    }

    #[test]
    fn what_lies_idle_is_made_to_fit_too() {
        let left = Left::<Vec<u8>>::default();
        let mut all: Vec<_> = (0..3).map(|_| left.take(|_| {})).collect();
        all.iter_mut().for_each(|one| one.reserve_exact(1000));
        drop(all);
        drop(left.take(|buffer| fit(buffer, 10)));
        assert_eq!(left.values().iter().map(Vec::capacity).sum::<usize>(), 0);
    }

    #[test]
    fn what_a_large_round_has_left_is_not_kept_for_small_ones() {
        let mut buffer = Vec::with_capacity(1000);
        for (bytes, kept) in [(900, true), (801, true), (790, false)] {
            fit(&mut buffer, bytes);
            assert_eq!(buffer.capacity() >= 1000, kept, "{bytes}");
        }
    }
}
