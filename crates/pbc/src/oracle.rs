//! Where a key's codeword lies inside a bucket (the oracle O of paper section 5).

use crate::{BucketIndex, Encoding};

/// What a client knows of the mapping from keys to positions.
pub trait Oracle {
    /// The position, in that bucket, of the codeword for a wanted key; `None` if it is absent there or cannot be told
    /// from another.
    ///
    /// `key_number` is the position of the key in the client's list, for an oracle that tells equal keys apart.
    fn position(&self, key_number: usize, key: &[u8], bucket: BucketIndex) -> Option<usize>;
}

/// The mapping in the clear, for tests and simulations: whoever holds the encoding and all keys knows every position.
///
/// Of several elements under equal keys it finds the first. With [`EncodingOracle::for_wanted`], a key that is wanted
/// several times is served by as many of them, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct EncodingOracle<'a> {
    stored: &'a [&'a [u8]],
    /// Element numbers, sorted by key and then by number.
    by_key: Vec<u32>,
    /// Of element `i`: `places[first_place[i]..first_place[i + 1]]`.
    first_place: Vec<usize>,
    places: Vec<(BucketIndex, usize)>,
    /// How many times the same key stands before it in the client's list.
    occurrence: Vec<usize>,
}

impl<'a> EncodingOracle<'a> {
    /// The oracle of `encoding`, made from these keys. An element beyond `stored` is never found.
    pub fn new(encoding: &Encoding, stored: &'a [&'a [u8]]) -> Self {
        let mut by_key: Vec<u32> = (0..=u32::MAX).take(stored.len().min(encoding.elements())).collect();
        by_key.sort_by_key(|&element| stored[element as usize]);

        let mut first_place = vec![0; encoding.elements() + 1];
        for element in encoding.buckets().iter().flatten().flat_map(|codeword| codeword.elements()) {
            first_place[*element as usize + 1] += 1;
        }
        for i in 1..first_place.len() {
            first_place[i] += first_place[i - 1];
        }
        let mut next = first_place.clone();
        let mut places = vec![(BucketIndex(0), 0); first_place.last().copied().unwrap_or(0)];
        for (bucket, codewords) in (0..).map(BucketIndex).zip(encoding.buckets()) {
            for (position, codeword) in codewords.iter().enumerate() {
                for element in codeword.elements() {
                    let slot = &mut next[*element as usize];
                    places[*slot] = (bucket, position);
                    *slot += 1;
                }
            }
        }
        Self { stored, by_key, first_place, places, occurrence: Vec::new() }
    }

    /// Serves the second wanted copy of a key by the second stored one, and so on; `wanted` is the client's list.
    #[must_use]
    pub fn for_wanted(mut self, wanted: &[&[u8]]) -> Self {
        let earlier = |i: usize| wanted[..i].iter().filter(|key| **key == wanted[i]).count();
        self.occurrence = (0..wanted.len()).map(earlier).collect();
        self
    }
}

impl Oracle for EncodingOracle<'_> {
    fn position(&self, key_number: usize, key: &[u8], bucket: BucketIndex) -> Option<usize> {
        let first = self.by_key.partition_point(|&element| self.stored[element as usize] < key);
        let occurrence = self.occurrence.get(key_number).copied().unwrap_or(0);
        let element = *self.by_key.get(first + occurrence)? as usize;
        if self.stored[element] != key {
            return None;
        }
        let places = &self.places[self.first_place[element]..self.first_place[element + 1]];
        places.iter().find_map(|&(place, position)| (place == bucket).then_some(position))
    }
}
