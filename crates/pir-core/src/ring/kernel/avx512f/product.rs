//! Sums of products.
//!
//! The first dimension works on primes of at most 36 bits: a centred selector is `s0 + 2^12 s1 + 2^24 s2` with signed
//! digits of 12 bits, and the products of a residue with one of the digits can be added [`CHUNK`] times before they need
//! more than the 53 bits of a double. One product is three multiply-adds.

use core::arch::x86_64::{
    __m128i, __m512d, _MM_HINT_T1, _mm_loadu_si128, _mm_storeu_si128, _mm512_add_epi64, _mm512_add_pd,
    _mm512_cmpgt_epu64_mask, _mm512_cvtepi16_epi64, _mm512_cvtepi64_epi16, _mm512_cvtepi64_pd,
    _mm512_fmadd_pd, _mm512_mask_storeu_epi8, _mm512_mask_sub_epi64, _mm512_maskz_permutexvar_epi16,
    _mm512_mullo_epi64, _mm512_or_si512, _mm512_set1_pd, _mm512_setzero_pd, _mm512_setzero_si512,
    _mm512_slli_epi64, _mm512_sllv_epi64, _mm512_srai_epi64, _mm512_sub_epi64,
};

use super::super::portable;
use super::super::rows::{CHUNK, Lanes, Products, RowSums, Selectors, bundles};
use super::super::vector512::{fetch, lanes, load, splat, store};
use super::field::{Field, double, load_double, store_double};
use super::unpacker::{Unpacker, load_words};
use crate::ring::modulus::Modulus;

/// How far ahead of its use the database is fetched, bytes.
const AHEAD: usize = 4096;

/// Whether selectors are kept as digits, and the first dimension is computed here; otherwise by the portable twin.
fn is_split(modulus: &Modulus) -> bool {
    (16..=36).contains(&modulus.bits())
}

/// Longest primes whose sums of 2^12 products can be estimated by a double.
const ESTIMATED_BITS: u32 = 40;

