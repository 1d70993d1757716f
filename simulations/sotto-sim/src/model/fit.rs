//! Constants from measurements: the least squares of relative errors, no constant negative.

/// `sum_i features[i] constants[i]`.
pub(super) fn predict(features: &[f64], constants: &[f64]) -> f64 {
    features.iter().zip(constants).map(|(feature, constant)| feature * constant).sum()
}

/// The constants with the least squares of `predict / value - 1` over all points of features and value.
///
/// Where a constant would be negative, which no cost is, it is 0 and the others are fitted alone.
pub(super) fn fit<const M: usize>(points: &[([f64; M], f64)]) -> [f64; M] {
    let mut used = [true; M];
    loop {
        let at: Vec<usize> = (0..M).filter(|i| used[*i]).collect();
        let scaled: Vec<Vec<f64>> = points
            .iter()
            .map(|(features, value)| at.iter().map(|i| features[*i] / value).collect())
            .collect();
        let solution = least_squares(&scaled);
        let mut constants = [0.0; M];
        at.iter().zip(&solution).for_each(|(i, constant)| constants[*i] = *constant);
        match (0..M).filter(|i| constants[*i] < 0.0).min_by(|a, b| constants[*a].total_cmp(&constants[*b])) {
            Some(negative) => used[negative] = false,
            None => return constants,
        }
    }
}

/// The x for which `sum of (row x - 1)^2` is least, by the normal equations.
fn least_squares(rows: &[Vec<f64>]) -> Vec<f64> {
    let m = rows.first().map_or(0, Vec::len);
    let mut system: Vec<Vec<f64>> = (0..m)
        .map(|i| {
            let product = |j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f64>();
            (0..m).map(product).chain([rows.iter().map(|row| row[i]).sum()]).collect()
        })
        .collect();
    for pivot in 0..m {
        let best = (pivot..m).max_by(|a, b| system[*a][pivot].abs().total_cmp(&system[*b][pivot].abs()));
        system.swap(pivot, best.unwrap_or(pivot));
        let row = system[pivot].clone();
        if row[pivot] == 0.0 {
            continue;
        }
        for (_, other) in system.iter_mut().enumerate().filter(|(i, _)| *i != pivot) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(&row).for_each(|(cell, of)| *cell -= factor * of);
        }
    }
    (0..m).map(|i| if system[i][i] == 0.0 { 0.0 } else { system[i][m] / system[i][i] }).collect()
}

/// The root of the mean square of relative errors, of predictions beside what was measured.
pub(super) fn residual(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let squares: Vec<f64> = pairs.map(|(predicted, measured)| (predicted / measured - 1.0).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{fit, predict, residual};

    #[test]
    fn constants_come_back_from_what_they_predict() {
        let point = |x: f64, y: f64| ([1.0, x, y], predict(&[1.0, x, y], &[3.0, 0.5, 2.0]));
        let constants = fit(&[point(1.0, 5.0), point(100.0, 7.0), point(20.0, 1.0), point(3.0, 30.0)]);
        for (found, made) in constants.into_iter().zip([3.0, 0.5, 2.0]) {
            assert!((found - made).abs() < 1e-9, "{constants:?}");
        }
    }

    /// A negative cost would make large rounds look cheap.
    #[test]
    fn no_constant_is_negative() {
        let constants = fit(&[([1.0, 1.0], 0.1), ([1.0, 2.0], 1.1), ([1.0, 3.0], 2.1)]);
        assert!(constants[0] == 0.0 && constants[1] > 0.0, "{constants:?}");
    }

    #[test]
    fn residuals_are_relative() {
        assert!((residual([(110.0, 100.0), (0.9, 1.0)].into_iter()) - 0.1).abs() < 1e-12);
    }
}
