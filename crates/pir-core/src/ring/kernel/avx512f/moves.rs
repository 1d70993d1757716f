//! Words on their way from one order to another, eight by eight.

use core::arch::x86_64::{
    __m512i, _mm_sfence, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_cvtepi32_epi64,
    _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_mask_add_epi64, _mm512_mask_blend_epi64,
    _mm512_movepi64_mask, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_slli_epi32, _mm512_srai_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use super::super::moves;
use super::super::rows::{Lanes, PAIR_LIMB, Pairs};
use super::super::vector512::{load, splat, store, stream};
use crate::ring::modulus::Modulus;
use crate::ring::tables::bit_reverse;

/// Eight rows of eight words become eight columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 8]) -> [__m512i; 8] {
    let mut pairs = [_mm512_setzero_si512(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
    }
    // `pairs[2 i + p]` has in its 128-bit parts rows 2i and 2i + 1 of columns p, 2 + p, 4 + p, 6 + p.
    let mut columns = [_mm512_setzero_si512(); 8];
    for p in 0..2 {
        let low = [
            _mm512_shuffle_i64x2::<0x88>(pairs[p], pairs[2 + p]),
            _mm512_shuffle_i64x2::<0xDD>(pairs[p], pairs[2 + p]),
        ];
        let high = [
            _mm512_shuffle_i64x2::<0x88>(pairs[4 + p], pairs[6 + p]),
            _mm512_shuffle_i64x2::<0xDD>(pairs[4 + p], pairs[6 + p]),
        ];
        for odd in 0..2 {
            // Parts: columns p + 2 odd and p + 2 odd + 4 of rows 0 to 3, then of rows 4 to 7.
            columns[p + 2 * odd] = _mm512_shuffle_i64x2::<0x88>(low[odd], high[odd]);
            columns[p + 2 * odd + 4] = _mm512_shuffle_i64x2::<0xDD>(low[odd], high[odd]);
        }
    }
    columns
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn gather_columns(out: &mut [Lanes], stride: usize, at: usize, rows: [&[u64]; 8]) {
    let vectors = rows.map(|row| row.as_chunks::<8>().0);
    if !rows[0].len().is_multiple_of(8) {
        return moves::gather_columns(out, stride, at, rows);
    }
    for i in 0..vectors[0].len() {
        let mut block = [_mm512_setzero_si512(); 8];
        for (lanes, row) in block.iter_mut().zip(&vectors) {
            *lanes = load(&row[i]);
        }
        for (lane, column) in transpose(block).into_iter().enumerate() {
            stream(&mut out[(8 * i + lane) * stride + at], column);
        }
    }
    _mm_sfence();
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn copy_runs(
    out: &mut [Lanes],
    places: &[usize],
    source: &[Lanes],
    stride: usize,
    length: usize,
) {
    for (place, source) in places.iter().zip(source.chunks(stride)) {
        for (out, source) in out[*place..][..length].iter_mut().zip(&source[..length]) {
            stream(out, load(source));
        }
    }
    _mm_sfence();
}

/// The coefficients of eight of 16 sums, from words of which the low half is for the first row and the high half for the second.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn radix_residues(pair: &Pairs, prime: __m512i) -> [__m512i; 2] {
    // SAFETY: the reference covers the 64 bytes that are read.
    let words = unsafe { _mm512_loadu_si512(pair.as_ptr().cast()) };
    let even = _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(words));
    let odd = _mm512_slli_epi32::<PAIR_LIMB>(_mm512_srai_epi32::<16>(words));
    let both = _mm512_add_epi32(even, odd);
    [_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both)].map(|half| {
        let value = _mm512_cvtepi32_epi64(half);
        _mm512_mask_add_epi64(value, _mm512_movepi64_mask(value), value, prime)
    })
}

