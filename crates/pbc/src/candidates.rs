//! The distinct places that hold one key's element.

use crate::BucketIndex;
use crate::hash::reduce;

/// The largest number of candidate buckets.
pub const MAX_CHOICES: usize = 8;

/// The distinct buckets that hold one key's element, in the order they are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    buckets: [BucketIndex; MAX_CHOICES],
    count: usize,
}

impl Candidates {
    /// `choices` of `buckets` buckets, of which there are at least as many: 1 to [`MAX_CHOICES`].
    ///
    /// Every ordered choice of distinct buckets is equally likely if the words are uniform: a word that names a bucket
    /// drawn before is passed over, with those that would bias the reduction.
    pub(crate) fn draw(words: &mut impl Iterator<Item = u64>, buckets: u32, choices: usize) -> Self {
        let mut candidates = Self::default();
        for bucket in words.filter_map(|word| reduce(word, buckets)) {
            candidates.add(BucketIndex(bucket));
            if candidates.count == choices {
                break;
            }
        }
        candidates
    }

    /// The buckets.
    pub fn as_slice(&self) -> &[BucketIndex] {
        &self.buckets[..self.count]
    }

    fn add(&mut self, bucket: BucketIndex) {
        if !self.contains(&bucket) {
            self.buckets[self.count] = bucket;
            self.count += 1;
        }
    }
}

impl Default for Candidates {
    fn default() -> Self {
        Self { buckets: [BucketIndex(0); MAX_CHOICES], count: 0 }
    }
}

impl core::ops::Deref for Candidates {
    type Target = [BucketIndex];

    fn deref(&self) -> &[BucketIndex] {
        self.as_slice()
    }
}

impl<'a> IntoIterator for &'a Candidates {
    type Item = &'a BucketIndex;
    type IntoIter = core::slice::Iter<'a, BucketIndex>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}
