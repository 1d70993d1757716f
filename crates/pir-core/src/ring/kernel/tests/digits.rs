//! Digits: their products with keys, their sums along orbits, and what they are rounded to.

use super::{assert_same, primes, residues};
use crate::ring::kernel::{Available, OrbitKeys, OrbitWalk, Pairs};
use crate::ring::tables::{NttTables, SlotOrder, bit_reverse};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

#[test]
fn every_number_of_digits_is_multiplied_with_its_keys_exactly() {
    for modulus in primes() {
        // Slots that fill vectors, and slots that do not.
        for (degree, digits) in [4, 8, 64].into_iter().flat_map(|n| (1..=12).map(move |digits| (n, digits))) {
            for (kind, key_kind) in [(0, 4), (2, 2), (2, 0), (0, 2), (3, 2), (1, 2)] {
                let values = residues(&modulus, digits * degree, kind);
                let keys = residues(&modulus, 2 * digits * degree, key_kind);
                let expected: Vec<u64> = (0..2 * degree)
                    .map(|place| {
                        let (half, slot) = (place / degree, place % degree);
                        (0..digits).fold(0, |sum, d| {
                            let product =
                                modulus.mul(values[d * degree + slot], keys[(2 * d + half) * degree + slot]);
                            modulus.add(sum, product)
                        })
                    })
                    .collect();
                for backend in Available::all() {
                    // What was there before does not matter.
                    let mut out = vec![u64::MAX; 2 * degree];
                    backend.key_products(&modulus, out.split_at_mut(degree).into(), &values, &keys);
                    assert!(
                        out == expected,
                        "{digits} digits of {degree} slots: {} differs",
                        backend.backend().name()
                    );
                }
            }
        }
    }
}

/// The place, within its half, of a slot in orbit order.
fn place(orbit: usize, slot: usize) -> usize {
    bit_reverse(slot % orbit, orbit.ilog2())
}

#[test]
fn every_back_end_sorts_masks_by_the_steps_between_their_places() {
    for orbit in [8usize, 16, 64, 1_024] {
        for (half, group) in [(0, 0), (1, 0), (0, orbit / 8 - 1), (1, orbit / 16)] {
            let word = |row: usize, slot: usize| (row * 2 * orbit + slot) as u64 + 1;
            let rows: [Vec<u64>; 8] =
                core::array::from_fn(|row| (0..2 * orbit).map(|slot| word(row, slot)).collect());
            let rows: [&[u64]; 8] = core::array::from_fn(|row| &rows[row][..]);
            let found = assert_same("orbit_masks", &vec![0; 4 * orbit * orbit], |backend, out| {
                backend.orbit_masks(out.as_chunks_mut().0, rows, half, group);
            });
            assert_eq!(found.iter().filter(|word| **word != 0).count(), 16 * orbit);
            for (row, slot) in (0..8).flat_map(|row| (0..2 * orbit).map(move |slot| (row, slot))) {
                let steps = place(orbit, 8 * group + row) + orbit - place(orbit, slot);
                let chain = (slot / orbit) ^ half;
                let at = (chain * orbit + steps % orbit) * 2 * orbit + slot;
                assert_eq!(found[at], word(row, slot), "{orbit} {half} {group}");
            }
        }
    }
}

