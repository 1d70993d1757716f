//! The dense first dimension by 16-bit dot products, and packing by 52-bit multiply-adds.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm512_add_epi64, _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_setzero_si512,
    _mm512_sub_epi64,
};

use super::super::avx512f::pair_products_by;
use super::super::rows::{Lanes, OrbitKeys, OrbitRow, Pairs, TOGETHER};
use super::super::vector512::{fetch, load, reduce_by, store};
use super::prime::{Prime, high, low};
use crate::ring::modulus::Modulus;

pair_products_by!("avx512f,avx512bw,avx512vnni", _mm512_dpwssd_epi32);

/// Clients whose sums are in registers.
const AT_ONCE: usize = 4;

/// Steps of which the digits, 8 KB, and what of sixteen clients' keys meets them, 16 KB, stay in the first cache while all of these
/// are served.
const STEPS: usize = 32;

/// The low and the high parts of the sums of both halves, at eight places.
type Sums = [[__m512i; 2]; 2];

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn orbit_products(
    modulus: &Modulus,
    digits: &[Lanes],
    keys: &OrbitKeys,
    out: &mut [&mut [u64]],
) {
    let orbit = 8 * keys.rows();
    assert!(out.len() == keys.clients() && out.iter().all(|out| out.len() == 2 * orbit), "one result a key");
    if keys.clients() == 0 {
        return;
    }
    let prime = Prime::new(modulus);
    for (block, digits) in digits.chunks_exact(4 * (orbit - 1)).take(keys.rows()).enumerate() {
        let digits = digits.as_chunks::<4>().0;
        let mut out = out.iter_mut();
        for (clients, keys) in keys.groups() {
            let mut sums = [[[_mm512_setzero_si512(); 2]; 2]; TOGETHER];
            let sums = &mut sums[..clients];
            for first in (0..orbit - 1).step_by(STEPS) {
                let behind = digits.get(first + STEPS..).unwrap_or_default();
                let here = &digits[first..digits.len().min(first + STEPS)];
                // What comes next is fetched meanwhile, evenly.
                let fetched = 4usize.div_ceil(clients.div_ceil(AT_ONCE));
                let mut ahead = behind.as_flattened().iter().take(4 * here.len());
                let rows = Rows { keys, clients, first: block + first / 8 };
                for (number, sums) in sums.chunks_mut(AT_ONCE).enumerate() {
                    let client = number * AT_ONCE;
                    let ahead = (&mut ahead, fetched);
                    match sums.len() {
                        4 => orbit_tile::<4>(here, &rows, client, sums, ahead),
                        3 => orbit_tile::<3>(here, &rows, client, sums, ahead),
                        2 => orbit_tile::<2>(here, &rows, client, sums, ahead),
                        _ => orbit_tile::<1>(here, &rows, client, sums, ahead),
                    }
                }
            }
            for (sums, out) in sums.iter().zip(&mut out) {
                for (half, [low, high]) in sums.iter().enumerate() {
                    let out = out[half * orbit + 8 * block..].first_chunk_mut().expect("eight places");
                    let sum = _mm512_add_epi64(load(out), prime.reduce_sums::<true>(*low, *high));
                    store(out, reduce_by(sum, prime.value));
                }
            }
        }
    }
}

/// Keys of some clients, from the row on that meets the first of some steps.
struct Rows<'a> {
    keys: &'a [OrbitRow],
    clients: usize,
    first: usize,
}

/// Some steps at eight places of both halves, of a block, from one that is a multiple of 8 on, for a few clients at once. Each vector
/// of a key serves both halves.
///
/// A multiply-add takes factors below 2^52, and the sum of two residues below 2^51 is one.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn orbit_tile<'a, const MANY: usize>(
    digits: &[[Lanes; 4]],
    rows: &Rows<'_>,
    client: usize,
    out: &mut [Sums],
    (ahead, fetched): (&mut impl Iterator<Item = &'a Lanes>, usize),
) {
    let out: &mut [Sums; MANY] = out.first_chunk_mut().expect("as many as keys");
    let mut sums = *out;
    let count = rows.keys.len() / rows.clients;
    for (eight, row) in digits.chunks(8).zip(rows.first..) {
        // Past the last row, lanes have moved on by one.
        let (row, moved) = if row < count { (row, 0) } else { (row - count, 1) };
        let keys: &[OrbitRow; MANY] =
            rows.keys[row * rows.clients + client..].first_chunk().expect("a row of these clients");
        for (step, vectors) in eight.iter().enumerate() {
            for line in ahead.by_ref().take(fetched) {
                fetch::<_MM_HINT_T0>(line.as_ptr().cast());
            }
            let digit = |at: usize| load(&vectors[at]);
            let digit = [[digit(0), digit(1)], [digit(2), digit(3)]];
            for (key, sums) in keys.iter().zip(&mut sums) {
                let of_half = |half: usize| {
                    // SAFETY: a half has 16 words; `moved` is at most 1 and `step` at most 7, since there are eight steps at most.
                    unsafe { _mm512_loadu_si512(key[half].as_flattened().as_ptr().add(moved + step).cast()) }
                };
                let key = [of_half(0), of_half(1)];
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
