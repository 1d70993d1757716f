//! Theorem 1 of the paper (Appendix A.2): leaf k encrypts 1 if k is the index, and 0 otherwise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

use std::collections::BTreeSet;

use pir_core::bfv::{Ciphertext, GaloisKeys, Parameters, SecretKey};
use pir_core::expand::{expand, position, substitutions};
use pir_core::ring::{Polynomial, sampling};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use proptest::test_runner::FileFailurePersistence;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

const BITS: u32 = 20;

struct Client {
    parameters: Parameters,
    key: SecretKey,
    keys: GaloisKeys,
}

impl Client {
    fn new(degree: usize) -> Self {
        let primes = [68_719_230_977, 68_718_428_161];
        let parameters =
            Parameters::new_allowing_insecure_parameters(degree, &primes, 137_438_822_401, BITS).unwrap();
        let key = SecretKey::derive(&parameters, &[4; 32]);
        let keys = GaloisKeys::derive(&parameters, &key, &[4; 32]);
        Self { parameters, key, keys }
    }

    /// Encrypts, expands and decrypts.
    fn leaves(&self, message: &[i64], selectors: usize, levels: u32) -> Vec<Vec<u64>> {
        let Self { parameters, key, keys } = self;
        let basis = parameters.ciphertext_basis();
        let delta = parameters.residues(parameters.delta(BITS));
        let factors: Vec<_> = basis.moduli().zip(delta).map(|(q, residue)| q.shoup(residue)).collect();
        let mut scaled = Polynomial::from_signed(basis, message);
        scaled.scale(basis, &factors);
        let seeded = key.encrypt(parameters, scaled, [8; 32], &[9; 32]);
        let query = Ciphertext { c0: seeded.c0, c1: sampling::uniform(basis, &seeded.seed, 0) };
        expand(parameters, keys, query, selectors, levels)
            .into_iter()
            .map(|leaf| key.decrypt(parameters, &leaf.into_coefficient(basis), BITS).to_vec())
            .collect()
    }

    fn check(&self, index: usize, selectors: usize, levels: u32) {
        let degree = self.parameters.degree();
        let mut message = vec![0; degree];
        message[position(index, levels)] = 1;
        for (i, leaf) in self.leaves(&message, selectors, levels).iter().enumerate() {
            let mut expected = vec![0; degree];
            expected[0] = u64::from(i == index);
            assert!(*leaf == expected, "leaf {i} for index {index} of {selectors}, {levels} levels");
        }
    }
}

#[test]
fn every_index_of_every_small_size_expands_to_its_own_leaf() {
    let client = Client::new(16);
    for levels in 0..=4 {
        for selectors in 1..=1 << levels {
            for index in 0..selectors {
                client.check(index, selectors, levels);
            }
        }
    }
}

#[test]
fn sampled_indices_of_large_sizes_expand_to_their_own_leaf() {
    let client = Client::new(4096);
    for (selectors, levels) in [(1, 4), (33, 9), (100, 10)] {
        let mut rng = ChaCha20Rng::seed_from_u64(selectors as u64);
        for index in [0, selectors - 1, rng.next_u32() as usize % selectors] {
            client.check(index, selectors, levels);
        }
    }
    client.check(150, 320, 12);
}

/// Keeps failing seeds next to the test.
fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::with_cases(24) }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn leaves_hold_the_coefficients_of_their_residue_class(seed in any::<u64>(), log2 in 3u32..7, levels in 0u32..7) {
        let (degree, levels) = (1usize << log2, levels.min(log2));
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let message: Vec<i64> = (0..degree).map(|_| i64::from(rng.next_u32() % (1 << BITS))).collect();
        let leaves = Client::new(degree).leaves(&message, 1 << levels, levels);
        for (i, leaf) in leaves.iter().enumerate() {
            let mut expected = vec![0; degree];
            for m in (0..degree).step_by(1 << levels) {
                expected[m] = message[m + position(i, levels)] as u64;
            }
            prop_assert_eq!(leaf, &expected);
        }
    }
}

#[test]
fn the_tree_is_pruned_to_the_selectors() {
    for levels in 0..=8 {
        for selectors in 1..=1usize << levels {
            // Inner nodes are the proper prefixes of the leaves' paths.
            let nodes: BTreeSet<(u32, usize)> =
                (0..selectors).flat_map(|i| (1..=levels).map(move |height| (height, i >> height))).collect();
            assert_eq!(substitutions(selectors, levels), nodes.len());
        }
    }
    // With consecutive slots instead of bit-reversed ones, this would be 259.
    assert_eq!(substitutions(158, 11), 163);
}
