//! The result of GenSchedule: which buckets to read for which key.

use crate::BucketIndex;

/// For every key the buckets to read; no bucket occurs twice in a schedule made by [`crate::BatchCode::schedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    assignments: Vec<Vec<BucketIndex>>,
}

impl Schedule {
    /// A schedule from the buckets of every key, in the order of the keys; none for a deferred key.
    pub const fn new(assignments: Vec<Vec<BucketIndex>>) -> Self {
        Self { assignments }
    }

    /// A schedule in which one bucket serves a key, or none.
    pub(crate) fn of_buckets(assigned: Vec<Option<u32>>) -> Self {
        let buckets = |bucket: Option<u32>| bucket.map(BucketIndex).into_iter().collect();
        Self::new(assigned.into_iter().map(buckets).collect())
    }

    /// The number of keys, deferred ones included.
    pub const fn keys(&self) -> usize {
        self.assignments.len()
    }

    /// The buckets to read for a key; none if it is deferred or there is no such key.
    pub fn assignment(&self, key_number: usize) -> &[BucketIndex] {
        self.assignments.get(key_number).map_or(&[], Vec::as_slice)
    }

    /// The keys that must wait for another round, by ascending number.
    pub fn deferred(&self) -> impl Iterator<Item = usize> + '_ {
        let empty = |(key_number, buckets): (usize, &Vec<_>)| buckets.is_empty().then_some(key_number);
        self.assignments.iter().enumerate().filter_map(empty)
    }

    /// Whether every key is served: the paper's schedule, as against its failure symbol.
    pub fn is_complete(&self) -> bool {
        self.deferred().next().is_none()
    }
}
