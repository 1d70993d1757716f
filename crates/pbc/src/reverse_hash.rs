//! Reverse hashing (paper section 4.4): what the codes have in common whose codewords are copies.

use rayon::prelude::{ParallelIterator, ParallelSliceMut};
use zeroize::Zeroizing;

use crate::fair::{self, Rows};
use crate::hash::{KeyedHash, domain};
use crate::matching::{self, Lists};
use crate::oblivious::{self, NONE};
use crate::permutation::Divisor;
use crate::random_walk::{self, Search};
use crate::{BucketIndex, Candidates, Codeword, Drawn, Encoding, Error, MAX_CHOICES, Schedule};

/// Every element is copied into `choices` of `contents` lists, and each list is the content of `copies` buckets:
/// `b = contents * copies`, `m = choices * copies * n`. Bucket `i` has content `i / copies`.
#[derive(Clone)]
pub(crate) struct ReverseHash {
    batch_size: usize,
    contents: u32,
    copies: u32,
    by_copies: Divisor,
    choices: usize,
    search: Search,
    candidates: KeyedHash,
    order: KeyedHash,
    displacements: KeyedHash,
}

/// For the choices of the random walk.
const DISPLACEMENTS: [u8; 32] = domain("sotto/pbc/v1/displacements");

/// Entries that their orders' highest bits do not tell apart, about.
const PLACED_TOGETHER: usize = 16;

/// The numbers of a code before they are checked.
#[derive(Clone, Copy)]
pub(crate) struct Dimensions {
    pub(crate) batch_size: usize,
    pub(crate) contents: usize,
    pub(crate) copies: usize,
    pub(crate) choices: usize,
}

impl ReverseHash {
    pub(crate) fn new(
        dimensions: Dimensions,
        domains: [&[u8; 32]; 2],
        seed: &[u8; 32],
    ) -> Result<Self, Error> {
        let Dimensions { batch_size, contents, copies, choices } = dimensions;
        if batch_size == 0 {
            return Err(Error::Parameters("a batch has at least one key"));
        }
        if !(1..=MAX_CHOICES).contains(&choices) {
            return Err(Error::Parameters("a key has between 1 and 8 candidate buckets"));
        }
        if copies == 0 || contents < choices || contents.saturating_mul(copies) < batch_size {
            return Err(Error::Parameters("fewer buckets than candidates or keys"));
        }
        let buckets = contents.checked_mul(copies).filter(|buckets| u32::try_from(*buckets).is_ok());
        if buckets.is_none() {
            return Err(Error::Parameters("too many buckets"));
        }
        // Factors of a product that fits.
        let (contents, copies) = (contents as u32, copies as u32);
        let by_copies = Divisor::new(copies);
        Ok(Self { batch_size, contents, copies, by_copies, choices, ..Self::single(domains, seed) })
    }

    /// One key, and one bucket that holds every element once.
    pub(crate) fn single([candidates, order]: [&[u8; 32]; 2], seed: &[u8; 32]) -> Self {
        Self {
            batch_size: 1,
            contents: 1,
            copies: 1,
            by_copies: Divisor::new(1),
            choices: 1,
            search: Search::Matching,
            candidates: KeyedHash::new(candidates, seed),
            order: KeyedHash::new(order, seed),
            displacements: KeyedHash::new(&DISPLACEMENTS, seed),
        }
    }

    pub(crate) const fn with_search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    pub(crate) const fn batch_size(&self) -> usize {
        self.batch_size
    }

    pub(crate) const fn bucket_count(&self) -> usize {
        self.contents as usize * self.copies as usize
    }

    pub(crate) const fn contents(&self) -> u32 {
        self.contents
    }

    pub(crate) const fn copies(&self) -> u32 {
        self.copies
    }

    pub(crate) const fn choices(&self) -> usize {
        self.choices
    }

    pub(crate) fn order(&self, key: &[u8]) -> u64 {
        self.order.word(key)
    }

    /// The lists that hold the element of a key.
    pub(crate) fn candidates(&self, key: &[u8]) -> Candidates {
        self.draw(&mut self.candidates.words(key))
    }

    fn draw(&self, words: &mut impl Iterator<Item = u64>) -> Candidates {
        Candidates::draw(words, self.contents, self.choices)
    }

