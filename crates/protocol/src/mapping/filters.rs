//! Bloom filters, read without a branch or an address that depends on which filter is read, or on what is sought in it.

use core::hint::black_box;
use core::ops::Range;

use pbc::oblivious::{NONE, numbered, put, read_bits, row, select, sort};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;
use zeroize::Zeroizing;

/// Bit numbers of an element: what the crate `bloomfilter` takes for 24 bits for each element.
const HASHES: usize = 17;
/// Those that are looked at for all positions.
const FIRST_HASHES: usize = 6;

/// The filters of a mapping.
#[derive(Debug)]
pub(super) struct Filters {
    /// How many a content has, which stand one after the other.
    each: usize,
    /// Of a filter, in words of 32 bits.
    words: usize,
    bits: Modulus,
    /// By number of the filter: eight words of its key.
    keys: Vec<u32>,
    /// One filter after the other; the bits of a word from the least significant one on.
    all: Vec<u32>,
}

const FILTER_DOMAIN: &[u8] = b"sotto/mapping/v1/filter\0";

/// The key of a filter.
pub(super) fn key(round_seed: &[u8; 32], number: u32) -> [u8; 32] {
    let digest = Sha256::new_with_prefix(FILTER_DOMAIN).chain_update(round_seed);
    digest.chain_update(number.to_le_bytes()).finalize().into()
}

impl Filters {
    /// Filters of `bytes` bytes, which stand one after the other; every content has `each` of them.
    pub(super) fn new(round_seed: &[u8; 32], filters: &[u8], bytes: usize, each: usize) -> Self {
        let word = |bytes: &[u8]| {
            (0..).zip(bytes).fold(0, |word, (number, byte): (u32, _)| word | u32::from(*byte) << (8 * number))
        };
        let filters = filters.chunks_exact(bytes.max(1));
        let keys = (0..).zip(filters.clone()).flat_map(|(number, _)| {
            let key = key(round_seed, number);
            key.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<u32>>()
        });
        Self {
            each,
            words: bytes.div_ceil(4),
            bits: Modulus::new(8 * bytes as u64),
            keys: keys.collect(),
            all: filters.flat_map(|filter| filter.chunks(4).map(word)).collect(),
        }
    }

    /// Bytes that they take in memory.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn memory(&self) -> usize {
        4 * (self.all.len() + self.keys.len())
    }

    /// Takes away from what is there, which are masks for each of the positions, what the filters of a content do not hold with
    /// this fingerprint.
    ///
    /// The first bits of an element are looked at for all positions, and the others for as many positions as may be left
    /// ([`left`]). If more are left, as in filters that nobody has filled as the rules say, the last of them are taken away.
    pub(super) fn keep_held(&self, content: u32, fingerprint: u64, first: u32, are_there: &mut [u32]) {
        let mut filter = Zeroizing::new(vec![0; self.words]);
        let mut steps = Zeroizing::new(Vec::with_capacity(are_there.len().next_power_of_two()));
        let there = numbered(are_there.len()).zip(are_there.iter());
        steps.extend(there.map(|(step, is_there)| select(*is_there, step, NONE)));
        // Filters are fewer than 2^32.
        let each = self.each as u32;
        for number in (0..each).map(|number| content.wrapping_mul(each).wrapping_add(number)) {
            row(&self.all, number, &mut filter);
            let hashes = self.hashes(number);
            for part in [0..FIRST_HASHES, FIRST_HASHES..HASHES] {
                self.keep(&filter, &hashes, part, fingerprint, first, &mut steps);
                sort(&mut steps);
                steps.truncate(left(are_there.len()));
            }
        }
        are_there.fill(0);
        for step in steps.iter() {
            put(are_there, *step, u32::MAX, u32::MAX);
        }
    }

    /// Makes [`NONE`] of the steps to positions of which a filter does not have all bits of a part.
    fn keep(
        &self,
        filter: &[u32],
        hashes: &[SipHasher13; 2],
        part: Range<usize>,
        fingerprint: u64,
        first: u32,
        steps: &mut [u32],
    ) {
        let mut places = Zeroizing::new(Vec::with_capacity(part.len() * steps.len()));
        for step in steps.iter() {
            let position = u64::from(first.wrapping_add(*step));
            let item = (u128::from(fingerprint) << 64 | u128::from(position)).to_le_bytes();
            let [one, other] = hashes.each_ref().map(|hash| hash.hash(&item));
            places.extend(part.clone().map(|number| self.place(one, other, number)));
        }
        read_bits(filter, &mut places);
        for (step, bits) in steps.iter_mut().zip(places.chunks_exact(part.len())) {
            let are_set = bits.iter().fold(1, |all, bit| all & bit).wrapping_neg();
            *step = select(are_set, *step, NONE);
        }
    }

    /// The two hash functions of a filter.
    fn hashes(&self, number: u32) -> [SipHasher13; 2] {
        let mut key = Zeroizing::new([0; 8]);
        row(&self.keys, number, &mut *key);
        let word = |at: usize| u64::from(key[at]) | u64::from(key[at + 1]) << 32;
        [0, 4].map(|at| SipHasher13::new_with_keys(word(at), word(at + 2)))
    }

    /// One of the bit numbers of an element with these hashes.
    fn place(&self, one: u64, other: u64, number: usize) -> u32 {
        self.bits.remainder(match number {
            // The crate has the hashes themselves for the first two, and for the others their combinations modulo a prime.
            0 => one,
            1 => other,
            _ => reduced(one.wrapping_add((number as u64).wrapping_mul(other))),
        })
    }
}

