//! The number of a bucket.

/// Which of a code's `b` buckets, counted from 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketIndex(pub u32);

impl BucketIndex {
    /// The bucket as a position in a list of buckets.
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }

    /// The bucket at a position in a list of buckets; `None` from 2^32 on.
    pub fn from_usize(position: usize) -> Option<Self> {
        u32::try_from(position).ok().map(Self)
    }
}

impl From<BucketIndex> for usize {
    fn from(bucket: BucketIndex) -> Self {
        bucket.to_usize()
    }
}
