//! Points joined by lines, one panel below the other, each with a legend to its right.

use anyhow::ensure;
use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{AXIS, Canvas, GRID, SERIES, WIDTH, power, svg as canvas_svg};

/// One pair of axes.
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The quantity, with its unit.
    pub(crate) x_label: String,
    /// The quantity, with its unit.
    pub(crate) y_label: String,
    pub(crate) x_scale: Scale,
    pub(crate) y_scale: Scale,
    pub(crate) series: Vec<Series>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero on.
    Linear,
    /// By powers of ten; there is no place for what is not positive.
    Logarithmic,
}

/// One line, in the order of its points. What is dashed has no dots, and the color of what is not dashed at the same
/// place in the order: a law beside its measurements.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) dashed: bool,
}

// All in pixels.
const TITLE: i32 = 44;
const LEFT: i32 = 84;
const RIGHT: i32 = WIDTH - 250;
const LEGEND: i32 = RIGHT + 24;
const ABOVE: i32 = 34;
const PLOT: i32 = 320;
const BELOW: i32 = 66;
const DASH: f64 = 7.0;
const GAP: f64 = 5.0;

/// The chart as SVG.
///
/// # Errors
/// If a point has no place on its axes.
pub(crate) fn svg(title: &str, panels: &[Panel]) -> anyhow::Result<String> {
    let height = TITLE + panels.len() as i32 * (ABOVE + PLOT + BELOW);
    canvas_svg(title, height, |canvas| {
        for (number, panel) in panels.iter().enumerate() {
            draw_panel(canvas, panel, TITLE + number as i32 * (ABOVE + PLOT + BELOW))?;
        }
        Ok(())
    })
}

fn draw_panel(canvas: &Canvas<'_>, panel: &Panel, top: i32) -> anyhow::Result<()> {
    let points = || panel.series.iter().flat_map(|series| series.points.iter());
    let x = Axis::new(panel.x_scale, points().map(|(x, _)| *x), [LEFT, RIGHT])?;
    let (upper, lower) = (top + ABOVE, top + ABOVE + PLOT);
    let y = Axis::new(panel.y_scale, points().map(|(_, y)| *y), [lower, upper])?;

    canvas.text(&panel.title, (20, top + 14), 15, HPos::Left)?;
    for (value, label) in x.ticks() {
        let at = x.pixel(value);
        canvas.line(&[(at, upper), (at, lower)], GRID, 1)?;
        canvas.text(&label, (at, lower + 14), 12, HPos::Center)?;
    }
    for (value, label) in y.ticks() {
        let at = y.pixel(value);
        canvas.line(&[(LEFT, at), (RIGHT, at)], GRID, 1)?;
        canvas.text(&label, (LEFT - 8, at), 12, HPos::Right)?;
    }
    canvas.line(&[(LEFT, upper), (LEFT, lower), (RIGHT, lower)], AXIS, 1)?;
    canvas.text(&panel.x_label, ((LEFT + RIGHT) / 2, lower + 38), 13, HPos::Center)?;
    canvas.upright(&panel.y_label, (24, (upper + lower) / 2), 13)?;

    let mut drawn = [0, 0];
    for (number, series) in panel.series.iter().enumerate() {
        let nth = &mut drawn[usize::from(series.dashed)];
        let color = SERIES[*nth % SERIES.len()];
        *nth += 1;
        let pixels: Vec<(i32, i32)> = series.points.iter().map(|at| (x.pixel(at.0), y.pixel(at.1))).collect();
        let line = upper + 10 + 22 * number as i32;
        let key = [(LEGEND, line), (LEGEND + 28, line)];
        if series.dashed {
            dashes(canvas, &pixels, color)?;
            dashes(canvas, &key, color)?;
        } else {
            canvas.line(&pixels, color, 2)?;
            canvas.line(&key, color, 2)?;
            for at in pixels.into_iter().chain([(LEGEND + 14, line)]) {
                canvas.dot(at, color)?;
            }
        }
        canvas.text(&series.name, (LEGEND + 36, line), 13, HPos::Left)?;
    }
    Ok(())
}

/// A dashed line; a dash goes on around a corner.
fn dashes(canvas: &Canvas<'_>, points: &[(i32, i32)], color: RGBColor) -> anyhow::Result<()> {
    // Where in the pattern of dash and gap the line is.
    let mut phase = 0.0;
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (x1 - x0).hypot(y1 - y0);
        let at = |along: f64| {
            let share = along / length;
            ((x0 + (x1 - x0) * share).round() as i32, (y0 + (y1 - y0) * share).round() as i32)
        };
        let mut along = 0.0;
        while along < length {
            let end = length.min(along + if phase < DASH { DASH - phase } else { DASH + GAP - phase });
            if phase < DASH {
                canvas.line(&[at(along), at(end)], color, 2)?;
            }
            phase = (phase + end - along) % (DASH + GAP);
            along = end;
        }
    }
    Ok(())
}

