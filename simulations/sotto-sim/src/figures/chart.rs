//! Charts in one look, in SVG: points joined by lines, and horizontal bars, one panel below the other.

use core::ops::Range;

use anyhow::{anyhow, ensure};
use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, EmptyElement, PathElement, Rectangle, Text};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TRANSPARENT, TextStyle, WHITE};

use crate::table::short;

/// One pair of axes with lines.
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

/// One line, in the order of its points. What is dashed has no dots, and the color of what is not dashed at the same
/// place in the order: a law beside its measurements.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) dashed: bool,
}

/// One panel of groups of bars on a logarithmic axis.
pub(crate) struct Bars {
    /// The quantity, with its unit.
    pub(crate) title: String,
    /// Names, and a bar for every series; nothing is drawn where there is none.
    pub(crate) groups: Vec<(String, Vec<Option<Bar>>)>,
}

/// A value, and whether it is computed from what was measured rather than measured.
#[derive(Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) extrapolated: bool,
}

/// A quantity with its unit, and of a row the paper's value and ours.
pub(crate) type Quantity<R> = (&'static str, fn(&R) -> [Option<f64>; 2]);

const PAPER: RGBColor = RGBColor(0xb0, 0xb4, 0xba);
/// They differ in brightness, too.
const COLORS: [RGBColor; 6] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xe0, 0x7b, 0x1f),
    RGBColor(0x3c, 0x96, 0x50),
    RGBColor(0x8a, 0x4f, 0x9e),
    RGBColor(0x4a, 0x4f, 0x57),
    RGBColor(0xc2, 0x3b, 0x4c),
];
const GRID: RGBColor = RGBColor(0xe0, 0xe0, 0xe0);
const AXIS: RGBColor = RGBColor(0x80, 0x80, 0x80);

// All in pixels.
const WIDTH: u32 = 900;
/// Where the key of a chart of lines begins.
const KEY: i32 = 660;
const LINES: i32 = 420;
const BAR: i32 = 13;
const BETWEEN: i32 = 12;
const ABOVE: i32 = 34;
const BELOW: i32 = 40;
const DASH: i32 = 7;
const GAP: i32 = 5;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Panels of so many pixels below the title, and a key to colors if there is one.
fn draw(
    title: &str,
    key: &[(&str, RGBColor)],
    heights: &[i32],
    panel: impl Fn(&Area<'_>, usize) -> Drawn,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let above = if key.is_empty() { 44 } else { 64 };
        let height = above + heights.iter().sum::<i32>();
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        let drawn = || {
            whole.fill(&WHITE)?;
            whole.draw(&Text::new(title, (20, 20), text(18, HPos::Left)))?;
            let mut right = 20;
            for (name, color) in key {
                whole.draw(&Rectangle::new([(right, 42), (right + 14, 54)], color.filled()))?;
                whole.draw(&Text::new(*name, (right + 20, 48), text(13, HPos::Left)))?;
                right += 48 + 8 * name.chars().count() as i32;
            }
            let mut left = whole.clone();
            for (number, above) in core::iter::once(&above).chain(heights).take(heights.len()).enumerate() {
                left = left.split_vertically(*above).1;
                panel(&left, number)?;
            }
            whole.present()
        };
        drawn().map_err(|error: DrawingAreaErrorKind<_>| anyhow!("cannot draw the chart: {error}"))?;
    }
    Ok(svg)
}

/// Text beside a point, centred in height.
fn text(size: i32, side: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(side, VPos::Center))
}

/// A chart of lines, each panel with a key to its right.
///
/// # Errors
/// If a point has no place on its axes.
pub(crate) fn lines(title: &str, panels: &[Panel]) -> anyhow::Result<String> {
    let axes = |panel: &Panel| {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        let x = Axis::new(panel.x_scale, points().map(|(x, _)| *x))?;
        Ok([x, Axis::new(panel.y_scale, points().map(|(_, y)| *y))?])
    };
    let axes = panels.iter().map(axes).collect::<anyhow::Result<Vec<_>>>()?;
    draw(title, &[], &vec![LINES; panels.len()], |area, number| {
        line_panel(area, &panels[number], &axes[number])
    })
}

