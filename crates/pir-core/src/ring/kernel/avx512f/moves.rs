//! Words on their way from one order to another, eight by eight.

use core::arch::x86_64::{
    __m512i, _mm512_mask_blend_epi64, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64,
};

use super::super::moves;
use super::super::rows::Lanes;
use super::super::vector512::{load, store};
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
            store(&mut out[(8 * i + lane) * stride + at], column);
        }
    }
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
pub(in super::super) fn diagonals(
    out: &mut [Lanes],
    columns: &[Lanes],
    stride: usize,
    exchanged: bool,
    power: usize,
) {
    let blocks = out.len() / 8;
    let orbit = 4 * blocks;
    if !orbit.is_multiple_of(8) || !power.is_multiple_of(8) {
        return moves::diagonals(out, columns, stride, exchanged, power);
    }
    for block in 0..blocks {
        let (half, first) = ((8 * block / orbit) ^ usize::from(exchanged), 8 * block % orbit + power);
        let columns = &columns[block * stride + half * orbit..][..orbit];
        let mut rows = [_mm512_setzero_si512(); 16];
        for (part, rows) in rows.chunks_exact_mut(8).enumerate() {
            let first = (first + 8 * part) % orbit;
            for (row, column) in rows.iter_mut().zip(&columns[first..first + 8]) {
                *row = load(column);
            }
        }
        let rows = skew(rows);
        for step in 0..8 {
            store(&mut out[step * blocks + block], rows[step]);
        }
    }
}
