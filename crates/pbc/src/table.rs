//! How many buckets a batch needs.

/// The number of buckets for reverse cuckoo hashing with `w` distinct candidates and a batch of `k` keys; `None` where
/// no failure rate is known.
///
/// * `w = 3`: a batch cannot be scheduled completely with probability at most 2^-20.
/// * `w = 4`: at most 2^-40, for `k <= 256`.
/// * `k = 1`, any `w`: one bucket, which holds the database unencoded; never fails.
///
/// The paper's `b = 1.5 k` with `w = 3` suits large batches only: 16 keys and 24 buckets fail with 2.5e-4.
pub fn recommended_buckets(k: usize, w: usize) -> Option<usize> {
    match (k, w) {
        (0, _) => None,
        (1, _) => Some(1),
        (2..=8, 3) => Some(3 * k),
        (9..64, 3) => interpolate(&MEASURED_3, k),
        (64.., 3) => k.checked_add(k.div_ceil(2)).filter(|b| u32::try_from(*b).is_ok()),
        (2..=7, 4) => Some(3 * k),
        (8.., 4) => interpolate(&BOUNDED_4, k),
        _ => None,
    }
}

/// Batch sizes and buckets for `w = 3`. Up to 8 keys and from 112 on the bound in the tests below shows 2^-20; between
/// them simulations with optimal matching do, of 6e7 to 3e8 batches each, failures in units of 1e-7 (2^-20 is 9.5):
///
/// | k | 9 | 12 | 14 | 16 | 20 | 24 | 32 | 48 | 64 |
/// |---|---|---|---|---|---|---|---|---|---|
/// | b | 25 | 28 | 30 | 32 | 38 | 44 | 56 | 76 | 96 |
/// | failures | 1.1 | 2.9 | 4.6 | 8.3 | 6.6 | 4.0 | 1.5 | 0.7 | 0.2 |
const MEASURED_3: [(usize, usize); 4] = [(8, 24), (16, 32), (32, 56), (64, 96)];

/// Batch sizes and buckets for `w = 4`: with these and all interpolated numbers the union bound over minimal Hall
/// violators, in the tests below, is at most 2^-40.
const BOUNDED_4: [(usize, usize); 7] =
    [(8, 21), (16, 32), (32, 51), (64, 89), (96, 127), (128, 163), (256, 308)];

/// Linear between the entries around `k`, rounded up.
fn interpolate(table: &[(usize, usize)], k: usize) -> Option<usize> {
    table.windows(2).find_map(|entries| match *entries {
        [(low, at_low), (high, at_high)] if (low..=high).contains(&k) => {
            Some(at_low + ((k - low) * (at_high - at_low)).div_ceil(high - low))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::recommended_buckets;
    use crate::cuckoo_bound_log2;

    /// The promised 2^-40, for every batch size and not just the entries of the table.
    #[test]
    fn four_candidates_keep_the_rigorous_bound() {
        for k in 2..=256 {
            let b = recommended_buckets(k, 4).unwrap();
            let bound = cuckoo_bound_log2(k, b, 4);
            assert!(bound <= -40.0, "k = {k}, b = {b}: 2^{bound}");
        }
    }

    /// Three candidates at 2^-20: up to 8 keys and from 112 on the bound shows it, between them simulations do.
    #[test]
    fn three_candidates_keep_the_bound_where_it_is_tight() {
        for k in (2..=8).chain(112..=600) {
            let bound = cuckoo_bound_log2(k, recommended_buckets(k, 3).unwrap(), 3);
            assert!(bound <= -20.0, "k = {k}: 2^{bound}");
        }
    }

    /// Too few buckets lose messages; a table that is not monotonic hides a slip in it.
    #[test]
    fn recommendations_grow_with_the_batch() {
        for w in [3, 4] {
            for k in 1..=255 {
                let (b, next) = (recommended_buckets(k, w).unwrap(), recommended_buckets(k + 1, w).unwrap());
                assert!(b <= next, "w = {w}, k = {k}");
            }
        }
        let of_three = [1, 2, 8, 12, 16, 32, 64, 256].map(|k| recommended_buckets(k, 3).unwrap());
        assert_eq!(of_three, [1, 6, 24, 28, 32, 56, 96, 384]);
    }

    /// Where nothing is known nothing is recommended.
    #[test]
    fn unknown_combinations_have_no_recommendation() {
        for (k, w) in [(0, 3), (2, 2), (16, 5), (257, 4), (usize::MAX, 3), (usize::MAX, 4)] {
            assert_eq!(recommended_buckets(k, w), None);
        }
    }
}