fn line_panel(area: &Area<'_>, panel: &Panel, [x, y]: &[Axis; 2]) -> Drawn {
    let (plot, key) = area.split_vertically(LINES).0.split_horizontally(KEY);
    plot.draw(&Text::new(panel.title.as_str(), (20, 14), text(15, HPos::Left)))?;
    let mut chart = ChartBuilder::on(&plot)
        .margin_top(ABOVE)
        .margin_right(10)
        .margin_bottom(16)
        .margin_left(16)
        .x_label_area_size(50)
        .y_label_area_size(68)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(AXIS);
    mesh.label_style(("sans-serif", 12)).axis_desc_style(("sans-serif", 13));
    mesh.x_desc(panel.x_label.as_str()).y_desc(panel.y_label.as_str()).draw()?;

    let mut drawn = [0, 0];
    for (number, series) in panel.series.iter().enumerate() {
        let nth = &mut drawn[usize::from(series.dashed)];
        let color = COLORS[*nth % COLORS.len()];
        *nth += 1;
        let style = ShapeStyle::from(color).stroke_width(2);
        let points = || series.points.iter().copied();
        let line = ABOVE + 10 + 22 * number as i32;
        let sample = [(14, line), (42, line)];
        if series.dashed {
            chart.draw_series(DashedLineSeries::new(points(), DASH, GAP, style))?;
            key.draw(&DashedPathElement::new(sample, DASH, GAP, style))?;
        } else {
            chart.draw_series(LineSeries::new(points(), style))?;
            chart.draw_series(points().map(|at| Circle::new(at, 4, color.filled())))?;
            key.draw(&PathElement::new(sample, style))?;
            key.draw(&Circle::new((28, line), 4, color.filled()))?;
        }
        key.draw(&Text::new(series.name.as_str(), (50, line), text(13, HPos::Left)))?;
    }
    Ok(())
}

/// The paper's values beside ours, every quantity with its own axis.
pub(crate) fn beside_paper<R>(
    title: &str,
    rows: &[R],
    name: fn(&R) -> String,
    quantities: &[Quantity<R>],
) -> anyhow::Result<String> {
    let panel = |(title, values): &Quantity<R>| {
        let values = rows.iter().map(|row| (name(row), values(row)));
        let there = values.filter(|(_, values)| values.iter().any(Option::is_some));
        Bars::new(*title, there.map(|(name, values)| (name, values.into())))
    };
    draw_beside_paper(title, &quantities.iter().map(panel).collect::<Vec<_>>())
}

/// The same of panels that are there.
pub(crate) fn draw_beside_paper(title: &str, panels: &[Bars]) -> anyhow::Result<String> {
    draw_bars(title, &[("paper", PAPER), ("here", COLORS[0])], panels, |panel| Axis::of([panel]))
}

/// Groups of bars of the named series, all panels with the same axis.
pub(crate) fn bars(title: &str, series: &[&str], panels: &[Bars]) -> anyhow::Result<String> {
    let series: Vec<_> = series.iter().copied().zip(COLORS).collect();
    draw_bars(title, &series, panels, |_| Axis::of(panels))
}

impl Bars {
    pub(crate) fn new(
        title: impl Into<String>,
        groups: impl IntoIterator<Item = (String, Vec<Option<f64>>)>,
    ) -> Self {
        let bar = |value: f64| Bar { value, extrapolated: false };
        let bars = |values: Vec<Option<f64>>| values.into_iter().map(|value| value.map(bar)).collect();
        Self {
            title: title.into(),
            groups: groups.into_iter().map(|(name, values)| (name, bars(values))).collect(),
        }
    }

    /// Names, the pixels above each group, and its bars.
    fn rows(&self) -> impl Iterator<Item = (&String, i32, &[Option<Bar>])> {
        let row = |above: &mut i32, (name, bars)| {
            let at = *above;
            *above += height_of(bars);
            Some((name, at, bars))
        };
        self.groups.iter().map(|(name, bars)| (name, &bars[..])).scan(0, row)
    }

    fn height(&self) -> i32 {
        self.groups.iter().map(|(_, bars)| height_of(bars)).sum::<i32>()
    }
}

fn height_of(bars: &[Option<Bar>]) -> i32 {
    BAR * bars.len() as i32 + BETWEEN
}

fn draw_bars(
    title: &str,
    series: &[(&str, RGBColor)],
    panels: &[Bars],
    axis: impl Fn(&Bars) -> anyhow::Result<Axis>,
) -> anyhow::Result<String> {
    let axes = panels.iter().map(axis).collect::<anyhow::Result<Vec<_>>>()?;
    let heights: Vec<i32> = panels.iter().map(|panel| ABOVE + panel.height() + BELOW).collect();
    draw(title, series, &heights, |area, number| {
        let area = area.split_vertically(heights[number]).0;
        bar_panel(&area, &panels[number], series, &axes[number])
    })
}

