//! How many buckets a batch needs.

use crate::cuckoo_bound_log2;

/// The number of buckets for reverse cuckoo hashing with `w` distinct candidates and a batch of `k` keys; `None` where
/// no failure rate is known.
///
/// * `w = 3`: a batch cannot be scheduled completely with probability at most 2^-20, for `k <= 600`; beyond, `1.5 k`
///   buckets are given as well, whose failures get rarer with `k`, but nobody has computed them.
/// * `w = 4`: at most 2^-40, for `k <= 256`.
/// * `k = 1`, any `w`: one bucket, which holds the database unencoded; never fails.
///
/// The paper's `b = 1.5 k` with `w = 3` suits large batches only: 16 keys and 24 buckets fail with 2.6e-4. Other
/// targets and codes: [`choose_buckets`].
pub fn recommended_buckets(k: usize, w: usize) -> Option<usize> {
    match (k, w) {
        (1, _) => Some(1),
        (2..=8, 3) => Some(3 * k),
        (9..64, 3) => interpolate(&SIMULATED_3, k),
        (64.., 3) => k.checked_add(k.div_ceil(2)).filter(|b| u32::try_from(*b).is_ok()),
        (2..=7, 4) => Some(3 * k),
        (8.., 4) => interpolate(&BOUNDED_4, k),
        _ => None,
    }
}

/// The two codes whose buckets serve one key each, and whose number is to be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// [`crate::CuckooCode`], with matching.
    Cuckoo,
    /// [`crate::PartitionedCode`].
    Partitioned,
}

/// How it is known that a number of buckets keeps the failure probability below the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provenance {
    /// Nothing can fail.
    Certain,
    /// The rigorous bound, [`crate::cuckoo_bound_log2`] or [`crate::partitioned_bound_log2`], is below it.
    Bound,
    /// Batches were tried: the failures counted are below it, but no proof is known.
    Simulation,
    /// It lies between two numbers that are known, and nobody has counted it.
    Interpolated,
}

/// A number of buckets, and how it is known to be enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The number `b` of buckets.
    pub buckets: usize,
    /// Why they are enough.
    pub provenance: Provenance,
}

/// The number of buckets with which batches of `k` keys with `w` candidates each fail with at most `2^target_log2`.
///
/// Tables have the targets -20 and -40; another target gets the table of the next lower one. `None` below -40, and
/// where no number is known: for cuckoo that is beyond `w` = 3, 4, 5 and `k` = 256 (600 for `w = 3` and -20), for the
/// partitioned code also for `w = 3` and -40 and for `w = 5` and -20, where `w = 4` is better.
pub fn choose_buckets(family: Family, k: usize, w: usize, target_log2: f64) -> Option<Choice> {
    let choice = |buckets, provenance| Some(Choice { buckets, provenance });
    let rare = target_log2 < -20.0;
    if k == 0 || target_log2 < -40.0 || target_log2.is_nan() {
        return None;
    }
    if k == 1 {
        // One bucket holds everything; groups need one each.
        return choice(if family == Family::Cuckoo { 1 } else { w }, Provenance::Certain).filter(|_| w > 0);
    }
    let bounded = |table| interpolate(table, k).and_then(|b| choice(b, Provenance::Bound));
    match (family, w, rare) {
        (Family::Cuckoo, 3, false) if k <= 600 => {
            let buckets = recommended_buckets(k, 3)?;
            let provenance = if cuckoo_bound_log2(k, buckets, 3) <= -20.0 {
                Provenance::Bound
            } else if COUNTED_3.contains(&k) {
                Provenance::Simulation
            } else {
                Provenance::Interpolated
            };
            choice(buckets, provenance)
        }
        (Family::Cuckoo, 4, true) => choice(recommended_buckets(k, 4)?, Provenance::Bound),
        (Family::Cuckoo, 3, true) => bounded(&CUCKOO_3_40),
        (Family::Cuckoo, 4, false) => bounded(&CUCKOO_4_20),
        (Family::Cuckoo, 5, false) => bounded(&CUCKOO_5_20),
        (Family::Cuckoo, 5, true) => bounded(&CUCKOO_5_40),
        (Family::Partitioned, 3, false) if k == 16 => choice(PARTITIONED_3_20_FOR_16, Provenance::Simulation),
        (Family::Partitioned, 3, false) => bounded(&PARTITIONED_3_20),
        (Family::Partitioned, 4, false) => bounded(&PARTITIONED_4_20),
        (Family::Partitioned, 4, true) => bounded(&PARTITIONED_4_40),
        (Family::Partitioned, 5, true) => bounded(&PARTITIONED_5_40),
        _ => None,
    }
    .map(|choice| match family {
        Family::Cuckoo => choice,
        Family::Partitioned => Choice { buckets: choice.buckets.next_multiple_of(w), ..choice },
    })
}

