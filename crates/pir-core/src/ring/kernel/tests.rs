use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{Available, Backend, COLUMNS, Digit, OrbitKeys, OrbitWalk, Pairs, Products, RowSums, Selectors};
use crate::ring::automorphism::Automorphism;
use crate::ring::modulus::Modulus;
use crate::ring::sampling::whiten;
use crate::ring::tables::{NttTables, SlotOrder, SplitFactors, bit_reverse};

const PRIMES: [u64; 3] = [65537, 68_719_230_977, 1_125_899_906_826_241];

#[test]
fn accumulated_products_are_exact_for_every_number_of_terms_and_at_the_largest_residues() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for modulus in PRIMES.map(|prime| Modulus::new(prime).unwrap()) {
        for count in 0..=9 {
            let mut vector = |extreme: bool| -> Vec<u64> {
                let top = modulus.value() - 1;
                (0..16).map(|_| if extreme { top } else { rng.next_u64() % modulus.value() }).collect()
            };
            let vectors: Vec<_> = (0..count).map(|i| (vector(i % 2 == 0), vector(i % 3 == 0))).collect();
            let terms: Vec<(&[u64], &[u64])> = vectors.iter().map(|(a, b)| (&a[..], &b[..])).collect();
            let expected: Vec<u64> = (0..16)
                .map(|i| terms.iter().fold(0, |sum, (a, b)| modulus.add(sum, modulus.mul(a[i], b[i]))))
                .collect();
            for backend in Available::all() {
                let (mut low, mut high, mut out) = (vec![0; 16], vec![0; 16], vec![0; 16]);
                backend.multiply_accumulate(&modulus, [&mut low, &mut high], &terms);
                backend.reduce(&modulus, &mut out, [&mut low, &mut high]);
                assert_eq!(out, expected);
                assert!(low.iter().chain(&high).all(|sum| *sum == 0));
            }
        }
    }
}

#[test]
fn raised_residues_keep_their_class_and_lose_their_sign() {
    for modulus in PRIMES.map(|prime| Modulus::new(prime).unwrap()) {
        let half = modulus.value() / 2;
        let values = [0, 1, half - 1, half, half + 1, half + 2, modulus.value() - 1];
        for offset in [half + 1, modulus.value(), 3 * modulus.value()] {
            let mut raised = values;
            Available::portable().centre(&modulus, offset, &mut raised);
            for (value, raised) in values.into_iter().zip(raised) {
                assert_eq!(raised.wrapping_sub(offset) as i64, modulus.centre(value));
                assert!(raised < 2 * offset);
            }
        }
    }
}

#[test]
fn back_ends_have_distinct_names_and_an_unknown_one_is_not_fatal() {
    let names: Vec<_> = Backend::available().map(Backend::name).collect();
    assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
    assert!(Backend::available().any(|backend| backend == Backend::active()));
}

/// Residues of the given kind: random, all 0, all q - 1, or 0 and q - 1 by turns.
fn residues(modulus: &Modulus, count: usize, kind: u64) -> Vec<u64> {
    let mut rng = ChaCha20Rng::seed_from_u64(kind);
    let top = modulus.value() - 1;
    (0..count as u64)
        .map(|i| match kind % 4 {
            0 => rng.next_u64() % modulus.value(),
            1 => 0,
            2 => top,
            _ => top * (i % 2),
        })
        .collect()
}

/// What the portable code turns the given words into; checks that all back ends turn copies of them into the same.
fn assert_same(what: &str, words: &[u64], operation: impl Fn(Available, &mut [u64])) -> Vec<u64> {
    let mut expected = words.to_vec();
    operation(Available::portable(), &mut expected);
    for backend in Available::all() {
        let mut result = words.to_vec();
        operation(backend, &mut result);
        assert!(result == expected, "{what}: {} differs", backend.backend().name());
    }
    expected
}

/// Primes of 17 to 50 bits, on both sides of every change of method but those of rows, all 1 modulo 2^14 or 2^16.
fn primes() -> Vec<Modulus> {
    let least = |bits: u32| {
        let mut candidate = (1u64 << bits) + 1;
        loop {
            candidate -= 1 << 14;
            if let Ok(modulus) = Modulus::new(candidate) {
                return modulus;
            }
        }
    };
    [17, 28, 29, 30, 36, 37, 39, 46, 47, 49, 50].map(least).to_vec()
}

/// The largest of some more bits, for rows, which need no transform: on both sides of where their method changes.
fn primes_of_rows() -> Vec<Modulus> {
    let largest =
        |bits: u32| (1..1u64 << bits).rev().find_map(|candidate| Modulus::new(candidate).ok()).unwrap();
    [15, 16, 19, 22, 25, 31, 35].map(largest).to_vec()
}

