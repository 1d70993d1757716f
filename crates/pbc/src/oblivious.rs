//! Reading, writing, sorting lists without a branch or an address that depends on what stands in them, or on where: for
//! what a client wants.
//!
//! A *mask* is all ones for yes and zeros for no. [`NONE`] stands for no number at all: nothing is found there, and nothing
//! is written.

use pulp::Arch;
use zeroize::Zeroizing;

/// No number: of no list, no bucket, no key.
pub const NONE: u32 = u32::MAX;

/// The mask of a flag.
#[must_use]
pub fn mask(flag: bool) -> u32 {
    core::hint::black_box(u32::from(flag)).wrapping_neg()
}

/// The mask that says whether two numbers are the same.
#[inline(always)]
#[must_use]
pub const fn equal(a: u32, b: u32) -> u32 {
    // Of 0 less 1 the upper half is all ones. With 32 bits alone, compilers see the comparison, and make a branch of it.
    ((a ^ b) as u64).wrapping_sub(1).wrapping_shr(32) as u32
}

/// The mask that says whether a number is smaller than another.
#[inline(always)]
#[must_use]
pub const fn below(a: u32, b: u32) -> u32 {
    ((a as u64).wrapping_sub(b as u64) >> 32) as u32
}

/// One of two numbers: the first where the mask is of ones.
#[inline(always)]
#[must_use]
pub const fn select(mask: u32, yes: u32, no: u32) -> u32 {
    no ^ ((yes ^ no) & mask)
}

/// The places of a list. A range that ends is counted without a check, which would keep vector instructions away.
#[inline(always)]
#[must_use]
pub fn numbered(places: usize) -> core::ops::Range<u32> {
    // Lists that are read whole are short.
    0..places as u32
}

/// Entries that are read or written at once: lists are too short for the compiler to find that out.
const LANES: usize = 8;

/// The numbers of the first places.
const FIRST: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// The entry of a list, all of which is read; 0 where it has none.
#[inline(always)]
#[must_use]
pub fn look_up(list: &[u32], at: u32) -> u32 {
    // So that no compiler makes a branch of what follows from comparing the two.
    let at = core::hint::black_box(at);
    let (chunks, rest) = list.as_chunks::<LANES>();
    let (mut found, mut here) = ([0; LANES], FIRST);
    for chunk in chunks {
        for lane in 0..LANES {
            found[lane] |= chunk[lane] & equal(here[lane], at);
            here[lane] = here[lane].wrapping_add(LANES as u32);
        }
    }
    let of_rest = here.iter().zip(rest).fold(0, |found, (here, entry)| found | (entry & equal(*here, at)));
    found.iter().fold(of_rest, |all, found| all | found)
}

/// Writes an entry of a list, all of which is written, if the mask says so.
#[inline(always)]
pub fn put(list: &mut [u32], at: u32, value: u32, mask: u32) {
    let (at, mask) = core::hint::black_box((at, mask));
    let (chunks, rest) = list.as_chunks_mut::<LANES>();
    let mut here = FIRST;
    for chunk in chunks {
        for lane in 0..LANES {
            chunk[lane] = select(equal(here[lane], at) & mask, value, chunk[lane]);
            here[lane] = here[lane].wrapping_add(LANES as u32);
        }
    }
    for (here, entry) in here.iter().zip(rest) {
        *entry = select(equal(*here, at) & mask, value, *entry);
    }
}

/// Exchanges the entries of two lists of one length at a place, and says what they were; 0 where there are none.
#[inline(always)]
pub(crate) fn swap(first: &mut [u32], second: &mut [u32], at: u32) -> [u32; 2] {
    let at = core::hint::black_box(at);
    let ((firsts, first), (seconds, second)) =
        (first.as_chunks_mut::<LANES>(), second.as_chunks_mut::<LANES>());
    let (mut one, mut other, mut here) = ([0; LANES], [0; LANES], FIRST);
    let exchange = |first: &mut u32, second: &mut u32, one: &mut u32, other: &mut u32, here: u32| {
        let is_here = equal(here, at);
        *one |= *first & is_here;
        *other |= *second & is_here;
        let difference = (*first ^ *second) & is_here;
        *first ^= difference;
        *second ^= difference;
    };
    for (first, second) in firsts.iter_mut().zip(seconds) {
        for lane in 0..LANES {
            exchange(&mut first[lane], &mut second[lane], &mut one[lane], &mut other[lane], here[lane]);
            here[lane] = here[lane].wrapping_add(LANES as u32);
        }
    }
    let (mut of_rest, mut of_other_rest) = (0, 0);
    for ((first, second), here) in first.iter_mut().zip(second).zip(here) {
        exchange(first, second, &mut of_rest, &mut of_other_rest, here);
    }
    [one.iter().fold(of_rest, |all, one| all | one), other.iter().fold(of_other_rest, |all, one| all | one)]
}