/// Batch sizes and buckets for cuckoo, `w = 3`, 2^-20. For few keys and for many the bound shows it; between them,
/// simulations of 6e7 to 3e8 batches each do at some sizes, failures in units of 1e-7 (2^-20 is 9.5):
///
/// | k | 9 | 12 | 14 | 16 | 20 | 24 | 32 | 48 | 64 |
/// |---|---|---|---|---|---|---|---|---|---|
/// | b | 25 | 28 | 30 | 32 | 38 | 44 | 56 | 76 | 96 |
/// | failures | 1.1 | 2.9 | 4.6 | 8.3 | 6.6 | 4.0 | 1.5 | 0.7 | 0.2 |
///
/// `sotto-sim pbc --k K --b B --trials N` counts them again; docs/PARAMETERS.md has counts with their seeds, and a
/// later count for 16 (7.7).
const SIMULATED_3: [(usize, usize); 4] = [(8, 24), (16, 32), (32, 56), (64, 96)];

/// The batch sizes of that table.
const COUNTED_3: [usize; 9] = [9, 12, 14, 16, 20, 24, 32, 48, 64];

/// Batch sizes and buckets for cuckoo, `w = 4`, 2^-40: with these, with those of the tables below and with all
/// interpolated numbers the bounds hold, by the tests: `sotto-sim pbc --k K --b B --w W --bound` states each of them.
const BOUNDED_4: [(usize, usize); 7] =
    [(8, 21), (16, 32), (32, 51), (64, 89), (96, 127), (128, 163), (256, 308)];

/// Batch sizes and buckets, in ascending order.
type Table = [(usize, usize); 10];

#[rustfmt::skip]
const CUCKOO_3_40: Table = [
    (2, 3), (4, 42), (8, 69), (16, 98), (32, 140), (64, 189), (96, 228), (128, 259), (192, 312), (256, 371),
];
#[rustfmt::skip]
const CUCKOO_4_20: Table = [
    (2, 4), (4, 5), (8, 12), (16, 23), (32, 42), (64, 80), (96, 118), (128, 155), (192, 227), (256, 299),
];
#[rustfmt::skip]
const CUCKOO_5_20: Table = [
    (2, 5), (4, 5), (8, 10), (16, 20), (32, 37), (64, 72), (96, 107), (128, 141), (192, 210), (256, 279),
];
#[rustfmt::skip]
const CUCKOO_5_40: Table = [
    (2, 5), (4, 5), (8, 16), (16, 25), (32, 43), (64, 77), (96, 112), (128, 147), (192, 216), (256, 285),
];
/// Fewer than the bound allows for the usual 16 keys: of 10^9 batches 879 failed, 8.8e-7 (95 %: 8.2e-7 to 9.4e-7; 2^-20 is
/// 9.5e-7). With 33 they fail more often than that. docs/PARAMETERS.md has the command.
const PARTITIONED_3_20_FOR_16: usize = 36;

