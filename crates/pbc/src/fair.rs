//! Schedules drawn so that which of its buckets serves a key does not tell what the other keys are.

use crate::matching::{self, Lists};

/// No key, or no bucket.
const NONE: u32 = u32::MAX;

/// A bucket for every key, `None` for those that must be deferred; all candidates are below `buckets`, and those of one
/// key are different. `words` gives random words.
///
/// The graph of keys and candidates has at most `w` edges at a key. Where it has no more than `w` at a bucket either, it
/// falls into `w` disjoint schedules of all keys (an edge colouring, which König's theorem promises), and one of them is
/// drawn: every key is served by each of its `w` candidates with probability `1 / w` exactly, whatever the other keys
/// are. At a bucket with more edges `w` of them, drawn at random, take part; keys that the schedule drawn leaves
/// without a bucket are then added by augmenting paths, in their order. A key is deferred only if it cannot be served
/// together with those added before it.
///
/// At most `edges * (keys + buckets)` steps.
pub(crate) fn draw(candidates: &Lists, buckets: usize, words: &mut dyn FnMut() -> u64) -> Vec<Option<u32>> {
    let colours = (0..candidates.keys()).map(|key| candidates.of(key).len()).max().unwrap_or(0);
    let mut edges: Vec<(u64, u32, u32)> = (0..candidates.keys())
        .flat_map(|key| candidates.of(key).iter().map(move |bucket| (key as u32, *bucket)))
        .map(|(key, bucket)| (words(), key, bucket))
        .collect();
    edges.sort_unstable();

    let mut colouring = Colouring {
        colours,
        bucket_at: vec![NONE; candidates.keys() * colours],
        key_at: vec![NONE; buckets * colours],
    };
    for (_, key, bucket) in edges {
        colouring.add(key as usize, bucket as usize);
    }
    // Biased by less than 2^-32: there are fewer colours than buckets have numbers.
    let drawn = ((u128::from(words()) * colours as u128) >> 64) as usize;
    let served = |key: usize| colouring.bucket_at.get(key * colours + drawn).copied();
    let schedule = (0..candidates.keys()).map(|key| served(key).filter(|bucket| *bucket != NONE)).collect();
    matching::complete(candidates, buckets, schedule)
}

/// Edges with colours, at each key and at each bucket at most one of a colour.
struct Colouring {
    colours: usize,
    /// Of key `i` the bucket at the other end of its edge of colour `c`: number `i * colours + c`.
    bucket_at: Vec<u32>,
    /// The same of buckets.
    key_at: Vec<u32>,
}

impl Colouring {
    /// Gives the edge a colour, unless the bucket has edges of all colours already.
    fn add(&mut self, key: usize, bucket: usize) {
        let free = |ends: &[u32], place: usize| {
            let colours = ends.get(place * self.colours..(place + 1) * self.colours)?;
            colours.iter().position(|end| *end == NONE)
        };
        // A key has no more edges than there are colours.
        let (Some(colour), Some(other)) = (free(&self.bucket_at, key), free(&self.key_at, bucket)) else {
            return;
        };
        self.exchange(bucket, colour, other);
        self.set(key, bucket, colour);
    }

    /// Frees `colour` at a bucket where `other` is free: exchanges the two along the path of such edges from there. It
    /// comes to a key by an edge of `colour` always, hence never to one where that is free.
    fn exchange(&mut self, bucket: usize, colour: usize, other: usize) {
        let mut path = Vec::new();
        let mut at = bucket;
        loop {
            let key = self.key_at[at * self.colours + colour];
            if key == NONE {
                break;
            }
            path.push((key as usize, at, other));
            let next = self.bucket_at[key as usize * self.colours + other];
            if next == NONE {
                break;
            }
            at = next as usize;
            path.push((key as usize, at, colour));
        }
        for (key, bucket, new) in &path {
            let old = if *new == colour { other } else { colour };
            self.bucket_at[key * self.colours + old] = NONE;
            self.key_at[bucket * self.colours + old] = NONE;
        }
        for (key, bucket, new) in path {
            self.set(key, bucket, new);
        }
    }

    fn set(&mut self, key: usize, bucket: usize, colour: usize) {
        self.bucket_at[key * self.colours + colour] = bucket as u32;
        self.key_at[bucket * self.colours + colour] = key as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::draw;
    use crate::matching::{Lists, by_priority};

    fn lists(candidates: &[Vec<u32>]) -> Lists {
        let mut lists = Lists::default();
        candidates.iter().for_each(|candidates| lists.push(candidates.iter().copied()));
        lists
    }

    /// How often each candidate serves the first key.
    fn served(candidates: &[Vec<u32>], trials: u32) -> Vec<u32> {
        let (lists, mut rng) = (lists(candidates), ChaCha8Rng::seed_from_u64(1));
        let mut served = vec![0; candidates[0].len()];
        for _ in 0..trials {
            let bucket = draw(&lists, 32, &mut || rng.next_u64())[0].unwrap();
            served[candidates[0].iter().position(|candidate| *candidate == bucket).unwrap()] += 1;
        }
        served
    }

    /// A key that competes for a bucket is served there as often as one that does not.
    #[test]
    fn competitors_do_not_move_a_key() {
        let worlds: [&[Vec<u32>]; 5] = [
            &[vec![1, 2, 3]],
            &[vec![1, 2, 3], vec![3, 4, 5]],
            &[vec![1, 2, 3], vec![1, 2, 3], vec![3, 2, 1]],
            &[vec![1, 2, 3], vec![3, 4, 5], vec![3, 6, 7], vec![4, 5, 6]],
            &[vec![1, 2, 3], vec![1, 4, 5], vec![2, 4, 5], vec![3, 4, 6], vec![6, 5, 1]],
        ];
        for world in worlds {
            let served = served(world, 30_000);
            // Five standard deviations.
            assert!(served.iter().all(|served| served.abs_diff(10_000) < 410), "{world:?}: {served:?}");
        }
    }

    proptest! {
        /// No bucket twice, only candidates, and as many keys as any schedule could serve.
        #[test]
        fn what_is_drawn_is_a_schedule_of_the_largest_size(
            candidates in proptest::collection::vec(
                proptest::sample::subsequence((0..8_u32).collect::<Vec<_>>(), 1..4), 0..9),
            seed in any::<u64>(),
        ) {
            let (lists, mut rng) = (lists(&candidates), ChaCha8Rng::seed_from_u64(seed));
            let drawn = draw(&lists, 8, &mut || rng.next_u64());
            let mut taken = Vec::new();
            for (bucket, candidates) in drawn.iter().zip(&candidates) {
                if let Some(bucket) = bucket {
                    prop_assert!(candidates.contains(bucket) && !taken.contains(bucket));
                    taken.push(*bucket);
                }
            }
            let largest = by_priority(&lists, 8).into_iter().flatten().count();
            prop_assert_eq!(taken.len(), largest);
        }
    }
}
