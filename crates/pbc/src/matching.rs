//! Which keys can be served together: matching in the bipartite graph of keys and buckets.

use std::collections::VecDeque;

/// A bucket for every key, `None` for those that must be deferred; `candidates[i]` are the buckets of key `i`, all
/// below `buckets`.
///
/// Keys are taken in order and each is added by an augmenting path. Such a path never loses a key that has a bucket,
/// and the sets of keys that can be served together are the independent sets of a transversal matroid. So the greedy
/// order keeps the set that is best by priority, which is also one of the largest. The result depends on the
/// arguments alone; at most `keys * (sum of the candidates)` steps, no recursion.
pub(crate) fn by_priority(candidates: &[Vec<usize>], buckets: usize) -> Vec<Option<usize>> {
    let mut matching =
        Matching { candidates, bucket_of: vec![None; candidates.len()], key_in: vec![None; buckets] };
    for key in 0..candidates.len() {
        matching.add(key);
    }
    matching.bucket_of
}

struct Matching<'a> {
    candidates: &'a [Vec<usize>],
    bucket_of: Vec<Option<usize>>,
    key_in: Vec<Option<usize>>,
}

impl Matching<'_> {
    /// Searches breadth first for a free bucket and, if there is one, moves the keys on the way to it.
    fn add(&mut self, key: usize) {
        let mut reached_from = vec![None; self.key_in.len()];
        let mut waiting = VecDeque::from([key]);
        while let Some(from) = waiting.pop_front() {
            for &bucket in &self.candidates[from] {
                if reached_from[bucket].is_some() {
                    continue;
                }
                reached_from[bucket] = Some(from);
                match self.key_in[bucket] {
                    Some(occupant) => waiting.push_back(occupant),
                    None => return self.shift_towards(bucket, &reached_from),
                }
            }
        }
    }

    /// Every key on the path moves to the bucket that was reached from it; the last to move is the new key, which
    /// leaves no bucket behind.
    fn shift_towards(&mut self, free: usize, reached_from: &[Option<usize>]) {
        let mut vacant = Some(free);
        while let Some(bucket) = vacant {
            let Some(key) = reached_from[bucket] else { return };
            vacant = self.bucket_of[key].replace(bucket);
            self.key_in[bucket] = Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::by_priority;

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
