//! The first dimension.
//!
//! It works on primes of [`WIDTH`] bits: a plaintext's residue is `d0 + 2^12 d1 + 2^24 d2` with digits of 12 bits, kept as
//! doubles with their powers of two; a selector is one double of magnitude below 2^35, and its products with one of the
//! digits can be added [`CHUNK`] times before they need more than the 53 bits of a double. One product is three
//! multiply-adds.
//!
//! Every second residue begins in the middle of a byte. Its digits stay where they are, 2^4 times too large, and its
//! selectors are kept 2^4 times too small.

use core::arch::x86_64::{
    __m128i, __m256d, __m256i, _CMP_GT_OQ, _mm_loadu_si128, _mm256_add_pd, _mm256_and_pd, _mm256_and_si256,
    _mm256_castpd_si256, _mm256_castsi128_si256, _mm256_castsi256_pd, _mm256_cmp_pd, _mm256_fmadd_pd,
    _mm256_inserti128_si256, _mm256_mul_pd, _mm256_or_si256, _mm256_set1_pd, _mm256_setr_epi8,
    _mm256_setr_epi64x, _mm256_setr_pd, _mm256_setzero_pd, _mm256_shuffle_epi8, _mm256_sub_pd,
};

use super::super::{CHUNK, Lanes, RowSums, Selectors, bundles, portable};
use super::{Field, Four, SHIFTER, double, load, load_double, store, store_double};
use crate::ring::modulus::Modulus;

/// The bits of a residue, and the bytes of eight, with which the first dimension is computed here; otherwise it is
/// computed by the portable twin.
const WIDTH: usize = 36;

/// Digits of a residue.
const DIGITS: usize = 3;

/// Columns whose sums fit in the registers: with three digits and both halves, twelve of sixteen.
const PAIR: usize = 2;

fn is_split(modulus: &Modulus) -> bool {
    modulus.bits() as usize == WIDTH
}

/// Each word holds the centred doubles of a half.
#[target_feature(enable = "avx2")]
pub(in super::super) fn arrange(
    modulus: &Modulus,
    selectors: &mut Selectors,
    client: usize,
    row: usize,
    halves: [&[u64]; 2],
) {
    if !is_split(modulus) {
        return portable::arrange(modulus, selectors, client, row, halves);
    }
    let [first, second] = halves.map(|half| half.as_chunks::<8>().0);
    let value = _mm256_set1_pd(modulus.value() as f64);
    let middle = _mm256_set1_pd((modulus.value() >> 1) as f64);
    let scale = _mm256_setr_pd(1.0, 0.0625, 1.0, 0.0625);
    for ((place, first), second) in selectors.places(client, row).zip(first).zip(second) {
        for (place, slots) in place.iter_mut().zip([first, second]) {
            for (place, slots) in place.as_chunks_mut().0.iter_mut().zip(slots.as_chunks().0) {
                let residue = double(load(slots));
                let above = _mm256_cmp_pd::<_CMP_GT_OQ>(residue, middle);
                let centred = _mm256_sub_pd(residue, _mm256_and_pd(above, value));
                store_double(place, _mm256_mul_pd(centred, scale));
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: &Selectors,
    out: &mut [[Lanes; 2]],
    scratch: &mut RowSums,
) {
    if !is_split(modulus) {
        return portable::row_products(modulus, packed, columns, selectors, out, scratch);
    }
    let (field, rows) = (Field::new(modulus), selectors.rows);
    let blocks = selectors.blocks().zip(out.chunks_exact_mut(selectors.clients * columns));
    for ((clients, out), packed) in blocks.zip(packed.chunks_exact(rows * columns * WIDTH)) {
        for (first, bundle, packed) in bundles(packed, rows, columns, WIDTH) {
            scratch.clear(bundle, selectors.clients);
            for (chunk, packed) in packed.as_chunks().0.chunks(CHUNK * bundle).enumerate() {
                for column in (0..bundle).step_by(PAIR) {
                    let source = Source { packed, bundle, column };
                    let sums = scratch.sums.chunks_exact_mut(bundle).map(|sums| &mut sums[column..]);
                    let clients = clients.clone().map(|selectors| &selectors[chunk * CHUNK..]).zip(sums);
                    let values = scratch.values.as_flattened_mut().as_chunks_mut().0;
                    if column + 1 < bundle {
                        accumulate_columns::<PAIR>(&field, &source, values, selectors.clients, clients);
                    } else {
                        accumulate_columns::<1>(&field, &source, values, selectors.clients, clients);
                    }
                }
            }
            for (out, sums) in out.chunks_exact_mut(columns).zip(scratch.sums.chunks_exact(bundle)) {
                let out = out[first..first + bundle].as_flattened_mut();
                for (out, [sum, _]) in out.iter_mut().zip(sums.as_flattened()) {
                    for (out, sum) in out.as_chunks_mut().0.iter_mut().zip(sum.as_chunks().0) {
                        store(out, field.residue(field.reduce(load_double(sum))));
                    }
                }
            }
        }
    }
}

/// At most [`CHUNK`] rows of a bundle of the database, and the first of the columns in question.
struct Source<'a> {
    packed: &'a [[u8; WIDTH]],
    bundle: usize,
    column: usize,
}

impl<'a> Source<'a> {
    /// Row by row, the plaintexts of so many columns.
    #[inline]
    fn rows<const COLUMNS: usize>(
        &self,
    ) -> impl Iterator<Item = &'a [[u8; WIDTH]; COLUMNS]> + use<'a, COLUMNS> {
        let column = self.column;
        self.packed.chunks_exact(self.bundle).filter_map(move |row| row[column..].first_chunk())
    }
}

/// Some columns of a [`Source`] against each client's selectors. One client takes the digits as they come; several share
/// the work of unpacking them.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn accumulate_columns<'a, const COLUMNS: usize>(
    field: &Field,
    source: &Source<'_>,
    values: &mut [Four],
    number: usize,
    clients: impl Iterator<Item = (&'a [[Lanes; 2]], &'a mut [[[Lanes; 2]; 2]])>,
) {
    if number == 1 {
        for (selectors, sums) in clients {
            accumulate_half::<COLUMNS, 0, false>(field, source, values, selectors, sums);
            accumulate_half::<COLUMNS, 1, false>(field, source, values, selectors, sums);
        }
        return;
    }
    let (first, second) = values.split_at_mut(CHUNK * PAIR * DIGITS);
    let digits = first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0);
    for ((first, second), plaintext) in digits.zip(source.rows::<COLUMNS>().flatten()) {
        store_digits(first, unpack::<0>(plaintext));
        store_digits(second, unpack::<1>(plaintext));
    }
    for (selectors, sums) in clients {
        accumulate_half::<COLUMNS, 0, true>(field, source, first, selectors, sums);
        accumulate_half::<COLUMNS, 1, true>(field, source, second, selectors, sums);
    }
}

