//! The cuckoo code over indices, with buckets of exactly equal size and positions that need no mapping.

use core::fmt;

use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::fair::{self, Rows};
use crate::hash::{KeyedHash, domain, reduce};
use crate::matching::{self, Lists};
use crate::oblivious::{mask, select};
use crate::permutation::{Divisor, Permutation};
use crate::{
    BatchCode, BucketIndex, Codeword, Drawn, Encoding, Error, MAX_CHOICES, Oracle, RandomBatch, Schedule,
};

const PERMUTATIONS: [u8; 32] = domain("sotto/pbc/v1/partitioned/groups");

/// Reverse cuckoo hashing of the indices `0..n` with `w` groups of `b / w` buckets: group `j` has a keyed permutation
/// `p_j`, and holds element `i` in its bucket `p_j(i) mod (b / w)` at position `p_j(i) div (b / w)`.
///
/// * Every bucket has exactly [`PartitionedCode::bucket_size`] codewords, `w n / b` rounded up; the few places that no
///   index falls on are zeros.
/// * The candidates of an index are always distinct, one in each group.
/// * Bucket and position of an index take tables of about `10 sqrt(n)` numbers a group and, in
///   [constant time](PartitionedCode::places), a few passes over them: there is nothing to download, and no insertion to
///   simulate. The code is its own [`Oracle`].
///
/// The price is a higher failure probability than that of candidates in all buckets, since fewer choices are
/// different: see [`crate::partitioned_bound_log2`].
///
/// Keys are indices: eight bytes, little-endian ([`PartitionedCode::key`]). Of the elements given to Encode, those
/// whose key is none, or one given before, are not stored.
#[derive(Clone)]
pub struct PartitionedCode {
    batch_size: usize,
    elements: u32,
    group_buckets: u32,
    by_buckets: Divisor,
    bucket_size: u32,
    permutations: Vec<Permutation>,
}

/// Where the copies of one element are: a bucket of each group, and the position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    places: [(BucketIndex, usize); MAX_CHOICES],
    count: usize,
}

impl Places {
    /// The places, in the order of the groups.
    pub fn as_slice(&self) -> &[(BucketIndex, usize)] {
        &self.places[..self.count]
    }
}

impl IntoIterator for Places {
    type Item = (BucketIndex, usize);
    type IntoIter = core::iter::Take<core::array::IntoIter<(BucketIndex, usize), MAX_CHOICES>>;

    fn into_iter(self) -> Self::IntoIter {
        self.places.into_iter().take(self.count)
    }
}

impl PartitionedCode {
    /// The code for batches of `k` of the indices below `n`, with `w` groups of `b / w` buckets.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `1 <= w <= 8`, `w` divides `b`, `1 <= k <= b` and `n + b <= 2^32`.
    pub fn new(k: usize, b: usize, w: usize, n: usize, seed: [u8; 32]) -> Result<Self, Error> {
        if k == 0 || b < k {
            return Err(Error::Parameters(
                "a batch has at least one key, and not more than there are buckets",
            ));
        }
        if !(1..=MAX_CHOICES).contains(&w) || !b.is_multiple_of(w) {
            return Err(Error::Parameters("between 1 and 8 groups of equally many buckets"));
        }
        let too_many = Error::Parameters("too many indices or buckets");
        if n.checked_add(b).is_none_or(|sum| u32::try_from(sum).is_err()) {
            return Err(too_many);
        }
        // All of them at most n + b.
        let (elements, group_buckets) = (n as u32, (b / w) as u32);
        let bucket_size = elements.div_ceil(group_buckets);
        let hash = KeyedHash::new(&PERMUTATIONS, &seed);
        // Groups are at most eight.
        let permutation = |group: usize| Permutation::new(bucket_size * group_buckets, &hash, &[group as u8]);
        let permutations = (0..w).map(permutation).collect();
        let by_buckets = Divisor::new(group_buckets);
        Ok(Self { batch_size: k, elements, group_buckets, by_buckets, bucket_size, permutations })
    }

    /// The key of an index.
    pub const fn key(index: u64) -> [u8; 8] {
        index.to_le_bytes()
    }

    /// The number `n` of indices.
    pub const fn elements(&self) -> usize {
        self.elements as usize
    }

    /// The number of codewords in every bucket.
    pub const fn bucket_size(&self) -> usize {
        self.bucket_size as usize
    }

