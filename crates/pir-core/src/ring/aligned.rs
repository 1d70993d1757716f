//! Vectors that begin at a cache line: a 64-byte load that crosses one costs twice.

use core::ops::{Deref, DerefMut};

use aligned_vec::{AVec, CACHELINE_ALIGN};

/// A vector that begins at a cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aligned<T>(AVec<T>);

impl<T: Clone> Aligned<T> {
    /// `length` times the same value.
    #[must_use]
    pub fn filled(value: T, length: usize) -> Self {
        let mut vector = Self::default();
        vector.resize(length, value);
        vector
    }

    /// Truncates, or appends copies of `value`.
    pub fn resize(&mut self, length: usize, value: T) {
        self.0.resize(length, value);
    }

    /// Appends copies of all.
    pub fn extend_from_slice(&mut self, values: &[T]) {
        self.0.extend_from_slice(values);
    }
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Self(AVec::new(CACHELINE_ALIGN))
    }
}

impl<T> FromIterator<T> for Aligned<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(AVec::from_iter(CACHELINE_ALIGN, values))
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
