//! Where things are on the screen. What is drawn and what keys do both follow from it.

use ratatui::layout::Rect;

use super::model::{Model, View};
use super::wrap::{columns, wrap};

/// Below this, nothing can be shown.
const LEAST: (u16, u16) = (20, 6);
/// From this width on, there is a list of conversations beside the open one.
const WITH_LIST: u16 = 60;
const LIST_MOST: u16 = 24;
/// Rows for what is written, at most.
const COMPOSER_MOST: u16 = 5;
/// Rows for files on their way, at most.
const FILES_MOST: u16 = 3;
/// Rows for alarms, at most.
const ALARM_MOST: u16 = 4;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// The list of conversations; nothing if there is no room.
    pub(super) list: Rect,
    /// The line above the conversation.
    pub(super) title: Rect,
    pub(super) alarm: Rect,
    pub(super) talk: Rect,
    /// Files on their way in it.
    pub(super) files: Rect,
    pub(super) note: Rect,
    pub(super) composer: Rect,
    pub(super) rounds: Rect,
    /// Columns before a text.
    pub(super) prefix: u16,
    /// Columns of names.
    pub(super) names: u16,
}

impl Layout {
    pub(super) fn of(model: &Model) -> Self {
        let (width, height) = model.size;
        if width < LEAST.0 || height < LEAST.1 {
            return Self::default();
        }
        let covered = matches!(&model.view, View::Page(_));
        let list = if width >= WITH_LIST && !covered { LIST_MOST.min(width / 4) } else { 0 };
        // With the line between them.
        let left = if list > 0 { list + 1 } else { 0 };
        let main = width - left;
        // What is left for the conversation.
        let mut room = height - 2;
        let mut take = |wanted: u16, leave: u16| {
            let taken = wanted.min(room.saturating_sub(leave));
            room -= taken;
            taken
        };
        let composer = take(composer_rows(model, main).min(COMPOSER_MOST), 1);
        let alarm = take(alarm_rows(model, width).min(ALARM_MOST), 2);
        let note = take(u16::from(model.newest_note().is_some()), 2);
        let moving = model.thread().map_or(0, |thread| thread.standing.conversation.files.len());
        let moving = if covered { 0 } else { u16::try_from(moving).unwrap_or(u16::MAX).min(FILES_MOST) };
        let files = take(moving, 4);
        let names = names(model, main);
        let at = |y: u16, rows: u16| Rect { x: left, y, width: main, height: rows };
        let whole = |y: u16, rows: u16| Rect { x: 0, y, width, height: rows };
        let above = alarm + 1;
        Self {
            list: Rect { x: 0, y: alarm, width: list, height: height - 1 - alarm },
            alarm: whole(0, alarm),
            title: at(alarm, 1),
            talk: at(above, room),
            files: at(above + room, files),
            note: at(above + room + files, note),
            composer: at(above + room + files + note, composer),
            rounds: whole(height - 1, 1),
            prefix: 9 + names + 2,
            names,
        }
    }

    /// Rows and columns of texts.
    pub(super) fn texts(&self) -> (usize, usize) {
        (usize::from(self.talk.height), usize::from(self.talk.width.saturating_sub(self.prefix)))
    }

    /// Columns and rows of a sheet.
    pub(super) fn page(&self) -> (usize, usize) {
        (usize::from(self.talk.width), usize::from(self.talk.height))
    }
}

/// Columns of the names in the open conversation.
fn names(model: &Model, width: u16) -> u16 {
    let most = if width < 50 { 7 } else { 12 };
    let Some(thread) = model.thread() else { return most };
    let conversation = &thread.standing.conversation;
    let members = conversation.members.iter().map(|member| member.name.as_str());
    let longest = members.chain([conversation.name.as_str()]).map(columns).max().unwrap_or(0);
    u16::try_from(longest).unwrap_or(most).clamp(3, most)
}

/// What is written before what a person writes.
pub(super) fn prompt(model: &Model) -> &'static str {
    match &model.view {
        View::Secret(..) => "paste: ",
        View::Search(_) => "search: ",
        _ => "> ",
    }
}

fn composer_rows(model: &Model, width: u16) -> u16 {
    let composer = match &model.view {
        View::Secret(..) => return 1,
        View::Search(search) => &search.query,
        _ => model.thread().map_or(&model.lobby, |thread| &thread.composer),
    };
    let width = usize::from(width).saturating_sub(prompt(model).len() + 1);
    // One column for the cursor behind the end.
    u16::try_from(wrap(composer.text(), width).len()).unwrap_or(u16::MAX)
}

fn alarm_rows(model: &Model, width: u16) -> u16 {
    let rows = alarm(model).map_or(0, |text| wrap(&text, usize::from(width)).len());
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// The alarm that is shown, the first that was not dismissed. Unlike everything else also without colours.
pub(super) fn alarm(model: &Model) -> Option<String> {
    let alarm = model.alarms.first()?;
    let times = if alarm.times > 1 { format!(" ({} times)", alarm.times) } else { String::new() };
    let others = model.alarms.len() as u64 - 1 + u64::from(model.more_alarms);
    let more = if others > 0 { format!(" [and {others} more]") } else { String::new() };
    Some(format!("!!! ALARM [Ctrl-X: seen]{more}{times} !!! {}", alarm.line))
}
