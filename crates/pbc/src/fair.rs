//! Schedules drawn so that which of its buckets serves a key does not tell what the other keys are, and without a branch or an
//! address that does.

use core::hint::black_box;

use pulp::{Simd, WithSimd};
use zeroize::Zeroizing;

use crate::oblivious::{NONE, equal, select, sort, vectors};
use crate::oblivious_lanes::{look_up, put, put_all, swap};

/// The candidate buckets of keys, as many for each; [`NONE`] fills up.
pub(crate) struct Rows {
    width: usize,
    buckets: Zeroizing<Vec<u32>>,
}

impl Rows {
    /// Room for so many keys with so many candidates.
    pub(crate) fn with_capacity(keys: usize, width: usize) -> Self {
        Self { width, buckets: Zeroizing::new(Vec::with_capacity(keys * width)) }
    }

    /// The next key, which has these candidates if the mask says that it is wanted, and none otherwise.
    pub(crate) fn push(&mut self, buckets: impl IntoIterator<Item = u32>, wanted: u32) {
        let filled = buckets.into_iter().chain(core::iter::repeat(NONE)).take(self.width);
        self.buckets.extend(filled.map(|bucket| select(wanted, bucket, NONE)));
    }

    fn keys(&self) -> usize {
        self.buckets.len().checked_div(self.width).unwrap_or(0)
    }
}

/// A bucket for every key, [`NONE`] for those that must be deferred; all candidates are below `buckets`, and those of one
/// key are different. `words` gives random words: one for each candidate, and one more.
///
/// The graph of keys and candidates has at most `w` edges at a key. Where it has no more than `w` at a bucket either, it
/// falls into `w` disjoint schedules of all keys (an edge colouring, which König's theorem promises), and one of them is
/// drawn: every key is served by each of its `w` candidates with probability `1 / w` exactly, whatever the other keys
/// are. At a bucket with more edges `w` of them, drawn at random, take part; keys that the schedule drawn leaves
/// without a bucket are then added by augmenting paths, in their order. A key is deferred only if it cannot be served
/// together with those added before it.
///
/// Constant time: every list is read whole for each of its entries, and all paths are followed for as many steps as the
/// longest could have. Of `k` keys, `w` candidates and `b` buckets these are about `2 w k^2 (k + b) + k^2 w (k + 2 b)` entries.
pub(crate) fn draw(rows: &Rows, buckets: usize, words: &mut dyn FnMut() -> u64) -> Zeroizing<Vec<u32>> {
    let order = shuffled(rows.buckets.len(), words);
    let drawn = words();
    vectors().dispatch(Assignment { rows, buckets, order: &order, drawn })
}

/// The numbers of so many edges, in the order of words drawn for them.
pub(crate) fn shuffled(edges: usize, words: &mut dyn FnMut() -> u64) -> Zeroizing<Vec<u32>> {
    let places = edges.next_power_of_two();
    // As many bits as the number of an edge has at most. Two words that are alike in all others, which is rare, are in the order
    // of the edges.
    let bits = places.trailing_zeros();
    let mut keyed = Zeroizing::new(Vec::with_capacity(places));
    keyed.extend((0..edges as u64).map(|edge| (words() >> (bits + 1) << bits) | edge));
    // What is no edge comes last.
    keyed.resize(places, u64::MAX >> 1);
    sort(&mut keyed);
    // Below the number of edges, which has 32 bits.
    Zeroizing::new(keyed.iter().take(edges).map(|word| (word & ((1 << bits) - 1)) as u32).collect())
}

/// Edges that are given colours in an order, and the colour of the schedule that is drawn.
struct Assignment<'a> {
    rows: &'a Rows,
    buckets: usize,
    order: &'a [u32],
    drawn: u64,
}

