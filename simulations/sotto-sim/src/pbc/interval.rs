//! The exact confidence interval of a rare event's probability.

/// Clopper and Pearson's interval of 95 %: the probabilities for which neither so few nor so many hits would have a
/// chance below 2.5 %.
pub(crate) fn clopper_pearson(hits: u64, trials: u64) -> [f64; 2] {
    const TAIL: f64 = 0.025;
    let low = if hits == 0 { 0.0 } else { crossing(|p| 1.0 - at_most(hits - 1, trials, p) >= TAIL) };
    let high = if hits == trials { 1.0 } else { crossing(|p| at_most(hits, trials, p) <= TAIL) };
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

/// The probability of at most so many hits.
fn at_most(hits: u64, trials: u64, probability: f64) -> f64 {
    if probability >= 1.0 {
        return if hits >= trials { 1.0 } else { 0.0 };
    }
    let n = trials as f64;
    let (hit, miss) = (probability.ln(), (-probability).ln_1p());
    // Logarithms of the terms, from the last one down to where they no longer count.
    let mut term = ln_binomial(n, hits as f64) + hits as f64 * hit + (n - hits as f64) * miss;
    let mut sum = term;
    for i in (1..=hits).map(|i| i as f64).rev() {
        term += (i / (n - i + 1.0)).ln() + miss - hit;
        sum = sum.max(term) + (-(sum - term).abs()).exp().ln_1p();
        if term < sum - 45.0 && i < n * probability {
            break;
        }
    }
    sum.exp().min(1.0)
}

fn ln_binomial(n: f64, m: f64) -> f64 {
    ln_factorial(n) - ln_factorial(m) - ln_factorial(n - m)
}

/// Stirling's series; exact sums for small numbers.
fn ln_factorial(n: f64) -> f64 {
    if n < 30.0 {
        return (1..=n as u32).map(|i| f64::from(i).ln()).sum();
    }
    n * n.ln() - n + 0.5 * (core::f64::consts::TAU * n).ln() + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
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