/// The words of a sum: the sum modulo 2^64, and as a double.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn multiply_accumulate(
    modulus: &Modulus,
    sums: [&mut [u64]; 2],
    terms: &[(&[u64], &[u64])],
) {
    if modulus.bits() > ESTIMATED_BITS || !sums[0].len().is_multiple_of(8) {
        return portable::multiply_accumulate(modulus, sums, terms);
    }
    let [lows, estimates] = sums.map(|sums| sums.as_chunks_mut::<8>().0);
    for (a, b) in terms {
        let products = a.as_chunks().0.iter().zip(b.as_chunks().0);
        for ((low, estimate), (a, b)) in lows.iter_mut().zip(&mut *estimates).zip(products) {
            let (a, b) = (load(a), load(b));
            store(low, _mm512_add_epi64(load(low), _mm512_mullo_epi64(a, b)));
            store_double(estimate, _mm512_fmadd_pd(double(a), double(b), load_double(estimate)));
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn reduce(modulus: &Modulus, out: &mut [u64], sums: [&mut [u64]; 2]) {
    if modulus.bits() > ESTIMATED_BITS || !out.len().is_multiple_of(8) {
        return portable::reduce(modulus, out, sums);
    }
    let field = Field::new(modulus);
    let [lows, estimates] = sums.map(|sums| sums.as_chunks_mut::<8>().0);
    for ((out, low), estimate) in out.as_chunks_mut::<8>().0.iter_mut().zip(lows).zip(estimates) {
        store(out, field.reduce_sum(load(low), load_double(estimate)));
        (*low, *estimate) = ([0; 8], [0; 8]);
    }
}

/// With at most eight digits, see [`Field::reduce_sum`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    key_products_by_digits!(8, modulus, out, digits, keys);
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn key_products_of<const DIGITS: usize>(
    modulus: &Modulus,
    [out0, out1]: [&mut [u64]; 2],
    digits: &[u64],
    keys: &[u64],
) {
    let (field, degree) = (Field::new(modulus), out0.len());
    let mut vectors: [&[Lanes]; DIGITS] = [&[]; DIGITS];
    let mut pairs: [[&[Lanes]; 2]; DIGITS] = [[&[]; 2]; DIGITS];
    for i in 0..DIGITS {
        vectors[i] = digits[i * degree..(i + 1) * degree].as_chunks().0;
        let (b, a) = keys[2 * i * degree..2 * (i + 1) * degree].split_at(degree);
        pairs[i] = [b.as_chunks().0, a.as_chunks().0];
    }
    let outs = out0.as_chunks_mut::<8>().0.iter_mut().zip(out1.as_chunks_mut::<8>().0);
    for (v, (out0, out1)) in outs.enumerate() {
        let (mut lows, mut estimates) = ([_mm512_setzero_si512(); 2], [_mm512_setzero_pd(); 2]);
        for i in 0..DIGITS {
            let digit = load(&vectors[i][v]);
            let digit_double = double(digit);
            for half in 0..2 {
                let key = load(&pairs[i][half][v]);
                lows[half] = _mm512_add_epi64(lows[half], _mm512_mullo_epi64(digit, key));
                estimates[half] = _mm512_fmadd_pd(digit_double, double(key), estimates[half]);
            }
        }
        store(out0, field.reduce_sum(lows[0], estimates[0]));
        store(out1, field.reduce_sum(lows[1], estimates[1]));
    }
}

/// In each word the digits of a half: eight times 16 bits of `s0`, then of `s1` and of `s2`.
#[target_feature(enable = "avx512f")]
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
    let (value, middle) = (splat(modulus.value()), splat(modulus.value() >> 1));
    let half_digit = splat(1 << 11);
    for ((place, first), second) in selectors.places(client, row).zip(first).zip(second) {
        for (place, slots) in place.iter_mut().zip([first, second]) {
            let residue = load(slots);
            let above = _mm512_cmpgt_epu64_mask(residue, middle);
            let mut rest = _mm512_mask_sub_epi64(residue, above, residue, value);
            let [digits @ .., highest, _] = place.as_chunks_mut::<2>().0 else { continue };
            for digit in digits {
                // What remains when the rest is rounded to a multiple of 2^12.
                let higher = _mm512_srai_epi64::<12>(_mm512_add_epi64(rest, half_digit));
                let low = _mm512_sub_epi64(rest, _mm512_slli_epi64::<12>(higher));
                store_half_words(digit, _mm512_cvtepi64_epi16(low));
                rest = higher;
            }
            store_half_words(highest, _mm512_cvtepi64_epi16(rest));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_half_words(place: &mut [u64; 2], values: __m128i) {
    // SAFETY: the exclusive reference covers the 16 bytes that are written; an unaligned store has no other demand.
    unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), values) }
}

/// Eight signed 16-bit integers as doubles.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn load_half_words(place: &[u64; 2]) -> __m512d {
    // SAFETY: the reference covers the 16 bytes that are read, and an unaligned load has no other demand.
    let values = unsafe { _mm_loadu_si128(place.as_ptr().cast()) };
    _mm512_cvtepi64_pd(_mm512_cvtepi16_epi64(values))
}

/// Unpacks [`CHUNK`] rows at a time and multiplies them with every client's selectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(in super::super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: &Selectors,
    products: &mut [&mut Products],
    scratch: &mut RowSums,
) {
    if !is_split(modulus) {
        return portable::row_products(modulus, packed, columns, selectors, products, scratch);
    }
    let (width, rows) = (modulus.bits() as usize, selectors.rows);
    let (field, unpacker) = (Field::new(modulus), Unpacker::new(width));
    // One client takes the residues as they come; several share the work of unpacking them.
    let shared = selectors.clients > 1;
    let blocks = selectors.blocks().zip(packed.chunks_exact(rows * columns * width));
    for ((block, clients), packed) in blocks {
        for (columns, packed) in bundles(packed, rows, columns, width) {
            let bundle = columns.len();
            scratch.clear(bundle, selectors.clients);
            for (chunk, packed) in packed.chunks(CHUNK * bundle * width).enumerate() {
                if shared {
                    for (values, bytes) in scratch.values.iter_mut().zip(packed.chunks_exact(width)) {
                        let [unpacked] = unpacker.unpack(bytes);
                        store_double(values, double(unpacked));
                    }
                }
                let values = &scratch.values[..];
                for (selectors, sums) in clients.clone().zip(scratch.sums.chunks_exact_mut(bundle)) {
                    let selectors = &selectors[chunk * CHUNK..];
                    let source = Source { unpacker: &unpacker, packed, values, width };
                    match (bundle, shared) {
                        (1, false) => accumulate_rows::<1, false>(&field, sums, source, selectors),
                        (2, false) => accumulate_rows::<2, false>(&field, sums, source, selectors),
                        (3, false) => accumulate_rows::<3, false>(&field, sums, source, selectors),
                        (_, false) => accumulate_rows::<4, false>(&field, sums, source, selectors),
                        (1, true) => accumulate_rows::<1, true>(&field, sums, source, selectors),
                        (2, true) => accumulate_rows::<2, true>(&field, sums, source, selectors),
                        (3, true) => accumulate_rows::<3, true>(&field, sums, source, selectors),
                        (_, true) => accumulate_rows::<4, true>(&field, sums, source, selectors),
                    }
                }
            }
            for (products, sums) in products.iter_mut().zip(scratch.sums.chunks_exact(bundle)) {
                let places = products.places(&columns, block);
                for (place, sum) in places.iter_mut().zip(sums.as_flattened()) {
                    store(place, field.residue(load_double(&sum[0])));
                }
            }
        }
    }
}

