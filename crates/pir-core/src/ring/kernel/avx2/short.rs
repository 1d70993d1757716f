//! The first dimension for short primes: residues and selectors as integers, of whose products a word holds the sum of several.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi64, _mm256_and_si256, _mm256_castsi128_si256,
    _mm256_cmpgt_epi64, _mm256_inserti128_si256, _mm256_mul_epu32, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srlv_epi64, _mm256_sub_epi64, _mm256_xor_si256,
};
use core::ops::RangeInclusive;

use super::super::portable;
use super::super::rows::{CHUNK, Lanes, Products, RowSums, Selectors, bundles};
use super::field::{Four, load, store};
use crate::ring::modulus::Modulus;

/// The bits that a prime may have here, and the bytes of eight residues.
pub(super) const WIDTHS: RangeInclusive<usize> = 16..=30;

/// Rows whose products of so many bits are summed in a word: `16 (2^30 - 1)^2 < 2^64`, and `64 (2^29 - 1)^2` too.
const fn run(width: usize) -> usize {
    if width < 30 { CHUNK } else { 16 }
}

/// As [`super::product::row_products`], for selectors as they come.
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: &Selectors,
    products: &mut [&mut Products],
    scratch: &mut RowSums,
) {
    let (width, rows) = (modulus.bits() as usize, selectors.rows);
    let run = run(width);
    let unpacker = Unpacker::new(width);
    let blocks = selectors.blocks().zip(packed.chunks_exact(rows * columns * width));
    for ((block, clients), packed) in blocks {
        for (columns, packed) in bundles(packed, rows, columns, width) {
            let bundle = columns.len();
            scratch.clear(bundle, selectors.clients);
            for (chunk, packed) in packed.chunks(CHUNK * bundle * width).enumerate() {
                for (values, bytes) in scratch.values.iter_mut().zip(packed.chunks_exact(width)) {
                    unpacker.unpack(bytes, values);
                }
                let values = &scratch.values[..packed.len() / width];
                for (selectors, sums) in clients.clone().zip(scratch.sums.chunks_exact_mut(bundle)) {
                    let selectors = selectors[chunk * CHUNK..].chunks(run);
                    for (values, selectors) in values.chunks(run * bundle).zip(selectors) {
                        match bundle {
                            1 => accumulate::<1>(values, selectors, sums),
                            2 => accumulate::<2>(values, selectors, sums),
                            3 => accumulate::<3>(values, selectors, sums),
                            _ => accumulate::<4>(values, selectors, sums),
                        }
                    }
                }
            }
            for (products, sums) in products.iter_mut().zip(scratch.sums.chunks_exact_mut(bundle)) {
                let places = products.places(&columns, block);
                for (place, [low, high]) in places.iter_mut().zip(sums.as_flattened_mut()) {
                    portable::reduce(modulus, place, [low, high]);
                }
            }
        }
    }
}

/// At most [`run`] rows of some columns times a client's selectors.
#[inline]
#[target_feature(enable = "avx2")]
fn accumulate<const COLUMNS: usize>(
    values: &[Lanes],
    selectors: &[[Lanes; 2]],
    sums: &mut [[[Lanes; 2]; 2]],
) {
    let Some(sums) = sums.first_chunk_mut::<COLUMNS>() else { return };
    add_slots::<COLUMNS, 0>(values.as_chunks().0, selectors, sums);
    add_slots::<COLUMNS, 1>(values.as_chunks().0, selectors, sums);
}

/// The first or the second four slots: a sum for every column and half in registers.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn add_slots<const COLUMNS: usize, const FOUR: usize>(
    values: &[[Lanes; COLUMNS]],
    selectors: &[[Lanes; 2]],
    sums: &mut [[[Lanes; 2]; 2]; COLUMNS],
) {
    let mut words = [[_mm256_setzero_si256(); 2]; COLUMNS];
    for (row, [first, second]) in values.iter().zip(selectors) {
        let halves = [load(&first.as_chunks().0[FOUR]), load(&second.as_chunks().0[FOUR])];
        for (words, values) in words.iter_mut().zip(row) {
            let values = load(&values.as_chunks().0[FOUR]);
            for (word, half) in words.iter_mut().zip(halves) {
                *word = _mm256_add_epi64(*word, _mm256_mul_epu32(values, half));
            }
        }
    }
    for (words, sums) in words.iter().zip(sums) {
        for (word, [low, high]) in words.iter().zip(sums) {
            let (low, high) = (&mut low.as_chunks_mut().0[FOUR], &mut high.as_chunks_mut().0[FOUR]);
            let sum = _mm256_add_epi64(load(low), *word);
            // All ones where the sum is smaller than what was added; with the highest bits flipped, signed numbers compare so.
            let flipped = [*word, sum].map(|word| _mm256_xor_si256(word, _mm256_set1_epi64x(i64::MIN)));
            let carried = _mm256_cmpgt_epi64(flipped[0], flipped[1]);
            store(low, sum);
            store(high, _mm256_sub_epi64(load(high), carried));
        }
    }
}

/// Eight fields of one width.
struct Unpacker {
    mask: __m256i,
    fours: [FourFields; 2],
}

/// Four of them: where the bytes of two begin, and of the other two; which of those bytes belong to each; by how many bits they
/// stand too high.
struct FourFields {
    starts: [usize; 2],
    places: __m256i,
    shifts: __m256i,
}

/// Bytes that a load reads.
const LOADED: usize = 16;

impl Unpacker {
    #[target_feature(enable = "avx2")]
    fn new(width: usize) -> Self {
        debug_assert!(
            WIDTHS.contains(&width),
            "a field and a partial byte fit five bytes, eight fields two loads"
        );
        let four = |first: usize| {
            let bit = |lane: usize| (first + lane) * width;
            // No load reads beyond the last field.
            let starts = [bit(0), bit(2)].map(|bit| (bit / 8).min(width - LOADED));
            let (mut places, mut shifts): (Four, Four) = ([0; 4], [0; 4]);
            for lane in 0..4 {
                let begin = bit(lane) / 8 - starts[lane / 2];
                // The highest bit of a place says that there shall be a zero.
                let place = |byte: usize| if byte < 5 && begin + byte < LOADED { begin + byte } else { 0x80 };
                places[lane] = u64::from_le_bytes(core::array::from_fn(|byte| place(byte) as u8));
                shifts[lane] = bit(lane) as u64 % 8;
            }
            FourFields { starts, places: load(&places), shifts: load(&shifts) }
        };
        Self { mask: _mm256_set1_epi64x((1 << width) - 1), fours: [four(0), four(4)] }
    }

    /// Of as many bytes as a field has bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn unpack(&self, bytes: &[u8], values: &mut Lanes) {
        for (four, values) in self.fours.iter().zip(values.as_chunks_mut().0) {
            let [low, high] = four.starts.map(|start| part(&bytes[start..]));
            let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
            let fields = _mm256_srlv_epi64(_mm256_shuffle_epi8(both, four.places), four.shifts);
            store(values, _mm256_and_si256(fields, self.mask));
        }
    }
}

/// The first 16 bytes.
///
/// # Panics
/// If there are fewer.
#[inline]
#[target_feature(enable = "avx2")]
fn part(bytes: &[u8]) -> __m128i {
    let bytes: &[u8; LOADED] = bytes.first_chunk().expect("a load within the fields");
    // SAFETY: the reference covers the 16 bytes that are read; an unaligned load has no other demand.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
