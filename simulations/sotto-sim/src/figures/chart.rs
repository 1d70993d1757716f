//! Horizontal bars on a logarithmic axis, in groups, one panel for each quantity.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

pub(crate) use super::canvas::short;
use super::canvas::{Canvas, GRID, PAPER, SERIES, WIDTH, power, svg as canvas_svg};

/// One quantity of every code.
pub(crate) struct Panel {
    /// The quantity, with its unit.
    pub(crate) title: String,
    pub(crate) bars: Vec<Bars>,
}

/// A code's values; nothing is drawn where there is none.
pub(crate) struct Bars {
    pub(crate) name: String,
    pub(crate) paper: Option<f64>,
    pub(crate) ours: Option<f64>,
}

/// One panel of groups of bars.
pub(crate) struct Groups {
    /// The quantity, with its unit.
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
}

/// A bar for every series; nothing is drawn where there is none.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Option<Bar>>,
}

/// A value, and whether it is computed from what was measured rather than measured.
#[derive(Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) extrapolated: bool,
}

// All in pixels.
const TITLE: i32 = 64;
const LEFT: i32 = 190;
const RIGHT: i32 = WIDTH - 90;
const BAR: i32 = 13;
const BETWEEN: i32 = 12;
const ABOVE: i32 = 34;
const BELOW: i32 = 40;

/// The paper's values beside ours, as SVG, every panel with its own axis.
pub(crate) fn svg(title: &str, panels: &[Panel]) -> anyhow::Result<String> {
    let bar = |value| Bar { value, extrapolated: false };
    let group =
        |bars: &Bars| Group { name: bars.name.clone(), bars: vec![bars.paper.map(bar), bars.ours.map(bar)] };
    let panels: Vec<Groups> = panels
        .iter()
        .map(|panel| Groups { title: panel.title.clone(), groups: panel.bars.iter().map(group).collect() })
        .collect();
    let series = [("paper", PAPER), ("here", SERIES[0])];
    draw(title, &series, &panels, &|panel| Axis::of([panel]))
}

/// Groups of bars of the named series, as SVG, all panels with the same axis.
pub(crate) fn grouped_svg(title: &str, series: &[&str], panels: &[Groups]) -> anyhow::Result<String> {
    let series: Vec<_> = series.iter().copied().zip(SERIES).collect();
    draw(title, &series, panels, &|_| Axis::of(panels))
}

fn draw(
    title: &str,
    series: &[(&str, RGBColor)],
    panels: &[Groups],
    axis: &dyn Fn(&Groups) -> Axis,
) -> anyhow::Result<String> {
    canvas_svg(title, TITLE + panels.iter().map(height).sum::<i32>(), |canvas| {
        let mut left = 20;
        for (name, color) in series {
            canvas.rectangle((left, 42), (left + 14, 54), *color)?;
            canvas.text(name, (left + 20, 48), 13, HPos::Left)?;
            left += 48 + 8 * name.chars().count() as i32;
        }
        let mut top = TITLE;
        for panel in panels {
            draw_panel(canvas, panel, series, &axis(panel), top)?;
            top += height(panel);
        }
        Ok(())
    })
}

const fn row(group: &Group) -> i32 {
    BAR * group.bars.len() as i32 + BETWEEN
}

fn height(panel: &Groups) -> i32 {
    ABOVE + panel.groups.iter().map(row).sum::<i32>() + BELOW
}

/// Exponents of ten at both ends.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis on which all values have their place.
    fn of<'a>(panels: impl IntoIterator<Item = &'a Groups>) -> Self {
        let groups = panels.into_iter().flat_map(|panel| &panel.groups);
        let values = groups.flat_map(|group| group.bars.iter().flatten()).map(|bar| bar.value);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for exponent in values.filter(|value| *value > 0.0).map(f64::log10) {
            // A bar of the smallest value is to be seen, too.
            low = low.min((exponent - 0.1).floor());
            high = high.max(exponent.ceil());
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        Self { low, high: high.max(low + 1.0) }
    }

    fn x(&self, value: f64) -> i32 {
        if value > 0.0 {
            LEFT + ((value.log10() - self.low) / (self.high - self.low) * f64::from(RIGHT - LEFT)) as i32
        } else {
            LEFT
        }
    }
}

fn draw_panel(
    canvas: &Canvas<'_>,
    panel: &Groups,
    series: &[(&str, RGBColor)],
    axis: &Axis,
    top: i32,
) -> anyhow::Result<()> {
    canvas.text(&panel.title, (20, top + 14), 15, HPos::Left)?;
    let (first, last) = (top + ABOVE, top + height(panel) - BELOW);
    let decades = (axis.high - axis.low) as i32;
    let step = (decades / 9 + 1) as usize;
    for exponent in (axis.low as i32..=axis.high as i32).step_by(step) {
        let at = axis.x(10_f64.powi(exponent));
        canvas.line(&[(at, first), (at, last)], GRID, 1)?;
        canvas.text(&power(exponent), (at, last + 11), 12, HPos::Center)?;
    }
    let mut y = first;
    for group in &panel.groups {
        canvas.text(&group.name, (LEFT - 10, y + row(group) / 2), 13, HPos::Right)?;
        // Bars stand beside the middle of their name, however few there are.
        let missing = group.bars.iter().filter(|bar| bar.is_none()).count() as i32;
        let mut at = y + BETWEEN / 2 + missing * BAR / 2;
        for (bar, (_, color)) in group.bars.iter().zip(series) {
            let Some(bar) = bar else { continue };
            let end = axis.x(bar.value);
            canvas.rectangle((LEFT, at), (end, at + BAR - 1), *color)?;
            let about = if bar.extrapolated { "about " } else { "" };
            canvas.text(&format!("{about}{}", short(bar.value)), (end + 5, at + BAR / 2), 12, HPos::Left)?;
            at += BAR;
        }
        y += row(group);
    }
    Ok(())
}
