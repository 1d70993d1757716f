//! The list of conversations.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::model::Model;
use super::super::thread::Thread;
use super::super::wrap::{columns, name};
use super::palette::Palette;
use super::{line, row};
use crate::daemon::message::Kind;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    if area.width == 0 {
        return;
    }
    for y in area.top()..area.bottom() {
        frame.buffer_mut().set_string(area.right(), y, "│", palette.quiet());
    }
    if model.threads.is_empty() {
        return line(frame, area, "no contacts yet", palette.quiet());
    }
    let height = usize::from(area.height);
    let open = model.threads.iter().position(|thread| Some(thread.standing.id) == model.open).unwrap_or(0);
    // The open one is always seen.
    let first = (open + 1).saturating_sub(height);
    for (number, thread) in model.threads.iter().skip(first).take(height).enumerate() {
        let at = row(area, number);
        let is_open = first + number == open;
        let style = match (is_open, thread.unseen() > 0) {
            (true, _) => palette.open(),
            (false, true) => palette.unread(),
            (false, false) => Style::default(),
        };
        frame.buffer_mut().set_style(at, style);
        line(frame, at, &entry(thread, is_open, usize::from(area.width)), style);
    }
}

/// A group has a # before it, one who has not answered a ?, and what is unread is counted at the end.
fn entry(thread: &Thread, is_open: bool, width: usize) -> String {
    let conversation = &thread.standing.conversation;
    let mark = match (conversation.kind, conversation.established) {
        (_, false) => '?',
        (Kind::Group, true) => '#',
        (Kind::Contact, true) => ' ',
    };
    let open = if is_open { '>' } else { ' ' };
    let unread = match thread.unseen() {
        0 => String::new(),
        unread => format!(" ({unread})"),
    };
    let room = width.saturating_sub(2 + unread.len());
    let called = name(&conversation.name, room);
    let gap = " ".repeat(room.saturating_sub(columns(&called)));
    format!("{open}{mark}{called}{gap}{unread}")
}
