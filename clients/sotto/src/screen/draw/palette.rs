//! How things look. Whatever matters differs by more than its colour.

use ratatui::style::{Color, Modifier, Style};

use crate::qr::{BLACK, WHITE};

#[derive(Clone, Copy)]
pub(super) struct Palette {
    colors: bool,
}

impl Palette {
    pub(super) fn new(colors: bool) -> Self {
        Self { colors }
    }

    fn style(self, color: Color, modifiers: Modifier) -> Style {
        let style = Style::default().add_modifier(modifiers);
        if self.colors { style.fg(color) } else { style }
    }

    pub(super) fn alarm(self) -> Style {
        self.style(Color::Red, Modifier::REVERSED | Modifier::BOLD)
    }

    pub(super) fn warning(self) -> Style {
        self.style(Color::Yellow, Modifier::BOLD)
    }

    pub(super) fn quiet(self) -> Style {
        self.style(Color::Reset, Modifier::DIM)
    }

    pub(super) fn title(self) -> Style {
        self.style(Color::Cyan, Modifier::UNDERLINED)
    }

    pub(super) fn prompt(self) -> Style {
        self.style(Color::Cyan, Modifier::BOLD)
    }

    pub(super) fn rounds(self) -> Style {
        self.style(Color::Reset, Modifier::REVERSED)
    }

    pub(super) fn open(self) -> Style {
        self.style(Color::Cyan, Modifier::REVERSED)
    }

    pub(super) fn unread(self) -> Style {
        self.style(Color::Green, Modifier::BOLD)
    }

    pub(super) fn me(self) -> Style {
        self.style(Color::Blue, Modifier::empty())
    }

    pub(super) fn other(self) -> Style {
        self.style(Color::Green, Modifier::BOLD)
    }

    pub(super) fn colors(self) -> bool {
        self.colors
    }

    /// A QR code, which is black on white where there are colours.
    pub(super) fn code(self) -> Style {
        match self.colors {
            true => Style::default().fg(Color::Indexed(BLACK)).bg(Color::Indexed(WHITE)),
            false => Style::default(),
        }
    }

    pub(super) fn found(self) -> Style {
        self.style(Color::Magenta, Modifier::UNDERLINED)
    }
}
