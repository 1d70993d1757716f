use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{Backend, lift};
use crate::ring::modulus::Modulus;

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
            for backend in Backend::available() {
                let (mut low, mut high, mut out) = (vec![0; 16], vec![0; 16], vec![0; 16]);
                backend.multiply_accumulate([&mut low, &mut high], &terms);
                backend.reduce(&modulus, &mut out, [&mut low, &mut high]);
                assert_eq!(out, expected);
                assert!(low.iter().chain(&high).all(|sum| *sum == 0));
                backend.inner_product(&modulus, &mut out, &terms);
                assert_eq!(out, expected);
            }
        }
    }
}

#[test]
fn lifted_residues_are_fit_for_a_forward_transform() {
    let (from, to) = (Modulus::new(137_438_822_401).unwrap(), Modulus::new(68_718_428_161).unwrap());
    let half = from.value() / 2;
    let values = [0, 1, half - 1, half, half + 1, half + 2, from.value() - 1];
    let mut out = [0; 7];
    lift(&from, &to, &mut out, &values);
    for (value, lifted) in values.into_iter().zip(out) {
        assert!(lifted < 4 * to.value());
        assert_eq!(to.reduce(u128::from(lifted)), to.from_signed(from.centre(value)));
    }
}

#[test]
fn back_ends_have_distinct_names_and_an_unknown_one_is_not_fatal() {
    let names: Vec<_> = Backend::available().map(Backend::name).collect();
    assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
    assert!(Backend::available().any(|backend| backend == Backend::active()));
}
