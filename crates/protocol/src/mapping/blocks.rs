//! Bloom filters of 64 positions each, read without a branch or an address that depends on which are read, or on what is
//! sought in them.

use core::hint::black_box;

use bloomfilter::Bloom;
use pbc::oblivious::{below, equal, select, vectors};
use pulp::NullaryFnOnce;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;
use zeroize::{Zeroize, Zeroizing};

use super::hits::Hits;
use crate::Error;
use crate::error::InputError;

/// Positions that share a filter.
///
/// Few, so that all of a filter can be read for every bit that is asked for, and so that a label's stretch of positions takes
/// few filters.
pub(super) const BLOCK: usize = 64;
/// Of a filter: 6 bits for each position.
const FILTER_BYTES: usize = BLOCK * 6 / 8;
const FILTER_BITS: u64 = 8 * FILTER_BYTES as u64;
/// Bits of an element in a filter: what the crate `bloomfilter` takes for 6 bits for each element.
const HASHES: usize = 4;
/// Filters of a block, all of which must hold an element. One of four times the size would be worse: all bit numbers of an element
/// derive from two hashes, of which a small filter has too few pairs.
const FILTERS: usize = 4;
/// Those of the only content of an unencoded round, for which no other one can stand in.
const FILTERS_UNENCODED: usize = 8;

/// The bits of a filter, in words from the least significant one on.
type Filter = [u32; FILTER_BYTES / 4];

const FILTER_DOMAIN: &[u8] = b"sotto/mapping/v2/filter\0";

/// How many filters a block has, if there are so many contents.
pub(super) const fn filters_of_block(contents: u16) -> usize {
    if contents == 1 { FILTERS_UNENCODED } else { FILTERS }
}

/// Bytes of a content's filters.
pub(super) fn content_bytes(contents: u16, bucket_size: u32) -> u64 {
    blocks_of_content(bucket_size) as u64 * (filters_of_block(contents) * FILTER_BYTES) as u64
}

/// An empty content has a block, too.
pub(super) fn blocks_of_content(bucket_size: u32) -> usize {
    (bucket_size as usize).div_ceil(BLOCK).max(1)
}

/// What a filter holds. An integer is hashed in the machine's byte order; swapped on a big-endian machine, it is hashed
/// as little-endian bytes everywhere.
fn tuple(fingerprint: u64, position: u64) -> u128 {
    ((u128::from(fingerprint) << 64) | u128::from(position)).to_le()
}

/// The key of a block's filters with this number.
fn key(round_seed: &[u8; 32], number: u32) -> [u8; 32] {
    let digest = Sha256::new_with_prefix(FILTER_DOMAIN).chain_update(round_seed);
    digest.chain_update(number.to_le_bytes()).finalize().into()
}

/// What writes the filters of a round's blocks.
pub(super) struct Writer {
    filters: Vec<Bloom<u128>>,
}

impl Writer {
    pub(super) fn new(round_seed: &[u8; 32], contents: u16) -> Result<Self, Error> {
        let filter = |number| {
            Bloom::new_with_seed(FILTER_BYTES, BLOCK, &key(round_seed, number))
                .map_err(|_| Error::Input(InputError::FilterTooLarge))
        };
        // Four or eight.
        let filters = (0..filters_of_block(contents) as u32).map(filter).collect::<Result<_, _>>()?;
        Ok(Self { filters })
    }

    /// Writes the filters of a block that begins at a position and has elements with these fingerprints, of each position those
    /// that stand there.
    pub(super) fn write(
        &mut self,
        first: usize,
        block: impl Iterator<Item = impl Iterator<Item = u64>> + Clone,
        encoded: &mut Vec<u8>,
    ) {
        for filter in &mut self.filters {
            filter.clear();
            for (position, fingerprints) in (first as u64..).zip(block.clone()) {
                for fingerprint in fingerprints {
                    filter.set(&tuple(fingerprint, position));
                }
            }
            // Without the header that the crate puts before the bits.
            let bytes = filter.as_slice();
            encoded.extend(&bytes[bytes.len() - FILTER_BYTES..]);
        }
    }
}

/// The filters of a mapping.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Of a content.
    each: usize,
    /// The two hashes of each of a block's filters.
    hashes: Vec<[SipHasher13; 2]>,
    /// Those of one block after the other.
    filters: Vec<Filter>,
}

