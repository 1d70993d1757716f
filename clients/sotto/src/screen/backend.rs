//! How what is drawn reaches the terminal.

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

use crate::columns::columns;

/// Draws a sign of several columns on blanks.
///
/// Terminals differ in how many columns such a sign takes, and the cells beside it are left to it: where it takes fewer than
/// they are, whatever stood there before would stay, and look like a part of what is there now.
pub(super) struct OnBlanks<B>(pub(super) B);

impl<B: Backend> Backend for OnBlanks<B> {
    type Error = B::Error;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), B::Error>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let content: Vec<(u16, u16, &Cell)> = content.collect();
        let mut beside = Vec::new();
        for (x, y, cell) in &content {
            let mut blank = Cell::default();
            blank.set_style(cell.style());
            let wide = u16::try_from(columns(cell.symbol())).unwrap_or(u16::MAX);
            beside.extend((1..wide).map(|column| (x.saturating_add(column), *y, blank.clone())));
        }
        // All of them first: behind a sign that takes as many columns as they are, a blank would take its end away.
        self.0.draw(beside.iter().map(|(x, y, blank)| (*x, *y, blank)))?;
        self.0.draw(content.into_iter())
    }

    fn hide_cursor(&mut self) -> Result<(), B::Error> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> Result<(), B::Error> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> Result<Position, B::Error> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), B::Error> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> Result<(), B::Error> {
        self.0.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> Result<(), B::Error> {
        self.0.clear_region(clear_type)
    }

    fn size(&self) -> Result<Size, B::Error> {
        self.0.size()
    }

    fn window_size(&mut self) -> Result<WindowSize, B::Error> {
        self.0.window_size()
    }

    fn flush(&mut self) -> Result<(), B::Error> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::{Backend as _, CrosstermBackend};
    use ratatui::buffer::Cell;

    use super::OnBlanks;

    /// A family, of four signs that some terminals draw as one in two columns.
    #[test]
    fn nothing_stays_beside_a_sign_that_takes_fewer_columns_than_it_may() {
        let family = "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}";
        let [mut letter, mut wide] = [(); 2].map(|()| Cell::default());
        letter.set_symbol("a");
        wide.set_symbol(family);
        let mut drawn = Vec::new();
        OnBlanks(CrosstermBackend::new(&mut drawn))
            .draw([(3, 1, &letter), (4, 1, &wide), (12, 1, &letter)].into_iter())
            .unwrap();
        let drawn = String::from_utf8(drawn).unwrap();
        let (blanks, sign) = (drawn.find(&" ".repeat(7)).unwrap(), drawn.find(family).unwrap());
        assert!(blanks < sign && !drawn[sign..].contains(' '), "{drawn:?}");
        assert!(drawn.starts_with("\u{1b}[2;6H"), "the first blank is beside the sign: {drawn:?}");
    }
}
