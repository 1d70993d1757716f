//! What the stage has for tests alone.

use core::time::Duration;

use ratatui::style::Modifier;

use super::super::stage::{Stage, contact};
use super::super::update::Input;
use super::super::wrap::columns;
use crate::daemon::message::{Kind, Member, Standing};

impl Stage {
    /// Some time passes.
    pub(super) fn passes(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.local = self.now.local.checked_add(time).unwrap_or(self.now.local);
    }

    pub(super) fn resizes(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.happens(Input::Resize(width, height));
    }

    /// The rows of the screen.
    pub(super) fn rows(&mut self) -> Vec<String> {
        let height = usize::from(self.terminal.backend().buffer().area.height);
        self.screen().lines().take(height).map(str::to_owned).collect()
    }

    /// What is on the screen, and below it, what is not plain: r reversed, b bold, u underlined, d dim, and c the cursor.
    pub(super) fn screen(&mut self) -> String {
        let cursor = self.terminal.backend().cursor_position();
        let shows = self.terminal.backend().cursor_visible();
        let buffer = self.terminal.backend().buffer();
        let (mut signs, mut styles) = (String::new(), String::new());
        for y in 0..buffer.area.height {
            let (mut sign_row, mut style_row) = (String::new(), String::new());
            let mut covered = 0;
            for x in 0..buffer.area.width {
                let Some(cell) = buffer.cell((x, y)) else { continue };
                if covered > 0 {
                    covered -= 1;
                } else {
                    sign_row.push_str(cell.symbol());
                    covered = columns(cell.symbol()).saturating_sub(1);
                }
                let is = |modifier| cell.modifier.contains(modifier);
                style_row.push(if shows && (cursor.x, cursor.y) == (x, y) {
                    'c'
                } else if is(Modifier::REVERSED) {
                    if is(Modifier::BOLD) { 'R' } else { 'r' }
                } else if is(Modifier::BOLD) {
                    'b'
                } else if is(Modifier::UNDERLINED) {
                    'u'
                } else if is(Modifier::DIM) {
                    'd'
                } else {
                    '.'
                });
            }
            signs.push_str(sign_row.trim_end());
            signs.push('\n');
            styles.push_str(style_row.trim_end_matches('.'));
            styles.push('\n');
        }
        format!("{signs}{}\n{styles}", "=".repeat(usize::from(buffer.area.width)))
    }
}

/// How a group stands.
pub(super) fn group(id: u32, name: &str, members: &[&str]) -> Standing {
    let member = |name: &&str| Member {
        name: (*name).to_owned(),
        identity: "identity".to_owned(),
        present: true,
        removing: false,
    };
    let mut standing = contact(id, name);
    standing.conversation.kind = Kind::Group;
    standing.conversation.members = members.iter().map(member).collect();
    standing
}
