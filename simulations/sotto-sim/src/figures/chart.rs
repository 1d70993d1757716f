//! Horizontal bars on a logarithmic axis, the paper's beside ours, one panel for each quantity.

use anyhow::{Context, anyhow};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

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

const PAPER: RGBColor = RGBColor(0xb0, 0xb4, 0xba);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const GRID: RGBColor = RGBColor(0xe0, 0xe0, 0xe0);

// All in pixels.
const WIDTH: i32 = 900;
const TITLE: i32 = 64;
const LEFT: i32 = 190;
const RIGHT: i32 = WIDTH - 90;
const BAR: i32 = 13;
const ROW: i32 = 2 * BAR + 12;
const ABOVE: i32 = 34;
const BELOW: i32 = 40;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The chart as SVG.
pub(crate) fn svg(title: &str, panels: &[Panel]) -> anyhow::Result<String> {
    let panel_height = |panel: &Panel| ABOVE + ROW * panel.bars.len() as i32 + BELOW;
    let height = TITLE + panels.iter().map(panel_height).sum::<i32>();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        draw(&area, title, panels).context("cannot draw the chart")?;
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(svg)
}

fn draw(area: &Area<'_>, title: &str, panels: &[Panel]) -> anyhow::Result<()> {
    area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
    text(area, title, (20, 20), 18, HPos::Left)?;
    for (x, color, name) in [(20, PAPER, "paper"), (110, OURS, "here")] {
        rectangle(area, (x, 42), (x + 14, 54), color)?;
        text(area, name, (x + 20, 48), 13, HPos::Left)?;
    }
    let mut top = TITLE;
    for panel in panels {
        draw_panel(area, panel, top)?;
        top += ABOVE + ROW * panel.bars.len() as i32 + BELOW;
    }
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel, top: i32) -> anyhow::Result<()> {
    let values =
        panel.bars.iter().flat_map(|bars| [bars.paper, bars.ours]).flatten().filter(|value| *value > 0.0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for exponent in values.map(f64::log10) {
        // A bar of the smallest value is to be seen, too.
        low = low.min((exponent - 0.1).floor());
        high = high.max(exponent.ceil());
    }
    if low > high {
        (low, high) = (0.0, 1.0);
    }
    high = high.max(low + 1.0);
    let x = |value: f64| LEFT + ((value.log10() - low) / (high - low) * f64::from(RIGHT - LEFT)) as i32;

    text(area, &panel.title, (20, top + 14), 15, HPos::Left)?;
    let (first, last) = (top + ABOVE, top + ABOVE + ROW * panel.bars.len() as i32);
    let decades = (high - low) as i32;
    let step = (decades / 9 + 1) as usize;
    for exponent in (low as i32..=high as i32).step_by(step) {
        let at = x(10_f64.powi(exponent));
        line(area, (at, first), (at, last))?;
        let label = if (0..=3).contains(&exponent) {
            10_i32.pow(exponent as u32).to_string()
        } else {
            format!("1e{exponent}")
        };
        text(area, &label, (at, last + 11), 12, HPos::Center)?;
    }
    for (bars, y) in panel.bars.iter().zip((first..).step_by(ROW as usize)) {
        text(area, &bars.name, (LEFT - 10, y + ROW / 2), 13, HPos::Right)?;
        // One bar alone stands beside its name.
        let alone = if bars.paper.is_none() || bars.ours.is_none() { BAR / 2 } else { 0 };
        for (value, color, y) in [(bars.paper, PAPER, y + 6 + alone), (bars.ours, OURS, y + 6 + BAR - alone)]
        {
            let Some(value) = value else { continue };
            let end = if value > 0.0 { x(value) } else { LEFT };
            rectangle(area, (LEFT, y), (end, y + BAR - 1), color)?;
            text(area, &short(value), (end + 5, y + BAR / 2), 12, HPos::Left)?;
        }
    }
    Ok(())
}

/// Three digits, for people.
pub(crate) fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if !(0.01..1e6).contains(&value) => format!("{value:.1e}"),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, side: HPos) -> anyhow::Result<()> {
    let style =
        TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(|error| anyhow!("{error}"))
}

fn rectangle(area: &Area<'_>, from: (i32, i32), to: (i32, i32), color: RGBColor) -> anyhow::Result<()> {
    area.draw(&Rectangle::new([from, to], color.filled())).map_err(|error| anyhow!("{error}"))
}

fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> anyhow::Result<()> {
    let style = ShapeStyle { color: GRID.to_rgba(), filled: false, stroke_width: 1 };
    area.draw(&PathElement::new([from, to], style)).map_err(|error| anyhow!("{error}"))
}
