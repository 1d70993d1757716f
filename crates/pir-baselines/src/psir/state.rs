//! What a client keeps of a database: blocks of random records, and their sums.

use core::cmp::Reverse;
use core::fmt;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pir_core::Error;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, Rng, SeedableRng};
use zeroize::{Zeroize, Zeroizing};

use super::partition::{Partition, add};
use super::shape::Shape;

/// Random sets of records, that hold each record with probability 1/p, and nothing else of each other or of the seed.
#[derive(Clone)]
pub(super) struct Sets {
    elements: usize,
    /// In place j, `2^128 (1 - 1/p)^(j + 1)`, less than `j + 2` too little: by that probability more than j records are left
    /// out before the next one.
    left_out: Arc<[u128]>,
}

impl Sets {
    pub(super) fn of(shape: &Shape) -> Self {
        let p = shape.parts() as u128;
        let next = |all: &u128| Some(all / p * (p - 1) + all % p * (p - 1) / p);
        let left_out = core::iter::successors(next(&u128::MAX), next).take(shape.parts()).collect();
        Self { elements: shape.elements(), left_out }
    }

    /// The set of a seed.
    pub(super) fn members(&self, seed: &[u8; 32]) -> Members {
        Members { rng: ChaCha20Rng::from_seed(*seed), sets: self.clone(), next: 0 }
    }

    /// Whether the set of a seed holds a record.
    fn hold(&self, seed: &[u8; 32], index: usize) -> bool {
        self.members(seed).find(|record| *record >= index) == Some(index)
    }

    /// How many records are left out before the next one, by integers alone: what is off by rounding would show which part is
    /// a set, as it is off there and nowhere else.
    fn gap(&self, rng: &mut impl Rng) -> usize {
        let mut gap = 0;
        loop {
            let uniform = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let more = self.left_out.partition_point(|bound| uniform < *bound);
            gap += more;
            if more < self.left_out.len() {
                return gap;
            }
        }
    }
}

/// A set, drawn again from its seed whenever it is needed.
pub(super) struct Members {
    rng: ChaCha20Rng,
    sets: Sets,
    next: usize,
}

impl Iterator for Members {
    type Item = usize;

    /// In ascending order.
    fn next(&mut self) -> Option<usize> {
        let record = self.next + self.sets.gap(&mut self.rng);
        if record >= self.sets.elements {
            return None;
        }
        self.next = record + 1;
        Some(record)
    }
}

/// A set, and the sum of its records.
struct Block {
    seed: Zeroizing<[u8; 32]>,
    sum: Zeroizing<Vec<u8>>,
}

/// Blocks whose records are being added up while the server streams them.
pub struct Init {
    shape: Shape,
    sets: Sets,
    blocks: Vec<Block>,
    /// The next record of each block, the first of them on top.
    waiting: BinaryHeap<Reverse<(usize, usize)>>,
    members: Vec<Members>,
    /// The next record of the stream.
    next: usize,
}

/// The state of a client: blocks that have not been used.
pub struct State {
    shape: Shape,
    sets: Sets,
    blocks: Vec<Block>,
}