impl Blocks {
    /// Filters that stand in `bytes`, one block after the other.
    pub(super) fn read(round_seed: &[u8; 32], bytes: &[u8], contents: u16, bucket_size: u32) -> Self {
        let hashes = |number| {
            let key = key(round_seed, number);
            let (words, _) = key.as_chunks::<8>();
            let word = |at: usize| u64::from_le_bytes(words[at]);
            [0, 2].map(|at| SipHasher13::new_with_keys(word(at), word(at + 1)))
        };
        let filter = |bytes: &[u8; FILTER_BYTES]| {
            let (words, _) = bytes.as_chunks::<4>();
            core::array::from_fn(|word| u32::from_le_bytes(words[word]))
        };
        Self {
            each: blocks_of_content(bucket_size),
            hashes: (0..filters_of_block(contents) as u32).map(hashes).collect(),
            filters: bytes.as_chunks().0.iter().map(filter).collect(),
        }
    }

    /// Bytes that they take in memory.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) const fn memory(&self) -> usize {
        FILTER_BYTES * self.filters.len()
    }

    /// Where elements are held, in the order in which they are sought, in stretches that are no longer than `longest`. Only that,
    /// and how many they are, is public.
    pub(super) fn search(&self, sought: &[Element], longest: usize) -> Hits {
        vectors().dispatch(Search { blocks: self, sought, longest })
    }
}

/// An element that is sought.
pub(super) struct Element {
    /// Number of the content; if there is none, the stretch is empty.
    pub(super) number: u32,
    pub(super) fingerprint: u64,
    /// The first position at which it may stand, and the first one behind that at which it may not.
    pub(super) first: u32,
    pub(super) after: u32,
}

impl Zeroize for Element {
    fn zeroize(&mut self) {
        let Self { number, fingerprint, first, after } = self;
        number.zeroize();
        fingerprint.zeroize();
        first.zeroize();
        after.zeroize();
    }
}

/// A search whose loops are compiled for the machine's vectors.
struct Search<'a> {
    blocks: &'a Blocks,
    sought: &'a [Element],
    longest: usize,
}

impl NullaryFnOnce for Search<'_> {
    type Output = Hits;

    #[inline(always)]
    fn call(self) -> Hits {
        let Self { blocks, sought, longest } = self;
        let of_block = blocks.hashes.len();
        let mut stretches: Vec<Stretch> =
            sought.iter().map(|sought| Stretch::new(blocks, sought, longest)).collect();
        // Filters that stay near while all take from them.
        for (number, filters) in blocks.filters.chunks(of_block * NEAR).enumerate() {
            for stretch in &mut stretches {
                stretch.take(number * NEAR, filters, of_block);
            }
        }
        // No closures that iterators call: they would be functions of their own, without the vectors.
        let mut hits = Hits::new(sought.len(), longest);
        for (number, (stretch, sought)) in stretches.iter_mut().zip(sought).enumerate() {
            stretch.turn(of_block);
            blocks.look(&stretch.filters, sought, hits.stretch(number, sought.first));
        }
        hits
    }
}

/// Blocks from which all stretches take before others: 24 KiB, or twice that.
const NEAR: usize = 128;

/// The filters of a content's blocks from one on, as many as a stretch of positions takes wherever in that block it begins; behind
/// the last block of all, filters that hold nothing.
struct Stretch {
    /// Block `i` of all stands at `i` modulo how many are taken.
    filters: Zeroizing<Vec<Filter>>,
    /// Number of the first of these blocks among all.
    from: u32,
    /// Where it stands.
    first: u32,
}

impl Drop for Stretch {
    fn drop(&mut self) {
        self.from.zeroize();
        self.first.zeroize();
    }
}

impl Stretch {
    fn new(blocks: &Blocks, sought: &Element, longest: usize) -> Self {
        let taken = (longest.div_ceil(BLOCK) + 1) * blocks.hashes.len();
        // A mapping has fewer than 2^32 blocks.
        let from = sought.number.wrapping_mul(blocks.each as u32).wrapping_add(sought.first / BLOCK as u32);
        Self { filters: Zeroizing::new(vec![Filter::default(); taken]), from, first: 0 }
    }

