//! The model on the screen. Everything that is drawn has passed [`super::wrap`].

mod bars;
mod list;
mod palette;
mod talk;

use ratatui::Frame;
use ratatui::buffer::CellDiffOption;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation as _;

use super::layout::{Layout, prompt};
use super::model::{Model, Page, View};
use super::update::Drawn;
use super::wrap::{columns, cut, shown, wrap};
use crate::qr::Ink;
use palette::Palette;

/// Draws, and says which rows of which conversation are on the screen then.
///
/// Nothing is drawn on a terminal that has another size than the model knows of, which hears of it next.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>) -> Option<Drawn> {
    let area = frame.area();
    if (area.width, area.height) != model.size {
        return None;
    }
    let layout = model.layout();
    let palette = Palette::new(model.colors);
    if layout == Layout::default() {
        line(frame, frame.area(), "too small", Style::default());
        return None;
    }
    bars::alarm(model, frame, layout.alarm, palette);
    list::draw(model, frame, layout.list, palette);
    let drawn = match &model.view {
        View::Page(page) => {
            sheet(page, frame, layout, palette);
            None
        }
        View::Talk | View::Secret(..) | View::Search(_) => {
            bars::title(model, frame, layout.title, palette);
            talk::draw(model, frame, layout, palette)
        }
    };
    bars::files(model, frame, layout.files, palette);
    bars::note(model, frame, layout.note, palette);
    bars::rounds(model, frame, layout.rounds, palette);
    composer(model, frame, layout.composer, palette);
    drawn
}

/// Writes one line, which has been made harmless, in an area of one row or more.
fn line(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    let buffer = frame.buffer_mut();
    let mut x = area.x;
    for sign in cut(text, usize::from(area.width)).graphemes(true) {
        let wide = u16::try_from(columns(sign)).unwrap_or(u16::MAX);
        // Alone, a mark on the letter before it has none.
        if wide == 0 {
            continue;
        }
        let Some(end) = x.checked_add(wide).filter(|end| *end <= area.right()) else { return };
        buffer[(x, area.y)].set_symbol(sign).set_style(style);
        for beside in x + 1..end {
            // What is drawn behind it is put in its place, however wide the terminal takes this sign for.
            buffer[(beside, area.y)].reset();
            buffer[(beside, area.y)].set_style(style).set_diff_option(CellDiffOption::Skip);
        }
        x = end;
    }
}

/// The same over the whole width.
fn bar(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    frame.buffer_mut().set_style(Rect { height: area.height.min(1), ..area }, style);
    line(frame, area, text, style);
}

/// A row within an area.
fn row(area: Rect, number: usize) -> Rect {
    let number = u16::try_from(number).unwrap_or(u16::MAX).min(area.height);
    Rect { y: area.y + number, height: u16::from(number < area.height), ..area }
}

/// The rows of a sheet, and from which on they are those of a code.
pub(super) fn page_rows(page: &Page, (width, height): (usize, usize), colors: bool) -> (Vec<String>, usize) {
    let mut rows = Vec::new();
    if page.bare {
        // Something to copy, without anything that is not part of it.
        rows.extend(wrap(&page.title, width));
        rows.push(String::new());
    }
    rows.extend(wrap(&page.text, width));
    let Some(qr) = &page.qr else { return (rows, usize::MAX) };
    rows.push(String::new());
    let (columns, needed) = qr.size();
    if columns > width || needed > height {
        let told = format!(
            "As a QR code it takes {columns} columns and {needed} rows, and here are {width} and {height}: it is shown as soon as \
             the terminal is large enough."
        );
        rows.extend(wrap(&told, width));
        return (rows, usize::MAX);
    }
    let first = rows.len();
    rows.extend(qr.rows(if colors { Ink::Dark } else { Ink::Light }).iter().cloned());
    (rows, first)
}

fn sheet(page: &Page, frame: &mut Frame<'_>, layout: Layout, palette: Palette) {
    let (rows, code) = page_rows(page, layout.page(), palette.colors());
    let left = rows.len().saturating_sub(page.top + usize::from(layout.talk.height));
    let more = if left > 0 { format!(" ({left} more rows: PageDown)") } else { String::new() };
    let title = if page.bare { "Copy" } else { &page.title };
    bar(frame, layout.title, &shown(&format!("{title} [Esc closes]{more}")), palette.title());
    let visible = rows.iter().skip(page.top).take(usize::from(layout.talk.height));
    for (number, text) in visible.enumerate() {
        let style = if page.top + number >= code { palette.code() } else { Style::default() };
        line(frame, row(layout.talk, number), text, style);
    }
}

fn composer(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let prompt = prompt(model);
    let indent = u16::try_from(prompt.len()).unwrap_or(u16::MAX).min(area.width);
    line(frame, area, prompt, palette.prompt());
    let inner = Rect { x: area.x + indent, width: area.width - indent, ..area };
    let composer = match &model.view {
        View::Page(_) => return,
        View::Secret(_, composer) => {
            let count = composer.text().chars().count();
            let told = format!("{count} characters; Enter takes them, Esc leaves");
            line(frame, inner, &told, Style::default().add_modifier(Modifier::DIM));
            return frame.set_cursor_position(Position { x: inner.x, y: inner.y });
        }
        View::Search(search) => {
            if search.failed {
                let told = "nothing more";
                let width = u16::try_from(told.len()).unwrap_or(0).min(inner.width);
                let right = Rect { x: inner.right() - width, width, ..inner };
                line(frame, right, told, palette.warning());
            }
            &search.query
        }
        View::Talk => model.thread().map_or(&model.lobby, |thread| &thread.composer),
    };
    // As the layout has counted them: one column is for the cursor behind the end.
    let width = usize::from(inner.width.saturating_sub(1));
    let rows = wrap(composer.text(), width);
    let (at, column) = cursor(composer.before(), composer.text(), width);
    let height = usize::from(inner.height);
    let first = (at + 1).saturating_sub(height);
    for (number, text) in rows.iter().skip(first).take(height).enumerate() {
        line(frame, row(inner, number), text, Style::default());
    }
    let column = u16::try_from(column).unwrap_or(u16::MAX).min(inner.width.saturating_sub(1));
    let y = row(inner, at - first).y;
    frame.set_cursor_position(Position { x: inner.x + column, y });
}

/// Row and column behind a text that is the beginning of a longer one.
fn cursor(before: &str, whole: &str, width: usize) -> (usize, usize) {
    let rows = wrap(before, width);
    let row = rows.len() - 1;
    // A word that is not at its end yet may stand in the next row, when all of it is there.
    let all = wrap(whole, width);
    let last = rows.last().map_or("", String::as_str);
    let stands = all.get(row).is_some_and(|there| there.starts_with(last.trim_end_matches(' ')));
    if stands {
        return (row, columns(last));
    }
    let word = last.rsplit(' ').next().unwrap_or_default();
    (row + 1, columns(word))
}