/// At most [`CHUNK`] rows of the database: packed, and where clients share the work, unpacked to doubles.
struct Source<'a> {
    unpacker: &'a Unpacker,
    packed: &'a [u8],
    values: &'a [Lanes],
    width: usize,
}

/// At most [`CHUNK`] rows: both halves of the selectors against `COLUMNS` columns, `6 COLUMNS` sums in registers, below
/// 2^53 each. The first word of a sum in memory is a reduced double.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn accumulate_rows<const COLUMNS: usize, const SHARED: bool>(
    field: &Field,
    sums: &mut [[[Lanes; 2]; 2]],
    source: Source<'_>,
    selectors: &[[Lanes; 2]],
) {
    let mut words = [[_mm512_setzero_pd(); 6]; COLUMNS];
    let Source { unpacker, packed, values, width } = source;
    for (row, (bytes, selector)) in packed.chunks_exact(COLUMNS * width).zip(selectors).enumerate() {
        // While the processor multiplies, the memory shall not rest.
        let ahead = bytes.as_ptr().wrapping_add(if SHARED { packed.len() } else { AHEAD });
        for line in 0..3 {
            fetch::<_MM_HINT_T1>(ahead.wrapping_add(64 * line).cast());
        }
        let [first, second] = selector.each_ref();
        let (first, second) = (first.as_chunks::<2>().0, second.as_chunks::<2>().0);
        let digits = [
            load_half_words(&first[0]),
            load_half_words(&first[1]),
            load_half_words(&first[2]),
            load_half_words(&second[0]),
            load_half_words(&second[1]),
            load_half_words(&second[2]),
        ];
        let mut doubles = [_mm512_setzero_pd(); COLUMNS];
        if SHARED {
            let values = &values[row * COLUMNS..(row + 1) * COLUMNS];
            for (double, value) in doubles.iter_mut().zip(values) {
                *double = load_double(value);
            }
        } else {
            for (value, unpacked) in doubles.iter_mut().zip(unpacker.unpack::<COLUMNS>(bytes)) {
                *value = double(unpacked);
            }
        }
        for (words, value) in words.iter_mut().zip(doubles) {
            for (word, digit) in words.iter_mut().zip(digits) {
                *word = _mm512_fmadd_pd(value, digit, *word);
            }
        }
    }
    let shift = _mm512_set1_pd(4096.0);
    for (words, sums) in words.iter().zip(sums) {
        for (words, sum) in words.as_chunks::<3>().0.iter().zip(sums) {
            // From the highest digit down, by Horner's rule.
            let high = _mm512_fmadd_pd(field.reduce(words[2]), shift, field.reduce(words[1]));
            let high = _mm512_fmadd_pd(field.reduce(high), shift, field.reduce(words[0]));
            let total = _mm512_add_pd(load_double(&sum[0]), field.reduce(high));
            store_double(&mut sum[0], field.reduce(total));
        }
    }
}

/// Fields of even lanes do not share a 16-bit word with one another, nor do those of odd lanes: two permutations put
/// them in their places.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]) {
    if !(16..=48).contains(&width) {
        return portable::pack(width, slot, sources, out);
    }
    let (mut places, mut used, mut shifts) = ([[0u16; 32]; 2], [0u32; 2], [0; 8]);
    for (lane, shift) in shifts.iter_mut().enumerate() {
        let start = lane * width;
        *shift = (start % 16) as i64;
        for (i, word) in (start / 16..(start + width).div_ceil(16)).enumerate() {
            places[lane % 2][word] = (4 * lane + i) as u16;
            used[lane % 2] |= 1 << word;
        }
    }
    let [even, odd] = places.each_ref();
    let (even, odd, shifts) = (load_words(even), load_words(odd), lanes(shifts));
    let mask = (1 << width) - 1;
    for (source, bytes) in sources.iter().zip(out.chunks_exact_mut(width)) {
        let Some(values) = source[slot..].first_chunk() else { continue };
        let shifted = _mm512_sllv_epi64(load(values), shifts);
        let packed = _mm512_or_si512(
            _mm512_maskz_permutexvar_epi16(used[0], even, shifted),
            _mm512_maskz_permutexvar_epi16(used[1], odd, shifted),
        );
        // SAFETY: the mask selects the first `width` bytes, and `chunks_exact_mut(width)` gives that many.
        unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), mask, packed) };
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn unpack(width: usize, packed: &[u8], out: &mut [u64]) {
    if width > Unpacker::MAXIMUM_WIDTH {
        return portable::unpack(width, packed, out);
    }
    let unpacker = Unpacker::new(width);
    for (values, bytes) in out.as_chunks_mut().0.iter_mut().zip(packed.chunks_exact(width)) {
        let [unpacked] = unpacker.unpack(bytes);
        store(values, unpacked);
    }
}
