//! Pung's hybrid of two-choice hashing and the subcube batch code (paper figure 5 and appendix B).

use core::fmt;

use crate::cube_search::{self, Placement, Wanted};
use crate::hash::{KeyedHash, domain};
use crate::reverse_hash::sorted;
use crate::subcube::{BUCKETS, CELLS, Subcube};
use crate::{
    BatchCode, BucketIndex, Candidates, Codeword, Drawn, Encoding, Error, HashedCode, RandomBatch, Schedule,
};

const CANDIDATES: [u8; 32] = domain("sotto/pbc/v1/hybrid/candidates");
const ORDER: [u8; 32] = domain("sotto/pbc/v1/hybrid/order");

/// Every element is in two cubes, and each cube is encoded by the subcube batch code of nine buckets (l = 2, two
/// levels): a (n, 4.5 n, k, 9 s, p) batch code for `s` cubes; the paper has `s = k`.
///
/// Which quarter of a cube an element belongs to follows from its key as well, unlike in Pung, where it follows from
/// the element's rank, which a client can only know after the encoding. The price is that the quarters of a cube are
/// not quite equal, so that sums over them are a little longer and `m` is slightly above 4.5 n.
///
/// The wanted keys are spread over the cubes by moving keys between their two cubes until every cube can serve those it
/// has; within a cube all minimal sums are tried. This finds a schedule far more often than Pung's greedy rule, which
/// is what the paper's 2^-20 is about, but not always when there is one; keys are deferred by ascending priority
/// then too, and a key that has a place keeps it.
///
/// The public implementation of the paper takes the first summand twice in Decode, so that a lone codeword decodes to
/// zeros, and misplaces the last element of an odd number; neither happens here.
#[derive(Clone)]
pub struct HybridCode {
    batch_size: usize,
    cubes: u32,
    subcube: Subcube,
    candidates: KeyedHash,
    order: KeyedHash,
}

/// A key's two cubes, and its quarter in each.
type Places = [(u32, usize); 2];

impl HybridCode {
    /// The code for batches of `k` keys with so many cubes of nine buckets.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `k >= 1`, `cubes >= 2` and `k <= 9 cubes < 2^32`.
    pub fn new(k: usize, cubes: usize, seed: [u8; 32]) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::Parameters("a batch has at least one key"));
        }
        let buckets = cubes.checked_mul(BUCKETS).filter(|buckets| u32::try_from(*buckets).is_ok());
        if buckets.ok_or(Error::Parameters("too many buckets"))? < k || cubes < 2 {
            return Err(Error::Parameters("fewer buckets than keys, or less than two cubes"));
        }
        Ok(Self {
            batch_size: k,
            // A factor of a product that fits.
            cubes: cubes as u32,
            subcube: Subcube::new(),
            candidates: KeyedHash::new(&CANDIDATES, &seed),
            order: KeyedHash::new(&ORDER, &seed),
        })
    }

    /// The paper's number of cubes, one for each key.
    ///
    /// # Errors
    /// [`Error::Parameters`] unless `k >= 2`.
    pub fn of_paper(k: usize, seed: [u8; 32]) -> Result<Self, Error> {
        Self::new(k, k, seed)
    }

    /// Two different cubes, then two bits for each of the quarters.
    fn draw(&self, words: &mut impl Iterator<Item = u64>) -> Places {
        let cubes = Candidates::draw(words, self.cubes, 2);
        let quarters = words.next().unwrap_or_default();
        let quarter = |choice: usize| (quarters >> (2 * choice)) as usize % CELLS;
        [0, 1].map(|choice| (cubes.get(choice).map_or(0, |cube| cube.0), quarter(choice)))
    }

    fn places(&self, key: &[u8]) -> Places {
        self.draw(&mut self.candidates.words(key))
    }

    fn all_places<'a>(&'a self, keys: &'a [&'a [u8]]) -> impl Iterator<Item = Places> + 'a {
        let first = self.candidates.first_words(keys).into_iter();
        first.zip(keys).map(|(first, key)| self.draw(&mut self.candidates.words_from(first, key)))
    }

    fn place(&self, wanted: &[Wanted]) -> Vec<Option<Placement>> {
        cube_search::place(&self.subcube, wanted, self.cubes as usize)
    }
}

const fn bucket(cube: u32, within: usize) -> BucketIndex {
    // Nine at most are within a cube.
    BucketIndex(cube * BUCKETS as u32 + within as u32)
}

const fn holder(cube: u32, quarter: usize) -> BucketIndex {
    bucket(cube, Subcube::holder(quarter))
}

impl BatchCode for HybridCode {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn bucket_count(&self) -> usize {
        self.cubes as usize * BUCKETS
    }

    fn encode(&self, keys: &[&[u8]]) -> Encoding {
        let places: Vec<Places> = self.all_places(keys).collect();
        // An eighth more than are expected: of two cubes, and one quarter in each.
        let quarter = || Vec::with_capacity(keys.len() / (2 * self.cubes as usize) * 9 / 8);
        let mut quarters: Vec<[Vec<u32>; CELLS]> =
            (0..self.cubes).map(|_| core::array::from_fn(|_| quarter())).collect();
        for element in sorted(keys, &self.order) {
            for (cube, quarter) in places[element as usize] {
                quarters[cube as usize][quarter].push(element);
            }
        }
        let sums: Vec<Vec<Codeword>> = quarters
            .iter()
            .flat_map(|quarters| (0..BUCKETS).map(|i| sum(quarters, Subcube::cells(i))))
            .collect();
        Encoding::of_copies(keys.len(), sums, 1)
    }

