//! Stand-ins for kernels.

use super::chain::STEPS;
use super::ring::{DEGREE, ORBIT, QUERY_BITS};
use crate::ring::Modulus;

pub(super) fn pair_products(
    pairs: &[[i16; 32]],
    positions: usize,
    queries: &[&[[u32; 4]]],
    out: &mut [&mut [u64]],
) {
    for (query, out) in queries.iter().zip(out) {
        for (block, out) in pairs.chunks_exact(positions).zip(out.chunks_exact_mut(16)) {
            for (lane, out) in out.iter_mut().enumerate() {
                let mut sum = 0i64;
                for (pair, words) in block.iter().zip(*query) {
                    let b = i64::from(words[0])
                        | i64::from(words[1] & 0xffff) << 13
                        | i64::from(words[2] & 0xffff) << 26;
                    let c = i64::from(pair[2 * lane]) + (i64::from(pair[2 * lane + 1]) << 13);
                    sum = sum.wrapping_add(c.wrapping_mul(b));
                }
                *out = sum as u64 & ((1 << QUERY_BITS) - 1);
            }
        }
    }
}

pub(super) fn orbit_products(
    modulus: &Modulus,
    digits: &[[u64; 32]],
    keys: &[&[u64]],
    out: &mut [&mut [u64]],
) {
    for (key, out) in keys.iter().zip(out) {
        for place in 0..ORBIT {
            for half in 0..2 {
                let mut sum = 0u128;
                for step in 1..=STEPS {
                    let d = &digits[place / 8 * STEPS + step - 1];
                    let at = |chain: usize| u128::from(d[(2 * chain + half) * 8 + place % 8]);
                    let key = |half: usize| u128::from(key[half * DEGREE + place + step - 1]);
                    sum += at(0) * key(half) + at(1) * key(1 - half);
                }
                out[half * ORBIT + place] = modulus.reduce(sum);
            }
        }
    }
}
