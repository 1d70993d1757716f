//! Products with public integers that are the same for all clients, in plain Rust: the dense first dimension, and packing.

use super::rows::{Lanes, OrbitKeys, PAIR_BITS, PAIR_CHUNK, Pairs};
use crate::ring::modulus::Modulus;

pub(super) fn pair_products(
    pairs: &[Pairs],
    positions: usize,
    queries: &[&[[u32; 4]]],
    out: &mut [&mut [u64]],
) {
    for (query, out) in queries.iter().zip(out) {
        for (block, out) in pairs.chunks_exact(positions).zip(out.as_chunks_mut::<16>().0) {
            *out = [0; 16];
            for (pairs, words) in block.chunks(PAIR_CHUNK).zip(query.chunks(PAIR_CHUNK)) {
                let mut sums = [[0i32; 16]; 3];
                for (pairs, words) in pairs.iter().zip(words) {
                    for (sums, word) in sums.iter_mut().zip(words) {
                        let (even, odd) = (i32::from(*word as i16), i32::from((*word >> 16) as i16));
                        for (sum, pair) in sums.iter_mut().zip(pairs.as_chunks::<2>().0) {
                            let product = i32::from(pair[0]) * even + i32::from(pair[1]) * odd;
                            *sum = sum.wrapping_add(product);
                        }
                    }
                }
                for (lane, out) in out.iter_mut().enumerate() {
                    let part = |number: usize| (i64::from(sums[number][lane]) << (13 * number)) as u64;
                    *out = out.wrapping_add(part(0)).wrapping_add(part(1)).wrapping_add(part(2));
                }
            }
            out.iter_mut().for_each(|out| *out &= (1 << PAIR_BITS) - 1);
        }
    }
}

pub(super) fn orbit_products(modulus: &Modulus, digits: &[Lanes], keys: &OrbitKeys, out: &mut [&mut [u64]]) {
    let (rows, mut out) = (keys.rows(), out.iter_mut());
    for (clients, keys) in keys.groups() {
        for (client, out) in out.by_ref().take(clients).enumerate() {
            let (first, second) = out.split_at_mut(8 * rows);
            let blocks = first.as_chunks_mut::<8>().0.iter_mut().zip(second.as_chunks_mut::<8>().0);
            for ((block, digits), (first, second)) in digits.chunks_exact(32 * rows).enumerate().zip(blocks) {
                let mut sums = [[0u128; 8]; 2];
                let digits = digits.as_chunks::<4>().0.as_chunks::<8>().0;
                for (row, (digits, keys)) in digits.iter().zip(keys.chunks_exact(clients)).enumerate() {
                    for (moved, digits) in (usize::from(row < block)..).zip(digits) {
                        for (half, sums) in sums.iter_mut().enumerate() {
                            for (lane, sum) in sums.iter_mut().enumerate() {
                                let at = (lane + moved) % 8;
                                let factor = |chain: usize| {
                                    let key = keys[client][1 ^ half ^ chain][at];
                                    u128::from(digits[2 * chain + half][at] + key)
                                };
                                *sum += factor(0) * factor(1);
                            }
                        }
                    }
                }
                for (out, sums) in [first, second].into_iter().zip(sums) {
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = modulus.add(*out, modulus.reduce(sum));
                    }
                }
            }
        }
    }
}

pub(super) fn orbit_crossings(
    modulus: &Modulus,
    digits: &[Lanes],
    stride: usize,
    steps: usize,
    out: &mut [u64],
) {
    let (first, second) = out.split_at_mut(out.len() / 2);
    let blocks = first.as_chunks_mut::<8>().0.iter_mut().zip(second.as_chunks_mut::<8>().0);
    for (digits, (first, second)) in digits.chunks(stride).zip(blocks) {
        let digits = &digits.as_chunks::<4>().0[..steps];
        for (half, out) in [first, second].into_iter().enumerate() {
            for (lane, out) in out.iter_mut().enumerate() {
                let product =
                    |step: &[Lanes; 4]| u128::from(step[half][lane]) * u128::from(step[2 + half][lane]);
                *out = modulus.sub(*out, modulus.reduce(digits.iter().map(product).sum()));
            }
        }
    }
}

pub(super) fn round_digits(modulus: &Modulus, shift: u32, a: &mut [u64]) {
    for a in a {
        let rounded = (modulus.centre(*a) + (1 << (shift - 1))) >> shift;
        *a = modulus.value().wrapping_add(rounded as u64);
    }
}