    /// Not every batch that could be served is: see [`HybridCode`].
    fn schedule(&self, keys: &[&[u8]], usable: &dyn Fn(usize, BucketIndex) -> bool) -> Schedule {
        let wanted: Vec<Wanted> = self
            .all_places(keys)
            .enumerate()
            .map(|(key_number, places)| {
                places.map(|(cube, quarter)| {
                    let is_usable = |within: &usize| usable(key_number, bucket(cube, *within));
                    let mask = (0..BUCKETS).filter(is_usable).map(|within| 1 << within).sum();
                    (cube, quarter, mask)
                })
            })
            .collect();
        let buckets = |placement: Option<Placement>| {
            let Some(Placement { cube, buckets }) = placement else { return Vec::new() };
            (0..BUCKETS)
                .filter(|within| buckets >> within & 1 == 1)
                .map(|within| bucket(cube, within))
                .collect()
        };
        Schedule::new(self.place(&wanted).into_iter().map(buckets).collect())
    }

    /// What [`HybridCode::schedule`] gives the keys that are wanted: neither drawn nor in constant time.
    fn schedule_wanted(&self, keys: &[&[u8]], wanted: &[bool], _: &mut dyn FnMut() -> u64) -> Drawn {
        let numbers: Vec<usize> = (0..keys.len()).filter(|key| wanted.get(*key) == Some(&true)).collect();
        let wanted: Vec<&[u8]> = numbers.iter().map(|number| keys[*number]).collect();
        let schedule = self.schedule(&wanted, &|_, _| true);
        let mut assignments = vec![Vec::new(); keys.len()];
        for (place, number) in numbers.into_iter().enumerate() {
            assignments[number] = schedule.assignment(place).to_vec();
        }
        Drawn::of_schedule(&Schedule::new(assignments), BUCKETS)
    }

    /// Everything that is read for a key stands at the position of its copy.
    fn holder(&self, key: &[u8], bucket: BucketIndex) -> BucketIndex {
        let of_cube = |(cube, _): &(u32, usize)| *cube == bucket.0 / BUCKETS as u32;
        self.places(key).into_iter().find(of_cube).map_or(bucket, |(cube, quarter)| holder(cube, quarter))
    }

    /// The exclusive or of all codewords.
    fn decode(&self, codewords: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let (first, others) = codewords.split_first().ok_or(Error::Codewords)?;
        if codewords.len() > BUCKETS || others.iter().any(|codeword| codeword.len() != first.len()) {
            return Err(Error::Codewords);
        }
        let mut element = first.to_vec();
        for codeword in others {
            element.iter_mut().zip(*codeword).for_each(|(sum, byte)| *sum ^= byte);
        }
        Ok(element)
    }
}

/// One of the nine contents: element by element the sum over these quarters; a shorter one counts as zeros at its end.
fn sum(quarters: &[Vec<u32>; CELLS], cells: u8) -> Vec<Codeword> {
    let summed: Vec<&Vec<u32>> = quarters
        .iter()
        .enumerate()
        .filter_map(|(i, quarter)| (cells >> i & 1 == 1).then_some(quarter))
        .collect();
    let length = summed.iter().map(|quarter| quarter.len()).max().unwrap_or(0);
    let mut elements = Vec::with_capacity(CELLS);
    (0..length)
        .map(|position| {
            elements.clear();
            elements.extend(summed.iter().filter_map(|quarter| quarter.get(position)));
            Codeword::sum(&elements)
        })
        .collect()
}

impl HashedCode for HybridCode {
    fn order(&self, key: &[u8]) -> u64 {
        self.order.word(key)
    }

    fn contents(&self) -> usize {
        self.bucket_count()
    }

    fn content_of(&self, bucket: BucketIndex) -> usize {
        bucket.to_usize()
    }

    fn copying(&self) -> Vec<usize> {
        let of_cube = |cube| (0..CELLS).map(move |quarter| holder(cube, quarter).to_usize());
        (0..self.cubes).flat_map(of_cube).collect()
    }

    fn holders(&self, key: &[u8]) -> Vec<usize> {
        self.places(key).map(|(cube, quarter)| holder(cube, quarter).to_usize()).into()
    }
}

impl RandomBatch for HybridCode {
    fn serves_batch(&self, words: &mut dyn FnMut() -> u64) -> bool {
        let mut words = core::iter::from_fn(|| Some(words()));
        let all = (1 << BUCKETS) - 1;
        let places = (0..self.batch_size).map(|_| self.draw(&mut words));
        let wanted: Vec<Wanted> =
            places.map(|places| places.map(|(cube, quarter)| (cube, quarter, all))).collect();
        self.place(&wanted).iter().all(Option::is_some)
    }
}

impl fmt::Debug for HybridCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridCode")
            .field("batch_size", &self.batch_size)
            .field("cubes", &self.cubes)
            .finish_non_exhaustive()
    }
}
