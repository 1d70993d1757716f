//! Statistics of the cuckoo code, with fixed seeds: the same verdict on every run.

use pbc::{BatchCode, CuckooCode, PartitionedCode};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Expected chi-square is the number of degrees of freedom, its standard deviation sqrt(2 * that); five of them.
fn assert_uniform(counts: &[u64], what: &str) {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{what}: chi-square {chi} for {freedom}");
}

/// Unequal buckets would need more padding than calculated, dependent choices more deferrals.
#[test]
fn candidates_are_distinct_and_uniform() {
    for (b, w) in [(24, 3), (21, 4), (8, 8), (3, 2), (384, 3)] {
        let code = CuckooCode::new(2, b, w, [b as u8; 32]).unwrap();
        let mut first = vec![0; b];
        let mut last = vec![0; b];
        let mut steps = vec![0; b - 1];
        for key in 0..40_000_u32 {
            let candidates = code.candidates(&key.to_le_bytes());
            assert_eq!(candidates.len(), w);
            let drawn: Vec<usize> = candidates.iter().map(|bucket| bucket.to_usize()).collect();
            assert!(drawn.iter().enumerate().all(|(i, bucket)| *bucket < b && !drawn[..i].contains(bucket)));
            first[drawn[0]] += 1;
            last[drawn[w - 1]] += 1;
            steps[(drawn[1] + b - drawn[0]) % b - 1] += 1;
        }
        assert_uniform(&first, "first candidate");
        assert_uniform(&last, "last candidate");
        if b > 2 {
            assert_uniform(&steps, "distance of the first two candidates");
        }
    }
}

/// The client's window around the interpolated rank holds the position only if the order is uniform and does not
/// depend on the bucket.
#[test]
fn position_is_close_to_the_interpolated_rank() {
    let code = CuckooCode::new(16, 32, 3, [8; 32]).unwrap();
    let keys: Vec<[u8; 4]> = (0..40_000_u32).map(u32::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let encoding = code.encode(&keys);
    let mut orders = vec![0; 64];
    for key in &keys {
        orders[(code.order(key) >> 58) as usize] += 1;
    }
    assert_uniform(&orders, "top bits of the order");
    for bucket in encoding.buckets() {
        let length = bucket.len() as f64;
        for (position, codeword) in bucket.iter().enumerate() {
            let order = code.order(keys[codeword.elements()[0] as usize]);
            let rank = order as f64 / 2_f64.powi(64) * length;
            assert!((rank - position as f64).abs() <= 6.0 * length.sqrt() / 2.0);
        }
    }
}

/// Publishing another seed must reshuffle everything: a collision of keys prepared for one seed is worth nothing.
#[test]
fn another_seed_gives_independent_candidates() {
    let one = CuckooCode::new(16, 24, 3, [1; 32]).unwrap();
    let other = CuckooCode::new(16, 24, 3, [2; 32]).unwrap();
    let mut steps = vec![0; 24];
    for key in 0..40_000_u32 {
        let key = key.to_le_bytes();
        steps[(one.candidates(&key)[0].to_usize() + 24 - other.candidates(&key)[0].to_usize()) % 24] += 1;
        assert_ne!(one.order(&key), other.order(&key));
    }
    assert_uniform(&steps, "shift between seeds");
}

/// 16 keys in 24 buckets fail with 2.6e-4 (4 million trials of another program: 1,057 failures). Coinciding candidates
/// or a search that gives up would show as a multiple of that, a test that never sees a failure as zero.
#[test]
fn failure_rate_is_that_of_optimal_matching() {
    let code = CuckooCode::new(16, 24, 3, [16; 32]).unwrap();
    let trials = 200_000_u64;
    let mut failures = 0;
    let mut deferred = 0;
    for trial in 0..trials {
        let keys: [[u8; 8]; 16] = core::array::from_fn(|i| (trial * 16 + i as u64).to_le_bytes());
        let keys: [&[u8]; 16] = core::array::from_fn(|i| keys[i].as_slice());
        let schedule = code.schedule(&keys, &|_, _| true);
        failures += u64::from(!schedule.is_complete());
        deferred += schedule.deferred().count();
    }
    // Expected 52.8 with a standard deviation of 7.3: four of them either way.
    assert!((24..=82).contains(&failures), "{failures} failures in {trials} trials");
    assert!(
        deferred as u64 <= failures + failures / 10 + 1,
        "{deferred} keys deferred in {failures} failures"
    );
}

/// Whoever sees from which of its places an index was read must not learn what else was wanted.
#[test]
fn each_place_of_an_index_serves_it_as_often_whatever_else_is_wanted() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut served = [[0_u64; 3]; 2];
    for trial in 0..12_000_u32 {
        // A new seed for each: no bucket is wanted by more than two of these, hence by at most as many as there are places.
        let code =
            PartitionedCode::new(2, 6, 3, 33, trial.to_le_bytes().repeat(8).try_into().unwrap()).unwrap();
        for (world, wanted) in [&[7_u32][..], &[7, 20]].into_iter().enumerate() {
            let keys: Vec<[u8; 8]> =
                wanted.iter().map(|index| PartitionedCode::key((*index).into())).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            let schedule = code.schedule_drawn(&keys, &mut || rng.next_u64());
            let bucket = schedule.assignment(0)[0];
            let place = code.places(7).into_iter().position(|(place, _)| place == bucket).unwrap();
            served[world][place] += 1;
        }
    }
    for (served, world) in served.iter().zip(["alone", "beside another"]) {
        assert_uniform(served, world);
    }
}

/// Places are drawn from a seed that nobody knows who chooses slots: no choice of slots makes them collide more often than
/// chance does.
#[test]
fn chosen_indices_are_served_as_often_as_random_ones() {
    const K: usize = 14;
    const N: u32 = 4 * 1056;
    const TRIALS: u64 = 8_000;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut failures = [0_u64; 7];
    for trial in 0..TRIALS {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&trial.to_le_bytes());
        let code = PartitionedCode::new(K, 15, 3, N as usize, seed).unwrap();
        let (b, k) = (15 / 3, K as u32);
        let mut random = std::collections::BTreeSet::new();
        while random.len() < K {
            random.insert(rng.next_u32() % N);
        }
        let sets: [Vec<u32>; 7] = [
            random.into_iter().collect(),
            (0..k).collect(),
            (0..k).map(|i| b * i).collect(),
            (0..k).map(|i| 33 * i + 5).collect(),
            (0..k).map(|i| N - 1 - 32 * i).collect(),
            (0..k).map(|i| (i * i * i + 7 * i) % N).collect(),
            // The rows and columns of the network are near the root of the domain.
            (0..k).map(|i| 65 * i).collect(),
        ];
        for (failures, set) in failures.iter_mut().zip(&sets) {
            let keys: Vec<[u8; 8]> = set.iter().map(|index| PartitionedCode::key((*index).into())).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            *failures += u64::from(!code.schedule(&keys, &|_, _| true).is_complete());
        }
    }
    // Differences of two counts near `f` have a deviation of `sqrt(2 f)`; five of them.
    let random = failures[0] as f64;
    assert!(random > 300.0, "{failures:?}");
    assert!(
        failures.iter().all(|chosen| (*chosen as f64 - random).abs() < 5.0 * (2.0 * random).sqrt()),
        "{failures:?}"
    );
}
