//! Every back end against the portable one, and that against plain arithmetic.

mod digits;
mod rows;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{Available, Backend, Digit, Pairs};
use crate::ring::automorphism::Automorphism;
use crate::ring::modulus::Modulus;
use crate::ring::sampling::whiten;
use crate::ring::tables::{NttTables, SlotOrder, SplitFactors};

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
