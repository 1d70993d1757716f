//! What to ask of every bucket (lines 8 to 17 of paper Figure 8).

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::{BatchCode, BucketIndex, Oracle, Schedule};

/// A schedule together with the positions to read.
///
/// The whole plan is secret: it follows from the keys a client wants.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    /// For each of the `b` buckets the position to read, or `None` where any position will do.
    pub targets: Vec<Option<usize>>,
    schedule: Schedule,
}

impl Plan {
    /// Schedules `keys`, given in order of priority, over the buckets where the oracle finds them.
    ///
    /// The oracle is asked once at most for a key and a bucket, and only about buckets that hold a copy of the key's
    /// element ([`BatchCode::holder`]). A key that it finds nowhere is deferred, like one that
    /// finds all its buckets taken.
    pub fn new(code: &dyn BatchCode, keys: &[&[u8]], oracle: &dyn Oracle) -> Self {
        let known = RefCell::new(BTreeMap::new());
        let position = |key_number: usize, bucket: BucketIndex| -> Option<usize> {
            let key = keys.get(key_number)?;
            let bucket = code.holder(key, bucket);
            let mut known = known.borrow_mut();
            *known.entry((key_number, bucket)).or_insert_with(|| oracle.position(key_number, key, bucket))
        };

        let schedule = code.schedule(keys, &|key_number, bucket| position(key_number, bucket).is_some());
        let mut targets = vec![None; code.bucket_count()];
        for key_number in 0..keys.len() {
            for &bucket in schedule.assignment(key_number) {
                if let Some(target) = targets.get_mut(bucket.to_usize()) {
                    *target = position(key_number, bucket);
                }
            }
        }
        Self { targets, schedule }
    }

    /// The buckets that serve a key; none if it is deferred or there is no such key.
    pub fn assignment(&self, key_number: usize) -> &[BucketIndex] {
        self.schedule.assignment(key_number)
    }

    /// The number of keys, deferred ones included.
    pub const fn keys(&self) -> usize {
        self.schedule.keys()
    }

    /// The keys that are not read this time, by ascending number.
    pub fn deferred(&self) -> impl Iterator<Item = usize> + '_ {
        self.schedule.deferred()
    }
}

impl core::fmt::Debug for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Plan").field("buckets", &self.targets.len()).finish_non_exhaustive()
    }
}