#[test]
fn every_back_end_walks_along_an_orbit_exactly() {
    for modulus in primes() {
        for (orbit, second, steps, kind) in
            [(8usize, false, 1..8, 0), (64, true, 5..8, 2), (1_024, false, 3..6, 4), (1_024, true, 1..2, 3)]
        {
            let (degree, shift) = (2 * orbit, modulus.bits() / 2);
            let tables = NttTables::new(modulus, degree, SlotOrder::Orbit).unwrap();
            let key = residues(&modulus, degree, kind + 4);
            let images: Vec<[u64; 8]> = (0..degree)
                .map(|at| {
                    let place = |lane: usize| at % orbit + orbit / 8 * bit_reverse(lane, 3);
                    core::array::from_fn(|lane| key[at / orbit * orbit + place(lane) % orbit])
                })
                .collect();
            let masks = residues(&modulus, (steps.end - 1) * degree, kind + 8);
            let (many, stride) = (steps.len(), 4 * steps.len() + 1);
            let kept = orbit / 8 * stride * 8;
            let start = [residues(&modulus, degree, kind), vec![u64::MAX; kept]].concat();
            let found = assert_same("orbit_walk", &start, |backend, words| {
                let (sum, kept) = words.split_at_mut(degree);
                let masks = masks.as_chunks().0;
                let steps = steps.clone();
                let walk = OrbitWalk { shift, steps, images: &images, masks, second, stride };
                backend.orbit_walk(&tables, &walk, sum, kept.as_chunks_mut().0);
            });
            // One step after the other, place by place.
            let mut sum = start[..degree].to_vec();
            for (at, step) in steps.clone().enumerate().rev() {
                Available::portable().inverse(&tables, &mut sum);
                Available::portable().round_digits(&modulus, shift, &mut sum);
                Available::portable().forward(&tables, &mut sum);
                for (slot, digit) in sum.iter_mut().enumerate() {
                    let (half, place) = (slot / orbit, place(orbit, slot));
                    let vector = place % (orbit / 8) * stride + 4 * at + 2 * usize::from(second) + half;
                    assert_eq!(found[degree + 8 * vector + place / (orbit / 8)], *digit);
                    let image = key[(half ^ usize::from(second)) * orbit + (place + step - 1) % orbit];
                    let mask = masks[(step - 1) * degree + slot];
                    *digit = modulus.add(mask, modulus.mul(*digit, image));
                }
            }
            assert!(found[..degree] == sum, "{orbit} {many}");
            let untouched = found[degree..].iter().filter(|word| **word == u64::MAX).count();
            assert_eq!(untouched, kept - many * degree);
        }
    }
}

/// Against plain sums of all products: of a number of outputs, positions and clients each, and at the largest magnitudes.
#[test]
fn every_back_end_multiplies_pairs_exactly() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    for (blocks, positions, clients, extreme) in
        [(1, 1, 1, false), (3, 7, 5, false), (2, 1_024, 4, true), (2, 1_025, 6, false), (5, 2_500, 9, true)]
    {
        let small = |rng: &mut ChaCha20Rng| if extreme { -256 } else { (rng.next_u32() % 512) as i16 - 256 };
        let pairs: Vec<Pairs> =
            (0..blocks * positions).map(|_| core::array::from_fn(|_| small(&mut rng))).collect();
        let mut wide = || if extreme { (1 << 39) - 1 } else { rng.next_u64() >> 25 };
        let queries: Vec<Vec<u64>> = (0..clients).map(|_| (0..positions).map(|_| wide()).collect()).collect();
        let limb = |b: u64, number: u32| (b >> (13 * number)) as u32 & 0x1fff;
        let limbs =
            |b: &u64| [limb(*b, 0), limb(*b, 1) | limb(*b, 0) << 16, limb(*b, 2) | limb(*b, 1) << 16, 0];
        let words: Vec<Vec<[u32; 4]>> =
            queries.iter().map(|query| query.iter().map(limbs).collect()).collect();
        let words: Vec<&[[u32; 4]]> = words.iter().map(Vec::as_slice).collect();
        let expected: Vec<u64> = queries
            .iter()
            .flat_map(|query| {
                (0..16 * blocks).map(|output| (query, output / 16, output % 16)).collect::<Vec<_>>()
            })
            .map(|(query, block, lane)| {
                let rows = pairs[block * positions..][..positions].iter().zip(query);
                let product = |(pair, b): (&Pairs, &u64)| {
                    (i128::from(pair[2 * lane]) + (i128::from(pair[2 * lane + 1]) << 13)) * i128::from(*b)
                };
                rows.map(product).sum::<i128>().rem_euclid(1 << 39) as u64
            })
            .collect();
        for backend in Available::all() {
            let mut out = vec![u64::MAX; expected.len()];
            let mut parts: Vec<&mut [u64]> = out.chunks_mut(16 * blocks).collect();
            backend.pair_products(&pairs, positions, &words, &mut parts);
            assert!(
                out == expected,
                "{} differs at {blocks} {positions} {clients}",
                backend.backend().name()
            );
        }
    }
}

