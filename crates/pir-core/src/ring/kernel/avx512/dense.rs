//! The dense first dimension by 16-bit dot products, and packing by 52-bit multiply-adds.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm512_add_epi64, _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_setzero_si512,
    _mm512_sub_epi64,
};

use super::super::avx512f::pair_products_by;
use super::super::dense;
use super::super::rows::{Lanes, Pairs};
use super::super::vector512::{fetch, load, reduce_by, store};
use super::prime::{Prime, high, low};
use crate::ring::modulus::Modulus;

pair_products_by!("avx512f,avx512bw,avx512vnni", _mm512_dpwssd_epi32);

/// Clients that are served while digits are close by.
const CLIENTS: usize = 16;

/// Clients whose sums are in registers.
const AT_ONCE: usize = 4;

/// Steps of which the digits, 8 KB, and what of the clients' keys meets them, stay in the first cache while all clients are served.
const STEPS: usize = 32;

/// The low and the high parts of the sums of both halves, at eight places.
type Sums = [[__m512i; 2]; 2];

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn orbit_products(
    modulus: &Modulus,
    digits: &[Lanes],
    keys: &[&[u64]],
    out: &mut [&mut [u64]],
) {
    let orbit = out.first().map_or(0, |out| out.len() / 2);
    if orbit < 8 {
        return dense::orbit_products(modulus, digits, keys, out);
    }
    assert!(keys.iter().all(|key| key.len() == 4 * orbit), "both halves twice");
    assert!(
        out.iter().all(|out| out.len() == 2 * orbit) && keys.len() == out.len(),
        "one result for each key"
    );
    let prime = Prime::new(modulus);
    for (block, digits) in digits.chunks_exact(4 * (orbit - 1)).take(orbit / 8).enumerate() {
        let digits = digits.as_chunks::<4>().0;
        for (keys, out) in keys.chunks(CLIENTS).zip(out.chunks_mut(CLIENTS)) {
            let mut sums = [[[_mm512_setzero_si512(); 2]; 2]; CLIENTS];
            for first in (0..orbit - 1).step_by(STEPS) {
                let behind = digits.get(first + STEPS..).unwrap_or_default();
                let here = &digits[first..digits.len().min(first + STEPS)];
                // What comes next is fetched meanwhile, evenly.
                let fetched = 4usize.div_ceil(keys.len().div_ceil(AT_ONCE));
                let mut ahead = behind.as_flattened().iter().take(4 * here.len());
                let at = [block, first];
                for (keys, sums) in keys.chunks(AT_ONCE).zip(sums.chunks_mut(AT_ONCE)) {
                    match keys {
                        [a, b, c, d] => {
                            orbit_tile(here, [*a, *b, *c, *d], sums, at, orbit, (&mut ahead, fetched));
                        }
                        [a, b, c] => orbit_tile(here, [*a, *b, *c], sums, at, orbit, (&mut ahead, fetched)),
                        [a, b] => orbit_tile(here, [*a, *b], sums, at, orbit, (&mut ahead, fetched)),
                        [a] => orbit_tile(here, [*a], sums, at, orbit, (&mut ahead, fetched)),
                        _ => unreachable!("chunks of at most four"),
                    }
                }
            }
            for (sums, out) in sums.iter().zip(out.iter_mut()) {
                for (half, [low, high]) in sums.iter().enumerate() {
                    let out = out[half * orbit + 8 * block..].first_chunk_mut().expect("eight places");
                    let sum = _mm512_add_epi64(load(out), prime.reduce_sums::<true>(*low, *high));
                    store(out, reduce_by(sum, prime.value));
                }
            }
        }
    }
}

/// Some steps at eight places of both halves, of a block, from one that is a multiple of 8 on, for a few clients at once. Each vector
/// of a key serves both halves.
///
/// A multiply-add takes factors below 2^52, and the sum of two residues below 2^51 is one.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn orbit_tile<'a, const MANY: usize>(
    digits: &[[Lanes; 4]],
    keys: [&[u64]; MANY],
    out: &mut [Sums],
    [block, first]: [usize; 2],
    orbit: usize,
    (ahead, fetched): (&mut impl Iterator<Item = &'a Lanes>, usize),
) {
    let out: &mut [Sums; MANY] = out.first_chunk_mut().expect("as many as keys");
    let mut sums = *out;
    let rows = orbit / 8;
    assert!(keys.iter().all(|key| key.len() == 4 * orbit) && block < rows && first + digits.len() < orbit);
    for (eight, row) in digits.chunks(8).zip(block + first / 8..) {
        // Past the last row, lanes have moved on by one.
        let row = if row < rows { 16 * row } else { 16 * (row - rows) + 1 };
        for (step, vectors) in eight.iter().enumerate() {
            for line in ahead.by_ref().take(fetched) {
                fetch::<_MM_HINT_T0>(line.as_ptr().cast());
            }
            let digit = |at: usize| load(&vectors[at]);
            let digit = [[digit(0), digit(1)], [digit(2), digit(3)]];
            for (key, sums) in keys.iter().zip(&mut sums) {
                let of_half = |half: usize| {
                    // SAFETY: a key has `4 orbit` words by the assertion above, of a half `2 orbit`, and `row` is at most
                    // `2 orbit - 15`: its first part at most `2 orbit - 16`, its second at most 1 since `first / 8` and `block` are
                    // below `rows`; `step` is below 8.
                    unsafe { _mm512_loadu_si512(key.as_ptr().add(2 * half * orbit + row + step).cast()) }
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