#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn radix_rows(modulus: &Modulus, pairs: &[Pairs], rows: [&mut [u64]; 16]) {
    let prime = splat(modulus.value());
    let (eights, rest) = pairs.as_chunks::<8>();
    let (mut whole, mut tails): (Vec<&mut [Lanes]>, Vec<&mut [u64]>) = rows
        .into_iter()
        .map(|row| row.split_at_mut(8 * eights.len()))
        .map(|(whole, tail)| (whole.as_chunks_mut().0, tail))
        .unzip();
    for (i, eight) in eights.iter().enumerate() {
        let mut blocks = [[_mm512_setzero_si512(); 8]; 2];
        for (lane, pair) in eight.iter().enumerate() {
            [blocks[0][lane], blocks[1][lane]] = radix_residues(pair, prime);
        }
        for (block, rows) in blocks.into_iter().zip(whole.chunks_exact_mut(8)) {
            for (column, row) in transpose(block).into_iter().zip(rows) {
                store(&mut row[i], column);
            }
        }
    }
    if let Ok(tails) = <[&mut [u64]; 16]>::try_from(core::mem::take(&mut tails)) {
        moves::radix_rows(modulus, rest, tails);
    }
}

/// The portable function, with the instructions of this module.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn orbit_step(
    modulus: &Modulus,
    sum: &mut [u64],
    digits: &mut [u64],
    images: &[Lanes],
    exchanged: bool,
    power: usize,
) {
    moves::orbit_step(modulus, sum, digits, images, exchanged, power);
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn reverse_bits(
    out: &mut [Lanes],
    [stride, half_stride]: [usize; 2],
    at: usize,
    source: &[u64],
) {
    let half = source.len() / 2;
    if half < 64 {
        return moves::reverse_bits(out, [stride, half_stride], at, source);
    }
    // Place `8 block + lane` with the bits of `block` split into the upper three and the rest: a group of eight places is
    // one lane of the eight vectors that have the reversed rest.
    let vectors = half / 8;
    let (bits, groups) = (vectors.ilog2(), vectors / 8);
    for (h, source) in source.chunks_exact(half).enumerate() {
        let source = source.as_chunks::<8>().0;
        for group in 0..groups {
            let mut block = [_mm512_setzero_si512(); 8];
            for (lane, lanes) in block.iter_mut().enumerate() {
                *lanes = load(&source[bit_reverse(8 * group + lane, bits)]);
            }
            for (lane, column) in transpose(block).into_iter().enumerate() {
                let place = group + groups * bit_reverse(lane, 3);
                store(&mut out[h * half_stride + place * stride + at], column);
            }
        }
    }
}

/// Of `rows`, `rows[i + lane]` in every lane for i below 8: lanes of which one bit is set move on by as many rows, bit by bit.
#[inline]
#[target_feature(enable = "avx512f")]
fn skew(mut rows: [__m512i; 16]) -> [__m512i; 16] {
    for i in 0..14 {
        rows[i] = _mm512_mask_blend_epi64(0b1010_1010, rows[i], rows[i + 1]);
    }
    for i in 0..12 {
        rows[i] = _mm512_mask_blend_epi64(0b1100_1100, rows[i], rows[i + 2]);
    }
    for i in 0..8 {
        rows[i] = _mm512_mask_blend_epi64(0b1111_0000, rows[i], rows[i + 4]);
    }
    rows
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn diagonals(out: &mut [Lanes], rows: [&[Lanes]; 2]) {
    let strips = out.len() / 8;
    let halves = rows.map(|rows| rows.as_chunks::<8>().0);
    for (strip, (first, second)) in halves[0].iter().zip(halves[1]).enumerate() {
        let mut rows = [_mm512_setzero_si512(); 16];
        for (row, lanes) in rows.iter_mut().zip(first.iter().chain(second)) {
            *row = load(lanes);
        }
        let rows = skew(rows);
        for step in 0..8 {
            store(&mut out[step * strips + strip], rows[step]);
        }
    }
}
