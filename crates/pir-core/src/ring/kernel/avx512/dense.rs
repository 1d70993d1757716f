//! The dense first dimension by 16-bit dot products, and packing by 52-bit multiply-adds.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _MM_HINT_T1, _mm512_add_epi64, _mm512_alignr_epi64, _mm512_dpwssd_epi32,
    _mm512_setzero_si512, _mm512_sub_epi64,
};

use super::super::avx512f::pair_products_by;
use super::super::rows::{Lanes, OrbitKeys, OrbitRow, Pairs, TOGETHER};
use super::super::vector512::{fetch, load, reduce_by, store};
use super::prime::{Prime, high, low};
use crate::ring::modulus::Modulus;

pair_products_by!("avx512f,avx512bw,avx512vnni", _mm512_dpwssd_epi32);

/// Clients whose sums are in registers.
const AT_ONCE: usize = 4;

/// Rows of which the digits, 8 KB, and the keys of sixteen clients, as much, stay in the first cache while all of these are served.
const ROWS: usize = 4;

/// How far ahead digits are fetched to the second-level cache, bytes.
const FAR_AHEAD: usize = 4 << 13;

/// The digits that meet a row of keys, for each of eight steps.
type RowDigits = [[Lanes; 4]; 8];

/// The low and the high parts of the sums of both halves, at eight places.
type Sums = [[__m512i; 2]; 2];

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn orbit_products(
    modulus: &Modulus,
    digits: &[Lanes],
    keys: &OrbitKeys,
    out: &mut [&mut [u64]],
) {
    let rows = keys.rows();
    assert!(
        out.len() == keys.clients() && out.iter().all(|out| out.len() == 16 * rows),
        "one result for each key"
    );
    if keys.clients() == 0 {
        return;
    }
    let prime = Prime::new(modulus);
    for (block, digits) in digits.chunks_exact(32 * rows).take(rows).enumerate() {
        let digits: &[RowDigits] = digits.as_chunks().0.as_chunks().0;
        let mut out = out.iter_mut();
        for (clients, keys) in keys.groups() {
            let mut sums = [[[_mm512_setzero_si512(); 2]; 2]; TOGETHER];
            let sums = &mut sums[..clients];
            let mut ahead = digits.as_flattened().as_flattened().iter().skip(32 * ROWS);
            // Steps that led past the last row have moved lanes on by one more.
            for (past, rows) in [(true, 0..block), (false, block..rows)] {
                let keys = keys[rows.start * clients..].chunks(ROWS * clients);
                for (digits, keys) in digits[rows].chunks(ROWS).zip(keys) {
                    // What comes next is fetched meanwhile, evenly.
                    let fetched = 4usize.div_ceil(clients.div_ceil(AT_ONCE));
                    for (number, sums) in sums.chunks_mut(AT_ONCE).enumerate() {
                        let client = number * AT_ONCE;
                        let ahead = (&mut ahead, fetched);
                        match sums.len() {
                            4 => orbit_tile::<4>(digits, keys, clients, client, sums, ahead),
                            3 => orbit_tile::<3>(digits, keys, clients, client, sums, ahead),
                            2 => orbit_tile::<2>(digits, keys, clients, client, sums, ahead),
                            _ => orbit_tile::<1>(digits, keys, clients, client, sums, ahead),
                        }
                    }
                }
                if past {
                    for word in sums.as_flattened_mut().as_flattened_mut() {
                        *word = next_lane(*word);
                    }
                }
            }
            for (sums, out) in sums.iter().zip(&mut out) {
                for (half, [low, high]) in sums.iter().enumerate() {
                    let out = out[8 * (half * rows + block)..].first_chunk_mut().expect("eight places");
                    let sum = _mm512_add_epi64(load(out), prime.reduce_sums::<true>(*low, *high));
                    store(out, reduce_by(sum, prime.value));
                }
            }
        }
    }
}

/// Eight steps at eight places of both halves for each of some rows of keys, for a few clients at once. Each vector of a key serves
/// both halves.
///
/// A multiply-add takes factors below 2^52, and the sum of two residues below 2^51 is one.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn orbit_tile<'a, const MANY: usize>(
    digits: &[RowDigits],
    keys: &[OrbitRow],
    clients: usize,
    client: usize,
    out: &mut [Sums],
    (ahead, fetched): (&mut impl Iterator<Item = &'a Lanes>, usize),
) {
    let out: &mut [Sums; MANY] = out.first_chunk_mut().expect("as many as keys");
    let mut sums = *out;
    // A step whose lanes have moved on by one more each time; after eight times all are where they were.
    for step in (0..8).rev() {
        for word in sums.as_flattened_mut().as_flattened_mut() {
            *word = next_lane(*word);
        }
        for (digits, keys) in digits.iter().zip(keys.chunks_exact(clients)) {
            for line in ahead.by_ref().take(fetched) {
                fetch::<_MM_HINT_T0>(line.as_ptr().cast());
                fetch::<_MM_HINT_T1>(line.as_ptr().cast::<u8>().wrapping_add(FAR_AHEAD).cast());
            }
            let digit = |at: usize| load(&digits[step][at]);
            let digit = [[digit(0), digit(1)], [digit(2), digit(3)]];
            let keys: &[OrbitRow; MANY] = keys[client..].first_chunk().expect("a row of these clients");
            for (key, sums) in keys.iter().zip(&mut sums) {
                let key = [load(&key[0]), load(&key[1])];
                for (half, sum) in sums.iter_mut().enumerate() {
                    let first = _mm512_add_epi64(digit[0][half], key[1 - half]);
                    let second = _mm512_add_epi64(digit[1][half], key[half]);
                    *sum = [low(sum[0], first, second), high(sum[1], first, second)];
                }
            }
        }
    }
    *out = sums;
}

/// In each lane what is in the next.
#[inline]
#[target_feature(enable = "avx512f")]
fn next_lane(word: __m512i) -> __m512i {
    _mm512_alignr_epi64::<1>(word, word)
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn orbit_crossings(
    modulus: &Modulus,
    digits: &[Lanes],
    stride: usize,
    steps: usize,
    out: &mut [u64],
) {
    let prime = Prime::new(modulus);
    let (first, second) = out.split_at_mut(out.len() / 2);
    let blocks = first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0);
    for (digits, (first, second)) in digits.chunks(stride).zip(blocks) {
        let digits = &digits.as_chunks::<4>().0[..steps];
        for (half, out) in [first, second].into_iter().enumerate() {
            let mut sum = [_mm512_setzero_si512(); 2];
            for vectors in digits {
                let (a, b) = (load(&vectors[half]), load(&vectors[2 + half]));
                sum = [low(sum[0], a, b), high(sum[1], a, b)];
            }
            let sum = prime.reduce_sums::<true>(sum[0], sum[1]);
            let left = _mm512_sub_epi64(_mm512_add_epi64(load(out), prime.value), sum);
            store(out, reduce_by(left, prime.value));
        }
    }
}