    /// Takes what is its own of the blocks from a number on.
    #[inline(always)]
    fn take(&mut self, number: usize, filters: &[Filter], of_block: usize) {
        let (from, blocks) = (black_box(self.from), self.filters.len() / of_block);
        let (mut to, mut first) = (number % blocks, 0);
        for (here, block) in (number as u32..).zip(filters.chunks_exact(of_block)) {
            let distance = here.wrapping_sub(from);
            let is_here = below(distance, blocks as u32);
            let own = self.filters[to * of_block..][..of_block].as_flattened_mut();
            let (own, _) = own.as_chunks_mut::<8>();
            let (block, _) = block.as_flattened().as_chunks::<8>();
            for (own, words) in own.iter_mut().zip(block) {
                // Read before anything is written, so that the compiler sees vectors.
                let (mut sums, words) = (*own, *words);
                for lane in 0..sums.len() {
                    sums[lane] |= words[lane] & is_here;
                }
                *own = sums;
            }
            first |= to as u32 & equal(distance, 0);
            to = if to + 1 == blocks { 0 } else { to + 1 };
        }
        self.first |= first;
    }

    /// Brings the first block to the front, by turns of one, two, four, ... blocks that are taken or not.
    #[inline(always)]
    fn turn(&mut self, of_block: usize) {
        let mut by = of_block;
        while by < self.filters.len() {
            let is_turned = black_box(self.first & 1).wrapping_neg();
            let (front, rest) = self.filters.split_at(by);
            let turned = Zeroizing::new([rest, front].concat());
            for (filter, turned) in self.filters.iter_mut().zip(turned.iter()) {
                let stays = *filter;
                choose(filter, is_turned, turned, &stays);
            }
            (self.first, by) = (self.first >> 1, 2 * by);
        }
    }
}

impl Blocks {
    /// Which positions of a stretch hold what is sought, of the filters that were taken for it.
    #[inline(always)]
    fn look(&self, filters: &[Filter], sought: &Element, are_there: &mut [u32]) {
        let of_block = self.hashes.len();
        let first = black_box(sought.first);
        let mut chosen = Zeroizing::new(vec![Filter::default(); of_block]);
        for (step, is_there) in are_there.iter_mut().enumerate() {
            // Whatever the first position, it lies in one of two of the blocks.
            let (one, other) = filters[step / BLOCK * of_block..][..2 * of_block].split_at(of_block);
            let position = first.wrapping_add(step as u32);
            let is_other = below(position % BLOCK as u32, step as u32 % BLOCK as u32);
            for (chosen, (one, other)) in chosen.iter_mut().zip(one.iter().zip(other)) {
                choose(chosen, is_other, other, one);
            }
            *is_there = below(position, sought.after) & self.hold(&chosen, sought.fingerprint, position);
        }
    }

    /// Whether all filters of a block hold an element: a mask.
    #[inline(always)]
    fn hold(&self, filters: &[Filter], fingerprint: u64, position: u32) -> u32 {
        let tuple = tuple(fingerprint, position.into()).to_ne_bytes();
        let mut missing = Filter::default();
        for (filter, hashes) in filters.iter().zip(&self.hashes) {
            let [one, other] = [hashes[0].hash(&tuple), hashes[1].hash(&tuple)];
            let mut needed = Filter::default();
            for number in 0..HASHES {
                let place = black_box(place(one, other, number));
                // One bit for the word, so that there is nothing to compare.
                let (word, bit) = (1_u32 << (place / 32), 1 << (place % 32));
                for (here, needed) in needed.iter_mut().enumerate() {
                    *needed |= bit & (word >> here & 1).wrapping_neg();
                }
            }
            for here in 0..missing.len() {
                missing[here] |= needed[here] & !filter[here];
            }
        }
        equal(0, missing.iter().fold(0, |all, missing| all | missing))
    }
}

/// Takes one of two filters: the first where the mask is of ones.
#[inline(always)]
fn choose(chosen: &mut Filter, mask: u32, yes: &Filter, no: &Filter) {
    let (yes, no) = (*yes, *no);
    let mut choice = no;
    for word in 0..choice.len() {
        choice[word] = select(mask, yes[word], no[word]);
    }
    *chosen = choice;
}

/// One of the bit numbers of an element with these hashes.
#[inline(always)]
const fn place(one: u64, other: u64, number: usize) -> u32 {
    // The crate has the hashes themselves for the first two, and for the others their combinations modulo a prime.
    let hash = match number {
        0 => one,
        1 => other,
        _ => reduced(one.wrapping_add((number as u64).wrapping_mul(other))),
    };
    // By a constant, hence by multiplying.
    (hash % FILTER_BITS) as u32
}

