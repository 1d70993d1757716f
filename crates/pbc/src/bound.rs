//! Rigorous upper bounds on the probability that a batch cannot be served, where no simulation reaches.
//!
//! If `k` keys cannot all be served, some minimal set of `s` of them has only `s - 1` candidate buckets in all, every
//! one of which is a candidate of at least two of the keys (Hall). Both bounds are the expected number of such sets.

/// The logarithm to base 2 of a bound for `k` keys with `w` distinct candidates among `b` buckets, all choices equally
/// likely ([`crate::CuckooCode`]); NaN unless `1 <= w <= b`.
///
/// Of the `C(b, w)^s` choices of `s` keys, those that use `s - 1` given buckets, each at least twice, are at most the
/// lesser of `C(s - 1, w)^s` and `(w s)! [x^(w s)] (e^x - 1 - x)^(s - 1) / w!^s`, the number of ways to put `w s` marked
/// balls into `s - 1` buckets with two or more in each; the coefficient is at most the function over `x^(w s)` for every
/// positive `x`.
pub fn cuckoo_bound_log2(k: usize, b: usize, w: usize) -> f64 {
    if w == 0 || b < w {
        return f64::NAN;
    }
    let factorials = ln_factorials((w * k).max(b));
    let choose = |n: usize, m: usize| factorials[n] - factorials[m] - factorials[n - m];
    let term = |s: usize| {
        let (keys, balls) = (s as f64, (w * s) as f64);
        let all = keys * choose(s - 1, w);
        let at = |x: f64| (keys - 1.0) * (x.exp_m1() - x).ln() - balls * x.ln();
        let saddle = (1..400).map(|i| at(f64::from(i) * 0.05)).fold(f64::INFINITY, f64::min);
        let twice = factorials[w * s] + saddle - keys * factorials[w];
        choose(k, s) + choose(b, s - 1) + all.min(twice) - keys * choose(b, w)
    };
    // A minimal violator of s keys has s - 1 buckets, so s is at most b + 1.
    let sets = (w + 1..=k.min(b + 1)).map(term).map(f64::exp).sum::<f64>();
    sets.min(1.0).log2()
}

/// The logarithm to base 2 of a bound for `k` keys with a uniform candidate in each of `w` groups of `b / w` buckets
/// ([`crate::PartitionedCode`]); NaN unless `w` divides `b` and both are positive.
///
/// In group `j` the `s` keys use `t_j` buckets, each at least twice, with `t_1 + ... + t_w = s - 1`; there are `C(b / w,
/// t_j)` such sets of buckets, and the `s` keys have `t_j! S2(s, t_j)` of `(b / w)^s` ways to do so, where `S2` are the
/// associated Stirling numbers of the second kind. All of it is summed exactly, in floating point.
pub fn partitioned_bound_log2(k: usize, b: usize, w: usize) -> f64 {
    // Nothing but 0 is a multiple of 0.
    if b == 0 || !b.is_multiple_of(w) {
        return f64::NAN;
    }
    let group = b / w;
    let factorials = ln_factorials(k.max(group));
    let choose = |n: usize, m: usize| factorials[n] - factorials[m] - factorials[n - m];
    // Of s keys: the probability of using exactly t given buckets of the group, each at least twice. The recurrence is
    // that of t! S2(s, t) over group^s: the last key's bucket has two keys, or more.
    let mut exactly = vec![vec![0.0; group + 1]; k + 1];
    exactly[0][0] = 1.0;
    for s in 1..=k {
        for t in 1..=group {
            let more = t as f64 * exactly[s - 1][t];
            let two = if s >= 2 { ((s - 1) * t) as f64 * exactly[s - 2][t - 1] / group as f64 } else { 0.0 };
            exactly[s][t] = (more + two) / group as f64;
        }
    }
    let sets = |s: usize| {
        let buckets = |t: usize| choose(group, t).exp() * exactly[s][t];
        // Of more buckets than that not each has two keys, and there may be more ways to choose them than a number holds.
        let of_group: Vec<f64> = (0..=group.min(s / 2)).map(buckets).collect();
        // The distribution of t_1 + ... + t_w, up to s - 1.
        let mut total = vec![1.0];
        for _ in 0..w {
            let mut next = vec![0.0; (total.len() + of_group.len() - 1).min(s)];
            for (i, before) in total.iter().enumerate() {
                for (t, ways) in of_group.iter().enumerate().take(s - i) {
                    next[i + t] += before * ways;
                }
            }
            total = next;
        }
        let all_used = total.get(s - 1).copied().unwrap_or(0.0);
        choose(k, s).exp() * all_used
    };
    (1..=k).map(sets).sum::<f64>().min(1.0).log2()
}