fn bar_panel(area: &Area<'_>, panel: &Bars, series: &[(&str, RGBColor)], axis: &Axis) -> Drawn {
    area.draw(&Text::new(panel.title.as_str(), (20, 14), text(15, HPos::Left)))?;
    let middle = |above: i32, bars| -f64::from(above) - f64::from(height_of(bars)) / 2.0;
    let middles: Vec<f64> = panel.rows().map(|(_, above, bars)| middle(above, bars)).collect();
    let names = |at: &f64| {
        let row = panel.rows().find(|(_, above, bars)| middle(*above, bars) == *at);
        row.map_or(String::new(), |(name, ..)| name.clone())
    };
    let rows = Axis { scale: Scale::Linear, ends: -f64::from(panel.height())..0.0, marks: middles };
    let mut chart = ChartBuilder::on(area)
        .margin_top(ABOVE)
        .margin_right(90)
        .margin_bottom(BELOW - 24)
        .x_label_area_size(24)
        .y_label_area_size(190)
        .build_cartesian_2d(axis.clone(), rows)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(TRANSPARENT);
    mesh.x_label_style(("sans-serif", 12)).y_label_style(("sans-serif", 13));
    mesh.y_label_formatter(&names).draw()?;
    for (_, above, bars) in panel.rows() {
        // Bars stand beside the middle of their name, however few there are.
        let missing = bars.iter().filter(|bar| bar.is_none()).count() as i32;
        let mut top = above + BETWEEN / 2 + missing * BAR / 2;
        for (bar, (_, color)) in bars.iter().zip(series) {
            let Some(Bar { value, extrapolated }) = *bar else { continue };
            let [upper, lower] = [top, top + BAR - 1].map(|at| -f64::from(at));
            chart.draw_series([Rectangle::new([(0.0, upper), (value, lower)], color.filled())])?;
            let label = format!("{}{}", if extrapolated { "about " } else { "" }, short(value));
            let label = Text::new(label, (5, 0), text(12, HPos::Left));
            chart.draw_series([EmptyElement::at((value, f64::midpoint(upper, lower))) + label])?;
            top += BAR;
        }
    }
    Ok(())
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero on.
    Linear,
    /// By powers of ten; there is no place for what is not positive.
    Logarithmic,
}

