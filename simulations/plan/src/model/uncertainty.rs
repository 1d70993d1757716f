//! How well constants are known.

use serde::{Deserialize, Serialize};

/// Relative deviations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    /// Standard deviation of repeated runs, the root of the mean square over all sizes.
    pub spread: f64,
    /// Of the model at sizes that it was not fitted to, the root of the mean square.
    pub residual: f64,
}

impl Uncertainty {
    /// Both together, as of independent errors.
    pub(crate) fn total(&self) -> f64 {
        self.spread.hypot(self.residual)
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The root of the mean of the relative variances of all groups.
pub(super) fn spread(groups: impl Iterator<Item = Vec<f64>>) -> f64 {
    let variances: Vec<f64> = groups
        .filter(|values| values.len() > 1)
        .map(|values| {
            let mean = mean(&values);
            let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
            squares / (values.len() - 1) as f64
        })
        .collect();
    (variances.iter().sum::<f64>() / variances.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{Uncertainty, spread};

    #[test]
    fn the_spread_is_relative_and_both_errors_add_as_squares() {
        let groups = [vec![9.0, 11.0], vec![0.9, 1.1], vec![5.0]];
        // Each pair: (0.1^2 + 0.1^2) / 1.
        assert!((spread(groups.into_iter()) - 0.02_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Uncertainty { spread: 3.0, residual: 4.0 }.total(), 5.0);
    }
}