/// Writes one list over another of the same length, if the mask says so.
#[inline(always)]
pub(crate) fn put_all(list: &mut [u32], values: &[u32], mask: u32) {
    let mask = core::hint::black_box(mask);
    let ((chunks, rest), (values, rest_of_values)) =
        (list.as_chunks_mut::<LANES>(), values.as_chunks::<LANES>());
    for (chunk, values) in chunks.iter_mut().zip(values) {
        for lane in 0..LANES {
            chunk[lane] = select(mask, values[lane], chunk[lane]);
        }
    }
    for (entry, value) in rest.iter_mut().zip(rest_of_values) {
        *entry = select(mask, *value, *entry);
    }
}

/// Copies one of several lists of the same length, which stand one after the other; zeros if there is no such list.
pub fn row(lists: &[u32], at: u32, row: &mut [u32]) {
    let at = core::hint::black_box(at);
    row.fill(0);
    let length = row.len().max(1);
    Arch::new().dispatch(|| {
        for (here, list) in (0..).zip(lists.chunks_exact(length)) {
            let is_here = equal(here, at);
            row.iter_mut().zip(list).for_each(|(entry, of_list)| *entry |= of_list & is_here);
        }
    });
}

/// Sorts numbers, ascending.
pub fn sort(numbers: &mut [u32]) {
    let places = numbers.len().next_power_of_two();
    let mut entries = Zeroizing::new(Vec::with_capacity(places));
    entries.extend(numbers.iter().map(|number| u64::from(*number)));
    entries.resize(places, FILL);
    sort_all(&mut entries);
    // As many as there were, which are the smallest.
    numbers.iter_mut().zip(entries.iter()).for_each(|(number, entry)| *number = *entry as u32);
}

/// The same for as many numbers as a power of two says, each below 2^63, by a network of Batcher's (his bitonic sorter).
pub(crate) fn sort_all(numbers: &mut [u64]) {
    let mut swaps = Swaps::for_sorting(numbers.len());
    Arch::new().dispatch(|| swaps.sort(numbers));
}

/// Replaces every number `32 i + j` by bit `j` of word `i`. There are such words; fewer than 2^31, and numbers.
pub fn read_bits(words: &[u32], numbers: &mut [u32]) {
    let network = Network::of(words.len(), numbers.len());
    Arch::new().dispatch(|| match network {
        Some(network) => network.read(words, numbers),
        None => read_bits_one_by_one(words, numbers),
    });
}

/// Every word for every number.
#[inline(always)]
fn read_bits_one_by_one(words: &[u32], numbers: &mut [u32]) {
    for number in numbers {
        *number = bit(look_up(words, *number >> 5), *number);
    }
}

/// A bit of a word, counted modulo 32.
#[inline(always)]
fn bit(word: u32, number: u32) -> u32 {
    // One instruction does both, in constant time, but valgrind takes it for an access to memory.
    core::hint::black_box(word >> (number & 31)) & 1
}

/// Brings numbers together with the words that they point into, and back: the numbers are sorted, words are merged among them,
/// each number takes what stands in the last word before it, and all that was exchanged is exchanged back.
struct Network {
    /// Places for numbers, and for all.
    numbers: usize,
    places: usize,
}

/// Behind all others.
const FILL: u64 = u64::MAX >> 1;

impl Network {
    /// A network where it takes fewer steps than reading every word for every number does.
    fn of(words: usize, numbers: usize) -> Option<Self> {
        let sorted = numbers.next_power_of_two();
        let places = (sorted + words).next_power_of_two();
        let network = Self { numbers: sorted, places };
        // An exchange and taking it back is as long as reading about sixteen words.
        (16 * network.exchanges() < numbers * words).then_some(network)
    }

    fn exchanges(&self) -> usize {
        Swaps::sorting(self.numbers) + Swaps::merging(self.places)
    }