impl WithSimd for Assignment<'_> {
    type Output = Zeroizing<Vec<u32>>;

    /// Inlined, like what it calls, so that it is compiled for each instruction set: hence no closure here has a vector in
    /// it, which would not be.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { rows, buckets, order, drawn } = self;
        let (keys, colours) = (rows.keys(), rows.width);
        let mut colouring = Colouring {
            colours,
            bucket_at: Zeroizing::new(vec![NONE; keys * colours]),
            key_at: Zeroizing::new(vec![NONE; buckets * colours]),
            path: Path::new(keys, buckets),
        };
        let key_of: Vec<u32> = (0..keys as u32).flat_map(|key| core::iter::repeat_n(key, colours)).collect();
        for edge in order {
            let (key, bucket) = (look_up(simd, &key_of, *edge), look_up(simd, &rows.buckets, *edge));
            colouring.add(simd, key, bucket);
        }
        // Biased by less than 2^-32: there are fewer colours than buckets have numbers.
        let drawn = ((u128::from(drawn) * colours as u128) >> 64) as u32;
        let mut bucket_of = Zeroizing::new(vec![NONE; keys]);
        for (colour, of_colour) in (0..).zip(colouring.bucket_at.chunks_exact(keys.max(1))) {
            put_all(simd, &mut bucket_of, of_colour, equal(colour, black_box(drawn)));
        }
        Matching::new(simd, rows, buckets, bucket_of).complete(simd)
    }
}

/// Edges with colours, at each key and at each bucket at most one of a colour.
struct Colouring {
    colours: usize,
    /// Of all keys the buckets at the other ends of their edges of the first colour, then of the second and so on.
    bucket_at: Zeroizing<Vec<u32>>,
    /// The same of buckets.
    key_at: Zeroizing<Vec<u32>>,
    path: Path,
}

/// Of two colours the entries of all keys and buckets, taken out.
struct Path {
    keys: [Zeroizing<Vec<u32>>; 2],
    buckets: [Zeroizing<Vec<u32>>; 2],
}

impl Path {
    fn new(keys: usize, buckets: usize) -> Self {
        let two = |entries: usize| [(); 2].map(|()| Zeroizing::new(vec![NONE; entries]));
        Self { keys: two(keys), buckets: two(buckets) }
    }
}

impl Colouring {
    /// Gives the edge a colour, unless it is none, or the bucket has edges of all colours already.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, key: u32, bucket: u32) {
        // A key has no more edges than there are colours.
        let (colour, _) = self.free(simd, &self.bucket_at, key);
        let (other, exists) = self.free(simd, &self.key_at, bucket);
        let is_edge = !equal(bucket, NONE) & exists;
        self.exchange(simd, bucket, [colour, other], is_edge);
        self.set(simd, key, bucket, colour, is_edge);
    }

    /// The first colour of which a key or a bucket has no edge, and whether there is one.
    #[inline(always)]
    fn free<S: Simd>(&self, simd: S, ends: &[u32], at: u32) -> (u32, u32) {
        let of_colours = ends.chunks_exact((ends.len() / self.colours).max(1));
        let (mut found, mut exists) = (0, 0);
        for (colour, ends) in (0..).zip(of_colours) {
            let is_free = equal(look_up(simd, ends, at), NONE);
            found = select(is_free & !exists, colour, found);
            exists |= is_free;
        }
        (found, exists)
    }

    /// Frees the first of two colours at a bucket where the other one is free: exchanges the two at every bucket and key on
    /// the path of such edges from there. It comes to a key by an edge of the first always, hence never to one where that is
    /// free, and to no key and no bucket twice.
    #[inline(always)]
    fn exchange<S: Simd>(&mut self, simd: S, bucket: u32, colours: [u32; 2], is_edge: u32) {
        let Self { bucket_at, key_at, path, .. } = self;
        for (taken, colour) in [0, 1].into_iter().zip(colours) {
            take_out(simd, bucket_at, &mut path.keys[taken], colour);
            take_out(simd, key_at, &mut path.buckets[taken], colour);
        }
        let mut at = select(is_edge, bucket, NONE);
        for _ in 0..path.keys[0].len() {
            let [key, _] = exchanged(simd, &mut path.buckets, at);
            [_, at] = exchanged(simd, &mut path.keys, key);
        }
        exchanged(simd, &mut path.buckets, at);
        // Where both are the same, what was taken out twice has not changed.
        for (taken, colour) in [0, 1].into_iter().zip(colours) {
            put_back(simd, bucket_at, &path.keys[taken], colour);
            put_back(simd, key_at, &path.buckets[taken], colour);
        }
    }

    #[inline(always)]
    fn set<S: Simd>(&mut self, simd: S, key: u32, bucket: u32, colour: u32, is_edge: u32) {
        let (keys, buckets) = (self.path.keys[0].len(), self.path.buckets[0].len());
        let of_colours = self.bucket_at.chunks_exact_mut(keys).zip(self.key_at.chunks_exact_mut(buckets));
        for (here, (bucket_at, key_at)) in (0..).zip(of_colours) {
            let is_here = equal(here, black_box(colour)) & is_edge;
            put(simd, bucket_at, key, bucket, is_here);
            put(simd, key_at, bucket, key, is_here);
        }
    }
}