#[test]
fn every_back_end_transforms_to_the_same_residues() {
    for modulus in primes() {
        let degrees = [8, 32, 64, 128, 256, 2048, 4096, 8192].map(|degree| (degree, SlotOrder::BitReversed));
        let orbits = [8, 64, 256, 2048].map(|degree| (degree, SlotOrder::Orbit));
        for (degree, order) in degrees.into_iter().chain(orbits) {
            let tables = NttTables::new(modulus, degree, order).unwrap();
            for kind in 0..8 {
                let values = residues(&modulus, degree, kind);
                for multiple in [0, 1, 3] {
                    let raised: Vec<u64> = values.iter().map(|x| x + multiple * modulus.value()).collect();
                    assert_same("forward", &raised, |backend, words| backend.forward(&tables, words));
                    if multiple < 2 {
                        assert_same("inverse", &raised, |backend, words| backend.inverse(&tables, words));
                    }
                }
            }
        }
    }
}

#[test]
fn every_back_end_computes_the_same_slot_by_slot() {
    let primes = primes();
    for modulus in &primes {
        let count = 64;
        for kind in 0..16 {
            let (a, b) = (residues(modulus, count, kind), residues(modulus, count, kind / 4 + 40));
            let factors: Vec<_> =
                residues(modulus, count, kind + 4).iter().map(|x| modulus.shoup(*x)).collect();
            assert_same("multiply", &a, |backend, words| backend.multiply(modulus, words, &b));
            assert_same("scale", &a, |backend, words| backend.scale(modulus, words, factors[1]));
            assert_same("add", &a, |backend, words| backend.add(modulus, words, &b));
            assert_same("subtract", &a, |backend, words| backend.subtract(modulus, words, &b));
            for factors in [&factors[..], &factors[..count / 8]] {
                let both = [&a[..], &a].concat();
                assert_same("halves", &both, |backend, words| {
                    let (even, odd) = words.split_at_mut(count);
                    backend.halves(modulus, even, odd, &b, factors);
                });
            }
            for bits in [modulus.bits().min(24) - 1, 16] {
                assert_same("chunk", &a, |backend, words| backend.chunk(modulus, 3, bits, words, &b));
            }
            for offset in [modulus.value() / 2 + 1, modulus.value(), (1 << 52) - 1] {
                assert_same("centre", &a, |backend, words| backend.centre(modulus, offset, words));
            }
            for (shift, base_bits) in [(0, 2), (8, 6), (14, 12), (38, 12), (49, 2), (51, 1)] {
                for mask in [(1 << base_bits) - 1, u64::MAX] {
                    let digit = Digit { shift, mask, bias: modulus.value() - (1 << (base_bits - 1)) };
                    assert_same("digit", &a, |backend, words| backend.digit(digit, words, &b));
                }
            }
            let targets = (1..modulus.bits() - 1).map(|bits| 1 << bits);
            let smaller = primes.iter().map(Modulus::value).filter(|prime| *prime <= modulus.value() / 2);
            for target in targets.chain(smaller) {
                let q = u128::from(modulus.value());
                let multiplier = (((u128::from(target) << 64) + q / 2) / q) as u64;
                assert_same("rescale", &a, |backend, words| backend.rescale(multiplier, target, words));
                assert_same("rescale_sum", &a, |backend, words| {
                    backend.rescale_sum(modulus, multiplier, target, words, &b);
                });
                assert_same("rescale_difference", &a, |backend, words| {
                    backend.rescale_difference(modulus, multiplier, target, words, &a, &b);
                });
            }
        }
        for level in 0..6 {
            let degree = 64;
            let values = residues(modulus, degree, 0);
            let substitution = Automorphism::new(degree, (degree >> level) + 1);
            assert_same("permute", &values, |backend, words| {
                let (slots, vectors) = substitution.tables();
                backend.permute(words, &values, slots, vectors);
            });
            assert_same("substitute", &values, |backend, words| {
                backend.substitute(modulus, words, &values, substitution.coefficient_table());
            });
        }
    }
}

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