/// The logarithms of 0! to n!.
fn ln_factorials(n: usize) -> Vec<f64> {
    let sums = (1..=n).scan(0.0, |sum, i| {
        *sum += (i as f64).ln();
        Some(*sum)
    });
    core::iter::once(0.0).chain(sums).collect()
}

#[cfg(test)]
mod tests {
    use super::{cuckoo_bound_log2, partitioned_bound_log2};

    /// The bound must be able to fail, and must lie above what simulations show: 2^-11.9 and 2^-20.4.
    #[test]
    fn the_cuckoo_bound_lies_above_the_simulations() {
        assert!((-11.9..-8.0).contains(&cuckoo_bound_log2(16, 24, 3)));
        assert!((-20.2..-18.0).contains(&cuckoo_bound_log2(16, 32, 3)));
        assert!(cuckoo_bound_log2(3, 2, 3).is_nan());
        assert!((cuckoo_bound_log2(2, 1, 1)).abs() < 1e-9);
        assert!(cuckoo_bound_log2(3, 2, 0).is_nan());
    }

    /// Computed in another way, from the formula above with the gamma function: a bound that is lower by mistake would let a
    /// code with too few buckets pass.
    #[test]
    fn the_cuckoo_bound_is_what_its_formula_says() {
        for (k, b, w, log2) in [
            (5, 30, 4, -58.968_605_644_053_1),
            (12, 13, 3, -0.412_923_710_809_7),
            (16, 24, 3, -8.929_986_198_795_8),
            (16, 32, 3, -18.387_344_028_490_5),
            (40, 60, 4, -40.552_659_413_477_5),
            (64, 96, 3, -13.701_521_611_328_3),
            (100, 200, 4, -77.405_479_556_939_3),
        ] {
            let bound = cuckoo_bound_log2(k, b, w);
            assert!((bound - log2).abs() < 1e-6, "{k} {b} {w}: {bound}");
        }
    }

    /// Where the only violators are two keys in the same buckets the bound is their number, exactly.
    #[test]
    fn the_partitioned_bound_counts_small_violators() {
        // w = 1: two keys in one of ten buckets, or three or more in two or more, each with two: here only pairs.
        assert!((partitioned_bound_log2(2, 10, 1) - 0.1_f64.log2()).abs() < 1e-9);
        // w = 2, k = 3: three keys in one bucket of either group.
        assert!((partitioned_bound_log2(3, 20, 2) - (100.0 / 1e6_f64).log2()).abs() < 1e-9);
        for (k, b, w) in [(3, 20, 3), (3, 0, 3), (3, 20, 0), (3, 0, 0)] {
            assert!(partitioned_bound_log2(k, b, w).is_nan());
        }
        assert!(partitioned_bound_log2(16, 32, 4) > cuckoo_bound_log2(16, 32, 4));
        // More ways to choose buckets than a number holds, none of which counts.
        assert!(partitioned_bound_log2(256, 6000, 3) < -20.0);
    }

    /// Computed in another way, in rational numbers: over all t_1 to t_w, with the number of ways to put `s` keys into `t`
    /// buckets counted by how many the last one has.
    #[test]
    fn the_partitioned_bound_is_what_its_formula_says() {
        for (k, b, w, bound) in [
            (6, 12, 2, 0.035_248_136_081_898_085),
            (7, 12, 2, 0.091_476_927_530_530_5),
            (8, 24, 2, 0.006_362_536_302_750_634),
            (9, 24, 3, 1.739_552_930_958_823e-6),
            (5, 60, 1, 0.166_666_666_666_666_66),
            // More than one would be expected.
            (7, 3, 1, 1.0),
        ] {
            let computed = partitioned_bound_log2(k, b, w).exp2();
            assert!((computed / bound - 1.0).abs() < 1e-9, "{k} {b} {w}: {computed}");
        }
    }
}