#[rustfmt::skip]
const PARTITIONED_3_20: Table = [
    (2, 6), (4, 15), (8, 24), (16, 39), (32, 57), (64, 96), (96, 138), (128, 180), (192, 261), (256, 345),
];
#[rustfmt::skip]
const PARTITIONED_4_20: Table = [
    (2, 12), (4, 12), (8, 16), (16, 24), (32, 44), (64, 80), (96, 116), (128, 152), (192, 224), (256, 296),
];
#[rustfmt::skip]
const PARTITIONED_4_40: Table = [
    (2, 12), (4, 20), (8, 32), (16, 40), (32, 52), (64, 88), (96, 124), (128, 160), (192, 232), (256, 304),
];
#[rustfmt::skip]
const PARTITIONED_5_40: Table = [
    (2, 15), (4, 15), (8, 20), (16, 30), (32, 45), (64, 80), (96, 115), (128, 145), (192, 215), (256, 285),
];

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
    use super::{Choice, Family, Provenance, choose_buckets, recommended_buckets};
    use crate::{cuckoo_bound_log2, partitioned_bound_log2};

    /// Every entry that claims a proof, and every number between the entries.
    #[test]
    fn choices_keep_the_bound_they_claim() {
        for (family, w, target) in [
            (Family::Cuckoo, 3, -20.0),
            (Family::Cuckoo, 3, -40.0),
            (Family::Cuckoo, 4, -20.0),
            (Family::Cuckoo, 4, -40.0),
            (Family::Cuckoo, 5, -20.0),
            (Family::Cuckoo, 5, -40.0),
            (Family::Partitioned, 3, -20.0),
            (Family::Partitioned, 4, -20.0),
            (Family::Partitioned, 4, -40.0),
            (Family::Partitioned, 5, -40.0),
        ] {
            // All small batches; of the large ones, whose bounds take long, some.
            for k in (2..=64).chain((65..=256).step_by(if family == Family::Cuckoo { 1 } else { 7 })) {
                let Choice { buckets, provenance } = choose_buckets(family, k, w, target).unwrap();
                let bound = match family {
                    Family::Cuckoo => cuckoo_bound_log2(k, buckets, w),
                    Family::Partitioned => partitioned_bound_log2(k, buckets, w),
                };
                // Between 14 and 93 keys with three candidates the bound is too weak.
                let known = !matches!(provenance, Provenance::Simulation | Provenance::Interpolated);
                let holds = bound <= target || (!known && w == 3 && (14..=93).contains(&k));
                assert!(
                    holds && buckets >= k.max(w),
                    "{family:?}, w = {w}, k = {k}, b = {buckets}: 2^{bound}"
                );
            }
        }
    }

    /// A target nobody knows how to reach must not be answered with a lesser one.
    #[test]
    fn targets_are_kept_or_refused() {
        let buckets = |target| choose_buckets(Family::Cuckoo, 16, 4, target).map(|choice| choice.buckets);
        assert_eq!([-10.0, -20.0, -20.5, -40.0].map(buckets), [Some(23), Some(23), Some(32), Some(32)]);
        assert_eq!([-40.5, f64::NEG_INFINITY, f64::NAN].map(buckets), [None; 3]);
        for (family, k, w) in [
            (Family::Cuckoo, 0, 3),
            (Family::Cuckoo, 16, 2),
            (Family::Cuckoo, 601, 3),
            (Family::Cuckoo, 257, 4),
            (Family::Partitioned, 1, 0),
            (Family::Partitioned, 257, 4),
        ] {
            assert_eq!(choose_buckets(family, k, w, -20.0), None);
        }
        let certain = |buckets| Some(Choice { buckets, provenance: Provenance::Certain });
        assert_eq!(choose_buckets(Family::Cuckoo, 1, 3, -40.0), certain(1));
        assert_eq!(choose_buckets(Family::Partitioned, 1, 4, -40.0), certain(4));
    }

    /// What stands in the tables, and between two entries: whether it keeps what it claims takes longer to see.
    #[test]
    fn choices_are_those_of_the_tables() {
        let chosen = |family, w, target| {
            [2, 16, 256, 600].map(|k| choose_buckets(family, k, w, target).map_or(0, |choice| choice.buckets))
        };
        for (w, cuckoo, partitioned) in [
            (3, [[6, 32, 384, 900], [3, 98, 371, 0]], [[6, 36, 345, 0], [0; 4]]),
            (4, [[4, 23, 299, 0], [6, 32, 308, 0]], [[12, 24, 296, 0], [12, 40, 304, 0]]),
            (5, [[5, 20, 279, 0], [5, 25, 285, 0]], [[0; 4], [15, 30, 285, 0]]),
        ] {
            assert_eq!([-20.0, -40.0].map(|target| chosen(Family::Cuckoo, w, target)), cuckoo);
            assert_eq!([-20.0, -40.0].map(|target| chosen(Family::Partitioned, w, target)), partitioned);
        }
        let of_three = |k| choose_buckets(Family::Cuckoo, k, 3, -20.0).unwrap().provenance;
        let known = [Provenance::Bound, Provenance::Simulation, Provenance::Interpolated, Provenance::Bound];
        assert_eq!([13, 16, 17, 94].map(of_three), known);
    }

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
