//! The distinct places that hold one key's element.

use crate::BucketIndex;
use crate::hash::{reduce, reduce_masked};
use crate::oblivious::{NONE, equal, put};

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

    /// The same without a branch or an address that depends on the words, of which it takes [`words_taken`]. With a probability
    /// below 2^-64 that is too few, and the last candidates are [`NONE`].
    pub(crate) fn draw_masked(
        words: impl Iterator<Item = u64>,
        buckets: u32,
        choices: usize,
    ) -> [u32; MAX_CHOICES] {
        let mut candidates = [NONE; MAX_CHOICES];
        // At most eight.
        let (mut count, all) = (0, choices as u32);
        for word in words.take(words_taken(buckets, choices)) {
            let (bucket, is_taken) = reduce_masked(word, buckets);
            let is_new = candidates.iter().fold(is_taken, |is_new, other| is_new & !equal(bucket, *other));
            let is_new = is_new & !equal(count, all);
            put(&mut candidates, count, bucket, is_new);
            count += 1 & is_new;
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

/// Words from which candidates are drawn in constant time. If `t` words gave fewer than all `w` of them, all `t` fell on some
/// `w - 1` of the `b` buckets, which happens with a probability below `b^(w - 1) ((w - 1) / b)^t`: at most 2^-64. Two more
/// are for words that are refused.
pub(crate) fn words_taken(buckets: u32, choices: usize) -> usize {
    let (b, others) = (f64::from(buckets), choices.saturating_sub(1) as f64);
    let words = if others > 0.0 { (64.0 + others * b.log2()) / (b / others).log2() } else { 0.0 };
    // No more than a few hundred: there are at least as many buckets as candidates.
    words.ceil() as usize + 2
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

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Candidates, MAX_CHOICES, words_taken};
    use crate::oblivious::NONE;

    /// A client that finds other candidates than its server looks where nothing is.
    #[test]
    fn candidates_drawn_in_constant_time_are_those_that_are_drawn_otherwise() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (buckets, choices) in
            [(1, 1), (2, 1), (2, 2), (3, 3), (8, 8), (9, 8), (32, 3), (36, 4), (1024, 3), (1 << 31, 8)]
        {
            for _ in 0..300 {
                let words: Vec<u64> = (0..words_taken(buckets, choices)).map(|_| rng.next_u64()).collect();
                let expected = Candidates::draw(&mut words.iter().copied(), buckets, choices);
                let masked = Candidates::draw_masked(words.iter().copied(), buckets, choices);
                assert_eq!(masked[..choices], expected.iter().map(|bucket| bucket.0).collect::<Vec<_>>());
                assert_eq!(masked[choices..], [NONE; MAX_CHOICES][choices..]);
            }
        }
        // Refused words are passed over, and what is missing at the end is none.
        assert_eq!(Candidates::draw_masked([0, 1, 1, u64::MAX].into_iter(), 3, 3)[..3], [0, 2, NONE]);
    }

    /// One more word would find another candidate in more than one of 2^64 cases otherwise.
    #[test]
    fn words_are_as_many_as_it_takes() {
        assert_eq!([(1, 1), (32, 3), (8, 8)].map(|(b, w)| words_taken(b, w)), [2, 21, 444]);
    }
}
