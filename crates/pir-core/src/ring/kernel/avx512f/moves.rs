//! Words on their way from one order to another, eight by eight.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_cvtepi32_epi64, _mm512_extracti64x4_epi64,
    _mm512_loadu_si512, _mm512_mask_add_epi64, _mm512_mask_blend_epi64, _mm512_movepi64_mask,
    _mm512_permutex2var_epi64, _mm512_permutexvar_epi64, _mm512_setzero_si512, _mm512_shuffle_i64x2,
    _mm512_slli_epi32, _mm512_srai_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use super::super::moves::{self, REVERSED};
use super::super::rows::{Lanes, PAIR_LIMB, Pairs};
use super::super::vector512::{fence, lanes, load, splat, store, stream};
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

/// Most parts whose columns take turns.
const PARTS: usize = 8;

#[target_feature(enable = "avx512f")]
pub(in super::super) fn weave_columns(
    out: &mut [Lanes],
    stride: usize,
    at: usize,
    columns: &[[Lanes; 2]],
    parts: usize,
    unit: usize,
) {
    if !parts.is_power_of_two() || parts > PARTS || parts > 1 && !matches!(unit * parts, 2 | 4 | 8) {
        return moves::weave_columns(out, stride, at, columns, parts, unit);
    }
    let slots = columns.len() / parts;
    // Two by two, so that runs of lanes become twice as long, and sequences of vectors, too.
    let places = [unit, 2 * unit, 4 * unit].map(|unit| {
        let from = |lane: usize| (lane / (2 * unit) * unit + lane % unit + lane / unit % 2 * 8) as i64;
        [0, 4].map(|first| lanes([0, 1, 2, 3, 4, 5, 6, 7].map(|lane| from(lane) + first)))
    });
    for (slot, out) in out.chunks_mut(stride).take(slots).enumerate() {
        let mut x = [_mm512_setzero_si512(); 2 * PARTS];
        for (part, x) in x.as_chunks_mut::<2>().0[..parts].iter_mut().enumerate() {
            *x = [load(&columns[part * slots + slot][0]), load(&columns[part * slots + slot][1])];
        }
        let mut length = 2;
        for [low, high] in &places[..parts.ilog2() as usize] {
            for two in x[..2 * parts].chunks_exact_mut(2 * length) {
                let mut woven = [_mm512_setzero_si512(); 2 * PARTS];
                for i in 0..length {
                    woven[2 * i] = _mm512_permutex2var_epi64(two[i], *low, two[length + i]);
                    woven[2 * i + 1] = _mm512_permutex2var_epi64(two[i], *high, two[length + i]);
                }
                two.copy_from_slice(&woven[..2 * length]);
            }
            length *= 2;
        }
        for (out, x) in out[at..][..2 * parts].iter_mut().zip(&x) {
            stream(out, *x);
        }
    }
    fence();
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn copy_runs(
    out: &mut [Lanes],
    places: &[[usize; 2]],
    source: &[Lanes],
    stride: usize,
    length: usize,
) {
    for ([place, up], source) in places.iter().zip(source.chunks(stride)) {
        let from = lanes([0, 1, 2, 3, 4, 5, 6, 7].map(|lane| (lane + 8 - *up as i64) % 8));
        for (out, source) in out[*place..][..length].iter_mut().zip(&source[..length]) {
            stream(out, _mm512_permutexvar_epi64(from, load(source)));
        }
    }
    fence();
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

/// Of eight rows, row `c + lane` (modulo 8) in every lane, for each c: lanes of which one bit is set move on by as many rows, bit by
/// bit. Rows and lanes are numbered with their bits reversed.
#[inline]
#[target_feature(enable = "avx512f")]
fn skew(mut rows: [__m512i; 8]) -> [__m512i; 8] {
    let from = rows;
    for i in 0..8 {
        rows[i] = _mm512_mask_blend_epi64(0b1111_0000, from[i], from[(i + 1) % 8]);
    }
    let from = rows;
    for i in 0..8 {
        rows[i] = _mm512_mask_blend_epi64(0b1100_1100, from[i], from[(i + 2) % 8]);
    }
    let from = rows;
    for i in 0..8 {
        rows[i] = _mm512_mask_blend_epi64(0b1010_1010, from[i], from[(i + 4) % 8]);
    }
    rows
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn orbit_masks(out: &mut [Lanes], rows: [&[u64]; 8], half: usize, group: usize) {
    let orbit = rows[0].len() / 2;
    let (blocks, bits) = (orbit / 8, (orbit / 8).ilog2());
    let to = bit_reverse(group, bits);
    // Row i for the place `to + blocks i`.
    let rows: [&[Lanes]; 8] = REVERSED.map(|row| rows[row].as_chunks().0);
    for vector in 0..2 * blocks {
        let mut values = [_mm512_setzero_si512(); 8];
        for (value, row) in values.iter_mut().zip(&rows) {
            *value = load(&row[vector]);
        }
        let chain = (vector / blocks) ^ half;
        let first = to + orbit - bit_reverse(vector % blocks, bits);
        for (c, value) in skew(values).into_iter().enumerate() {
            let step = (first + blocks * c) % orbit;
            stream(&mut out[(chain * orbit + step) * 2 * blocks + vector], value);
        }
    }
    fence();
}
