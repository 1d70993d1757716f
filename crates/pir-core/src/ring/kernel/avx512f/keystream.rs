//! ChaCha8 for sixteen short streams at a time: what one stream takes of a vector's width is lost where it ends.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_rol_epi32, _mm512_set1_epi32, _mm512_shuffle_i32x4,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    _mm512_xor_si512,
};

use super::super::each;
use super::super::vector512::{load, store};

const LANES: usize = 16;

/// Bytes that a stream has of a block.
const BLOCK: usize = 64;

/// "expand 32-byte k"
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Four words of the states take part: columns and diagonals.
macro_rules! quarter_rounds {
    ($state:ident, $([$a:literal, $b:literal, $c:literal, $d:literal]),*) => {
        $(
            $state[$a] = _mm512_add_epi32($state[$a], $state[$b]);
            $state[$d] = _mm512_rol_epi32::<16>(_mm512_xor_si512($state[$d], $state[$a]));
            $state[$c] = _mm512_add_epi32($state[$c], $state[$d]);
            $state[$b] = _mm512_rol_epi32::<12>(_mm512_xor_si512($state[$b], $state[$c]));
            $state[$a] = _mm512_add_epi32($state[$a], $state[$b]);
            $state[$d] = _mm512_rol_epi32::<8>(_mm512_xor_si512($state[$d], $state[$a]));
            $state[$c] = _mm512_add_epi32($state[$c], $state[$d]);
            $state[$b] = _mm512_rol_epi32::<7>(_mm512_xor_si512($state[$b], $state[$c]));
        )*
    };
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn xor_keystreams(bytes: &mut [u8], size: usize, key: &[u8; 32], first: u64) {
    let key = each(|word| {
        let [a, b, c, d] = key.as_chunks().0[word];
        u32::from_le_bytes([a, b, c, d])
    });
    for (first, elements) in (first..).step_by(LANES).zip(bytes.chunks_mut(LANES * size)) {
        for (counter, start) in (0..).zip((0..size).step_by(BLOCK)) {
            let block = block(&key, counter, first);
            let here = start..(start + BLOCK).min(size);
            for (element, stream) in elements.chunks_exact_mut(size).zip(&block) {
                let element = &mut element[here.clone()];
                element.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
            }
        }
    }
}

/// Block `counter` of the streams from `first` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn block(key: &[u32; 8], counter: u32, first: u64) -> [[u8; BLOCK]; LANES] {
    let streams: [u64; LANES] = each(|lane| first.wrapping_add(lane as u64));
    let [low, high] = [0, 32].map(|shift| {
        let words: [u32; LANES] = each(|lane| (streams[lane] >> shift) as u32);
        load(&bytemuck::cast(words))
    });
    let start: [__m512i; 16] = each(|word| {
        let all = match word {
            0..4 => CONSTANTS[word],
            4..12 => key[word - 4],
            12 => counter,
            13 => 0,
            14 => return low,
            _ => return high,
        };
        _mm512_set1_epi32(all as i32)
    });
    let mut state = start;
    for _ in 0..4 {
        quarter_rounds!(state, [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]);
        quarter_rounds!(state, [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]);
    }
    let words = each(|word| _mm512_add_epi32(state[word], start[word]));
    let streams = transpose(&words);
    each(|lane| {
        let mut words = [0; 8];
        store(&mut words, streams[lane]);
        bytemuck::cast(words)
    })
}

/// Sixteen rows of sixteen words become sixteen columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &[__m512i; 16]) -> [__m512i; 16] {
    // Of `parts[4 i + j]` the 128-bit part p has words 4i to 4i + 3 of column 4p + j.
    let parts: [__m512i; 16] = each(|at| {
        let [a, b, c, d] = [rows[at & 12], rows[at & 12 | 1], rows[at & 12 | 2], rows[at & 12 | 3]];
        match at & 3 {
            0 => _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)),
            1 => _mm512_unpackhi_epi64(_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)),
            2 => _mm512_unpacklo_epi64(_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)),
            _ => _mm512_unpackhi_epi64(_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)),
        }
    });
    each(|column| {
        let [a, b, c, d] =
            [parts[column & 3], parts[column & 3 | 4], parts[column & 3 | 8], parts[column | 12]];
        match column / 4 {
            0 => even(even(a, b), even(c, d)),
            1 => even(odd(a, b), odd(c, d)),
            2 => odd(even(a, b), even(c, d)),
            _ => odd(odd(a, b), odd(c, d)),
        }
    })
}

/// The 128-bit parts 0 and 2 of two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn even(a: __m512i, b: __m512i) -> __m512i {
    _mm512_shuffle_i32x4::<0x88>(a, b)
}

/// Their parts 1 and 3.
#[inline]
#[target_feature(enable = "avx512f")]
fn odd(a: __m512i, b: __m512i) -> __m512i {
    _mm512_shuffle_i32x4::<0xDD>(a, b)
}