#[inline(always)]
fn take_out<S: Simd>(simd: S, all: &[u32], taken: &mut [u32], colour: u32) {
    for (here, of_colour) in (0..).zip(all.chunks_exact(taken.len().max(1))) {
        put_all(simd, taken, of_colour, equal(here, black_box(colour)));
    }
}

#[inline(always)]
fn put_back<S: Simd>(simd: S, all: &mut [u32], taken: &[u32], colour: u32) {
    for (here, of_colour) in (0..).zip(all.chunks_exact_mut(taken.len().max(1))) {
        put_all(simd, of_colour, taken, equal(here, black_box(colour)));
    }
}

/// Exchanges the two entries of a place, which are what they were; those of no place are [`NONE`].
#[inline(always)]
fn exchanged<S: Simd>(simd: S, [first, second]: &mut [Zeroizing<Vec<u32>>; 2], at: u32) -> [u32; 2] {
    let nowhere = equal(at, NONE);
    let [one, other] = swap(simd, first, second, at);
    [one | nowhere, other | nowhere]
}

/// Breadth-first searches for paths to free buckets.
struct Matching<'a> {
    rows: &'a Rows,
    bucket_of: Zeroizing<Vec<u32>>,
    key_in: Zeroizing<Vec<u32>>,
    /// From which key the search has come to the bucket.
    reached: Zeroizing<Vec<u32>>,
    /// Keys from which it goes on. It comes to none twice.
    waiting: Zeroizing<Vec<u32>>,
    /// Candidates of all keys, first the first ones.
    candidates: Zeroizing<Vec<u32>>,
}

impl<'a> Matching<'a> {
    #[inline(always)]
    fn new<S: Simd>(simd: S, rows: &'a Rows, buckets: usize, bucket_of: Zeroizing<Vec<u32>>) -> Self {
        let (keys, width) = (rows.keys(), rows.width);
        let mut key_in = Zeroizing::new(vec![NONE; buckets]);
        for (key, bucket) in (0..).zip(bucket_of.iter()) {
            put(simd, &mut key_in, *bucket, key, u32::MAX);
        }
        let of_choice = |choice: usize| rows.buckets.iter().skip(choice).step_by(width.max(1)).copied();
        let candidates = Zeroizing::new((0..width).flat_map(of_choice).collect());
        let list = |entries: usize| Zeroizing::new(vec![NONE; entries]);
        Self { rows, bucket_of, key_in, reached: list(buckets), waiting: list(keys), candidates }
    }

    #[inline(always)]
    fn complete<S: Simd>(mut self, simd: S) -> Zeroizing<Vec<u32>> {
        for key in 0..self.rows.keys() {
            self.add(simd, key);
        }
        self.bucket_of
    }