#[test]
fn every_back_end_packs_and_multiplies_rows_alike_and_exactly() {
    for modulus in primes().into_iter().chain(primes_of_rows()) {
        let width = modulus.bits() as usize;
        for (rows, columns, clients) in [
            (1, 1, 1),
            (3, 2, 1),
            (64, 3, 2),
            (130, COLUMNS, 5),
            (4096, 2, 1),
            (4096, 1, 2),
            (70, COLUMNS + 3, 1),
            (65, 2 * COLUMNS + 1, 3),
        ] {
            // Random, all q - 1, and what makes the longest sums of signed digits: selectors of q/2 on either side, and
            // plaintexts of which the lower digits are as large as can be.
            for kind in [0, 2, 4, 5] {
                let extreme = kind >= 4;
                let longest = ((modulus.value() - 1) >> 12 << 12) - 1;
                let plain = if extreme {
                    vec![longest; 8 * rows * columns]
                } else {
                    residues(&modulus, 8 * rows * columns, kind)
                };
                let sources: Vec<&[u64]> = plain.chunks(8).collect();
                let mut packed = vec![0; width * sources.len()];
                Available::portable().pack(width, 0, &sources, &mut packed);
                // For every client and row, two halves of two blocks each.
                let halves: Vec<Vec<Vec<u64>>> = (0..clients)
                    .map(|client| {
                        let values = if extreme {
                            vec![modulus.value() / 2 + (kind - 4); 32 * rows]
                        } else {
                            residues(&modulus, 32 * rows, kind + 4 * client)
                        };
                        values.chunks(16).map(<[u64]>::to_vec).collect()
                    })
                    .collect();
                for backend in Available::all() {
                    let mut again = vec![0xAA; packed.len()];
                    backend.pack(width, 0, &sources, &mut again);
                    assert_eq!(again, packed, "{}", backend.backend().name());
                    let mut unpacked = vec![0; plain.len()];
                    backend.unpack(width, &packed, &mut unpacked);
                    assert_eq!(unpacked, plain, "{}", backend.backend().name());
                    // The same plaintexts in two blocks.
                    let mut selectors = Selectors::new(clients as usize, rows);
                    selectors.resize(1..3);
                    for (client, row) in
                        (0..clients).flat_map(|client| (0..rows).map(move |row| (client, row)))
                    {
                        let client = client as usize;
                        let halves = [&halves[client][2 * row][..], &halves[client][2 * row + 1]];
                        backend.arrange(&modulus, &mut selectors, client, row, halves);
                    }
                    let packed = packed.repeat(2);
                    // Three blocks, the first of which is not to be touched.
                    let mut products = vec![Products::default(); clients as usize];
                    products.iter_mut().for_each(|products| products.resize(columns, 24));
                    let mut scratch = RowSums::default();
                    let mut each: Vec<&mut Products> = products.iter_mut().collect();
                    backend.row_products(&modulus, &packed, columns, &selectors, &mut each, &mut scratch);
                    for (client, column) in (0..products.len())
                        .flat_map(|client| (0..columns).map(move |column| (client, column)))
                    {
                        for (half, results) in products[client].column(column).into_iter().enumerate() {
                            assert_eq!(results[..8], [0; 8], "{}", backend.backend().name());
                            for (slot, result) in results[8..].iter().enumerate() {
                                let expected = (0..rows).fold(0, |sum, row| {
                                    let (bundle, in_bundle) = (column / COLUMNS, column % COLUMNS);
                                    let of_bundle = COLUMNS.min(columns - bundle * COLUMNS);
                                    let place = bundle * COLUMNS * rows + row * of_bundle + in_bundle;
                                    let plain = plain[8 * place + slot % 8];
                                    let selector = halves[client][2 * row + half][slot];
                                    modulus.add(sum, modulus.mul(plain, selector))
                                });
                                assert_eq!(*result, expected, "{}", backend.backend().name());
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_longest_sums_of_the_largest_products_do_not_overflow() {
    for modulus in primes() {
        let top = vec![modulus.value() - 1; 8];
        let terms: Vec<(&[u64], &[u64])> = vec![(&top, &top); 1 << 12];
        let mut expected = modulus.mul(top[0], top[0]);
        for _ in 0..12 {
            expected = modulus.add(expected, expected);
        }
        for backend in Available::all() {
            let (mut low, mut high, mut out) = (vec![0; 8], vec![0; 8], vec![0; 8]);
            backend.multiply_accumulate(&modulus, [&mut low, &mut high], &terms);
            backend.reduce(&modulus, &mut out, [&mut low, &mut high]);
            assert_eq!(out, [expected; 8], "{}", backend.backend().name());
        }
    }
}

#[test]
fn every_back_end_moves_words_to_the_same_places() {
    let words: Vec<u64> = (0..1 << 16).collect();
    let lanes = |first: usize, count: usize| -> Vec<[u64; 8]> {
        words[first..first + 8 * count].as_chunks().0.to_vec()
    };
    let (places, source) = ([[17, 0], [3, 1], [40, 7]], lanes(77, 25));
    let copied = assert_same("copy_runs", &vec![u64::MAX; 8 * 50], |backend, out| {
        backend.copy_runs(out.as_chunks_mut().0, &places, &source, 9, 7);
    });
    for (at, found) in copied.as_chunks::<8>().0.iter().enumerate() {
        let run = places.iter().position(|[place, _]| (*place..place + 7).contains(&at));
        let lane = |lane: usize| {
            run.map_or(u64::MAX, |run| source[9 * run + at - places[run][0]][(lane + 8 - places[run][1]) % 8])
        };
        assert_eq!(*found, core::array::from_fn(lane));
    }
}

/// Shorter and longer than a block, at the turn of the streams' lower half, and as many as no vector has.
#[test]
fn every_back_end_gives_the_keystreams_of_the_cipher() {
    let key = core::array::from_fn(|byte| 7 * byte as u8);
    for (size, count) in [(8, 1), (64, 16), (72, 5), (288, 37), (1024, 17)] {
        for first in [0, 5, u64::from(u32::MAX) - 3, 9 << 32] {
            let words: Vec<u64> = (0..(size * count / 8) as u64).map(|word| word << 29).collect();
            let found = assert_same("xor_keystreams", &words, |backend, out| {
                backend.xor_keystreams(bytemuck::cast_slice_mut(out), size, &key, first);
            });
            let mut expected = words;
            let elements = bytemuck::cast_slice_mut::<_, u8>(&mut expected).chunks_exact_mut(size);
            (first..).zip(elements).for_each(|(stream, element)| whiten(element, &key, stream));
            assert!(found == expected, "{count} of {size}");
        }
    }
}

/// Parts take turns: of each part so many lanes, then of the next one.
#[test]
fn every_back_end_weaves_columns() {
    for (parts, unit) in [(1, 1), (1, 8), (2, 4), (2, 2), (2, 1), (4, 2), (4, 1), (8, 1), (16, 1), (3, 2)] {
        let (slots, stride) = (5, 2 * parts + 3);
        let word = |part: usize, slot: usize, lane: usize| (1 + lane + 16 * (slot + slots * part)) as u64;
        let columns: Vec<[[u64; 8]; 2]> = (0..parts * slots)
            .map(|at| {
                [0, 8].map(|half| core::array::from_fn(|lane| word(at / slots, at % slots, half + lane)))
            })
            .collect();
        let found = assert_same("weave_columns", &vec![0; 8 * stride * slots], |backend, out| {
            backend.weave_columns(out.as_chunks_mut().0, stride, 2, &columns, parts, unit);
        });
        for (slot, found) in found.chunks_exact(8 * stride).enumerate() {
            let mut expected = vec![0; 8 * stride];
            let turns = (0..16 / unit).flat_map(|turn| (0..parts).map(move |part| (part, unit * turn)));
            let lanes = turns.flat_map(|(part, first)| (first..first + unit).map(move |lane| (part, lane)));
            for (place, (part, lane)) in expected[16..].iter_mut().zip(lanes) {
                *place = word(part, slot, lane);
            }
            assert_eq!(found, expected, "{parts} {unit}");
        }
    }
}

#[test]
fn every_back_end_transforms_columns_of_two_rows_exactly() {
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    for modulus in primes().into_iter().filter(|modulus| modulus.bits() > 24) {
        for (degree, positions) in
            [(64, 64), (64, 21), (2048, 1), (2048, 704), (2048, 1024), (2048, 1025), (2048, 2048)]
        {
            let tables = NttTables::new(modulus, degree, SlotOrder::Orbit).unwrap();
            let small = |rng: &mut ChaCha20Rng| match rng.next_u32() % 4 {
                0 => -256,
                1 => 255,
                _ => (rng.next_u32() % 512) as i16 - 256,
            };
            let pairs: Vec<Pairs> =
                (0..positions).map(|_| core::array::from_fn(|_| small(&mut rng))).collect();
            let mut residues =
                |count: usize| -> Vec<u64> { (0..count).map(|_| rng.next_u64() % modulus.value()).collect() };
            let (factors, before) = (residues(degree), residues(16 * degree));
            let split = SplitFactors::of_residues(&modulus, &factors);
            for adds in [false, true] {
                let found = assert_same("radix_columns", &before, |backend, out| {
                    let out = out.as_chunks_mut::<8>().0.as_chunks_mut::<2>().0;
                    let mut scratch = vec![[7; 8]; 2 * degree];
                    backend.radix_columns(&tables, &pairs, &split, adds, &mut scratch, out);
                });
                for lane in 0..16 {
                    let mut expected = vec![0; degree];
                    for (place, pair) in expected.iter_mut().zip(&pairs) {
                        let [even, odd] = [pair[2 * lane], pair[2 * lane + 1]].map(i64::from);
                        *place = modulus.from_signed(even + (odd << 13));
                    }
                    Available::portable().forward(&tables, &mut expected);
                    for (slot, value) in expected.into_iter().enumerate() {
                        let before = if adds { before[16 * slot + lane] } else { 0 };
                        let expected = modulus.add(before, modulus.mul(value, factors[slot]));
                        assert_eq!(found[16 * slot + lane], expected);
                    }
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