#[test]
fn every_back_end_correlates_digits_with_keys_exactly() {
    for modulus in primes().into_iter().filter(|modulus| modulus.bits() >= 46) {
        let q = modulus.value();
        for (orbit, clients, extreme) in
            [(8, 1, true), (16, 3, false), (16, 0, false), (64, 6, false), (64, 35, false), (1_024, 5, true)]
        {
            let mut rng = ChaCha20Rng::seed_from_u64(orbit as u64);
            let mut residue = || if extreme { q - 1 } else { rng.next_u64() % q };
            let digits: Vec<[u64; 8]> =
                (0..orbit / 8 * orbit * 4).map(|_| core::array::from_fn(|_| residue())).collect();
            let rows = orbit / 8;
            let keys: Vec<Vec<u64>> =
                (0..clients).map(|_| (0..2 * orbit).map(|_| residue()).collect()).collect();
            let woven: Vec<Vec<u64>> = keys
                .iter()
                .map(|key| {
                    let word = |at: usize| key[at / orbit * orbit + at % orbit / 8 + rows * (at % 8)];
                    (0..2 * orbit).map(word).collect()
                })
                .collect();
            let woven: Vec<&[u64]> = woven.iter().map(Vec::as_slice).collect();
            let woven = OrbitKeys::new(&woven);
            let digit = |chain: usize, half: usize, i: usize, k: usize| {
                let met = (i + k) % orbit;
                let step = (i % rows * rows + met % rows) * 8 + k / rows;
                u128::from(digits[step * 4 + 2 * chain + half][met / rows])
            };
            let mut expected = Vec::new();
            for key in &keys {
                for (half, at) in (0..2 * orbit).map(|at| (at / orbit, at % orbit)) {
                    let i = at / 8 + rows * (at % 8);
                    let term = |k: usize| {
                        let key = |half: usize| u128::from(key[half * orbit + (i + k) % orbit]);
                        (digit(0, half, i, k) + key(1 - half)) * (digit(1, half, i, k) + key(half))
                    };
                    let sum = (0..orbit).map(term).sum::<u128>() + u128::from(q - 1);
                    expected.push((sum % u128::from(q)) as u64);
                }
            }
            for backend in Available::all() {
                let mut out = vec![q - 1; expected.len()];
                let mut parts: Vec<&mut [u64]> = out.chunks_mut(2 * orbit).collect();
                backend.orbit_products(&modulus, &digits, &woven, &mut parts);
                assert!(out == expected, "{} differs at {orbit} {clients}", backend.backend().name());
            }
        }
    }
}

#[test]
fn every_back_end_crosses_digits_exactly() {
    for modulus in primes() {
        for (blocks, stride, steps) in [(1, 4, 1), (3, 33, 8), (3, 33, 7), (2, 9, 0)] {
            let digits = residues(&modulus, 8 * blocks * stride, 3);
            let digits: &[[u64; 8]] = digits.as_chunks().0;
            let start = residues(&modulus, 16 * blocks, 1);
            let found = assert_same("orbit_crossings", &start, |backend, out| {
                backend.orbit_crossings(&modulus, digits, stride, steps, out);
            });
            for (at, (found, start)) in found.iter().zip(&start).enumerate() {
                let (half, block, lane) = (at / (8 * blocks), at / 8 % blocks, at % 8);
                let digit =
                    |step: usize, chain: usize| digits[block * stride + 4 * step + 2 * chain + half][lane];
                let product = |step: usize| modulus.mul(digit(step, 0), digit(step, 1));
                let sum = (0..steps).map(product).fold(0, |sum, product| modulus.add(sum, product));
                assert_eq!(*found, modulus.sub(*start, sum));
            }
        }
    }
}

#[test]
fn every_back_end_rounds_digits_alike() {
    for modulus in primes() {
        for kind in 0..16 {
            let shift = modulus.bits() / 2;
            assert_same("round_digits", &residues(&modulus, 35, kind), |backend, words| {
                backend.round_digits(&modulus, shift, words);
            });
        }
    }
}
