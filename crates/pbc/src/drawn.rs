//! The result of GenSchedule for what must not show.

use zeroize::Zeroizing;

use crate::oblivious::NONE;
use crate::{BucketIndex, Schedule};

/// The buckets to read for every key, in rows of the same length: nothing about which keys are wanted, deferred or served by
/// which bucket shows in branches or addresses of whoever reads [`Drawn::row`] with the functions of [`crate::oblivious`].
///
/// No bucket occurs twice. It is erased on drop.
#[derive(Clone)]
pub struct Drawn {
    /// Buckets of a row.
    width: usize,
    buckets: Zeroizing<Vec<u32>>,
}

impl Drawn {
    /// One bucket for each key, or [`NONE`].
    pub(crate) const fn of_buckets(buckets: Zeroizing<Vec<u32>>) -> Self {
        Self { width: 1, buckets }
    }

    /// What a schedule says, whose keys have up to so many buckets.
    pub(crate) fn of_schedule(schedule: &Schedule, width: usize) -> Self {
        let row = |key| schedule.assignment(key).iter().map(|bucket| bucket.0);
        let filled = |key| row(key).chain(core::iter::repeat(NONE)).take(width);
        Self { width, buckets: Zeroizing::new((0..schedule.keys()).flat_map(filled).collect()) }
    }

    /// The buckets that are read for a key, behind them [`NONE`]; nothing for a key that was not given.
    #[must_use]
    pub fn row(&self, key_number: usize) -> &[u32] {
        self.buckets.chunks_exact(self.width).nth(key_number).unwrap_or_default()
    }

    /// The same where it may show: the buckets to read for a key; none if it is not wanted or deferred.
    #[must_use]
    pub fn assignment(&self, key_number: usize) -> Vec<BucketIndex> {
        self.row(key_number)
            .iter()
            .filter(|bucket| **bucket != NONE)
            .map(|bucket| BucketIndex(*bucket))
            .collect()
    }
}

impl core::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Drawn").finish_non_exhaustive()
    }
}