/// Values and where they stand.
struct Axis {
    scale: Scale,
    /// On a logarithmic scale, the exponents of ten.
    ends: [f64; 2],
    /// Between ticks; on a logarithmic scale, 1.
    step: f64,
    pixels: [i32; 2],
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, pixels: [i32; 2]) -> anyhow::Result<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            let least = if scale == Scale::Linear { 0.0 } else { f64::MIN_POSITIVE };
            ensure!(value.is_finite() && value >= least, "{value} has no place on an axis");
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (ends, step) = match scale {
            Scale::Linear => {
                let step = step(high);
                ([0.0, ((high / step).ceil() * step).max(step)], step)
            }
            Scale::Logarithmic => {
                // A part of a decade at each end suffices, so that little of the panel stays empty.
                let down = if low.log10().fract() == 0.0 { low } else { mark_below(low) };
                ([down.log10(), mark_above(high.max(down * 1.01)).log10()], 1.0)
            }
        };
        Ok(Self { scale, ends, step, pixels })
    }

    fn pixel(&self, value: f64) -> i32 {
        let value = if self.scale == Scale::Linear { value } else { value.log10() };
        let share = (value - self.ends[0]) / (self.ends[1] - self.ends[0]);
        let [first, last] = self.pixels.map(f64::from);
        (first + share * (last - first)).round() as i32
    }

    /// Values with their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let [low, high] = self.ends;
        if self.scale == Scale::Linear {
            let digits = if self.step < 1.0 { (-self.step.log10()).ceil() as usize } else { 0 };
            let count = (high / self.step).round() as i32;
            let value = |i| f64::from(i) * self.step;
            return (0..=count).map(|i| (value(i), format!("{:.digits$}", value(i)))).collect();
        }
        let decades = high - low;
        // Between two powers of ten, twice and five times are marked where there is room.
        let factors: &[f64] = if decades <= 3.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / 9.0).floor() as usize + 1;
        let exponents = (low.floor() as i32..=high.ceil() as i32).step_by(every);
        let marks = exponents.flat_map(|exponent| factors.iter().map(move |factor| (exponent, *factor)));
        marks
            .map(|(exponent, factor)| {
                let label = if factor == 1.0 { power(exponent) } else { between(exponent, factor) };
                (factor * 10_f64.powi(exponent), label)
            })
            .filter(|(value, _)| (low - 1e-9..=high + 1e-9).contains(&value.log10()))
            .collect()
    }
}

/// The label of twice or five times a power of ten, written as the powers are.
fn between(exponent: i32, factor: f64) -> String {
    match exponent {
        0..=3 => format!("{}", factor * 10_f64.powi(exponent)),
        -3..0 => format!("{:.*}", -exponent as usize, factor * 10_f64.powi(exponent)),
        _ => format!("{factor}e{exponent}"),
    }
}

/// Steps of 1, 2 or 5 times a power of ten, of which five to ten reach the value.
fn step(high: f64) -> f64 {
    let raw = if high > 0.0 { high / 5.0 } else { 0.2 };
    let power = 10_f64.powf(raw.log10().floor());
    let factor = raw / power;
    power
        * if factor >= 5.0 {
            5.0
        } else if factor >= 2.0 {
            2.0
        } else {
            1.0
        }
}

/// The largest of 1, 2 and 5 times powers of ten that is not above the value.
fn mark_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|factor| factor * power).find(|mark| *mark <= value).unwrap_or(power)
}

/// The smallest that is not below it.
fn mark_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let above = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|mark| *mark >= value);
    above.unwrap_or(10.0 * power)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{Axis, Panel, Scale, Series, svg};

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::new(scale, values.iter().copied(), [0, 100]).unwrap();
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    /// A tick with another's label, or a point outside of the axes, would show something that was not measured.
    #[test]
    fn ticks_are_where_their_labels_say_and_all_points_between_them() {
        assert_eq!(
            labels(Scale::Linear, &[1.0, 9.3]),
            ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        );
        assert_eq!(
            labels(Scale::Linear, &[0.13]),
            ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10", "0.12", "0.14"]
        );
        assert_eq!(
            labels(Scale::Logarithmic, &[0.03, 4.0]),
            ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
        );
        assert_eq!(labels(Scale::Logarithmic, &[1.0, 1e5]), ["1", "10", "100", "1000", "1e4", "1e5"]);
        for values in [&[3.0][..], &[1e-7, 1e9], &[1.0, 10.0], &[0.0101, 0.0102]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let axis = Axis::new(scale, values.iter().copied(), [10, 500]).unwrap();
                assert!(axis.ticks().len() >= 2, "{scale:?} {values:?}");
                for value in values.iter().copied().chain(axis.ticks().into_iter().map(|(value, _)| value)) {
                    assert!((10..=500).contains(&axis.pixel(value)), "{scale:?} {values:?} {value}");
                }
            }
        }
        assert!(Axis::new(Scale::Logarithmic, [0.0].into_iter(), [0, 1]).is_err());
        assert!(Axis::new(Scale::Linear, [f64::NAN].into_iter(), [0, 1]).is_err());
    }

    /// Theory and measurement must be told apart.
    #[test]
    fn dashed_lines_have_gaps_and_no_dots() {
        let chart = |dashed| {
            let series = vec![Series { name: "law".into(), points: vec![(1.0, 1.0), (9.0, 9.0)], dashed }];
            let [title, x_label, y_label] = ["cost", "n", "s"].map(str::to_owned);
            let (x_scale, y_scale) = (Scale::Linear, Scale::Logarithmic);
            svg("All", &[Panel { title, x_label, y_label, x_scale, y_scale, series }]).unwrap()
        };
        let (solid, dashed) = (chart(false), chart(true));
        assert_eq!((solid.matches("<circle").count(), dashed.matches("<circle").count()), (3, 0));
        assert!(dashed.matches("<polyline").count() > solid.matches("<polyline").count() + 20);
        for text in ["All", "cost", "law", ">\nn\n", ">\ns\n"] {
            assert!(dashed.contains(text), "{text}");
        }
    }
}