    /// An entry is `word of the list * 2 + 1 for a number` in the upper half, and in the lower half the word's content, or
    /// which of its bits is asked for.
    #[inline(always)]
    fn read(&self, words: &[u32], numbers: &mut [u32]) {
        let mut entries = Zeroizing::new(vec![FILL; self.places]);
        for (entry, number) in entries.iter_mut().zip(numbers.iter()) {
            *entry = u64::from(number >> 5) << 33 | 1 << 32 | u64::from(number & 31);
        }
        for (word, (entry, content)) in (0_u64..).zip(entries.iter_mut().rev().zip(words)) {
            *entry = word << 33 | u64::from(*content);
        }
        let mut sorting = Swaps::for_sorting(self.numbers);
        sorting.sort(&mut entries[..self.numbers]);
        // Numbers ascend, and words descend behind them.
        let mut merging = Swaps::for_merging(self.places);
        merging.merge(&mut entries);
        let mut content = 0;
        for entry in entries.iter_mut() {
            let is_number = equal((*entry >> 32) as u32 & 1, 1);
            let told = bit(content, *entry as u32);
            content = select(is_number, content, *entry as u32);
            *entry = u64::from(told);
        }
        merging.back(&mut entries);
        sorting.back(&mut entries[..self.numbers]);
        for (number, entry) in numbers.iter_mut().zip(entries.iter()) {
            *number = *entry as u32;
        }
    }
}

/// What was exchanged in a network, so that it can be exchanged back.
struct Swaps {
    /// One for each pair of places that were compared, in their order: 1 if they were exchanged.
    swapped: Zeroizing<Vec<u8>>,
    /// Distances of the pairs, in runs of as many pairs as half the places; and in blocks of how many places the order is the
    /// same, alternately ascending and descending.
    stages: Vec<(usize, usize)>,
}

impl Swaps {
    /// Pairs compared when so many places are merged.
    fn merging(places: usize) -> usize {
        places / 2 * places.trailing_zeros() as usize
    }

    /// Pairs compared when so many places are sorted.
    fn sorting(places: usize) -> usize {
        let levels = places.trailing_zeros() as usize;
        places / 2 * (levels * (levels + 1) / 2)
    }

    fn for_sorting(places: usize) -> Self {
        let blocks = (1..=places.trailing_zeros()).map(|level| 1 << level);
        let stages = blocks.flat_map(|block| Self::halvings(block).map(move |distance| (distance, block)));
        Self { swapped: Zeroizing::new(vec![0; Self::sorting(places)]), stages: stages.collect() }
    }

    fn for_merging(places: usize) -> Self {
        let stages = Self::halvings(places).map(|distance| (distance, places)).collect();
        Self { swapped: Zeroizing::new(vec![0; Self::merging(places)]), stages }
    }

    fn halvings(block: usize) -> impl Iterator<Item = usize> {
        core::iter::successors(Some(block / 2), |distance| Some(distance / 2))
            .take_while(|distance| *distance > 0)
    }

    #[inline(always)]
    fn sort(&mut self, entries: &mut [u64]) {
        let runs = self.swapped.chunks_exact_mut((entries.len() / 2).max(1));
        for ((distance, block), swapped) in self.stages.iter().zip(runs) {
            compare(entries, *distance, *block, swapped);
        }
    }

    /// The same stages do it.
    #[inline(always)]
    fn merge(&mut self, entries: &mut [u64]) {
        self.sort(entries);
    }

    #[inline(always)]
    fn back(&self, entries: &mut [u64]) {
        let runs = self.swapped.chunks_exact((entries.len() / 2).max(1));
        for ((distance, _), swapped) in self.stages.iter().zip(runs).rev() {
            exchange_back(entries, *distance, swapped);
        }
    }
}

/// One stage: of every two entries at a distance the smaller one comes first or, in every other block, last.
#[inline(always)]
fn compare(entries: &mut [u64], distance: usize, block: usize, swapped: &mut [u8]) {
    let pairs = entries.chunks_exact_mut(2 * distance).zip(swapped.chunks_exact_mut(distance));
    for (number, (entries, swapped)) in pairs.enumerate() {
        let descending = if (2 * distance * number) & block == 0 { 0 } else { u64::MAX };
        let (low, high) = entries.split_at_mut(distance);
        for ((low, high), swapped) in low.iter_mut().zip(high).zip(swapped) {
            // Of numbers below 2^63 the difference has its sign in the highest bit.
            let wrong = ((high.wrapping_sub(*low) as i64 >> 63) as u64) ^ descending;
            let difference = (*low ^ *high) & wrong;
            *low ^= difference;
            *high ^= difference;
            *swapped = wrong as u8 & 1;
        }
    }
}

