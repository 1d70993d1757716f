//! Constants from measurements: the least squares of relative errors, no constant negative.

/// What a part takes that has two features.
pub(super) fn predict(features: [f64; 2], constants: [f64; 2]) -> f64 {
    features[0] * constants[0] + features[1] * constants[1]
}

/// The constants with the least squares of `predict / value - 1` over all points of features and value: the normal equations
/// by Cramer's rule. Where a constant would be negative, which no cost is, it is 0 and the other one is fitted alone.
pub(super) fn fit(points: &[([f64; 2], f64)]) -> [f64; 2] {
    let sum = |term: fn([f64; 2]) -> f64| -> f64 {
        points.iter().map(|([x, y], value)| term([x / value, y / value])).sum()
    };
    let [xx, xy, yy] = [sum(|[x, _]| x * x), sum(|[x, y]| x * y), sum(|[_, y]| y * y)];
    let [x, y] = [sum(|[x, _]| x), sum(|[_, y]| y)];
    let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
    let determinant = xx * yy - xy * xy;
    match [x * yy - y * xy, y * xx - x * xy] {
        // One feature is never there, or always in the same proportion to the other one.
        _ if determinant <= 1e-12 * xx * yy => {
            if xx > 0.0 {
                [x / xx, 0.0]
            } else {
                [0.0, ratio(y, yy)]
            }
        }
        [first, _] if first < 0.0 => [0.0, ratio(y, yy)],
        [_, second] if second < 0.0 => [ratio(x, xx), 0.0],
        both => both.map(|numerator| numerator / determinant),
    }
}

/// The root of the mean square of relative errors, of predictions beside what was measured.
pub(crate) fn residual(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
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
