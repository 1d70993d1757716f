//! Charts in one look, in SVG: points joined by lines, and horizontal bars, one panel below the other.

use core::ops::Range;

use anyhow::{anyhow, ensure};
use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::combinators::{IntoLogRange as _, LogCoord};
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, EmptyElement, PathElement, Rectangle, Text};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TRANSPARENT, TextStyle, WHITE};
use sotto_measuring::table::short;

/// One pair of axes with lines.
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The quantity, with its unit.
    pub(crate) x_label: String,
    /// The quantity, with its unit, on a logarithmic axis.
    pub(crate) y_label: String,
    pub(crate) x_scale: Scale,
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
const COLORS: [RGBColor; 7] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xe0, 0x7b, 0x1f),
    RGBColor(0x3c, 0x96, 0x50),
    RGBColor(0x8a, 0x4f, 0x9e),
    RGBColor(0x4a, 0x4f, 0x57),
    RGBColor(0xc2, 0x3b, 0x4c),
    RGBColor(0x2a, 0x9d, 0xa8),
];
const GRID: RGBColor = RGBColor(0xe0, 0xe0, 0xe0);
const AXIS: RGBColor = RGBColor(0x80, 0x80, 0x80);

// All in pixels.
const WIDTH: u32 = 900;
/// Where the key of a chart of lines begins.
const KEY: i32 = 660;
/// Between the lines of one of bars.
const KEY_LINE: i32 = 20;
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
        let (lines, places) = key_places(key);
        let above = 44 + KEY_LINE * lines;
        let height = above + heights.iter().sum::<i32>();
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        let drawn = || {
            whole.fill(&WHITE)?;
            whole.draw(&Text::new(title, (20, 20), text(18, HPos::Left)))?;
            for ((name, color), (right, below)) in key.iter().zip(&places) {
                let sample = [(*right, below - 6), (right + 14, below + 6)];
                whole.draw(&Rectangle::new(sample, color.filled()))?;
                whole.draw(&Text::new(*name, (right + 20, *below), text(13, HPos::Left)))?;
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

/// How many lines a key has, and where the middles of its samples begin.
fn key_places(key: &[(&str, RGBColor)]) -> (i32, Vec<(i32, i32)>) {
    let (mut right, mut line) = (WIDTH as i32, -1);
    let place = |(name, _): &(&str, RGBColor)| {
        let width = 48 + 8 * name.chars().count() as i32;
        if right + width > WIDTH as i32 {
            (right, line) = (20, line + 1);
        }
        right += width;
        (right - width, 48 + KEY_LINE * line)
    };
    let places = key.iter().map(place).collect();
    (line + 1, places)
}

/// Of the series with this number: paler where all colors are used.
fn color(number: usize) -> RGBColor {
    let RGBColor(red, green, blue) = COLORS[number % COLORS.len()];
    let paler = |of: u8| of + ((255 - u16::from(of)) * (number / COLORS.len()).min(2) as u16 * 2 / 5) as u8;
    RGBColor(paler(red), paler(green), paler(blue))
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
    let ranges = |panel: &Panel| {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        Ok((panel.x_scale.range(points().map(|(x, _)| *x))?, decades(points().map(|(_, y)| *y))?))
    };
    let ranges = panels.iter().map(ranges).collect::<anyhow::Result<Vec<_>>>()?;
    draw(title, &[], &vec![LINES; panels.len()], |area, number| {
        let (panel, (x, y)) = (&panels[number], ranges[number].clone());
        match panel.x_scale {
            Scale::Linear => line_panel(area, panel, RangedCoordf64::from(x), y),
            Scale::Logarithmic => line_panel(area, panel, LogCoord::from(x.log_scale()), y),
        }
    })
}

fn line_panel<X: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    area: &Area<'_>,
    panel: &Panel,
    x: X,
    y: Range<f64>,
) -> Drawn {
    let (plot, key) = area.split_vertically(LINES).0.split_horizontally(KEY);
    plot.draw(&Text::new(panel.title.as_str(), (20, 14), text(15, HPos::Left)))?;
    let mut chart = ChartBuilder::on(&plot)
        .margin_top(ABOVE)
        .margin_right(10)
        .margin_bottom(16)
        .margin_left(16)
        .x_label_area_size(50)
        .y_label_area_size(68)
        .build_cartesian_2d(x, y.log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(AXIS);
    mesh.label_style(("sans-serif", 12)).axis_desc_style(("sans-serif", 13));
    mesh.x_label_formatter(&label).y_label_formatter(&label);
    mesh.x_desc(panel.x_label.as_str()).y_desc(panel.y_label.as_str()).draw()?;

    let mut drawn = [0, 0];
    for (number, series) in panel.series.iter().enumerate() {
        let nth = &mut drawn[usize::from(series.dashed)];
        let color = color(*nth);
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
    draw_bars(title, &[("paper", PAPER), ("here", COLORS[0])], panels, |panel| place_of([panel]))
}

/// Groups of bars of the named series, all panels with the same axis.
pub(crate) fn bars(title: &str, series: &[&str], panels: &[Bars]) -> anyhow::Result<String> {
    let series: Vec<_> = series.iter().copied().zip((0..).map(color)).collect();
    draw_bars(title, &series, panels, |_| place_of(panels))
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
    range: impl Fn(&Bars) -> anyhow::Result<Range<f64>>,
) -> anyhow::Result<String> {
    let ranges = panels.iter().map(range).collect::<anyhow::Result<Vec<_>>>()?;
    let heights: Vec<i32> = panels.iter().map(|panel| ABOVE + panel.height() + BELOW).collect();
    draw(title, series, &heights, |area, number| {
        let area = area.split_vertically(heights[number]).0;
        bar_panel(&area, &panels[number], series, ranges[number].clone())
    })
}

fn bar_panel(area: &Area<'_>, panel: &Bars, series: &[(&str, RGBColor)], range: Range<f64>) -> Drawn {
    area.draw(&Text::new(panel.title.as_str(), (20, 14), text(15, HPos::Left)))?;
    let start = range.start;
    let mut chart = ChartBuilder::on(area)
        .margin_top(ABOVE)
        .margin_right(90)
        .margin_bottom(BELOW - 24)
        .x_label_area_size(24)
        .y_label_area_size(190)
        .build_cartesian_2d(range.log_scale(), -f64::from(panel.height())..0.0)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(TRANSPARENT);
    mesh.y_labels(0).label_style(("sans-serif", 12)).x_label_formatter(&label).draw()?;
    for (name, above, bars) in panel.rows() {
        let middle = -f64::from(above) - f64::from(height_of(bars)) / 2.0;
        let name = Text::new(name.clone(), (-8, 0), text(13, HPos::Right));
        chart.draw_series([EmptyElement::at((start, middle)) + name])?;
        // Bars stand beside the middle of their name, however few there are.
        let missing = bars.iter().filter(|bar| bar.is_none()).count() as i32;
        let mut top = above + BETWEEN / 2 + missing * BAR / 2;
        for (bar, (_, color)) in bars.iter().zip(series) {
            let Some(Bar { value, extrapolated }) = *bar else { continue };
            let [upper, lower] = [top, top + BAR - 1].map(|at| -f64::from(at));
            // What is nothing has no place on the axis; its bar ends where the others begin.
            let end = value.max(start);
            chart.draw_series([Rectangle::new([(start, upper), (end, lower)], color.filled())])?;
            let label = format!("{}{}", if extrapolated { "about " } else { "" }, short(value));
            let label = Text::new(label, (5, 0), text(12, HPos::Left));
            chart.draw_series([EmptyElement::at((end, f64::midpoint(upper, lower))) + label])?;
            top += BAR;
        }
    }
    Ok(())
}

/// How the lower axis is divided; the one on the left is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero on.
    Linear,
    /// By powers of ten; there is no place for what is not positive.
    Logarithmic,
}

impl Scale {
    /// What an axis with these values shows.
    fn range(self, values: impl Iterator<Item = f64> + Clone) -> anyhow::Result<Range<f64>> {
        if self == Self::Logarithmic {
            return decades(values);
        }
        ensure!(values.clone().all(|value| value.is_finite() && value >= 0.0), "{NO_PLACE}");
        Ok(0.0..1.05 * values.fold(f64::MIN_POSITIVE, f64::max))
    }
}

const NO_PLACE: &str = "a value has no place on its axis";

/// The powers of ten around some values, at least one decade: both ends are marks.
fn decades(values: impl Iterator<Item = f64>) -> anyhow::Result<Range<f64>> {
    let mut exponents = None;
    for value in values {
        ensure!(value.is_finite() && value > 0.0, "{NO_PLACE}");
        let (low, high) = exponents.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        // A little room for values that are powers of ten by all that can be seen.
        exponents = Some((low.min((value.log10() + 1e-9).floor()), high.max((value.log10() - 1e-9).ceil())));
    }
    let (low, high) = exponents.unwrap_or((0.0, 1.0));
    Ok(10_f64.powf(low)..10_f64.powf(high.max(low + 1.0)))
}

/// The range in which all bars have their place; a bar of the smallest value is to be seen, too.
fn place_of<'a>(panels: impl IntoIterator<Item = &'a Bars>) -> anyhow::Result<Range<f64>> {
    let groups = panels.into_iter().flat_map(|panel| &panel.groups);
    let values = groups.flat_map(|(_, bars)| bars.iter().flatten()).map(|bar| bar.value);
    decades(values.filter(|value| *value != 0.0).flat_map(|value| [0.7 * value, value]))
}

/// A mark on an axis.
fn label(value: &f64) -> String {
    match *value {
        0.0 => "0".to_owned(),
        value if (1e-3..1e4).contains(&value) => format!("{}", (value * 1e6).round() / 1e6),
        value => format!("{value:.0e}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use std::collections::HashSet;

    use super::{Bars, Panel, Scale, Series, WIDTH, bars, color, decades, key_places, label, lines};

    /// A point outside of the axes would not be shown, and a mark with another's label show what was not measured.
    #[test]
    fn all_values_lie_between_the_ends_and_marks_say_where_they_are() {
        for values in [&[3.0][..], &[1e-7, 1e9], &[1.0, 10.0], &[0.0101, 0.0102], &[1.0, 9.3], &[1e5]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let range = scale.range(values.iter().copied()).unwrap();
                assert!(
                    values.iter().all(|value| (range.start..=range.end).contains(value)),
                    "{scale:?} {values:?}"
                );
            }
            let range = decades(values.iter().copied()).unwrap();
            for mark in [range.start, range.end] {
                let told: f64 = label(&mark).parse().unwrap();
                assert!((told - mark).abs() <= 1e-9 * mark, "{values:?} {mark}");
            }
        }
        assert_eq!(decades([0.03, 4.0].into_iter()).unwrap(), 0.01..10.0);
        assert_eq!(
            [0.0, 0.01, 0.5, 1.0, 2500.0, 1e5].map(|mark| label(&mark)),
            ["0", "0.01", "0.5", "1", "2500", "1e5"]
        );
        assert!(Scale::Logarithmic.range([0.0].into_iter()).is_err());
        assert!(Scale::Linear.range([f64::NAN].into_iter()).is_err());
    }

    /// Theory and measurement must be told apart.
    #[test]
    fn dashed_lines_have_gaps_and_no_dots() {
        let chart = |dashed| {
            let series = vec![Series { name: "law".into(), points: vec![(1.0, 1.0), (9.0, 9.0)], dashed }];
            let [title, x_label, y_label] = ["cost", "n", "s"].map(str::to_owned);
            let x_scale = Scale::Linear;
            lines("All", &[Panel { title, x_label, y_label, x_scale, series }]).unwrap()
        };
        let (solid, dashed) = (chart(false), chart(true));
        assert_eq!((solid.matches("<circle").count(), dashed.matches("<circle").count()), (3, 0));
        assert!(dashed.matches("<polyline").count() > solid.matches("<polyline").count() + 20);
        for text in ["All", "cost", "law", ">\nn\n", ">\ns\n"] {
            assert!(dashed.contains(text), "{text}");
        }
    }

    /// A series without a bar, or of another's color, would be told of wrongly, and one beyond the edge not at all.
    #[test]
    fn many_series_have_a_color_a_bar_and_a_place_in_the_key() {
        let names = ["a name as long as one is"; 14];
        let panel = Bars::new("cost", [("one".to_owned(), vec![Some(1.0); names.len()])]);
        let chart = bars("All", &names, &[panel]).unwrap();
        assert_eq!(chart.matches("<rect").count(), 1 + 2 * names.len());
        let series: Vec<_> = names.into_iter().zip((0..).map(color)).collect();
        let colors: HashSet<_> = series.iter().map(|(_, of)| (of.0, of.1, of.2)).collect();
        assert_eq!(colors.len(), names.len());
        let (lines, places) = key_places(&series);
        assert!(lines > 1 && places.iter().collect::<HashSet<_>>().len() == names.len());
        assert!(places.iter().all(|(right, _)| right + 20 + 8 * 24 < WIDTH as i32));
        assert_eq!(key_places(&[]), (0, Vec::new()));
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
