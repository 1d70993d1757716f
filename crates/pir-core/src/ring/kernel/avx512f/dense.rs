//! The dense first dimension by 16-bit products.

use core::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_castsi512_si256,
    _mm512_cmplt_epu64_mask, _mm512_cvtepi32_epi64, _mm512_extracti64x4_epi64, _mm512_madd_epi16,
    _mm512_mask_sub_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_sra_epi64,
};

use super::super::dense;
use super::super::rows::{Lanes, OrbitKeys, PAIR_BITS, Pairs};
use super::super::vector512::{load, splat, store};
use crate::ring::modulus::Modulus;

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn dot(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
}

/// The function by a given dot product: `dot(sum, a, b)` adds to each 32-bit word of `sum` the two products of 16-bit words.
macro_rules! pair_products_by {
    ($features:literal, $dot:ident) => {
        #[target_feature(enable = $features)]
        pub(in super::super) fn pair_products(
            pairs: &[Pairs],
            positions: usize,
            queries: &[&[[u32; 4]]],
            out: &mut [&mut [u64]],
        ) {
            for (number, blocks) in pairs.chunks(2 * positions).enumerate() {
                for (queries, out) in queries.chunks(4).zip(out.chunks_mut(4)) {
                    if blocks.len() == 2 * positions && queries.len() == 4 {
                        pair_tile::<4, 2>(blocks, positions, queries, out, 2 * number);
                        continue;
                    }
                    for (block, pairs) in blocks.chunks_exact(positions).enumerate() {
                        for (query, out) in queries.iter().zip(out.iter_mut()) {
                            let (query, out) = (core::slice::from_ref(query), core::slice::from_mut(out));
                            pair_tile::<1, 1>(pairs, positions, query, out, 2 * number + block);
                        }
                    }
                }
            }
        }

        /// A few blocks of 16 outputs for a few clients.
        #[inline]
        #[target_feature(enable = $features)]
        fn pair_tile<const CLIENTS: usize, const BLOCKS: usize>(
            pairs: &[Pairs],
            positions: usize,
            queries: &[&[[u32; 4]]],
            out: &mut [&mut [u64]],
            first: usize,
        ) {
            use super::super::avx512f::fold_pairs;
            use super::super::rows::PAIR_CHUNK;
            use core::arch::x86_64::{_mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512};
            let mut start = 0;
            while start < positions {
                let end = (start + PAIR_CHUNK).min(positions);
                let rows: [&[Pairs]; BLOCKS] =
                    $crate::ring::kernel::each(|block| &pairs[block * positions..][start..end]);
                let words: [&[[u32; 4]]; CLIENTS] =
                    $crate::ring::kernel::each(|client| &queries[client][start..end]);
                let mut sums = [[[_mm512_setzero_si512(); 3]; BLOCKS]; CLIENTS];
                for at in 0..end - start {
                    let mut data = [_mm512_setzero_si512(); BLOCKS];
                    for (data, row) in data.iter_mut().zip(&rows) {
                        // SAFETY: the reference covers the 64 bytes that are read.
                        *data = unsafe { _mm512_loadu_si512(row[at].as_ptr().cast()) };
                    }
                    for (sums, words) in sums.iter_mut().zip(&words) {
                        for limb in 0..3 {
                            let word = _mm512_set1_epi32(words[at][limb] as i32);
                            for (sums, data) in sums.iter_mut().zip(&data) {
                                sums[limb] = $dot(sums[limb], *data, word);
                            }
                        }
                    }
                }
                for (sums, out) in sums.iter().zip(out.iter_mut()) {
                    for (block, sums) in sums.iter().enumerate() {
                        let out = out[16 * (first + block)..].first_chunk_mut().expect("a block of outputs");
                        fold_pairs(sums, out, start == 0);
                    }
                }
                start = end;
            }
        }
    };
}

pub(in super::super) use pair_products_by;

pair_products_by!("avx512f,avx512bw", dot);

/// Adds what a chunk gave to 16 outputs, or begins with it.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in super::super) fn fold_pairs(sums: &[__m512i; 3], out: &mut [u64; 16], begins: bool) {
    let mask = splat((1 << PAIR_BITS) - 1);
    let halves = sums.map(|sum| {
        let (low, high) = (_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
        [_mm512_cvtepi32_epi64(low), _mm512_cvtepi32_epi64(high)]
    });
    for (half, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut sum = if begins { _mm512_setzero_si512() } else { load(out) };
        sum = _mm512_add_epi64(sum, halves[0][half]);
        sum = _mm512_add_epi64(sum, _mm512_slli_epi64::<13>(halves[1][half]));
        sum = _mm512_add_epi64(sum, _mm512_slli_epi64::<26>(halves[2][half]));
        store(out, _mm512_and_si512(sum, mask));
    }
}

#[target_feature(enable = "avx512f")]
pub(in super::super) fn round_digits(modulus: &Modulus, shift: u32, a: &mut [u64]) {
    let (prime, half) = (splat(modulus.value()), splat(modulus.value() >> 1));
    let rounding = splat(1 << (shift - 1));
    let count = _mm_cvtsi32_si128(shift as i32);
    let (lanes, rest) = a.as_chunks_mut::<8>();
    for a in lanes {
        let a: &mut Lanes = a;
        let value = load(a);
        // Centred, and rounded.
        let above = _mm512_cmplt_epu64_mask(half, value);
        let centred = _mm512_mask_sub_epi64(value, above, value, prime);
        let rounded = _mm512_sra_epi64(_mm512_add_epi64(centred, rounding), count);
        store(a, _mm512_add_epi64(rounded, prime));
    }
    dense::round_digits(modulus, shift, rest);
}

/// The portable function, with the instructions of this module.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn orbit_products(
    modulus: &Modulus,
    digits: &[Lanes],
    keys: &OrbitKeys,
    out: &mut [&mut [u64]],
) {
    dense::orbit_products(modulus, digits, keys, out);
}

/// The same.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in super::super) fn orbit_crossings(
    modulus: &Modulus,
    digits: &[Lanes],
    stride: usize,
    steps: usize,
    out: &mut [u64],
) {
    dense::orbit_crossings(modulus, digits, stride, steps, out);
}
