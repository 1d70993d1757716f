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
    _mm256_castsi128_si256, _mm256_cmp_pd, _mm256_fmadd_pd, _mm256_inserti128_si256, _mm256_mul_pd,
    _mm256_set1_pd, _mm256_setr_epi8, _mm256_setr_epi64x, _mm256_setr_pd, _mm256_setzero_pd,
    _mm256_shuffle_epi8, _mm256_sub_pd,
};

use super::super::portable;
use super::super::rows::{CHUNK, Lanes, Products, RowSums, Selectors, bundles};
use super::field::{Field, Four, double, load, load_double, store, store_double};
use super::short;
use crate::ring::modulus::Modulus;

/// The bits of a residue, and the bytes of eight, with which the first dimension is computed here; shorter ones are multiplied
/// as [integers](short), and all others by the portable twin.
const WIDTH: usize = 36;

/// Digits of a residue.
const DIGITS: usize = 3;

/// Four slots of a plaintext.
type Digits = [Four; DIGITS];

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
    products: &mut [&mut Products],
    scratch: &mut RowSums,
) {
    if short::WIDTHS.contains(&(modulus.bits() as usize)) {
        return short::row_products(modulus, packed, columns, selectors, products, scratch);
    }
    if !is_split(modulus) {
        return portable::row_products(modulus, packed, columns, selectors, products, scratch);
    }
    let (field, rows) = (Field::new(modulus), selectors.rows);
    let blocks = selectors.blocks().zip(packed.chunks_exact(rows * columns * WIDTH));
    for ((block, clients), packed) in blocks {
        for (columns, packed) in bundles(packed, rows, columns, WIDTH) {
            let bundle = columns.len();
            scratch.clear(bundle, selectors.clients);
            for (chunk, packed) in packed.as_chunks().0.chunks(CHUNK * bundle).enumerate() {
                let clients = clients.clone().map(|selectors| &selectors[chunk * CHUNK..]);
                if selectors.clients == 1 {
                    accumulate(&field, packed, bundle, clients, &mut scratch.sums);
                } else {
                    accumulate_shared(&field, packed, bundle, clients, scratch);
                }
            }
            for (products, sums) in products.iter_mut().zip(scratch.sums.chunks_exact(bundle)) {
                let places = products.places(&columns, block);
                for (place, [sum, _]) in places.iter_mut().zip(sums.as_flattened()) {
                    for (place, sum) in place.as_chunks_mut().0.iter_mut().zip(sum.as_chunks().0) {
                        store(place, field.residue(field.reduce(load_double(sum))));
                    }
                }
            }
        }
    }
}

/// The columns of a bundle, at most [`CHUNK`] rows of them, against each client's selectors: column by column, the digits as
/// they come.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn accumulate<'a>(
    field: &Field,
    packed: &[[u8; WIDTH]],
    bundle: usize,
    clients: impl Iterator<Item = &'a [[Lanes; 2]]>,
    sums: &mut [[[Lanes; 2]; 2]],
) {
    for (selectors, sums) in clients.zip(sums.chunks_exact_mut(bundle)) {
        for (column, sums) in sums.iter_mut().enumerate() {
            add_packed(field, &packed[column..], bundle, selectors, sums);
        }
    }
}

/// The same where several clients share the work of unpacking: two columns at a time.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn accumulate_shared<'a>(
    field: &Field,
    packed: &[[u8; WIDTH]],
    bundle: usize,
    clients: impl Iterator<Item = &'a [[Lanes; 2]]> + Clone,
    scratch: &mut RowSums,
) {
    let digits = scratch.values.as_flattened_mut().as_chunks_mut().0.as_chunks_mut().0;
    let (first, second) = digits.split_at_mut(CHUNK * PAIR);
    for column in (0..bundle).step_by(PAIR) {
        let columns = column..bundle.min(column + PAIR);
        let plaintexts = packed.chunks_exact(bundle).flat_map(|row| &row[columns.clone()]);
        for (plaintext, digits) in plaintexts.zip(first.iter_mut().zip(&mut *second)) {
            store_digits(plaintext, digits);
        }
        for (selectors, sums) in clients.clone().zip(scratch.sums.chunks_exact_mut(bundle)) {
            add_unpacked(field, [first, second], selectors, &mut sums[columns.clone()]);
        }
    }
}

/// Every `stride`-th plaintext.
///
/// Not inlined, as the next one is not: only from a function that has nothing to drop does the compiler call what it shall
/// not inline.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn add_packed(
    field: &Field,
    plaintexts: &[[u8; WIDTH]],
    stride: usize,
    selectors: &[[Lanes; 2]],
    sums: &mut [[Lanes; 2]; 2],
) {
    add_packed_slots::<0>(field, plaintexts, stride, selectors, sums);
    add_packed_slots::<1>(field, plaintexts, stride, selectors, sums);
}