#[inline(always)]
fn exchange_back(entries: &mut [u64], distance: usize, swapped: &[u8]) {
    let pairs = entries.chunks_exact_mut(2 * distance).zip(swapped.chunks_exact(distance));
    for (entries, swapped) in pairs {
        let (low, high) = entries.split_at_mut(distance);
        for ((low, high), swapped) in low.iter_mut().zip(high).zip(swapped) {
            let difference = (*low ^ *high) & u64::from(*swapped).wrapping_neg();
            *low ^= difference;
            *high ^= difference;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{
        NONE, Network, below, equal, look_up, mask, put, put_all, read_bits, row, select, sort, sort_all,
        swap,
    };

    #[test]
    fn masks_are_all_ones_or_zeros() {
        for (a, b) in
            [(0, 0), (0, 1), (1, 0), (7, 7), (NONE, NONE), (NONE, 0), (1 << 31, 1 << 31), (1 << 31, 0)]
        {
            assert_eq!(equal(a, b), if a == b { u32::MAX } else { 0 });
        }
        for (a, b) in [(0, 0), (0, 1), (1, 0), (NONE, 0), (0, NONE), (5, 5), (1 << 31, (1 << 31) + 1)] {
            assert_eq!(below(a, b), if a < b { u32::MAX } else { 0 });
        }
        assert_eq!((mask(true), mask(false)), (u32::MAX, 0));
        assert_eq!((select(u32::MAX, 3, 5), select(0, 3, 5)), (3, 5));
    }

    #[test]
    fn entries_are_read_and_written_where_they_stand_and_nowhere_else() {
        for length in 0..40_u32 {
            let list: Vec<u32> = (100..100 + length).collect();
            let other: Vec<u32> = (300..300 + length).collect();
            for at in (0..length + 9).chain([NONE]) {
                let entry = list.get(at as usize).copied();
                assert_eq!(look_up(&list, at), entry.unwrap_or(0));
                let mut written = list.clone();
                put(&mut written, at, 7, 0);
                assert_eq!(written, list);
                put(&mut written, at, 7, u32::MAX);
                let expected = (0..length).map(|here| if here == at { 7 } else { 100 + here });
                assert!(written.into_iter().eq(expected));
                let (mut one, mut two) = (list.clone(), other.clone());
                let exchanged = swap(&mut one, &mut two, at);
                assert_eq!(exchanged, entry.map_or([0; 2], |entry| [entry, entry + 200]));
                for here in 0..length as usize {
                    let (here_one, here_two) =
                        if here == at as usize { (&other, &list) } else { (&list, &other) };
                    assert_eq!((one[here], two[here]), (here_one[here], here_two[here]));
                }
            }
            let mut written = list.clone();
            put_all(&mut written, &other, 0);
            assert_eq!(written, list);
            put_all(&mut written, &other, u32::MAX);
            assert_eq!(written, other);
        }
        let mut copied = [1; 2];
        for (at, expected) in [(0, [5, 9]), (1, [7, 8]), (2, [0, 0]), (NONE, [0, 0])] {
            row(&[5, 9, 7, 8], at, &mut copied);
            assert_eq!(copied, expected);
        }
    }

    proptest! {
        #[test]
        fn a_network_sorts(levels in 0_u32..10, seed in any::<u64>(), few in any::<bool>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut numbers: Vec<u64> =
                (0..1 << levels).map(|_| rng.next_u64() >> if few { 61 } else { 1 }).collect();
            let mut expected = numbers.clone();
            expected.sort_unstable();
            sort_all(&mut numbers);
            prop_assert_eq!(numbers, expected);
        }

        #[test]
        fn lists_of_any_length_are_sorted(mut numbers in proptest::collection::vec(any::<u32>(), 0..70)) {
            numbers.push(NONE);
            let mut expected = numbers.clone();
            expected.sort_unstable();
            sort(&mut numbers);
            prop_assert_eq!(numbers, expected);
        }
    }

    /// A bit read from another place would be a box that is not found, or a wrong one.
    #[test]
    fn bits_are_those_that_stand_there_whichever_way_they_are_read() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut ways = [0; 2];
        for (words, numbers) in [
            (1, 1),
            (1, 100),
            (48, 136),
            (48, 0),
            (300, 1),
            (2_000, 3_000),
            (5_000, 17),
            (4_096, 4_096),
            (20_000, 9_000),
        ] {
            let list: Vec<u32> = (0..words).map(|_| rng.next_u32()).collect();
            let numbers: Vec<u32> = (0..numbers).map(|_| rng.next_u32() % (32 * words)).collect();
            let mut bits = numbers.clone();
            read_bits(&list, &mut bits);
            let expected: Vec<u32> =
                numbers.iter().map(|number| list[*number as usize / 32] >> (number % 32) & 1).collect();
            assert!(bits == expected, "{words} words, {} numbers", numbers.len());
            ways[usize::from(Network::of(list.len(), numbers.len()).is_some())] += 1;
        }
        assert!(ways.iter().all(|ways| *ways > 2), "{ways:?}");
    }
}
