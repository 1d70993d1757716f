//! What all charts are drawn with: one look, in SVG.

use anyhow::{Context, anyhow};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

/// What the paper states.
pub(super) const PAPER: RGBColor = RGBColor(0xb0, 0xb4, 0xba);
/// One color for each of what is measured here; they differ in brightness, too.
pub(super) const SERIES: [RGBColor; 6] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xe0, 0x7b, 0x1f),
    RGBColor(0x3c, 0x96, 0x50),
    RGBColor(0x8a, 0x4f, 0x9e),
    RGBColor(0x4a, 0x4f, 0x57),
    RGBColor(0xc2, 0x3b, 0x4c),
];
pub(super) const GRID: RGBColor = RGBColor(0xe0, 0xe0, 0xe0);
pub(super) const AXIS: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// Of every chart, pixels.
pub(super) const WIDTH: i32 = 900;

/// Where shapes are drawn, in pixels from the upper left corner.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// A chart of so many pixels' height below its title, as SVG.
pub(super) fn svg(
    title: &str,
    height: i32,
    draw: impl FnOnce(&Canvas<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        let canvas = Canvas { area };
        canvas.text(title, (20, 20), 18, HPos::Left)?;
        draw(&canvas).context("cannot draw the chart")?;
        canvas.area.present().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(svg)
}

impl Canvas<'_> {
    /// Text beside a point, centred in height.
    pub(super) fn text(&self, text: &str, at: (i32, i32), size: i32, side: HPos) -> anyhow::Result<()> {
        let style =
            TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|error| anyhow!("{error}"))
    }

    /// Text that is read from below, centred at a point.
    pub(super) fn upright(&self, text: &str, at: (i32, i32), size: i32) -> anyhow::Result<()> {
        let font = ("sans-serif", size).into_font().transform(FontTransform::Rotate270);
        let style = TextStyle::from(font).color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|error| anyhow!("{error}"))
    }

    pub(super) fn rectangle(&self, from: (i32, i32), to: (i32, i32), color: RGBColor) -> anyhow::Result<()> {
        self.area.draw(&Rectangle::new([from, to], color.filled())).map_err(|error| anyhow!("{error}"))
    }

    pub(super) fn line(&self, points: &[(i32, i32)], color: RGBColor, width: u32) -> anyhow::Result<()> {
        let style = ShapeStyle { color: color.to_rgba(), filled: false, stroke_width: width };
        self.area.draw(&PathElement::new(points.to_vec(), style)).map_err(|error| anyhow!("{error}"))
    }

    pub(super) fn dot(&self, at: (i32, i32), color: RGBColor) -> anyhow::Result<()> {
        self.area.draw(&Circle::new(at, 4, color.filled())).map_err(|error| anyhow!("{error}"))
    }
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

/// The label of a power of ten.
pub(super) fn power(exponent: i32) -> String {
    match exponent {
        0..=3 => 10_i32.pow(exponent as u32).to_string(),
        -3..0 => format!("{:.*}", -exponent as usize, 10_f64.powi(exponent)),
        _ => format!("1e{exponent}"),
    }
}
