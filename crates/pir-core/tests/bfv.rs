//! The cryptosystem on its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

use pir_core::bfv::{Ciphertext, GaloisKeys, Parameters, SecretKey, Workspace};
use pir_core::ring::{Coefficient, Polynomial, sampling};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use proptest::test_runner::FileFailurePersistence;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// Small and without security, but with the primes of the preset.
fn small(degree: usize) -> Parameters {
    Parameters::new_allowing_insecure_parameters(
        degree,
        &[68_719_230_977, 68_718_428_161],
        137_438_822_401,
        23,
    )
    .unwrap()
}

fn encrypt(parameters: &Parameters, key: &SecretKey, message: &[i64], nonce: u8) -> Ciphertext<Coefficient> {
    let basis = parameters.ciphertext_basis();
    let delta = parameters.residues(parameters.delta(parameters.plaintext_bits()));
    let factors: Vec<_> =
        basis.moduli().zip(delta).map(|(modulus, residue)| modulus.shoup(residue)).collect();
    let mut scaled = Polynomial::from_signed(basis, message);
    scaled.scale(basis, &factors);
    let seeded = key.encrypt(parameters, scaled, [nonce; 32], &[nonce ^ 0xFF; 32]);
    Ciphertext { c1: sampling::uniform(basis, &seeded.seed, 0), c0: seeded.c0 }
}

fn random(parameters: &Parameters, seed: u64) -> Vec<i64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    (0..parameters.degree()).map(|_| (rng.next_u32() >> 9) as i64).collect()
}

fn residues(parameters: &Parameters, message: impl IntoIterator<Item = i64>) -> Vec<u64> {
    message.into_iter().map(|m| m.rem_euclid(1 << parameters.plaintext_bits()) as u64).collect()
}

/// Keeps failing seeds next to the test.
fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::with_cases(24) }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn sums_products_and_substitutions_decrypt_to_those_of_the_messages(seed in any::<u64>(), log2 in 3u32..8) {
        let parameters = small(1 << log2);
        let degree = parameters.degree();
        let basis = parameters.ciphertext_basis();
        let bits = parameters.plaintext_bits();
        let key_seed = [seed as u8; 32];
        let key = SecretKey::derive(&parameters, &key_seed);
        let (a, b) = (random(&parameters, seed), random(&parameters, !seed));
        let (x, y) = (encrypt(&parameters, &key, &a, 1), encrypt(&parameters, &key, &b, 2));
        prop_assert_eq!(&key.decrypt(&parameters, &x, bits)[..], &residues(&parameters, a.clone()));

        let mut sum = x.clone();
        sum.add_assign(&parameters, &y);
        let expected = residues(&parameters, a.iter().zip(&b).map(|(a, b)| a + b));
        prop_assert_eq!(&key.decrypt(&parameters, &sum, bits)[..], &expected);

        let small_factor: Vec<i64> = b.iter().map(|b| b % 50 - 25).collect();
        let mut product = x.clone().into_evaluation(basis);
        product.mul_plaintext(&parameters, &Polynomial::from_signed(basis, &small_factor).into_evaluation(basis));
        let mut expected = vec![0; degree];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in small_factor.iter().enumerate() {
                expected[(i + j) % degree] += if i + j < degree { a * b } else { -a * b };
            }
        }
        prop_assert_eq!(&key.decrypt(&parameters, &product.into_coefficient(basis), bits)[..], &residues(&parameters, expected));

        let keys = GaloisKeys::derive(&parameters, &key, &key_seed);
        let keys = GaloisKeys::decode(&parameters, &keys.encode(&parameters)).unwrap();
        let mut workspace = Workspace::new(&parameters);
        for level in 0..parameters.levels() {
            let k = (degree >> level) + 1;
            let out = keys.substitute(&parameters, level, &x.clone().into_evaluation(basis), &mut workspace);
            let mut expected = vec![0; degree];
            for (m, a) in a.iter().enumerate() {
                let power = m * k % (2 * degree);
                expected[power % degree] = if power < degree { *a } else { -*a };
            }
            prop_assert_eq!(&key.decrypt(&parameters, &out.into_coefficient(basis), bits)[..], &residues(&parameters, expected));
        }
    }
}

#[test]
fn a_single_ciphertext_prime_works_too() {
    let parameters =
        Parameters::new_allowing_insecure_parameters(64, &[68_719_230_977], 137_438_822_401, 8).unwrap();
    let key = SecretKey::derive(&parameters, &[1; 32]);
    let keys = GaloisKeys::derive(&parameters, &key, &[1; 32]);
    let mut message = vec![0; 64];
    message[3] = 5;
    let basis = parameters.ciphertext_basis();
    let encrypted = encrypt(&parameters, &key, &message, 1).into_evaluation(basis);
    let out = keys.substitute(&parameters, 0, &encrypted, &mut Workspace::new(&parameters));
    message[3] = -5;
    assert_eq!(
        key.decrypt(&parameters, &out.into_coefficient(basis), 8)[..],
        residues(&parameters, message).iter().map(|m| m % 256).collect::<Vec<_>>()
    );
}

#[test]
fn a_reupload_never_has_fresh_errors_under_the_same_uniform_half() {
    let parameters = Parameters::s4096();
    let encode = |seed: [u8; 32]| {
        GaloisKeys::derive(parameters, &SecretKey::derive(parameters, &seed), &seed).encode(parameters)
    };
    let first = encode([1; 32]);
    assert_eq!(first.len(), GaloisKeys::encoded_bytes(parameters));
    assert!(first == encode([1; 32]));
    let other = encode([2; 32]);
    assert_ne!(first[..32], other[..32]);
    assert_ne!(first[32..64], other[32..64]);
}

#[test]
fn the_secret_key_does_not_print_itself() {
    let key = SecretKey::derive(&small(8), &[1; 32]);
    assert_eq!(format!("{key:?}"), "SecretKey { .. }");
}

#[test]
fn measured_noise_of_fresh_and_substituted_ciphertexts_is_what_is_predicted() {
    let parameters = Parameters::s4096();
    let basis = parameters.ciphertext_basis();
    let key = SecretKey::derive(parameters, &[5; 32]);
    let keys = GaloisKeys::derive(parameters, &key, &[5; 32]);
    let circuit = pir_core::noise::Circuit { levels: 0, rows: 1, columns: 1, groups: 1, answer_bits: 31 };
    let predicted = pir_core::noise::stages(parameters, &circuit);
    let zero = Polynomial::zero(basis);
    let fresh = encrypt(parameters, &key, &vec![0; parameters.degree()], 9);
    let measured = key.noise(basis, &fresh, &zero);
    assert!((measured.deviation / predicted.fresh).log2().abs() < 0.1, "{measured:?}");
    let mut workspace = Workspace::new(parameters);
    for level in 0..parameters.levels() {
        let out = keys.substitute(parameters, level, &fresh.clone().into_evaluation(basis), &mut workspace);
        let measured = key.noise(basis, &out.into_coefficient(basis), &zero);
        let expected = predicted.substitution.hypot(predicted.fresh);
        assert!((measured.deviation / expected).log2().abs() < 0.15, "{measured:?} {expected}");
    }
}