/// Of so many positions, as many as may be left when the first bits of each were looked at. Of an honest filter half of the bits
/// are set: one position in 59 is left, and more than these with a probability below 2^-50.
const fn left(positions: usize) -> usize {
    positions / 32 + 32
}

/// A number modulo the largest prime below 2^64, which is 2^64 - 59.
fn reduced(number: u64) -> u64 {
    let (less, is_beyond) = number.overflowing_add(59);
    let is_beyond = black_box(u64::from(is_beyond)).wrapping_neg();
    number ^ ((number ^ less) & is_beyond)
}

/// A public number below 2^32 by which is divided in constant time.
#[derive(Clone, Copy, Debug)]
struct Modulus {
    modulus: u64,
    /// `floor(2^64 / modulus)`.
    reciprocal: u64,
}

impl Modulus {
    fn new(modulus: u64) -> Self {
        let modulus = modulus.max(2);
        // Below 2^64, as the modulus is 2 at least.
        Self { modulus, reciprocal: ((1 << 64) / u128::from(modulus)) as u64 }
    }

    /// The product of the number and the reciprocal is too small by less than the number, and their quotient, in whole numbers, by
    /// one more at most.
    fn remainder(self, number: u64) -> u32 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number.wrapping_sub(quotient.wrapping_mul(self.modulus));
        let less = |rest: u64| {
            let (difference, is_below) = rest.overflowing_sub(self.modulus);
            let is_below = black_box(u64::from(is_below)).wrapping_neg();
            difference ^ ((difference ^ rest) & is_below)
        };
        // Below the modulus.
        less(less(rest)) as u32
    }
}

#[cfg(test)]
mod tests {
    use bloomfilter::Bloom;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Filters, Modulus, key, reduced};

    #[test]
    fn remainders_are_those_of_division() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for modulus in [2, 3, 1536, 1544, 1 << 20, (1 << 20) + 8, 600_000, u64::from(u32::MAX)] {
            let divisor = Modulus::new(modulus);
            let random = core::iter::repeat_with(|| rng.next_u64() >> (rng.next_u32() % 64)).take(2_000);
            let edges = [
                0,
                1,
                modulus - 1,
                modulus,
                modulus + 1,
                2 * modulus,
                u64::MAX,
                u64::MAX / modulus * modulus,
            ];
            for number in edges.into_iter().chain(edges.map(|edge| edge.wrapping_sub(1))).chain(random) {
                assert_eq!(u64::from(divisor.remainder(number)), number % modulus, "{number} by {modulus}");
            }
        }
        for number in [0, 58, 59, u64::MAX - 60, u64::MAX - 59, u64::MAX - 58, u64::MAX - 57, u64::MAX] {
            assert_eq!(reduced(number), number % 0xFFFF_FFFF_FFFF_FFC5);
        }
    }

    /// The server writes filters with the crate: what is read here otherwise would be boxes that are not found.
    #[test]
    fn filters_hold_here_what_they_hold_there() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for (elements, each) in [(64, 1), (64, 2), (301, 1), (5_000, 1)] {
            let (bytes, contents) = (3 * elements, 3);
            let mut all = Vec::new();
            let mut expected = Vec::new();
            let fingerprints: [u64; 4] = core::array::from_fn(|_| rng.next_u64());
            for number in 0..contents * each {
                let mut filter =
                    Bloom::<u128>::new_with_seed(bytes, elements, &key(&[7; 32], number)).unwrap();
                for position in 0..elements as u64 {
                    // One in thirty is one of three, and nobody has the fourth.
                    let drawn = (rng.next_u32() % 90) as usize;
                    let fingerprint = if drawn < 3 { fingerprints[drawn] } else { rng.next_u64() };
                    filter.set(&super::super::bloom::tuple(fingerprint, position));
                }
                all.extend(&filter.as_slice()[filter.as_slice().len() - bytes..]);
                expected.push(filter);
            }
            let filters = Filters::new(&[7; 32], &all, bytes, each as usize);
            for content in 0..contents {
                for fingerprint in fingerprints {
                    let first = rng.next_u32() % 20;
                    let mut are_there = vec![u32::MAX; elements.min(400)];
                    are_there[5] = 0;
                    filters.keep_held(content, fingerprint, first, &mut are_there);
                    for (step, is_there) in (0..).zip(are_there) {
                        let tuple = super::super::bloom::tuple(fingerprint, u64::from(first + step));
                        let of_content = content * each..(content + 1) * each;
                        let held =
                            of_content.into_iter().all(|number| expected[number as usize].check(&tuple));
                        assert_eq!(is_there, if held && step != 5 { u32::MAX } else { 0 });
                    }
                }
            }
        }
    }

    /// A filter with more bits than the rules have: what is left is there, and no step is made beyond it.
    #[test]
    fn of_a_full_filter_the_first_positions_are_left() {
        let filters = Filters::new(&[7; 32], &[0xff; 3 * 500], 3 * 500, 1);
        for (positions, expected) in [(0, 0), (30, 30), (400, 44)] {
            let mut are_there = vec![u32::MAX; positions];
            filters.keep_held(0, 1, 0, &mut are_there);
            assert!(
                (0..)
                    .zip(are_there)
                    .all(|(step, is_there)| is_there == if step < expected { u32::MAX } else { 0 })
            );
        }
    }
}
