//! Constants from measurements: the least squares of relative errors, no constant negative.

/// What a part takes that has these features.
pub(super) fn predict<const N: usize>(features: [f64; N], constants: [f64; N]) -> f64 {
    features.iter().zip(constants).map(|(feature, constant)| feature * constant).sum()
}

/// The constants with the least squares of `predict / value - 1` over all points of features and value, none of them negative, as no cost
/// is. Whatever the best ones are, those that are not zero are the least squares of their features alone: so of all choices
/// of features those are compared of which no constant is negative. Of choices that are as good the first one counts: where a
/// feature is always in the same proportion to another, or never there, the other one has its cost.
pub(super) fn fit<const N: usize>(points: &[([f64; N], f64)]) -> [f64; N] {
    let points: Vec<[f64; N]> =
        points.iter().map(|(features, value)| features.map(|one| one / value)).collect();
    let error = |constants: &[f64; N]| -> f64 {
        points.iter().map(|features| (predict(*features, *constants) - 1.0).powi(2)).sum()
    };
    let mut choices: Vec<u32> = (1..1 << N).collect();
    choices.sort_by_key(|choice| choice.count_ones());
    let possible = choices.into_iter().filter_map(|choice| least_squares(&points, choice));
    let mut best = ([0.0; N], error(&[0.0; N]));
    for constants in possible.filter(|constants| constants.iter().all(|constant| *constant >= 0.0)) {
        let error = error(&constants);
        if error < best.1 - 1e-12 * points.len() as f64 {
            best = (constants, error);
        }
    }
    best.0
}

/// The constants of some features, those of the others being zero, with the least squares of `predict - 1`: the normal
/// equations, by elimination. `None` if some are in proportion.
fn least_squares<const N: usize>(points: &[[f64; N]], choice: u32) -> Option<[f64; N]> {
    let chosen: Vec<usize> = (0..N).filter(|feature| choice >> feature & 1 == 1).collect();
    // All of a length of one.
    let lengths =
        chosen.iter().map(|&feature| points.iter().map(|point| point[feature].powi(2)).sum::<f64>().sqrt());
    let lengths: Vec<f64> = lengths.collect();
    if lengths.contains(&0.0) {
        return None;
    }
    let value = |point: &[f64; N], at: usize| point[chosen[at]] / lengths[at];
    let mut rows: Vec<Vec<f64>> = (0..chosen.len())
        .map(|row| {
            let products = (0..chosen.len()).map(|column| {
                points.iter().map(|point| value(point, row) * value(point, column)).sum::<f64>()
            });
            products.chain([points.iter().map(|point| value(point, row)).sum()]).collect()
        })
        .collect();
    for pivot in 0..chosen.len() {
        // What is left of the square of a length of one by the features before it.
        if rows[pivot][pivot] <= 1e-9 {
            return None;
        }
        let of_pivot = rows[pivot].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            if number != pivot {
                let times = row[pivot] / of_pivot[pivot];
                row.iter_mut().zip(&of_pivot).for_each(|(value, of_pivot)| *value -= times * of_pivot);
            }
        }
    }
    let mut constants = [0.0; N];
    for (at, feature) in chosen.iter().enumerate() {
        constants[*feature] = rows[at][chosen.len()] / rows[at][at] / lengths[at];
    }
    Some(constants)
}

/// The root of the mean square of relative errors, of predictions beside what was measured.
pub fn residual(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let squares: Vec<f64> = pairs.map(|(predicted, measured)| (predicted / measured - 1.0).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{fit, predict, residual};

    #[test]
    fn constants_come_back_from_what_they_predict() {
        let point = |x: f64, y: f64| ([x, y], predict([x, y], [0.5, 2.0]));
        let points = [point(1.0, 5.0), point(100.0, 7.0), point(20.0, 1.0), point(3.0, 30.0)];
        for (found, made) in fit(&points).into_iter().zip([0.5, 2.0]) {
            assert!((found - made).abs() < 1e-9, "{found} {made}");
        }
        // A feature that is never there costs nothing.
        assert_eq!(fit(&[([2.0, 0.0], 1.0), ([4.0, 0.0], 2.0)]), [0.5, 0.0]);
    }

    /// Of features in proportion the first has the cost; of four constants, of which two are zero, the others come back.
    #[test]
    fn features_that_are_alike_are_one_and_others_are_told_apart() {
        let found = fit(&[([1.0, 2.0], 3.0), ([2.0, 4.0], 6.0)]);
        assert!((found[0] - 3.0).abs() < 1e-9 && found[1] == 0.0, "{found:?}");
        let made = [0.0, 2.0, 0.0, 0.25];
        let point = |w: f64, x: f64, y: f64, z: f64| ([w, x, y, z], predict([w, x, y, z], made));
        let points = [
            point(1.0, 1.0, 9.0, 4.0),
            point(1.0, 3.0, 2.0, 50.0),
            point(1.0, 7.0, 5.0, 8.0),
            point(1.0, 2.0, 1.0, 90.0),
        ];
        for (found, made) in fit(&points).into_iter().zip(made) {
            assert!((found - made).abs() < 1e-9, "{found} {made}");
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