/// Four of the eight slots: both halves of the selectors against so many columns, `6 COLUMNS` sums in registers, below
/// 2^53 each. What is added up in memory, in the first word of a sum, are reduced doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn accumulate_half<const COLUMNS: usize, const HALF: usize, const SHARED: bool>(
    field: &Field,
    source: &Source<'_>,
    values: &[Four],
    selectors: &[[Lanes; 2]],
    sums: &mut [[[Lanes; 2]; 2]],
) {
    let mut words = [[[_mm256_setzero_pd(); DIGITS]; 2]; COLUMNS];
    let mut values = values.as_chunks::<DIGITS>().0.as_chunks::<COLUMNS>().0.iter();
    for (row, selector) in source.rows::<COLUMNS>().zip(selectors) {
        let selector = selector.each_ref().map(|half| load_double(&half.as_chunks().0[HALF]));
        let shared = if SHARED { values.next() } else { None };
        for column in 0..COLUMNS {
            let digits = match shared {
                Some(values) => values[column].each_ref().map(|digit| load_double(digit)),
                None => unpack::<HALF>(&row[column]),
            };
            for (words, selector) in words[column].iter_mut().zip(selector) {
                for (word, digit) in words.iter_mut().zip(digits) {
                    *word = _mm256_fmadd_pd(digit, selector, *word);
                }
            }
        }
    }
    for (words, sums) in words.iter().zip(sums) {
        for (words, [sum, _]) in words.iter().zip(sums) {
            let sum = &mut sum.as_chunks_mut().0[HALF];
            let total =
                words.iter().fold(load_double(sum), |total, word| _mm256_add_pd(total, field.reduce(*word)));
            store_double(sum, total);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_digits(place: &mut [Four; DIGITS], digits: [__m256d; DIGITS]) {
    for (place, digit) in place.iter_mut().zip(digits) {
        store_double(place, digit);
    }
}

/// The digits of four of eight residues, each with its power of two.
#[inline]
#[target_feature(enable = "avx2")]
fn unpack<const HALF: usize>(plaintext: &[u8; WIDTH]) -> [__m256d; DIGITS] {
    // The residues begin at bits 0, 36, 72, 108, and 144, 180, 216, 252. The last 16 bytes begin at bit 160.
    let (bytes, places) = if HALF == 0 {
        let places = _mm256_setr_epi8(
            0, 1, 2, 3, 4, -1, -1, -1, 4, 5, 6, 7, 8, -1, -1, -1, //
            0, 1, 2, 3, 4, -1, -1, -1, 4, 5, 6, 7, 8, -1, -1, -1,
        );
        (join(part::<0>(plaintext), part::<9>(plaintext)), places)
    } else {
        let places = _mm256_setr_epi8(
            0, 1, 2, 3, 4, -1, -1, -1, 4, 5, 6, 7, 8, -1, -1, -1, //
            7, 8, 9, 10, 11, -1, -1, -1, 11, 12, 13, 14, 15, -1, -1, -1,
        );
        (join(part::<18>(plaintext), part::<20>(plaintext)), places)
    };
    let residues = _mm256_shuffle_epi8(bytes, places);
    let shifter = _mm256_set1_pd(SHIFTER);
    core::array::from_fn(|digit| {
        let (even, odd) = (0xFFF << (12 * digit), 0xFFF << (12 * digit + 4));
        let field = _mm256_and_si256(residues, _mm256_setr_epi64x(even, odd, even, odd));
        _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(field, _mm256_castpd_si256(shifter))), shifter)
    })
}

#[inline]
#[target_feature(enable = "avx2")]
fn join(low: __m128i, high: __m128i) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

/// The 16 bytes from `START` on.
#[inline]
#[target_feature(enable = "avx2")]
fn part<const START: usize>(plaintext: &[u8; WIDTH]) -> __m128i {
    const { assert!(START + 16 <= WIDTH, "within the plaintext") };
    // SAFETY: the reference covers the bytes that are read, by the assertion; an unaligned load has no other demand.
    unsafe { _mm_loadu_si128(plaintext.as_ptr().add(START).cast()) }
}
