//! The second of the paper's ways to the oracle: the client simulates Encode from the seed.

use crate::{BucketIndex, HashedCode, Oracle};

/// The mapping that follows from seed and keys alone, kept up to date key by key: a client that has it for `n` elements
/// has it for `n + 1` after one insertion, which moves on average half of the entries of the buckets concerned.
///
/// Of several elements under equal keys it finds the first. It needs all keys, 16 bytes for each place beside them.
#[derive(Clone, Debug)]
pub struct SimulatedOracle<'a, C> {
    code: &'a C,
    keys: Vec<Box<[u8]>>,
    /// Of every content the order and the number of each element, sorted like the codewords.
    contents: Vec<Vec<(u64, u32)>>,
}

impl<'a, C: HashedCode> SimulatedOracle<'a, C> {
    /// The oracle of an encoding of these keys.
    pub fn new(code: &'a C, keys: &[&[u8]]) -> Self {
        let mut oracle = Self { code, keys: Vec::new(), contents: vec![Vec::new(); code.contents()] };
        for key in keys {
            oracle.keys.push((*key).into());
        }
        for (element, key) in (0..=u32::MAX).zip(keys) {
            let order = code.order(key);
            for content in code.holders(key) {
                oracle.contents[content].push((order, element));
            }
        }
        let keys = &oracle.keys;
        for content in &mut oracle.contents {
            content.sort_unstable_by_key(|(order, element)| (*order, &keys[*element as usize], *element));
        }
        oracle
    }

    /// Inserts the element that follows the last one; beyond 2^32 elements nothing is inserted, as in Encode.
    pub fn insert(&mut self, key: &[u8]) {
        let Ok(element) = u32::try_from(self.keys.len()) else { return };
        let order = self.code.order(key);
        for content in self.code.holders(key) {
            // Its number is the largest, so it comes after all that have its key.
            let place = self.contents[content]
                .partition_point(|(other, element)| (*other, &*self.keys[*element as usize]) <= (order, key));
            self.contents[content].insert(place, (order, element));
        }
        self.keys.push(key.into());
    }

    /// The number `n` of elements.
    pub const fn elements(&self) -> usize {
        self.keys.len()
    }
}

impl<C: HashedCode> Oracle for SimulatedOracle<'_, C> {
    fn position(&self, _key_number: usize, key: &[u8], bucket: BucketIndex) -> Option<usize> {
        let content = self.contents.get(self.code.content_of(bucket))?;
        let order = self.code.order(key);
        let before = |(other, element): &(u64, u32)| (*other, &*self.keys[*element as usize]) < (order, key);
        let position = content.partition_point(before);
        let (_, element) = content.get(position)?;
        (*self.keys[*element as usize] == *key).then_some(position)
    }
}