    /// The bucket of each group that holds an index below `n`, and the position there, in constant time: neither branches nor
    /// addresses nor divisions depend on the index. Those of another number mean nothing.
    pub fn places(&self, index: u32) -> Places {
        let mut places = [(BucketIndex(0), 0); MAX_CHOICES];
        for (group, (place, permutation)) in (0..).zip(places.iter_mut().zip(&self.permutations)) {
            let (position, bucket) = self.by_buckets.divide(permutation.forward(index).into());
            *place = (BucketIndex(group * self.group_buckets + bucket), position as usize);
        }
        Places { places, count: self.permutations.len() }
    }

    fn index(key: &[u8]) -> Option<u64> {
        key.try_into().ok().map(u64::from_le_bytes)
    }

    fn own_index(&self, key: &[u8]) -> Option<u32> {
        Self::index(key).and_then(|index| index.try_into().ok()).filter(|index| *index < self.elements)
    }
}

impl BatchCode for PartitionedCode {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn bucket_count(&self) -> usize {
        self.group_buckets as usize * self.permutations.len()
    }

    fn encode(&self, keys: &[&[u8]]) -> Encoding {
        const NOTHING: Codeword = Codeword::nothing();
        let of_group = |permutation: &Permutation| {
            let mut buckets = vec![vec![NOTHING; self.bucket_size()]; self.group_buckets as usize];
            for (element, key) in (0..=u32::MAX).zip(keys) {
                let Some(index) = self.own_index(key) else { continue };
                let (position, bucket) = self.by_buckets.divide(permutation.forward_vartime(index).into());
                let place = &mut buckets[bucket as usize][position as usize];
                if *place == NOTHING {
                    *place = Codeword::copy(element);
                }
            }
            buckets
        };
        let buckets = self.permutations.par_iter().flat_map_iter(of_group).collect();
        Encoding::of_copies(keys.len(), buckets, 1)
    }

    fn schedule_wanted(&self, keys: &[&[u8]], wanted: &[bool], words: &mut dyn FnMut() -> u64) -> Drawn {
        let mut rows = Rows::with_capacity(keys.len(), self.permutations.len());
        for (key, wanted) in keys.iter().zip(wanted.iter().chain(core::iter::repeat(&false))) {
            let index = Self::index(key).unwrap_or(u64::MAX);
            let is_own = mask(core::hint::black_box(index) < self.elements.into());
            // Of an index that is none, anything, which the mask takes away.
            let index = select(is_own, index as u32, 0);
            rows.push(self.places(index).into_iter().map(|(bucket, _)| bucket.0), mask(*wanted) & is_own);
        }
        Drawn::of_buckets(fair::draw(&rows, self.bucket_count(), words))
    }

    fn schedule(&self, keys: &[&[u8]], usable: &dyn Fn(usize, BucketIndex) -> bool) -> Schedule {
        let mut lists = Lists::with_capacity(keys.len(), keys.len() * self.permutations.len());
        for (key_number, key) in keys.iter().enumerate() {
            let places = self.own_index(key).into_iter().flat_map(|index| self.places(index));
            lists.push(places.filter(|(bucket, _)| usable(key_number, *bucket)).map(|(bucket, _)| bucket.0));
        }
        Schedule::of_buckets(matching::by_priority(&lists, self.bucket_count()))
    }

    fn decode(&self, codewords: &[&[u8]]) -> Result<Vec<u8>, Error> {
        crate::reverse_hash::decode_copy(codewords)
    }
}

/// The third of the paper's ways to the oracle: it is computed.
impl Oracle for PartitionedCode {
    fn position(&self, _key_number: usize, key: &[u8], bucket: BucketIndex) -> Option<usize> {
        let mut places = self.own_index(key).into_iter().flat_map(|index| self.places(index));
        places.find_map(|(place, position)| (place == bucket).then_some(position))
    }
}

impl RandomBatch for PartitionedCode {
    fn serves_batch(&self, words: &mut dyn FnMut() -> u64) -> bool {
        let mut words = core::iter::from_fn(|| Some(words()));
        let mut lists = Lists::with_capacity(self.batch_size, self.batch_size * self.permutations.len());
        for _ in 0..self.batch_size {
            let buckets = words.by_ref().filter_map(|word| reduce(word, self.group_buckets));
            let groups = (0..).zip(buckets).take(self.permutations.len());
            lists.push(groups.map(|(group, bucket): (u32, u32)| group * self.group_buckets + bucket));
        }
        matching::by_priority(&lists, self.bucket_count()).iter().all(Option::is_some)
    }
}

impl fmt::Debug for PartitionedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionedCode")
            .field("batch_size", &self.batch_size)
            .field("elements", &self.elements)
            .field("groups", &self.permutations.len())
            .field("group_buckets", &self.group_buckets)
            .field("bucket_size", &self.bucket_size)
            .finish_non_exhaustive()
    }
}
