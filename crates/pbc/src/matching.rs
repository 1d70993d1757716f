//! Which keys can be served together: matching in the bipartite graph of keys and buckets.

use std::collections::VecDeque;

/// The buckets of every key, in one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    buckets: Vec<u32>,
    /// Of key `i`: `buckets[ends[i - 1]..ends[i]]`.
    ends: Vec<u32>,
}

impl Lists {
    /// Room for so many keys and buckets.
    pub(crate) fn with_capacity(keys: usize, buckets: usize) -> Self {
        Self { buckets: Vec::with_capacity(buckets), ends: Vec::with_capacity(keys) }
    }

    /// The next key, with these buckets.
    pub(crate) fn push(&mut self, buckets: impl IntoIterator<Item = u32>) {
        self.buckets.extend(buckets);
        // A list of 2^32 buckets would be one of more keys than buckets exist.
        self.ends.push(self.buckets.len() as u32);
    }

    /// The number of keys.
    pub(crate) const fn keys(&self) -> usize {
        self.ends.len()
    }

    /// The buckets of a key.
    pub(crate) fn of(&self, key: usize) -> &[u32] {
        let start = key.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.buckets[start as usize..self.ends[key] as usize]
    }
}

/// A bucket for every key, `None` for those that must be deferred; all candidates are below `buckets`.
///
/// Keys are taken in order and each is added by an augmenting path. Such a path never loses a key that has a bucket,
/// and the sets of keys that can be served together are the independent sets of a transversal matroid. So the greedy
/// order keeps the set that is best by priority, which is also one of the largest. The result depends on the
/// arguments alone; at most `keys * (sum of the candidates)` steps, no recursion.
///
/// Not constant time: which buckets are visited, and how many, follows from the candidates. What a client wants is scheduled by
/// [`crate::fair`] instead.
pub(crate) fn by_priority(candidates: &Lists, buckets: usize) -> Vec<Option<u32>> {
    complete(candidates, buckets, vec![None; candidates.keys()])
}

/// Adds to a schedule, which gives every key one of its candidates or none, and no bucket twice, the keys that have none.
pub(crate) fn complete(candidates: &Lists, buckets: usize, bucket_of: Vec<Option<u32>>) -> Vec<Option<u32>> {
    let mut key_in = vec![FREE; buckets];
    for (key, bucket) in (0..).zip(&bucket_of) {
        if let Some(bucket) = bucket {
            key_in[*bucket as usize] = key;
        }
    }
    let (reached, waiting) = (vec![(0, 0); buckets], VecDeque::new());
    let mut matching = Matching { candidates, bucket_of, key_in, reached, waiting };
    for key in 0..candidates.keys() {
        if matching.bucket_of[key].is_none() {
            matching.add(key);
        }
    }
    matching.bucket_of
}

/// No key.
const FREE: u32 = u32::MAX;

struct Matching<'a> {
    candidates: &'a Lists,
    bucket_of: Vec<Option<u32>>,
    key_in: Vec<u32>,
    /// The search that reached the bucket last, counted from 1, and from which key it did.
    reached: Vec<(u32, u32)>,
    waiting: VecDeque<u32>,
}

impl Matching<'_> {
    /// Searches breadth first for a free bucket and, if there is one, moves the keys on the way to it.
    fn add(&mut self, key: usize) {
        let search = key as u32 + 1;
        self.waiting.clear();
        self.waiting.push_back(key as u32);
        while let Some(from) = self.waiting.pop_front() {
            for &bucket in self.candidates.of(from as usize) {
                let reached = &mut self.reached[bucket as usize];
                if reached.0 == search {
                    continue;
                }
                *reached = (search, from);
                match self.key_in[bucket as usize] {
                    FREE => return self.shift_towards(bucket),
                    occupant => self.waiting.push_back(occupant),
                }
            }
        }
    }

    /// Every key on the path moves to the bucket that was reached from it; the last to move is the new key, which
    /// leaves no bucket behind.
    fn shift_towards(&mut self, free: u32) {
        let mut vacant = free;
        loop {
            let (_, key) = self.reached[vacant as usize];
            self.key_in[vacant as usize] = key;
            match self.bucket_of[key as usize].replace(vacant) {
                Some(bucket) => vacant = bucket,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Lists;

    fn by_priority(candidates: &[Vec<usize>], buckets: usize) -> Vec<Option<usize>> {
        let mut lists = Lists::default();
        for candidates in candidates {
            lists.push(candidates.iter().map(|bucket| *bucket as u32));
        }
        super::by_priority(&lists, buckets).into_iter().map(|bucket| bucket.map(|b| b as usize)).collect()
    }

    /// Whether these keys can all be served, by trying everything.
    fn servable(candidates: &[Vec<usize>], keys: &[usize], taken: u32) -> bool {
        let Some((&first, rest)) = keys.split_first() else { return true };
        candidates[first]
            .iter()
            .any(|&bucket| taken >> bucket & 1 == 0 && servable(candidates, rest, taken | 1 << bucket))
    }

    proptest! {
        /// A key deferred although it could be served is a lost message.
        #[test]
        fn deferral_only_where_no_matching_exists(
            candidates in proptest::collection::vec(proptest::collection::vec(0..6_usize, 0..4), 0..9),
        ) {
            let assigned = by_priority(&candidates, 6);
            let mut kept = Vec::new();
            for (key, bucket) in assigned.iter().enumerate() {
                kept.push(key);
                let possible = servable(&candidates, &kept, 0);
                prop_assert_eq!(bucket.is_some(), possible);
                if !possible {
                    kept.pop();
                }
            }
        }

        /// A bucket read twice would break the fixed pattern of queries; one outside the candidates reads garbage.
        #[test]
        fn every_bucket_serves_one_key_that_has_it_as_candidate(
            candidates in proptest::collection::vec(proptest::collection::vec(0..40_usize, 0..5), 0..60),
        ) {
            let assigned = by_priority(&candidates, 40);
            let mut used = assigned.iter().flatten().collect::<Vec<_>>();
            used.sort_unstable();
            prop_assert!(used.windows(2).all(|pair| pair[0] != pair[1]));
            for (bucket, candidates) in assigned.iter().zip(&candidates) {
                prop_assert!(bucket.is_none_or(|bucket| candidates.contains(&bucket)));
            }
        }
    }

    /// The longest possible chain of displacements must neither overflow a stack nor hit a limit.
    #[test]
    fn a_chain_through_all_buckets_is_followed_to_its_end() {
        let length = 20_000;
        let mut candidates = (0..length).map(|key| vec![key, key + 1]).collect::<Vec<_>>();
        candidates.push(vec![0]);
        let assigned = by_priority(&candidates, length + 1);
        assert_eq!(assigned[length], Some(0));
        assert!((0..length).all(|key| assigned[key] == Some(key + 1)));
    }
}
