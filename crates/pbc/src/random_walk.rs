//! The paper's way to place keys (section 4.5): displace at random, and give up after a while.

use crate::matching::Lists;

/// How the cuckoo code places the wanted keys in their candidate buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// By augmenting paths: fails only where no complete schedule exists, and then keeps the most important keys.
    Matching,
    /// By a random walk, as in the paper: a key that finds all its buckets taken displaces one of the keys there, which
    /// looks for another bucket. After so many displacements in one batch, every further key that would have to
    /// displace another one is deferred, and so is the one displaced last: it pays no heed to priorities.
    RandomWalk {
        /// The most displacements in one batch.
        displacements: u32,
    },
}

/// No key.
const FREE: u32 = u32::MAX;

/// A bucket for every key, `None` for those that are deferred; all candidates are below `buckets`. The words choose
/// whom to displace.
pub(crate) fn place(
    candidates: &Lists,
    buckets: usize,
    mut displacements: u32,
    words: &mut impl Iterator<Item = u64>,
) -> Vec<Option<u32>> {
    let mut key_in = vec![FREE; buckets];
    let mut bucket_of = vec![None; candidates.keys()];
    for new in 0..candidates.keys() {
        let mut key = new;
        loop {
            let buckets = candidates.of(key);
            if let Some(&free) = buckets.iter().find(|bucket| key_in[**bucket as usize] == FREE) {
                // Keys are fewer than 2^32, the number of buckets.
                key_in[free as usize] = key as u32;
                bucket_of[key] = Some(free);
                break;
            }
            let Some(left) = displacements.checked_sub(1) else { break };
            let Some(&taken) = words.next().and_then(|word| buckets.get(below(word, buckets.len()))) else {
                break;
            };
            displacements = left;
            bucket_of[key] = Some(taken);
            key = core::mem::replace(&mut key_in[taken as usize], key as u32) as usize;
            bucket_of[key] = None;
        }
    }
    bucket_of
}

/// Nearly uniform, which is all that a choice of whom to displace needs.
fn below(word: u64, bound: usize) -> usize {
    // The upper half of the product is below `bound`.
    ((u128::from(word) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::place;
    use crate::matching::{Lists, by_priority};

    fn lists(candidates: &[Vec<u32>]) -> Lists {
        let mut lists = Lists::default();
        candidates.iter().for_each(|buckets| lists.push(buckets.iter().copied()));
        lists
    }

    proptest! {
        /// A displaced key that is neither placed again nor reported is a message lost without a word.
        #[test]
        fn every_key_has_a_bucket_of_its_own_or_none(
            candidates in proptest::collection::vec(proptest::collection::vec(0..12_u32, 0..4), 0..16),
            displacements in 0..40_u32,
            seed in any::<u64>(),
        ) {
            let lists = lists(&candidates);
            let mut words = (0..).map(|i: u64| seed.wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let placed = place(&lists, 12, displacements, &mut words);
            let mut used: Vec<u32> = placed.iter().flatten().copied().collect();
            used.sort_unstable();
            prop_assert!(used.windows(2).all(|pair| pair[0] != pair[1]));
            for (bucket, candidates) in placed.iter().zip(&candidates) {
                prop_assert!(bucket.is_none_or(|bucket| candidates.contains(&bucket)));
            }
            let most = by_priority(&lists, 12).iter().flatten().count();
            prop_assert!(used.len() <= most);
        }
    }

    /// Where every key has a free bucket nothing may be displaced, and where none has the walk must end.
    #[test]
    fn the_walk_ends() {
        let mut words = core::iter::repeat(1 << 63);
        assert_eq!(place(&lists(&[vec![0, 1], vec![0, 1]]), 2, 0, &mut words), [Some(0), Some(1)]);
        let stuck = place(&lists(&[vec![0, 1], vec![0, 1], vec![0, 1]]), 2, 1_000, &mut words);
        assert_eq!(stuck.iter().flatten().count(), 2);
    }
}