/// What a block becomes when a record is read.
pub(super) struct Chosen {
    /// In which the block and the record are one part.
    pub(super) partition: Partition,
    /// That part.
    pub(super) part: usize,
    /// The sum of the block.
    pub(super) sum: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl Init {
    /// Draws so many blocks.
    pub fn new<R: CryptoRng>(shape: &Shape, blocks: usize, rng: &mut R) -> Self {
        let block = |_| {
            let mut seed = Zeroizing::new([0; 32]);
            rng.fill_bytes(&mut seed[..]);
            Block { seed, sum: Zeroizing::new(vec![0; shape.element_bytes()]) }
        };
        let blocks: Vec<Block> = (0..blocks).map(block).collect();
        let sets = Sets::of(shape);
        let mut members: Vec<Members> = blocks.iter().map(|block| sets.members(&block.seed)).collect();
        let first =
            members.iter_mut().enumerate().filter_map(|(i, members)| Some(Reverse((members.next()?, i))));
        Self { shape: *shape, sets, waiting: first.collect(), blocks, members, next: 0 }
    }

    /// Takes in the next records of the database, in their order.
    ///
    /// # Errors
    /// [`Error::Shape`] if they are no whole records, or more than there are.
    pub fn stream(&mut self, records: &[u8]) -> Result<(), Error> {
        let size = self.shape.element_bytes();
        let count = records.len() / size;
        if !records.len().is_multiple_of(size) || count > self.shape.elements() - self.next {
            return Err(Error::Shape("records of the stream"));
        }
        let (first, end) = (self.next, self.next + count);
        while let Some(mut top) = self.waiting.peek_mut() {
            let Reverse((record, block)) = *top;
            if record >= end {
                break;
            }
            add(&mut self.blocks[block].sum, &records[(record - first) * size..][..size]);
            match self.members[block].next() {
                Some(next) => *top = Reverse((next, block)),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
        }
        self.next = end;
        Ok(())
    }

    /// The state, when all records have been streamed.
    ///
    /// # Errors
    /// [`Error::Shape`] if some have not.
    pub fn finish(self) -> Result<State, Error> {
        if self.next < self.shape.elements() {
            return Err(Error::Shape("a stream that has not ended"));
        }
        Ok(State { shape: self.shape, sets: self.sets, blocks: self.blocks })
    }
}

impl State {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Blocks that are left; a query takes one, and now and then another one or two.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Size, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.len() * (32 + self.shape.element_bytes())
    }

    /// UpdateState: a record has changed, and by what (XOR).
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such record; [`Error::Shape`] if the difference is of another size.
    pub fn update(&mut self, index: usize, difference: &[u8]) -> Result<(), Error> {
        if index >= self.shape.elements() {
            return Err(Error::Index);
        }
        if difference.len() != self.shape.element_bytes() {
            return Err(Error::Shape("size of a record"));
        }
        for block in &mut self.blocks {
            if self.sets.hold(&block.seed, index) {
                add(&mut block.sum, difference);
            }
        }
        Ok(())
    }

    /// The next block that does not hold a record, made ready for it; the blocks before are thrown away. `None` if there is
    /// none: it is time for another Init.
    pub(super) fn take<R: CryptoRng>(&mut self, index: usize, rng: &mut R) -> Option<Chosen> {
        while let Some(Block { seed, sum }) = self.blocks.pop() {
            if let Some((partition, part)) = divide(&self.shape, &self.sets, &seed, index, rng) {
                return Some(Chosen { partition, part, sum });
            }
        }
        None
    }
}

/// A division in which a set and a record that it does not hold are a part, and that part, drawn at random; `None` if it
/// does hold it, or so many records of one group that there is no polynomial, as it happens less than once in 2^90.
pub(super) fn divide<R: CryptoRng>(
    shape: &Shape,
    sets: &Sets,
    seed: &[u8; 32],
    index: usize,
    rng: &mut R,
) -> Option<(Partition, usize)> {
    let mut members: Zeroizing<Vec<usize>> = Zeroizing::new(sets.members(seed).collect());
    let place = members.binary_search(&index).err()?;
    members.insert(place, index);
    let mut drawn = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut drawn[..]);
    let mut fast = ChaCha20Rng::from_seed(*drawn);
    let mut part = shape.field().random(&mut fast);
    let partition = Partition::draw(shape, &members, part, &mut fast)?;
    let number = part as usize;
    part.zeroize();
    Some((partition, number))
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use crypto_bigint::U256;
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng, TryRng};

    use super::{Init, Sets, Shape};

    #[test]
    fn blocks_hold_each_record_with_the_probability_that_hides_it() {
        let sets = Sets::of(&Shape::new(1 << 16, 288).unwrap());
        let mut counts = [0; 4];
        let mut total = 0;
        for number in 0..400u32 {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&number.to_le_bytes());
            for record in sets.members(&seed) {
                counts[record >> 14] += 1;
                total += 1;
            }
        }
        // 65,536 / 131 records in the mean, in each of 400 sets: 200,110, of standard deviation 446, under fixed seeds.
        assert!((198_500..201_700).contains(&total), "{total}");
        assert!(counts.iter().all(|count| (49_000..51_100).contains(count)), "{counts:?}");
    }

    /// Exactly, by integers of another kind: each bound is `(p - 1)/p` of the one before.
    #[test]
    fn records_are_left_out_with_the_probability_that_hides_the_one_that_is_added() {
        for n in [1, 60, 1 << 16, 1 << 24] {
            let sets = Sets::of(&Shape::new(n, 1).unwrap());
            let p = U256::from_u64(sets.left_out.len() as u64);
            let less = p.wrapping_sub(&U256::ONE);
            let mut before = U256::from_u128(u128::MAX);
            for bound in sets.left_out.iter().map(|bound| U256::from_u128(*bound)) {
                let rest = before.wrapping_mul(&less).wrapping_sub(&bound.wrapping_mul(&p));
                assert!(rest < p, "rounded down, and by less than one");
                before = bound;
            }
        }
    }

    /// What a generator draws that gives these.
    struct Script(Vec<u64>);

    impl TryRng for Script {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            unreachable!("words of 64 bits")
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(self.0.pop().unwrap())
        }

        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
            unreachable!("words of 64 bits")
        }
    }

    #[test]
    fn the_next_record_is_the_one_between_whose_bounds_the_drawn_number_is() {
        let sets = Sets::of(&Shape::new(60, 1).unwrap());
        let [first, second, .., last] = sets.left_out[..] else { panic!("five") };
        let gap = |drawn: &[u128]| {
            let words = drawn.iter().flat_map(|drawn| [(drawn >> 64) as u64, *drawn as u64]);
            let mut script = Script(words.rev().collect());
            let gap = sets.gap(&mut script);
            assert!(script.0.is_empty(), "{drawn:?}");
            gap
        };
        for (drawn, expected) in
            [(u128::MAX, 0), (first, 0), (first - 1, 1), (second, 1), (second - 1, 2), (last, 4)]
        {
            assert_eq!(gap(&[drawn]), expected);
        }
        assert_eq!([gap(&[last - 1, first]), gap(&[0, last - 1, second])], [5, 11]);
    }

    #[test]
    fn a_stream_in_any_pieces_gives_the_sums_and_updates_keep_them() {
        let shape = Shape::new(500, 7).unwrap();
        let sets = Sets::of(&shape);
        let mut records = vec![0; 3500];
        ChaCha20Rng::seed_from_u64(1).fill_bytes(&mut records);
        let sums = |records: &[u8], piece: usize| {
            let mut init = Init::new(&shape, 20, &mut ChaCha20Rng::seed_from_u64(2));
            records.chunks(piece * 7).for_each(|piece| init.stream(piece).unwrap());
            assert!(init.stream(&[0; 7]).is_err(), "more than there are");
            init.finish().unwrap()
        };
        let mut state = sums(&records, 500);
        for (block, other) in state.blocks.iter().zip(&sums(&records, 3).blocks) {
            let mut sum = vec![0; 7];
            for record in sets.members(&block.seed) {
                super::add(&mut sum, &records[record * 7..][..7]);
                assert!(sets.hold(&block.seed, record));
            }
            assert_eq!((&*block.sum, &*other.sum), (&sum, &sum));
        }
        for index in [0, 77, 499] {
            state.update(index, b"changed").unwrap();
            super::add(&mut records[index * 7..][..7], b"changed");
        }
        let again = sums(&records, 64);
        assert!(state.blocks.iter().zip(&again.blocks).all(|(block, again)| block.sum == again.sum));
        assert!(state.update(500, b"changed").is_err() && state.update(0, b"longer than").is_err());
        let mut unfinished = Init::new(&shape, 1, &mut ChaCha20Rng::seed_from_u64(3));
        assert!(unfinished.stream(&[0; 8]).is_err());
        unfinished.stream(&[0; 7]).unwrap();
        assert!(unfinished.finish().is_err());
    }

    #[test]
    fn a_block_that_holds_the_record_is_thrown_away() {
        let shape = Shape::new(60, 1).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut init = Init::new(&shape, 40, &mut rng);
        init.stream(&[0; 60]).unwrap();
        let mut state = init.finish().unwrap();
        let mut queries = 0;
        let mut left = state.blocks();
        while let Some(chosen) = state.take(31, &mut rng) {
            let parts = chosen.partition.parts();
            assert_eq!(parts[31] as usize, chosen.part);
            assert!(state.blocks() < left);
            left = state.blocks();
            queries += 1;
        }
        // Of 40, a fifth holds it in the mean.
        assert!(left == 0 && (20..40).contains(&queries), "{queries}");
    }
}
