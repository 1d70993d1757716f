//! The lines around a conversation.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::layout;
use super::super::model::{Connection, Model};
use super::super::thread::Thread;
use super::super::wrap::{cut, name, shown, wrap};
use super::palette::Palette;
use super::{bar, row};
use crate::cli::print::moving;
use crate::daemon::message::{Kind, Severity, Step};

pub(super) fn alarm(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let Some(text) = layout::alarm(model) else { return };
    let rows = wrap(&text, usize::from(area.width));
    for (number, text) in rows.iter().take(usize::from(area.height)).enumerate() {
        bar(frame, row(area, number), text, palette.alarm());
    }
}

/// What conversation it is, and how it stands.
pub(super) fn title(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let Some(thread) = model.thread() else {
        return bar(frame, area, &format!("sotto: {}", name(&model.me, 40)), palette.title());
    };
    let conversation = &thread.standing.conversation;
    let mut parts = vec![name(&conversation.name, 40)];
    // Without a list, the others show here.
    if model.layout().list.width == 0 && model.threads.len() > 1 {
        let others = model.threads.iter().filter(|other| other.standing.id != thread.standing.id);
        let unread: usize = others.map(Thread::unseen).sum();
        if unread > 0 {
            parts.push(format!("elsewhere {unread} unread"));
        }
    }
    if !conversation.established {
        parts.push("waits for the other side".to_owned());
    }
    if conversation.blocked {
        parts.push("blocked".to_owned());
    }
    let below = thread.unseen();
    if thread.top.is_some() {
        parts.push(if below > 0 { format!("{below} unread below") } else { "scrolled".to_owned() });
    }
    if conversation.queued > 0 {
        parts.push(format!("{} not arrived", conversation.queued));
    }
    if conversation.kind == Kind::Group {
        let present = conversation.members.iter().filter(|member| member.present);
        let names: Vec<_> = present.map(|member| name(&member.name, 20)).collect();
        parts.push(format!("group: {}", names.join(", ")));
    }
    bar(frame, area, &parts.join(" | "), palette.title());
}

/// Files on their way in the open conversation, the oldest first.
pub(super) fn files(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let Some(thread) = model.thread() else { return };
    let files = &thread.standing.conversation.files;
    for (number, file) in files.iter().take(usize::from(area.height)).enumerate() {
        let way = if file.from.is_some() { '↓' } else { '↑' };
        let line = shown(&moving(file)).replace('\n', " ");
        super::line(frame, row(area, number), &format!("{way} {line}"), palette.quiet());
    }
}

pub(super) fn note(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let Some(noted) = model.newest_note() else { return };
    let line = shown(&noted.note.line).replace('\n', " ");
    let (line, style) = match noted.note.severity {
        Severity::Notice => (format!("* {line}"), palette.quiet()),
        Severity::Warning | Severity::Alarm => (format!("! {line}"), palette.warning()),
    };
    let rest = " [/notices]";
    let width = usize::from(area.width);
    let whole = super::columns(&line) <= width;
    let line = if whole { line } else { format!("{}{rest}", cut(&line, width.saturating_sub(rest.len()))) };
    bar(frame, area, &line, style);
}

/// How the participant, its session and the rounds stand; what matters most first.
pub(super) fn rounds(model: &Model, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    if let Connection::Gone(why) = &model.connection {
        let line = shown(&format!("! OFFLINE: {why}; /online")).replace('\n', " ");
        return bar(frame, area, &line, palette.alarm());
    }
    let whole = round_line(model, false);
    let fits = super::columns(&whole) <= usize::from(area.width);
    let line = if fits { whole } else { round_line(model, true) };
    bar(frame, area, &line, palette.rounds());
}

/// The same in fewer words, where there is no room for all.
fn round_line(model: &Model, short: bool) -> String {
    let mut parts = Vec::new();
    match &model.connection {
        Connection::Gone(_) => {}
        Connection::Online { connected: false, node } => {
            parts.push(format!("! no connection, trying {}", name(node, 40)));
        }
        Connection::Online { connected: true, node } if short => parts.push(name(node, 25)),
        Connection::Online { connected: true, node } => parts.push(format!("online {}", name(node, 40))),
    }
    if let Some((round, opened)) = model.rounds.opened {
        let next = model.rounds.length_ms.map_or_else(String::new, |length| {
            let open_ms = model.now.instant.saturating_duration_since(opened).as_millis();
            match u128::from(length).checked_sub(open_ms) {
                Some(left) if short => format!(", {} s", left.div_ceil(1000)),
                Some(left) => format!(", next in {} s", left.div_ceil(1000)),
                None if short => ", late".to_owned(),
                None => ", next is late".to_owned(),
            }
        });
        parts.push(format!("round {round}{next}"));
    }
    if let Some((round, step)) = model.rounds.step {
        parts.push(match step {
            Step::Opened { .. } => "deposit next".to_owned(),
            Step::Deposited => "deposited".to_owned(),
            Step::Ready if short => "fetching".to_owned(),
            Step::Ready => format!("fetching {round}"),
        });
    }
    if let Some(cost) = &model.rounds.cost {
        parts.push(format!("↑{} ↓{}", bytes(cost.bytes_up), bytes(cost.bytes_down)));
        parts.push(format!("day {}", bytes(cost.bytes_day)));
    }
    parts.join(" | ")
}

fn bytes(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        1_000_000..100_000_000 => format!("{}.{}M", count / 1_000_000, count / 100_000 % 10),
        100_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}.{}G", count / 1_000_000_000, count / 100_000_000 % 10),
    }
}