    /// Searches for a free bucket and, if there is one, moves the keys on the way to it; if the key has no bucket yet.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, key: usize) {
        let keys = self.rows.keys();
        self.reached.fill(NONE);
        self.waiting.fill(NONE);
        self.waiting[0] = select(equal(self.bucket_of[key], NONE), key as u32, NONE);
        let (mut found, mut waiting) = (NONE, 1);
        for number in 0..keys {
            let from = self.waiting[number];
            for candidates in self.candidates.chunks_exact(keys) {
                let bucket = look_up(simd, candidates, from);
                // Of no key, and of one without this candidate, there is no such bucket.
                let bucket = select(equal(from, NONE), NONE, bucket);
                let is_new = equal(look_up(simd, &self.reached, bucket), NONE)
                    & !equal(bucket, NONE)
                    & equal(found, NONE);
                put(simd, &mut self.reached, bucket, from, is_new);
                let occupant = look_up(simd, &self.key_in, bucket);
                let is_free = equal(occupant, NONE);
                found = select(is_new & is_free, bucket, found);
                put(simd, &mut self.waiting, waiting, occupant, is_new & !is_free);
                waiting += 1 & is_new & !is_free;
            }
        }
        // Every key on the path moves to the bucket that was reached from it; the last to move is the new key, which leaves
        // no bucket behind.
        for _ in 0..keys {
            let is_on = !equal(found, NONE);
            let mover = look_up(simd, &self.reached, found);
            let left = look_up(simd, &self.bucket_of, mover);
            put(simd, &mut self.key_in, found, mover, is_on);
            put(simd, &mut self.bucket_of, mover, found, is_on);
            found = select(is_on, left, NONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Rows, draw};
    use crate::matching::{Lists, by_priority, complete};
    use crate::oblivious::NONE;

    fn rows(candidates: &[Vec<u32>], width: usize) -> Rows {
        let mut rows = Rows::with_capacity(candidates.len(), width);
        candidates.iter().for_each(|candidates| rows.push(candidates.iter().copied(), u32::MAX));
        rows
    }

    fn lists(candidates: &[Vec<u32>]) -> Lists {
        let mut lists = Lists::default();
        candidates.iter().for_each(|candidates| lists.push(candidates.iter().copied()));
        lists
    }

    fn drawn(
        candidates: &[Vec<u32>],
        width: usize,
        buckets: usize,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Option<u32>> {
        let drawn = draw(&rows(candidates, width), buckets, &mut || rng.next_u64());
        drawn.iter().map(|bucket| (*bucket != NONE).then_some(*bucket)).collect()
    }

    /// How often each candidate serves the first key.
    fn served(candidates: &[Vec<u32>], trials: u32) -> Vec<u32> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut served = vec![0; candidates[0].len()];
        for _ in 0..trials {
            let bucket = drawn(candidates, 3, 32, &mut rng)[0].unwrap();
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

    /// Keys that fill a batch up, and are not wanted, change nothing for the others.
    #[test]
    fn what_is_not_wanted_takes_no_bucket() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..200 {
            let mut rows = Rows::with_capacity(4, 3);
            for wanted in [0, u32::MAX, 0, u32::MAX] {
                rows.push([0, 1, 2], wanted);
            }
            let drawn = draw(&rows, 3, &mut || rng.next_u64());
            assert_eq!((drawn[0], drawn[2]), (NONE, NONE));
            assert!(drawn[1] < 3 && drawn[3] < 3 && drawn[1] != drawn[3]);
        }
    }

    /// The same edge colouring with branches, for graphs that need no completing: a schedule for each colour.
    fn coloured(
        candidates: &[Vec<u32>],
        order: &[(usize, u32)],
        width: usize,
        buckets: usize,
    ) -> Vec<Vec<Option<u32>>> {
        let mut at = vec![vec![None::<usize>; width]; candidates.len() + buckets];
        for (key, bucket) in order.iter().map(|(key, bucket)| (*key, candidates.len() + *bucket as usize)) {
            let free = |at: &[Option<usize>]| at.iter().position(Option::is_none);
            let (Some(colour), Some(other)) = (free(&at[key]), free(&at[bucket])) else { continue };
            let mut path = vec![bucket];
            while let Some(next) = at[path[path.len() - 1]][if path.len() % 2 == 1 { colour } else { other }]
            {
                path.push(next);
            }
            path.into_iter().for_each(|node| at[node].swap(colour, other));
            (at[key][colour], at[bucket][colour]) = (Some(bucket), Some(key));
        }
        let served = |colour: usize| {
            let of_key = |key: usize| at[key][colour].map(|bucket| (bucket - candidates.len()) as u32);
            (0..candidates.len()).map(of_key).collect()
        };
        (0..width).map(served).collect()
    }

    proptest! {
        /// No bucket twice, only candidates, and as many keys as any schedule could serve.
        #[test]
        fn what_is_drawn_is_a_schedule_of_the_largest_size(
            candidates in proptest::collection::vec(
                proptest::sample::subsequence((0..8_u32).collect::<Vec<_>>(), 0..4), 0..9),
            seed in any::<u64>(),
        ) {
            let drawn = drawn(&candidates, 3, 8, &mut ChaCha8Rng::seed_from_u64(seed));
            let mut taken = BTreeSet::new();
            for (bucket, candidates) in drawn.iter().zip(&candidates) {
                if let Some(bucket) = bucket {
                    prop_assert!(candidates.contains(bucket) && taken.insert(*bucket));
                }
            }
            let largest = by_priority(&lists(&candidates), 8).into_iter().flatten().count();
            prop_assert_eq!(taken.len(), largest);
        }

        /// Lists that are read whole say the same as lists that are read where something stands.
        #[test]
        fn what_is_drawn_is_what_colouring_and_searching_with_branches_find(
            candidates in proptest::collection::vec(
                proptest::sample::subsequence((0..20_u32).collect::<Vec<_>>(), 3), 0..16),
            seed in any::<u64>(),
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let words: Vec<u64> = (0..=3 * candidates.len()).map(|_| rng.next_u64()).collect();
            let mut order: Vec<(u64, (usize, u32))> = (0..)
                .zip(&candidates)
                .flat_map(|(key, buckets)| buckets.iter().map(move |bucket| (key, *bucket)))
                .zip(&words)
                .map(|(edge, word)| (*word, edge))
                .collect();
            order.sort_unstable();
            let order: Vec<(usize, u32)> = order.into_iter().map(|(_, edge)| edge).collect();
            let colour = ((u128::from(words[words.len() - 1]) * 3) >> 64) as usize;
            let served = coloured(&candidates, &order, 3, 20).swap_remove(colour);
            let expected = complete(&lists(&candidates), 20, served);
            let mut words = words.into_iter();
            let drawn = draw(&rows(&candidates, 3), 20, &mut || words.next().unwrap());
            let drawn: Vec<_> = drawn.iter().map(|bucket| (*bucket != NONE).then_some(*bucket)).collect();
            prop_assert_eq!(drawn, expected);
            prop_assert!(words.next().is_none());
        }
    }

    /// Every step of the longest path there can be is made.
    #[test]
    fn a_chain_through_all_buckets_is_followed_to_its_end() {
        let length = 60;
        let mut candidates: Vec<Vec<u32>> = (0..length).map(|key| vec![key, key + 1]).collect();
        candidates.push(vec![0]);
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for _ in 0..20 {
            let drawn = drawn(&candidates, 2, length as usize + 1, &mut rng);
            assert!((0..length).all(|key| drawn[key as usize] == Some(key + 1)));
            assert_eq!(drawn[length as usize], Some(0));
        }
    }
}