/// One or two columns.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn add_unpacked(
    field: &Field,
    [first, second]: [&[Digits]; 2],
    selectors: &[[Lanes; 2]],
    sums: &mut [[[Lanes; 2]; 2]],
) {
    if let Some(sums) = sums.first_chunk_mut() {
        add_unpacked_slots::<PAIR, 0>(field, first, selectors, sums);
        add_unpacked_slots::<PAIR, 1>(field, second, selectors, sums);
    } else if let Some(sums) = sums.first_chunk_mut() {
        add_unpacked_slots::<1, 0>(field, first, selectors, sums);
        add_unpacked_slots::<1, 1>(field, second, selectors, sums);
    }
}

/// The first or the second four slots: six sums in registers, of at most 53 bits each, beside their powers of two.
///
/// It is not inlined, as the next one is not, so that no constant of its surroundings takes a register that a sum needs.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn add_packed_slots<const FOUR: usize>(
    field: &Field,
    plaintexts: &[[u8; WIDTH]],
    stride: usize,
    selectors: &[[Lanes; 2]],
    sums: &mut [[Lanes; 2]; 2],
) {
    let mut words = [[_mm256_setzero_pd(); 2]; DIGITS];
    let plaintexts = plaintexts.chunks(stride).filter_map(<[_]>::first);
    for (plaintext, selector) in plaintexts.zip(selectors) {
        let (residues, selector) = (unpack::<FOUR>(plaintext), load_selector::<FOUR>(selector));
        multiply_add(&mut words[0], digit::<0>(residues), selector);
        multiply_add(&mut words[1], digit::<1>(residues), selector);
        multiply_add(&mut words[2], digit::<2>(residues), selector);
    }
    add_up::<FOUR>(field, &words, sums);
}

/// The same for several columns, with six sums each.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn add_unpacked_slots<const COLUMNS: usize, const FOUR: usize>(
    field: &Field,
    digits: &[Digits],
    selectors: &[[Lanes; 2]],
    sums: &mut [[[Lanes; 2]; 2]; COLUMNS],
) {
    let mut words = [[[_mm256_setzero_pd(); 2]; DIGITS]; COLUMNS];
    for (digits, selector) in digits.as_chunks::<COLUMNS>().0.iter().take(CHUNK).zip(selectors) {
        let selector = load_selector::<FOUR>(selector);
        for column in 0..COLUMNS {
            multiply_add(&mut words[column][0], load_double(&digits[column][0]), selector);
            multiply_add(&mut words[column][1], load_double(&digits[column][1]), selector);
            multiply_add(&mut words[column][2], load_double(&digits[column][2]), selector);
        }
    }
    for (words, sums) in words.iter().zip(sums) {
        add_up::<FOUR>(field, words, sums);
    }
}

/// Four slots of both halves of a selector.
#[inline]
#[target_feature(enable = "avx2")]
fn load_selector<const FOUR: usize>([first, second]: &[Lanes; 2]) -> [__m256d; 2] {
    [load_double(&first.as_chunks().0[FOUR]), load_double(&second.as_chunks().0[FOUR])]
}

/// A digit times both halves of a selector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn multiply_add(sums: &mut [__m256d; 2], digit: __m256d, selector: [__m256d; 2]) {
    *sums = [_mm256_fmadd_pd(digit, selector[0], sums[0]), _mm256_fmadd_pd(digit, selector[1], sums[1])];
}

/// What is added up in memory, in the first word of each half's sum, are reduced doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_up<const FOUR: usize>(field: &Field, words: &[[__m256d; 2]; DIGITS], sums: &mut [[Lanes; 2]; 2]) {
    for (half, [sum, _]) in sums.iter_mut().enumerate() {
        let sum = &mut sum.as_chunks_mut().0[FOUR];
        let mut total = load_double(sum);
        for word in words {
            total = _mm256_add_pd(total, field.reduce(word[half]));
        }
        store_double(sum, total);
    }
}

/// The digits of all eight slots.
#[inline]
#[target_feature(enable = "avx2")]
fn store_digits(plaintext: &[u8; WIDTH], (first, second): (&mut Digits, &mut Digits)) {
    for (place, residues) in [(first, unpack::<0>(plaintext)), (second, unpack::<1>(plaintext))] {
        store_double(&mut place[0], digit::<0>(residues));
        store_double(&mut place[1], digit::<1>(residues));
        store_double(&mut place[2], digit::<2>(residues));
    }
}

/// Four of eight residues, every second one 2^4 times too large.
#[inline]
#[target_feature(enable = "avx2")]
fn unpack<const FOUR: usize>(plaintext: &[u8; WIDTH]) -> __m256i {
    // The residues begin at bits 0, 36, 72, 108, and 144, 180, 216, 252. The last 16 bytes begin at bit 160.
    let (bytes, places) = if FOUR == 0 {
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
    _mm256_shuffle_epi8(bytes, places)
}

/// One digit of each, with its power of two. What is above the residue is not part of any digit.
#[inline]
#[target_feature(enable = "avx2")]
fn digit<const INDEX: u32>(residues: __m256i) -> __m256d {
    let (even, odd) = const { (0xFFF << (12 * INDEX), 0xFFF << (12 * INDEX + 4)) };
    double(_mm256_and_si256(residues, _mm256_setr_epi64x(even, odd, even, odd)))
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