    fn all_candidates<'a>(&'a self, keys: &'a [&'a [u8]]) -> impl Iterator<Item = Candidates> + 'a {
        let first = self.candidates.first_words(keys).into_iter();
        first.zip(keys).map(|(first, key)| self.draw(&mut self.candidates.words_from(first, key)))
    }

    /// Sorted once, the elements reach every list in order. Hashing and sorting are parallel; the result does not
    /// depend on how many threads there are, since the sorted entries are all different.
    pub(crate) fn encode(&self, keys: &[&[u8]]) -> Encoding {
        let contents = match self.choices {
            1 => self.contents_of::<1>(keys),
            2 => self.contents_of::<2>(keys),
            3 => self.contents_of::<3>(keys),
            4 => self.contents_of::<4>(keys),
            _ => self.contents_of::<MAX_CHOICES>(keys),
        };
        Encoding::of_copies(keys.len(), contents, self.copies)
    }

    /// With room for `N` candidates of a key, at least as many as there are: what is held for every element counts.
    fn contents_of<const N: usize>(&self, keys: &[&[u8]]) -> Vec<Vec<Codeword>> {
        let candidates = self.candidates.map_first_words(keys, |element, first| {
            let candidates = self.draw(&mut self.candidates.words_from(first, keys[element]));
            let mut drawn = [0; N];
            for (drawn, content) in drawn.iter_mut().zip(&candidates) {
                *drawn = content.0;
            }
            drawn
        });
        // An eighth more than are expected.
        let content =
            |_| Vec::with_capacity(keys.len().saturating_mul(self.choices) / self.contents as usize * 9 / 8);
        let mut contents: Vec<Vec<Codeword>> = (0..self.contents).map(content).collect();
        for element in sorted(keys, &self.order) {
            for content in &candidates[element as usize][..self.choices] {
                contents[*content as usize].push(Codeword::copy(element));
            }
        }
        contents
    }

    pub(crate) fn schedule(&self, keys: &[&[u8]], usable: &dyn Fn(usize, BucketIndex) -> bool) -> Schedule {
        let mut lists = self.lists(keys.len());
        for (key_number, candidates) in self.all_candidates(keys).enumerate() {
            let usable = |bucket: &u32| usable(key_number, BucketIndex(*bucket));
            lists.push(self.buckets(key_number, numbers(&candidates)).filter(usable));
        }
        Schedule::of_buckets(self.assign(&lists))
    }

    pub(crate) fn schedule_wanted(
        &self,
        keys: &[&[u8]],
        wanted: &[bool],
        words: &mut dyn FnMut() -> u64,
    ) -> Drawn {
        let wanted = wanted.iter().map(|wanted| oblivious::mask(*wanted)).chain(core::iter::repeat(0));
        if self.contents == 1 {
            return Drawn::of_buckets(self.any_buckets(wanted.take(keys.len()), words));
        }
        let mut rows = Rows::with_capacity(keys.len(), self.choices * self.copies as usize);
        for ((key_number, key), wanted) in keys.iter().enumerate().zip(wanted) {
            let candidates = self.holders(key);
            rows.push(self.buckets(key_number, candidates.into_iter().take(self.choices)), wanted);
        }
        Drawn::of_buckets(fair::draw(&rows, self.bucket_count(), words))
    }

    /// Where every bucket holds everything: buckets in a random order, one after the other for the keys that are wanted.
    fn any_buckets(
        &self,
        wanted: impl Iterator<Item = u32>,
        words: &mut dyn FnMut() -> u64,
    ) -> Zeroizing<Vec<u32>> {
        let order = fair::shuffled(self.bucket_count(), words);
        let (mut next, mut buckets) = (0, Zeroizing::new(Vec::with_capacity(wanted.size_hint().0)));
        for wanted in wanted {
            // Beyond the last one there is none.
            let exists = oblivious::below(next, self.copies);
            let bucket = oblivious::look_up(&order, next);
            buckets.push(oblivious::select(wanted & exists, bucket, NONE));
            next += 1 & wanted;
        }
        buckets
    }

    /// The lists that hold the element of a key, in constant time; see [`Candidates::draw_masked`].
    pub(crate) fn holders(&self, key: &[u8]) -> [u32; MAX_CHOICES] {
        Candidates::draw_masked(self.candidates.words(key), self.contents, self.choices)
    }

    /// Which list is the content of a bucket.
    pub(crate) fn content_of(&self, bucket: u32) -> u32 {
        self.by_copies.divide(bucket.into()).0
    }

    /// Whether a whole batch of keys with these words can be served.
    pub(crate) fn serves_batch(&self, words: &mut dyn FnMut() -> u64) -> bool {
        let mut words = core::iter::from_fn(|| Some(words()));
        let mut lists = self.lists(self.batch_size);
        for key_number in 0..self.batch_size {
            lists.push(self.buckets(key_number, numbers(&self.draw(&mut words))));
        }
        self.assign(&lists).iter().all(Option::is_some)
    }

    fn lists(&self, keys: usize) -> Lists {
        Lists::with_capacity(keys, keys.saturating_mul(self.choices * self.copies as usize))
    }

    /// The buckets to look for a key in. Keys start at different copies, which spares them to look for a free one.
    fn buckets(&self, key_number: usize, candidates: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
        let copies = self.copies;
        // Below `copies`, which has 32 bits.
        let start = (key_number % copies as usize) as u32;
        let of = move |content: u32| {
            (start..copies).chain(0..start).map(move |copy| content.wrapping_mul(copies).wrapping_add(copy))
        };
        candidates.flat_map(of)
    }

    fn assign(&self, lists: &Lists) -> Vec<Option<u32>> {
        match self.search {
            Search::Matching => matching::by_priority(lists, self.bucket_count()),
            Search::RandomWalk { displacements } => {
                let mut words = self.displacements.words(&[]);
                random_walk::place(lists, self.bucket_count(), displacements, &mut words)
            }
        }
    }
}

