//! The exact confidence interval of a rare event's probability.

use statrs::function::beta::checked_beta_reg;

/// Clopper and Pearson's interval of 95 %: the probabilities for which neither so few nor so many hits would have a
/// chance below 2.5 %.
pub(crate) fn clopper_pearson(hits: u64, trials: u64) -> [f64; 2] {
    const TAIL: f64 = 0.025;
    let low = if hits == 0 { 0.0 } else { crossing(|p| at_least(hits, trials, p) >= TAIL) };
    let high = if hits == trials { 1.0 } else { crossing(|p| at_least(hits + 1, trials, p) >= 1.0 - TAIL) };
    [low, high]
}

/// The probability from which on the predicate holds; 1 if it never does.
fn crossing(holds: impl Fn(f64) -> bool) -> f64 {
    // Bisection of the exponent: probabilities of interest are close to 0.
    let (mut low, mut high) = (-200.0, 0.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle.exp2()) { high = middle } else { low = middle }
    }
    high.exp2()
}

/// The chance of so many hits, of which there is at least one, or more: a distribution function of the beta distribution.
fn at_least(hits: u64, trials: u64, probability: f64) -> f64 {
    let (hit, missed) = (hits as f64, (trials - hits) as f64);
    checked_beta_reg(hit, missed + 1.0, probability).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::clopper_pearson;

    /// Of an interval that is too narrow a reader concludes too much. The values are those of the usual tables.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (hits, trials, expected) in [
            (0, 10, [0.0, 0.3085]),
            (1, 10, [0.002_529, 0.4450]),
            (5, 10, [0.1871, 0.8129]),
            (10, 10, [0.6915, 1.0]),
            (4, 200, [0.005_475, 0.050_41]),
        ] {
            let interval = clopper_pearson(hits, trials);
            for (bound, expected) in interval.iter().zip(expected) {
                assert!((bound - expected).abs() <= 1e-3 * expected, "{hits} of {trials}: {interval:?}");
            }
        }
        // Rare events follow Poisson's distribution: 3.689 / n for none, 0.2422 / n to 7.225 / n for two.
        let [_, high] = clopper_pearson(0, 100_000_000);
        assert!((high * 1e8 - 3.689).abs() < 2e-3);
        let [low, high] = clopper_pearson(2, 100_000_000);
        assert!((low * 1e8 - 0.2422).abs() < 1e-3 && (high * 1e8 - 7.225).abs() < 4e-3);
        // Many hits, where single terms would leave the range of numbers: the normal approximation.
        let [low, high] = clopper_pearson(40_000, 10_000_000);
        assert!(
            (low - (4e-3 - 1.96e-5 * 1.996)).abs() < 2e-7 && (high - (4e-3 + 1.96e-5 * 1.996)).abs() < 2e-7
        );
    }
}
