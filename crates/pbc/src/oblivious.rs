//! Reading, writing, sorting lists without a branch or an address that depends on what stands in them, or on where: for
//! what a client wants.
//!
//! A *mask* is all ones for yes and zeros for no. [`NONE`] stands for no number at all: nothing is found there, and nothing
//! is written.

use std::sync::LazyLock;

use pulp::Arch;

/// No number: of no list, no bucket, no key.
pub const NONE: u32 = u32::MAX;

/// The vectors for what secrets go through: those of this machine up to AVX2, as valgrind, which watches branches and addresses, knows no
/// wider ones. With those, compilers may load and store under masks that are secret. With `SOTTO_KERNEL=portable` there are none.
#[must_use]
pub fn vectors() -> Arch {
    static VECTORS: LazyLock<Arch> = LazyLock::new(|| {
        if std::env::var_os("SOTTO_KERNEL").is_some_and(|kernel| kernel == "portable") {
            return Arch::Scalar;
        }
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        return pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3);
        #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
        Arch::new()
    });
    *VECTORS
}

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

/// Sorts as many numbers as a power of two says, each below 2^63, by a network of Batcher's (his bitonic sorter).
pub(crate) fn sort(numbers: &mut [u64]) {
    vectors().dispatch(|| {
        let levels = numbers.len().trailing_zeros();
        for block in (1..=levels).map(|level| 1 << level) {
            let mut distance = block / 2;
            while distance > 0 {
                compare(numbers, distance, block);
                distance /= 2;
            }
        }
    });
}

/// One stage: of every two entries at a distance the smaller one comes first or, in every other block, last.
#[inline(always)]
fn compare(entries: &mut [u64], distance: usize, block: usize) {
    for (number, entries) in entries.chunks_exact_mut(2 * distance).enumerate() {
        let descending = if (2 * distance * number) & block == 0 { 0 } else { u64::MAX };
        let (low, high) = entries.split_at_mut(distance);
        for (low, high) in low.iter_mut().zip(high) {
            // Of numbers below 2^63 the difference has its sign in the highest bit.
            let wrong = ((high.wrapping_sub(*low) as i64 >> 63) as u64) ^ descending;
            let difference = (*low ^ *high) & wrong;
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

    use super::{NONE, below, equal, look_up, mask, put, put_all, select, sort, swap};

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
    }

    proptest! {
        #[test]
        fn a_network_sorts(levels in 0_u32..10, seed in any::<u64>(), few in any::<bool>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut numbers: Vec<u64> =
                (0..1 << levels).map(|_| rng.next_u64() >> if few { 61 } else { 1 }).collect();
            let mut expected = numbers.clone();
            expected.sort_unstable();
            sort(&mut numbers);
            prop_assert_eq!(numbers, expected);
        }
    }
}
