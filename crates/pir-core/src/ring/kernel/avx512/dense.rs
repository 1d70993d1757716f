//! The dense first dimension by 16-bit dot products, and packing by 52-bit multiply-adds.

use core::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_setzero_si512,
};

use super::super::avx512f::pair_products_by;
use super::super::dense;
use super::super::rows::{Lanes, Pairs};
use super::super::vector512::{load, store};
use super::prime::{Prime, high, low};
use crate::ring::modulus::Modulus;

pair_products_by!("avx512f,avx512bw,avx512vnni", _mm512_dpwssd_epi32);

/// How many steps ahead of their use digits are fetched.
const AHEAD: usize = 24;

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
    let steps = 4 * (orbit - 1);
    for (block, digits) in digits.chunks_exact(steps).take(orbit / 8).enumerate() {
        let digits = digits.as_chunks::<4>().0;
        for (keys, out) in keys.chunks(4).zip(out.chunks_mut(4)) {
            match keys {
                [a, b, c, d] => orbit_tile(&prime, digits, [*a, *b, *c, *d], out, block, orbit),
                [a, b, c] => orbit_tile(&prime, digits, [*a, *b, *c], out, block, orbit),
                [a, b] => orbit_tile(&prime, digits, [*a, *b], out, block, orbit),
                [a] => orbit_tile(&prime, digits, [*a], out, block, orbit),
                _ => unreachable!("chunks of at most four"),
            }
        }
    }
}

/// Eight places of both halves, for a few clients at once. Each vector of a key serves both halves.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn orbit_tile<const CLIENTS: usize>(
    prime: &Prime,
    digits: &[[Lanes; 4]],
    keys: [&[u64]; CLIENTS],
    out: &mut [&mut [u64]],
    block: usize,
    orbit: usize,
) {
    let zero = _mm512_setzero_si512();
    // The low and the high parts of the sums of both halves.
    let mut sums = [[[zero; 2]; 2]; CLIENTS];
    assert!(keys.iter().all(|key| key.len() == 4 * orbit) && digits.len() == orbit - 1 && 8 * block < orbit);
    for (step, vectors) in digits.iter().enumerate() {
        for line in digits.get(step + AHEAD).into_iter().flatten() {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
        let digit = |at: usize| load(&vectors[at]);
        let digit = [[digit(0), digit(1)], [digit(2), digit(3)]];
        for (key, sums) in keys.iter().zip(&mut sums) {
            for half in 0..2 {
                let at = 2 * half * orbit + 8 * block + step;
                // SAFETY: `8 block + 8 <= orbit` and `step <= orbit - 2`, so that `at + 8` is at most `4 orbit - 2`, which is below
                // the length of every key.
                let key = unsafe { _mm512_loadu_si512(key.as_ptr().add(at).cast()) };
                for chain in 0..2 {
                    let (sum, digit) = (&mut sums[half ^ chain], digit[chain][half ^ chain]);
                    *sum = [low(sum[0], digit, key), high(sum[1], digit, key)];
                }
            }
        }
    }
    for (sums, out) in sums.iter().zip(out) {
        for (half, [low, high]) in sums.iter().enumerate() {
            let out = out[half * orbit + 8 * block..].first_chunk_mut().expect("eight places");
            store(out, prime.reduce_sums::<true>(*low, *high));
        }
    }
}