fn numbers(candidates: &Candidates) -> impl Iterator<Item = u32> + use<> {
    let candidates = *candidates;
    (0..candidates.len()).map(move |number| candidates[number].0)
}

/// Element numbers, sorted by the order of their keys, then by key, then by number.
///
/// Orders are uniform, so that their highest bits bring every entry close to its place, and few are left to compare. If
/// they were not, this would only be slower.
pub(crate) fn sorted(keys: &[&[u8]], order: &KeyedHash) -> impl Iterator<Item = u32> {
    // Element numbers have 32 bits.
    let hashed = order.map_first_words(keys, |element, words| [(words[0], element as u32)]);
    let bits = (keys.len() / PLACED_TOGETHER).checked_ilog2().unwrap_or(0);
    // Never all 64 bits: a shift by them is none.
    let part = |order: u64| (order >> (63 - bits) >> 1) as usize;
    let mut next = vec![0; (1 << bits) + 1];
    for [(order, _)] in &hashed {
        next[part(*order) + 1] += 1;
    }
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    let mut sorted = vec![(0, 0); hashed.len()];
    for [entry] in hashed {
        let place: &mut usize = &mut next[part(entry.0)];
        sorted[*place] = entry;
        *place += 1;
    }
    let key = |element: u32| keys[element as usize];
    sorted.par_chunk_by_mut(|(one, _), (other, _)| part(*one) == part(*other)).for_each(|entries| {
        entries.sort_unstable_by(|(order, element), (other_order, other)| {
            let keys = || key(*element).cmp(key(*other));
            order.cmp(other_order).then_with(keys).then(element.cmp(other))
        });
    });
    sorted.into_iter().map(|(_, element)| element)
}

/// Decode: a codeword is a copy of its element.
pub(crate) fn decode_copy(codewords: &[&[u8]]) -> Result<Vec<u8>, Error> {
    match codewords {
        [element] => Ok(element.to_vec()),
        _ => Err(Error::Codewords),
    }
}

/// [`crate::BatchCode`], [`crate::HashedCode`] and [`crate::RandomBatch`] of a code whose field `hash` is a
/// [`ReverseHash`].
macro_rules! reverse_hash_code {
    ($code:ty) => {
        impl crate::BatchCode for $code {
            fn batch_size(&self) -> usize {
                self.hash.batch_size()
            }

            fn bucket_count(&self) -> usize {
                self.hash.bucket_count()
            }

            fn encode(&self, keys: &[&[u8]]) -> crate::Encoding {
                self.hash.encode(keys)
            }

            fn schedule(
                &self,
                keys: &[&[u8]],
                usable: &dyn Fn(usize, crate::BucketIndex) -> bool,
            ) -> crate::Schedule {
                self.hash.schedule(keys, usable)
            }

            fn schedule_wanted(
                &self,
                keys: &[&[u8]],
                wanted: &[bool],
                words: &mut dyn FnMut() -> u64,
            ) -> crate::Drawn {
                self.hash.schedule_wanted(keys, wanted, words)
            }

            fn decode(&self, codewords: &[&[u8]]) -> Result<Vec<u8>, crate::Error> {
                crate::reverse_hash::decode_copy(codewords)
            }
        }

        impl crate::HashedCode for $code {
            fn order(&self, key: &[u8]) -> u64 {
                self.hash.order(key)
            }

            fn contents(&self) -> usize {
                self.hash.contents() as usize
            }

            fn content_of(&self, bucket: crate::BucketIndex) -> usize {
                self.hash.content_of(bucket.0) as usize
            }

            fn holders(&self, key: &[u8]) -> Vec<usize> {
                self.hash.holders(key)[..self.hash.choices()]
                    .iter()
                    .map(|content| *content as usize)
                    .collect()
            }
        }

        impl crate::RandomBatch for $code {
            fn serves_batch(&self, words: &mut dyn FnMut() -> u64) -> bool {
                self.hash.serves_batch(words)
            }
        }

        impl core::fmt::Debug for $code {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($code))
                    .field("batch_size", &self.hash.batch_size())
                    .field("contents", &self.hash.contents())
                    .field("copies", &self.hash.copies())
                    .field("choices", &self.hash.choices())
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use reverse_hash_code;