/// A number modulo the largest prime below 2^64, which is 2^64 - 59.
#[inline(always)]
const fn reduced(number: u64) -> u64 {
    let (less, is_beyond) = number.overflowing_add(59);
    number ^ ((number ^ less) & (is_beyond as u64).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{BLOCK, Blocks, Element, FILTER_BITS, Writer, place, reduced, tuple};

    #[test]
    fn numbers_are_reduced_modulo_the_prime() {
        for number in [0, 58, 59, u64::MAX - 60, u64::MAX - 59, u64::MAX - 58, u64::MAX - 57, u64::MAX] {
            assert_eq!(reduced(number), number % 0xFFFF_FFFF_FFFF_FFC5);
        }
    }

    #[test]
    fn the_first_two_hashes_are_taken_as_they_are() {
        let places = |number| place(u64::MAX, u64::MAX - 1, number);
        assert_eq!(u64::from(places(0)), u64::MAX % FILTER_BITS);
        assert_eq!(u64::from(places(1)), (u64::MAX - 1) % FILTER_BITS);
        // The third is the sum of both, modulo 2^64 and then the prime.
        let third = |one, other| u64::from(place(one, other, 2));
        assert_eq!(third(5, 1000), 2005 % FILTER_BITS);
        assert_eq!(third(u64::MAX, 0), 58 % FILTER_BITS);
    }

    /// The server writes filters with the crate: what is read here otherwise would be boxes that are not found.
    #[test]
    fn filters_hold_here_what_they_hold_there() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let seed = [7; 32];
        for (contents, bucket_size) in [(1_u16, 70), (3, 64), (3, 200), (5, 1000), (2, 9000), (2, 0)] {
            let fingerprints: [u64; 4] = core::array::from_fn(|_| rng.next_u64());
            let mut writer = Writer::new(&seed, contents).unwrap();
            let mut encoded = Vec::new();
            let mut expected = Vec::new();
            for _ in 0..contents {
                let mut filters = Vec::new();
                for block in 0..super::blocks_of_content(bucket_size) {
                    // One in thirty is one of three, and nobody has the fourth.
                    let held: Vec<u64> = (0..BLOCK)
                        .map(|_| match (rng.next_u32() % 90) as usize {
                            drawn @ 0..3 => fingerprints[drawn],
                            _ => rng.next_u64(),
                        })
                        .collect();
                    writer.write(
                        block * BLOCK,
                        held.iter().map(|held| core::iter::once(*held)),
                        &mut encoded,
                    );
                    filters.push(writer.filters.clone());
                }
                expected.push(filters);
            }
            assert_eq!(
                encoded.len() as u64,
                u64::from(contents) * super::content_bytes(contents, bucket_size)
            );
            let blocks = Blocks::read(&seed, &encoded, contents, bucket_size);
            for (content, fingerprint) in
                (0..contents).flat_map(|content| fingerprints.map(|fingerprint| (content, fingerprint)))
            {
                let first = rng.next_u32() % bucket_size.max(1);
                let longest = 1 + rng.next_u32() % 400;
                let after = (first + longest).min(bucket_size);
                let number = content.into();
                // Before it another one, for which nothing may be taken from it.
                let sought = [0, 1].map(|one| Element {
                    number,
                    fingerprint: fingerprint ^ (1 - one),
                    first: first * one as u32,
                    after,
                });
                let hits = blocks.search(&sought, longest as usize);
                let found: Vec<u32> = (0..hits.count(1)).map(|chosen| hits.position(1, chosen)).collect();
                let held = |position: &u32| {
                    let tuple = tuple(fingerprint, u64::from(*position));
                    expected[usize::from(content)][*position as usize / BLOCK]
                        .iter()
                        .all(|filter| filter.check(&tuple))
                };
                assert_eq!(found, (first..after).filter(held).collect::<Vec<u32>>());
            }
            // Of a content that is none nothing is found, wherever it would be.
            for number in [u32::from(contents), u32::MAX] {
                let sought = Element { number, fingerprint: fingerprints[0], first: 0, after: 0 };
                assert_eq!(blocks.search(&[sought], 400).count(0), 0);
            }
        }
    }
}