/// Values and where they stand.
#[derive(Clone)]
struct Axis {
    scale: Scale,
    /// On a logarithmic scale, exponents of ten.
    ends: Range<f64>,
    marks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.ends.start) / (self.ends.end - self.ends.start);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        let of = |at: f64| if self.scale == Scale::Linear { at } else { 10_f64.powf(at) };
        of(self.ends.start)..of(self.ends.end)
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> anyhow::Result<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            let least = if scale == Scale::Linear { 0.0 } else { f64::MIN_POSITIVE };
            ensure!(value.is_finite() && value >= least, "{value} has no place on an axis");
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if scale == Scale::Linear {
            let marks = RangedCoordf64::from(0.0..high).key_points(BoldPoints(9));
            let step = marks.get(1).copied().unwrap_or(high);
            let count = (high / step - 1e-9).ceil().max(1.0);
            let marks = (0..=count as i32).map(|i| f64::from(i) * step).collect();
            return Ok(Self { scale, ends: 0.0..count * step, marks });
        }
        // Between two powers of ten, twice and five times are marked where there is room; the ends are marks, so that little
        // of the panel stays empty.
        let first = low.log10().floor() as i32;
        let exponents = first..=(high.log10().ceil() as i32).max(first + 1);
        let marks = exponents.flat_map(|exponent| [1.0, 2.0, 5.0].map(|factor| (exponent, factor)));
        let value = |(exponent, factor): (i32, f64)| factor * 10_f64.powi(exponent);
        let below = marks.clone().map(value).rfind(|mark| *mark <= low * (1.0 + 1e-9));
        let below = below.unwrap_or(low);
        let above = marks.clone().map(value).find(|mark| *mark >= high.max(1.01 * below) * (1.0 - 1e-9));
        let ends = below.log10()..above.unwrap_or(high).log10();
        let decades = ends.end - ends.start;
        let every = (decades / 9.0) as i32 + 1;
        let shown = |(exponent, factor): &(i32, f64)| {
            decades <= 3.5 || *factor == 1.0 && (exponent - first) % every == 0
        };
        let inside = |mark: &f64| (ends.start - 1e-9..=ends.end + 1e-9).contains(&mark.log10());
        let marks = marks.filter(shown).map(value).filter(inside).collect();
        Ok(Self { scale, ends, marks })
    }

    /// One on which all bars have their place; a bar of the smallest value is to be seen, too.
    fn of<'a>(panels: impl IntoIterator<Item = &'a Bars>) -> anyhow::Result<Self> {
        let groups = panels.into_iter().flat_map(|panel| &panel.groups);
        let values = groups.flat_map(|(_, bars)| bars.iter().flatten()).map(|bar| bar.value);
        let values = values.filter(|value| *value > 0.0).flat_map(|value| [0.7 * value, value]);
        Self::new(Scale::Logarithmic, values)
    }

    /// Where a value stands; at the beginning if it has no place.
    fn place(&self, value: f64) -> f64 {
        if self.scale == Scale::Linear { value } else { value.log10().max(self.ends.start) }
    }

    fn label(&self, value: f64) -> String {
        if self.scale == Scale::Linear {
            let step = self.marks.get(1).copied().unwrap_or(1.0);
            return format!("{value:.*}", (-(step.log10() + 1e-9).floor()).max(0.0) as usize);
        }
        match (value.log10() + 1e-9).floor() as i32 {
            0..=3 => format!("{value:.0}"),
            exponent @ -3..0 => format!("{value:.*}", -exponent as usize),
            _ => format!("{value:.0e}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{Axis, Bars, Panel, Scale, Series, bars, lines};

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::new(scale, values.iter().copied()).unwrap();
        axis.marks.iter().map(|mark| axis.label(*mark)).collect()
    }

    /// A tick with another's label, or a point outside of the axes, would show something that was not measured.
    #[test]
    fn ticks_are_where_their_labels_say_and_all_points_between_them() {
        assert_eq!(labels(Scale::Linear, &[0.13]).first().unwrap(), "0.00");
        assert_eq!(
            labels(Scale::Logarithmic, &[0.03, 4.0]),
            ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
        );
        assert_eq!(labels(Scale::Logarithmic, &[1.0, 1e5]), ["1", "10", "100", "1000", "1e4", "1e5"]);
        for values in [&[3.0][..], &[1e-7, 1e9], &[1.0, 10.0], &[0.0101, 0.0102], &[1.0, 9.3], &[0.13]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let axis = Axis::new(scale, values.iter().copied()).unwrap();
                assert!((2..=20).contains(&axis.marks.len()), "{scale:?} {values:?}");
                for value in values {
                    let at = axis.place(*value);
                    assert!((axis.ends.start..=axis.ends.end).contains(&at), "{scale:?} {value}");
                }
                for mark in &axis.marks {
                    let at = axis.place(*mark);
                    assert!(
                        (axis.ends.start - 1e-9..=axis.ends.end + 1e-9).contains(&at),
                        "{values:?} {mark}"
                    );
                    let told: f64 = axis.label(*mark).parse().unwrap();
                    assert!((told - mark).abs() <= 1e-9 * mark, "{scale:?} {values:?} {mark}");
                }
            }
        }
        assert!(Axis::new(Scale::Logarithmic, [0.0].into_iter()).is_err());
        assert!(Axis::new(Scale::Linear, [f64::NAN].into_iter()).is_err());
    }

    /// Theory and measurement must be told apart.
    #[test]
    fn dashed_lines_have_gaps_and_no_dots() {
        let chart = |dashed| {
            let series = vec![Series { name: "law".into(), points: vec![(1.0, 1.0), (9.0, 9.0)], dashed }];
            let [title, x_label, y_label] = ["cost", "n", "s"].map(str::to_owned);
            let (x_scale, y_scale) = (Scale::Linear, Scale::Logarithmic);
            lines("All", &[Panel { title, x_label, y_label, x_scale, y_scale, series }]).unwrap()
        };
        let (solid, dashed) = (chart(false), chart(true));
        assert_eq!((solid.matches("<circle").count(), dashed.matches("<circle").count()), (3, 0));
        assert!(dashed.matches("<polyline").count() > solid.matches("<polyline").count() + 20);
        for text in ["All", "cost", "law", ">\nn\n", ">\ns\n"] {
            assert!(dashed.contains(text), "{text}");
        }
    }

    /// A bar that is missing must not shift the others to another name or color.
    #[test]
    fn every_value_stands_beside_its_name() {
        let groups = [("one", vec![Some(1.0), Some(20.0)]), ("two", vec![None, Some(0.0)])];
        let panel = Bars::new("cost", groups.map(|(name, values)| (name.to_owned(), values)));
        let chart = bars("All", &["a", "b"], &[panel]).unwrap();
        // The keys of two series, and three bars, below the white of the whole.
        assert_eq!(chart.matches("<rect").count(), 1 + 2 + 3);
        for text in ["All", "cost", "one", "two", ">\na\n", ">\n1.00\n", ">\n20.0\n", ">\n0\n"] {
            assert!(chart.contains(text), "{text}");
        }
    }
}
