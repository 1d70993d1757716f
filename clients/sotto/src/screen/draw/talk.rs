//! The open conversation.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::layout::Layout;
use super::super::model::{Model, View};
use super::super::thread::{By, Mark, Place, Row, Said, Thread};
use super::super::update::Drawn;
use super::super::wrap::{columns, name};
use super::palette::Palette;
use super::{bar, line, row};

/// Stands in the place of a text that is not shown yet: if all died now, nobody would know whether it was.
const UNNOTED: &str = "-- what is below is shown when 'sotto run' has noted that it is --";

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, layout: Layout, palette: Palette) -> Option<Drawn> {
    let Some(thread) = model.thread() else {
        welcome(frame, layout, palette);
        return None;
    };
    let (rows, width) = layout.texts();
    let top = thread.top_row(rows, width);
    let found = match &model.view {
        View::Search(search) => search.found,
        _ => None,
    };
    let mut at = top;
    let mut number = 0;
    while number < rows && at.text < thread.end() {
        let Some(said) = thread.get(at.text) else { break };
        if !thread.may_draw(at.text) {
            bar(frame, row(layout.talk, number), UNNOTED, palette.quiet());
            break;
        }
        let all = thread.rows(at.text, width);
        for shown in all.iter().skip(at.row) {
            if number == rows {
                break;
            }
            let area = row(layout.talk, number);
            draw_row(frame, area, (thread, said, shown), found == Some(at.text), layout, palette);
            number += 1;
            at.row += 1;
        }
        if at.row >= all.len() {
            at = Place { text: at.text + 1, row: 0 };
        }
    }
    if thread.end() == thread.first() {
        line(frame, layout.talk, "nothing was said yet, or nothing is kept", palette.quiet());
    }
    let to = if at.text < thread.end() { at } else { Place { text: thread.end(), row: 0 } };
    Some(Drawn { id: thread.standing.id, from: top, to })
}

fn welcome(frame: &mut Frame<'_>, layout: Layout, palette: Palette) {
    let lines = [
        "Nobody to talk with yet.",
        "/invite NAME  invites somebody",
        "/accept NAME  takes an invitation",
        "/help",
    ];
    for (number, text) in lines.iter().enumerate() {
        line(frame, row(layout.talk, number), text, palette.quiet());
    }
}

/// Before the first row of a text stand time, mark and name, and nothing before the others: no text can look like another.
fn draw_row(
    frame: &mut Frame<'_>,
    area: Rect,
    (thread, said, shown): (&Thread, &Said, &Row),
    is_found: bool,
    layout: Layout,
    palette: Palette,
) {
    let (part, is_first) = match shown {
        Row::Day(at) => {
            return bar(frame, area, &format!("-- {} --", at.strftime("%Y-%m-%d")), palette.quiet());
        }
        Row::New => return bar(frame, area, "-- new --", palette.unread()),
        Row::Again => return bar(frame, area, "-- perhaps shown before --", palette.quiet()),
        // No text is drawn before its column: so none can look like what another one replies to.
        Row::Quote(quote) => {
            line(frame, area, "      ↳", palette.quiet());
            let text =
                Rect { x: area.x + layout.prefix, width: area.width.saturating_sub(layout.prefix), ..area };
            return line(frame, text, quote, palette.quiet());
        }
        Row::Part(part, is_first) => (part, *is_first),
    };
    if is_first {
        let time = said.at.map_or_else(|| "--:--".to_owned(), |at| at.strftime("%H:%M").to_string());
        let mark = thread.mark(said);
        let style = if mark == Mark::Refused { palette.warning() } else { palette.quiet() };
        line(frame, area, &format!("{time} {}", sign(mark)), style);
        let (who, style) = match &said.by {
            By::Other { name, .. } => (name.as_str(), palette.other()),
            By::Me(_) => ("you", palette.me()),
        };
        let who = name(who, usize::from(layout.names));
        let at = Rect { x: area.x + 9, width: area.width.saturating_sub(9), ..area };
        line(frame, at, &who, style);
        let colon = u16::try_from(columns(&who)).unwrap_or(0);
        line(frame, Rect { x: at.x + colon, width: at.width.saturating_sub(colon), ..at }, ":", style);
    }
    let text = Rect { x: area.x + layout.prefix, width: area.width.saturating_sub(layout.prefix), ..area };
    line(frame, text, part, if is_found { palette.found() } else { Style::default() });
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::None => "",
        Mark::Handing => "…",
        Mark::Queued => "·",
        Mark::Sent => "✓",
        Mark::Arrived => "✓✓",
        Mark::Refused => "✗",
    }
}
